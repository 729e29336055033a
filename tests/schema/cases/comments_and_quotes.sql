-- Quoting, comments, executable comments, odd names.
CREATE DATABASE d;
USE d;
CREATE /* plain */ TABLE /*! IF NOT EXISTS */ t ( -- to the end, with a quote '
  a INT, # another "one
  b INT /*!80023 INVISIBLE */, /*!99999 c INT, */ /*!50000 d VARCHAR(5) DEFAULT '*/' */ , /*!99999 /* nested */ e INT, */
  `f``g` INT COMMENT '/*! not a comment */', `h i` INT /* , */, j VARCHAR(9) DEFAULT "a'b" COMMENT 'a\'b\\', k CHAR(3) DEFAULT '#--');
CREATE TABLE `1a` (`2` INT, 3b INT, 4e INT, 5$ INT, $6 INT, _7 INT, 0x INT, 0xZZ INT, 0b2 INT, été INT, 名前 INT, `a.b` INT, `💩` INT);
CREATE TABLE d.1e5 (a INT);
ALTER TABLE d.1e5 ADD 1e INT, ADD N INT, ADD x INT, ADD b INT, ADD _other INT;
CREATE TABLE words (action INT, bit INT, date DATE, enum ENUM('a'), no INT, text TEXT, time TIME, timestamp TIMESTAMP, comment INT COMMENT 'c', value INT, visible INT, invisible INT INVISIBLE, first INT, after INT, offset INT, type INT, status INT, year YEAR, day INT, user INT, engine INT, `column` INT, srid INT, storage INT, enforced INT, algorithm INT, begin INT, end INT, tables INT, start INT, json JSON, vector VECTOR(3), member INT, serial INT, national INT, nchar INT, boolean INT, fixed INT, unknown INT, charset INT, ascii INT, byte INT, unicode INT) ENGINE = InnoDB;
ALTER TABLE words ADD data INT FIRST, ADD hash INT AFTER first, MODIFY after BIGINT AFTER after2;
ALTER TABLE words ADD data INT FIRST, ADD hash INT AFTER first, MODIFY after BIGINT FIRST, RENAME COLUMN value TO `values`;
ALTER TABLE words ALTER comment SET DEFAULT 1, DROP type, DROP COLUMN status, CHANGE engine charset2 INT;
SET sql_mode = 'ANSI_QUOTES';
CREATE TABLE "ansi" ("a b" INT, "c""d" VARCHAR(3) DEFAULT 'x"y', `e` INT, f ENUM('a''b','c"d'));
ALTER TABLE "ansi" ADD "z" INT AFTER "a b", DROP `e`;
SET sql_mode = 'NO_BACKSLASH_ESCAPES';
CREATE TABLE raw (a ENUM('a\', 'b\n'), b VARCHAR(5) DEFAULT '\', c INT COMMENT '\''' );
CREATE TABLE raw_double (a ENUM("a\", "b""c"));
SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT';
CREATE TABLE "raw\ansi" ("a\" INT, b VARCHAR(9) DEFAULT ('a' || 'b'), c ENUM('\'));
SET sql_mode = DEFAULT;
CREATE TABLE strings (a VARCHAR(20) DEFAULT 'a' 'b' "c", b VARCHAR(20) DEFAULT N'n', c VARCHAR(20) DEFAULT _latin1'l', d VARCHAR(20) DEFAULT x'4142', e VARCHAR(20) DEFAULT 0x4344, f VARCHAR(20) DEFAULT b'01000101', g VARCHAR(20) DEFAULT 'tab\tnew\nline\Z\%\_\q', h VARCHAR(20) DEFAULT _utf8mb4 0xE697A5);
SET NAMES latin1;
CREATE TABLE latin (a VARCHAR(5) DEFAULT 'é' COMMENT 'é');
SET NAMES utf8mb4;
/*!40000 ALTER TABLE t DISABLE KEYS */;
/*!40101 SET NAMES utf8 */;
/*!50001 CREATE TABLE versioned (a INT) */ /*!50100 PARTITION BY HASH (a) PARTITIONS 2 */;
/* leading */ ALTER TABLE t ADD z INT;
