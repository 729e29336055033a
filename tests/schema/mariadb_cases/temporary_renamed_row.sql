-- Under ROW the log has nothing else of a temporary table; where another table has the new name, it must be one.
CREATE TABLE t (a INT);
CREATE TABLE u (b INT);
CREATE TEMPORARY TABLE t (x INT);
RENAME TABLE t TO u;
ALTER TABLE t ADD c INT;
DROP TABLE u;
ALTER TABLE u ADD c INT;
RENAME TABLE t TO w, u TO t, w TO u;
-- A temporary sequence is in the log all the same.
CREATE SEQUENCE s;
CREATE TEMPORARY SEQUENCE s;
RENAME TABLE s TO s2;
DROP SEQUENCE s2;
RENAME TABLE s TO s3;
-- A name that is renamed twice was that of a temporary table first.
CREATE TABLE r (a INT);
CREATE TABLE z (z INT);
CREATE TEMPORARY TABLE r (x INT);
RENAME TABLE r TO hidden, z TO z2, r TO r2, hidden TO hidden2;
ALTER TABLE r2 ADD c INT;
DROP TABLE hidden2;
CREATE TABLE hidden2 (b INT);
RENAME TABLE r2 TO swap, z2 TO r2, swap TO z2, r2 TO r;
ALTER TABLE r ADD c INT;
