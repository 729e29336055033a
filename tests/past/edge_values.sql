-- A table with values at the ends of their types, and texts that SQL quotes (test_engines.py).
SET sql_mode = '', time_zone = '+00:00';
CREATE TABLE e (id INT PRIMARY KEY, i BIGINT, u BIGINT UNSIGNED,
  d DECIMAL(30, 10), w DECIMAL(38, 0), f DOUBLE,
  s VARCHAR(40) COLLATE utf8mb4_0900_ai_ci, b VARCHAR(40) COLLATE utf8mb4_0900_bin,
  g VARCHAR(40) COLLATE utf8mb4_general_ci, t DATETIME(6), day DATE, ts TIMESTAMP(6) NULL, k TIME(6), y YEAR, j JSON, n ENUM('z', 'a', 'm'), m SET('p', 'q'), v VARBINARY(10), x VARCHAR(20) CHARACTER SET latin1, z INT);
INSERT INTO e VALUES (1, 9223372036854775807, 18446744073709551615, 12345678901234567890.0123456789, 99999999999999999999999999999999999999, 1.7976931348623157e308, 'it''s', 'back\\slash', 'a%b_c', '9999-12-31 23:59:59.999999', '9999-12-31', '2037-12-31 23:59:59.999999', '838:59:59', 2155, '{"a": 1, "b": {"c": "x"}, "t": true, "n": null, "d": 1.5, "big": 18446744073709551615, "arr": [1]}', 'z', 'p,q', x'00ff', 'a', NULL);
INSERT INTO e VALUES (2, -9223372036854775808, 0, -0.0000000001, -1, -0.0, 'a\nb', 'tab\there', '${spark.app.name}', '1000-01-01 00:00:00', '1000-01-01', '1970-01-01 00:00:01', '-838:59:59', 1901, '[1]', 'a', '', x'', 'A', 1);
INSERT INTO e VALUES (3, 0, 7, 0, 0, 5e-324, '', '', '', '2024-02-29 00:00:00', '2024-02-29', '2024-02-29 12:00:00', '00:00:00', 2000, '"x"', 'm', 'p', 'ab', 'z', 0);
INSERT INTO e VALUES (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO e VALUES (5, -7, 2, 2.5, 7, 0.1, 'A', 'A', 'A ', '2023-01-31 13:45:59.5', '2023-01-31', '2023-01-31 00:00:00.25', '-00:00:00.5', 1999, '{"a": "1"}', 'a', 'q', 'AB', 'b', -3);
INSERT INTO e VALUES (6, 7, 3, -2.5, -7, 3, 'a', 'a', 'a', '2023-01-31 01:00:00', '2023-03-31', '2023-01-31 00:00:00', '01:00:00', 2024, '{}', 'z', 'q', 'ab', 'B', 3);
CREATE TABLE f (id INT PRIMARY KEY, b BIT, c BIT(9), g BIT(64), z INT(5) ZEROFILL, m DECIMAL(8,2) ZEROFILL, y YEAR, w DECIMAL(65,30), v VARBINARY(9), p DECIMAL(10,2), q DECIMAL(18,0));
INSERT INTO f VALUES (1, 0, 256, 0xffffffffffffffff, 42, 1.5, 0, 1, x'00ff', 99999999.99, 999999999999999999), (2, 1, 1, 0, 123456, 0, 2155, -0.5, x'', -99999999.99, -999999999999999999), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (4, 1, 300, 1 << 63, 0, 12345.67, 1901, 12345678901234567890123456789012345, 'a''b', 0.5, 1);
CREATE TABLE g (id INT PRIMARY KEY, n ENUM('z', 'a'), m ENUM('z', '', 'a'));
INSERT INTO g VALUES (1, '', ''), (2, 'a', 'a'), (3, NULL, NULL), (4, 'z', 'z');
