-- gap d.a: CREATE TABLE ... LIKE was logged without the charset of its table: the default charset that column a inherits is not known
-- gap d.c: CREATE TABLE ... LIKE was logged without the charset of its table: the default charset that column CHARACTER_SET_NAME inherits is not known
CREATE TEMPORARY TABLE d.tmp (a VARCHAR(10), b TEXT) CHARSET ascii;
CREATE TABLE d.a LIKE d.tmp;
CREATE TEMPORARY TABLE d.numbers (a INT);
CREATE TABLE d.b LIKE d.numbers;
CREATE TABLE d.c LIKE information_schema.character_sets;
CREATE TABLE d.e CHARSET=ascii ENGINE=MyISAM AS SELECT * FROM d.tmp;
CREATE TABLE d.f AS SELECT * FROM d.tmp;
CREATE TABLE d.g ENGINE=MyISAM AS SELECT * FROM d.e;
CREATE TABLE d.h ENGINE=MEMORY AS SELECT a FROM d.tmp;
CREATE TABLE d.i (c TEXT) ENGINE=Aria AS SELECT * FROM d.tmp;
