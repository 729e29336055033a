-- With MINIMAL images a column that is not in the image is left out: it is not NULL.
CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7, b VARCHAR(5));
SET SESSION binlog_row_image = 'MINIMAL';
INSERT INTO t (id, b) VALUES (1, 'x');
UPDATE t SET a = 8 WHERE id = 1;
DELETE FROM t WHERE id = 1;
