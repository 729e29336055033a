-- Every type and every kind of row event; the server's binlog of it is every_type.binlog, which compiles every kernel.
CREATE DATABASE warm;
USE warm;
CREATE TABLE every_type (
  id INT UNSIGNED PRIMARY KEY, a TINYINT, b SMALLINT, c MEDIUMINT, d INT, e BIGINT,
  f TINYINT UNSIGNED, g SMALLINT UNSIGNED, h MEDIUMINT UNSIGNED, i BIGINT UNSIGNED,
  j DECIMAL(10, 2), k DECIMAL(38, 10), l DECIMAL(60, 4), m FLOAT, n DOUBLE, o BIT(1), p BIT(20), q BIT(64),
  r CHAR(10), s VARCHAR(40), t VARCHAR(400), u TEXT, v MEDIUMTEXT, w CHAR(5) CHARACTER SET latin1, x VARCHAR(9) CHARACTER SET sjis,
  y BINARY(4), z VARBINARY(20), aa BLOB, ab LONGBLOB, ac ENUM('x', 'y'), ad SET('x', 'y', 'z'),
  ae DATE, af DATETIME, ag DATETIME(6), ah TIMESTAMP NULL, ai TIMESTAMP(3) NULL, aj TIME, ak TIME(6), al YEAR,
  am JSON, an GEOMETRY, ao VARCHAR(20) CHARACTER SET utf16, ap CHAR(8) CHARACTER SET utf8mb3
);
INSERT INTO every_type VALUES
  (1, -1, -2, -3, -4, -5, 6, 7, 8, 9, 10.25, -1234567890.0123456789, 99999999999999999999.5, 1.5, -2.25, b'1', b'101', b'11',
   'char', 'varchar ü', REPEAT('long ', 60), 'text', 'medium', 'ä', 'テスト', 'ab', 'bin', 'blob', 'long blob', 'y', 'x,z',
   '2026-11-21', '2026-11-21 03:30:00', '2026-11-21 03:30:00.123456', '2026-11-21 03:30:00', '2026-11-21 03:30:00.123',
   '-12:34:56', '838:59:58.999999', 2026,
   '{"a": [1, -2, 3.5, true, false, null, "text", 18446744073709551615, {"b": "c"}], "d": 1e100}', POINT(1, 2), 'wide', 'three'),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE every_type SET am = JSON_OBJECT('at', CAST('2026-11-21 03:30:00' AS DATETIME), 'n', CAST(1.25 AS DECIMAL(10, 2)), 's', REPEAT('x', 300)), j = -j, s = 'changed';
SET SESSION binlog_row_image = MINIMAL;
UPDATE every_type SET d = 5 WHERE id = 1;
SET SESSION binlog_row_image = FULL;
SET SESSION sql_mode = '';
UPDATE every_type SET ae = '0000-00-00', af = '2026-00-00 00:00:00', ag = '0000-00-00', ah = '0000-00-00' WHERE id = 2;
SET SESSION binlog_row_value_options = PARTIAL_JSON;
UPDATE every_type SET am = JSON_SET(am, '$.n', 7) WHERE id = 1;
SET SESSION binlog_row_value_options = '';
SET SESSION binlog_transaction_compression = ON;
DELETE FROM every_type;
SET SESSION binlog_transaction_compression = OFF;
ALTER TABLE every_type ADD COLUMN first_now INT NOT NULL DEFAULT 3 FIRST, DROP COLUMN q;
INSERT INTO every_type (id, e) VALUES (3, 4);
