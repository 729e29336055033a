-- The server writes the columns; the options that are its defaults are left out.
CREATE TABLE d.t (a INT NOT NULL, j JSON, v VARCHAR(9) COMPRESSED, u UUID, i INET6, e ENUM('x','y'), p POINT, n TIMESTAMP);
CREATE TABLE d.a AS SELECT * FROM d.t;
CREATE TABLE d.b (x INT PRIMARY KEY DEFAULT 3, b INT) SELECT 1 AS b, 2 AS c;
CREATE OR REPLACE TABLE d.b CHARSET latin1 AS SELECT 'x' AS y;
CREATE TABLE IF NOT EXISTS d.b SELECT 1 AS never;
CREATE TABLE d.f WITH SYSTEM VERSIONING AS SELECT a, j FROM d.t;
SET NAMES latin1;
CREATE TABLE d.`é` AS SELECT 'é' AS `ü`;
SET explicit_defaults_for_timestamp = 0;
CREATE TABLE d.g AS SELECT n, NOW() AS m FROM d.t;
