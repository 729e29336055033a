-- The same words mean other types.
SET sql_mode = ORACLE;
CREATE TABLE d.t (a VARCHAR2(5), b NUMBER, c NUMBER(5), d NUMBER(4,1), e CLOB, f BLOB, g RAW(4), h DATE, i TIMESTAMP,
  k mariadb_schema.date, l mariadb_schema.blob, m oracle_schema.clob, "n" DATE DEFAULT SYSDATE);
ALTER TABLE d.t ADD "o" DATE, MODIFY a CLOB;
CREATE TABLE d.u AS SELECT * FROM d.t;
CREATE SEQUENCE d.s;
CREATE OR REPLACE PACKAGE d.p AS FUNCTION f RETURN INT; END;
CREATE TABLE d.v (a INT DEFAULT d.s.NEXTVAL);
SET sql_mode = DEFAULT;
ALTER TABLE d.t ADD p DATE;
