-- The same name, another table; the second one comes from a SELECT.
CREATE TABLE t (a INT, b INT);
INSERT INTO t VALUES (1, 2);
DROP TABLE t;
CREATE TABLE t (c VARCHAR(10)) SELECT 'x' AS c, 5 AS d;
INSERT INTO t VALUES ('y', 6);
TRUNCATE t;
INSERT INTO t VALUES ('z', 7);
