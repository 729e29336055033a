-- Modes of other servers, and a MEMORY table that gets another engine.
SET sql_mode = 'mssql';
CREATE TABLE [d].[t 1] ([a b] INT, [c]]d] VARCHAR(5), "e" INT, KEY [k] ([a b]));
ALTER TABLE [d].[t 1] DROP [c]]d], ADD [x] INT;
SET sql_mode = 'simultaneous_assignment';
CREATE TABLE d.a (a CHAR(3) CHARSET utf8, b CHAR(3) COLLATE utf8_bin);
SET sql_mode = 'oracle';
CREATE TABLE d.b (a BLOB(100), b BLOB(65535), c BLOB(16777216), e BLOB);
SET sql_mode = '';
CREATE TABLE d.c (a INET6(6) DEFAULT '::10', b INET4(3));
CREATE TABLE d.e (a INT, b INT, UNIQUE u USING HASH (a), UNIQUE v (b)) ENGINE=MEMORY;
ALTER TABLE d.e ENGINE=MyISAM;
ALTER TABLE d.e ADD c INT;
