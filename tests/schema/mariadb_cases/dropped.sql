-- The server logs DROP TABLE anew: names that are not there with those that are, one statement for all of them.
CREATE DATABASE e;
CREATE TABLE d.t (a INT);
CREATE TABLE d.u (a INT);
CREATE TABLE e.t (a INT);
CREATE TABLE d.kept (a INT);
CREATE SEQUENCE d.s;
CREATE TEMPORARY TABLE d.kept (b INT);
DROP TABLE IF EXISTS d.nosuch, e.t;
DROP TABLE d.kept;
USE e;
CREATE TABLE t (b INT);
DROP TABLE d.t, nosuch -- refused: the other one is gone nevertheless
;
SET sql_if_exists = 1;
DROP TABLE d.t, d.nosuch;
DROP SEQUENCE d.nosuch, d.s;
USE d;
DROP TABLE /* a comment */ `u`;
ALTER TABLE d.kept ADD c INT;
ALTER TABLE e.t ADD c INT;
