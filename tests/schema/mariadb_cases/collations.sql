-- Names without a charset, and defaults of the session.
-- only 11.5
CREATE TABLE d.t (a TEXT, b TEXT CHARSET latin1, c TEXT CHARSET utf8mb4 COLLATE uca1400_as_ci, d CHAR(3) COLLATE utf8mb4_nopad_bin);
SET character_set_collations = 'utf8mb4=uca1400_as_cs,latin1=latin1_bin';
CREATE TABLE d.u (a TEXT CHARSET utf8mb4, b TEXT CHARSET latin1, c TEXT CHARSET cp1251, n NATIONAL CHAR(3), u CHAR(3) UNICODE);
ALTER TABLE d.t CONVERT TO CHARACTER SET utf8mb4;
SET character_set_collations = '';
ALTER TABLE d.t CONVERT TO CHARACTER SET utf8mb4;
CREATE DATABASE e CHARSET utf8mb4;
CREATE TABLE e.t (a TEXT, b TEXT COLLATE utf8mb4_0900_ai_ci, c TEXT COLLATE utf8mb4_croatian_ci);
SET character_set_collations = DEFAULT;
ALTER DATABASE e CHARSET latin1;
CREATE TABLE e.u (a TEXT, b TEXT COLLATE latin1_german1_nopad_ci) -- refused
;
CREATE TABLE e.u (a TEXT, b TEXT COLLATE latin1_swedish_nopad_ci, c BLOB COLLATE utf8mb4_bin, d BINARY(3) COLLATE latin1_bin);
SET collation_server = latin1_bin;
CREATE DATABASE f;
CREATE TABLE f.t (a TEXT, b TEXT BINARY);
ALTER TABLE d.u CHARSET utf8mb3, CONVERT TO CHARACTER SET latin1, ADD d TEXT, ADD e TEXT CHARSET ascii;
-- The collation of CONVERT TO is not that of the default which the same statement names.
CREATE TABLE converted (a VARCHAR(9)) CHARACTER SET latin1;
ALTER TABLE converted CONVERT TO CHARACTER SET utf8mb4 COLLATE uca1400_as_ci, DEFAULT CHARACTER SET utf8mb4;
ALTER TABLE converted DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, CONVERT TO CHARACTER SET utf8mb4, DEFAULT CHARACTER SET utf8mb4;
