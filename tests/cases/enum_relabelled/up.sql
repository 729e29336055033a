-- The number of a label means another label from the ALTER on; '' is the number 0, and a SET is bits.
CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b','c'), s SET('p','q','r'));
INSERT INTO t VALUES (1, 'a', 'p,r'), (2, 'c', ''), (3, NULL, NULL);
ALTER TABLE t MODIFY e ENUM('c','b','a','d'), MODIFY s SET('r','q','p','o');
INSERT INTO t VALUES (4, 'a', 'p,o');
INSERT IGNORE INTO t VALUES (5, 'nonsense', 'q');
UPDATE t SET e = 'd' WHERE id = 1;
