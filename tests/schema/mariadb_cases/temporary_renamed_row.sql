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
