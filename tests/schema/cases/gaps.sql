-- Tables whose columns the binlog does not hold: declared gaps, and nothing else is touched.
CREATE DATABASE d;
USE d;
CREATE TABLE known (a INT);
SET SESSION binlog_format = STATEMENT;
CREATE TABLE from_query SELECT a, a + 1 AS b FROM known;
CREATE TABLE from_query_too (x INT) AS SELECT 'q' AS y;
ALTER TABLE from_query ADD c INT;
ALTER TABLE known ADD b INT;
CREATE TEMPORARY TABLE known2 (z INT);
ALTER TABLE known2 ADD y INT;
CREATE TABLE like_temporary LIKE known2;
DROP TABLE known2;
CREATE TABLE known3 (z INT);
DROP TABLE from_query;
CREATE TABLE from_query (a INT);
