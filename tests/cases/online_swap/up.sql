-- What gh-ost does: a ghost table is altered and filled, then both are renamed in one statement.
CREATE TABLE t (id INT PRIMARY KEY, a INT);
INSERT INTO t VALUES (1, 10);
CREATE TABLE _t_gho LIKE t;
ALTER TABLE _t_gho ADD COLUMN b VARCHAR(5) AFTER id;
INSERT INTO _t_gho (id, b, a) VALUES (1, 'one', 10);
RENAME TABLE t TO _t_del, _t_gho TO t;
INSERT INTO t VALUES (2, 'two', 20);
DELETE FROM _t_del WHERE id = 1;
DROP TABLE _t_del;
