-- What the log does not hold is a gap.
-- gap d.u: CREATE TABLE ... SELECT was logged as a statement, which does not hold its columns
CREATE TABLE d.t (a INT);
SET STATEMENT binlog_format = STATEMENT FOR CREATE TABLE d.u AS SELECT * FROM d.t;
CREATE TEMPORARY TABLE d.tmp (b INT);
CREATE TABLE d.v LIKE d.tmp;
CREATE TABLE d.x AS SELECT * FROM d.tmp;
SET binlog_format = MIXED;
CREATE TABLE d.w LIKE d.tmp;
CREATE TEMPORARY TABLE d.tmp2 (c UUID);
ALTER TABLE d.tmp2 ADD d INT;
CREATE TABLE d.y LIKE d.tmp2;
CREATE TABLE d.z (a INT);
ALTER TABLE d.z ADD b INT;
