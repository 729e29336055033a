-- Names are the database's and the table's; a rename may change both, and two tables may swap.
CREATE TABLE a (x INT);
CREATE TABLE b (y VARCHAR(3), z INT);
INSERT INTO a VALUES (1);
RENAME TABLE a TO tmp, b TO a, tmp TO b;
INSERT INTO a VALUES ('k', 2);
INSERT INTO b VALUES (3);
ALTER TABLE b RENAME TO c, CHANGE x w BIGINT UNSIGNED;
INSERT INTO c VALUES (18446744073709551615);
