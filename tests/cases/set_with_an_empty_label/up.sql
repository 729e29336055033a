-- A label '' shows nothing where no other label precedes it, not even a comma: numbers 6 and 4 of s are both 'b'.
CREATE TABLE t (id INT PRIMARY KEY, s SET('a','','b'), f SET('','x','y') DEFAULT ',y');
INSERT INTO t VALUES (1, 'b,', ',x'), (2, 4, 2), (3, 7, 7), (4, 'a,', 0), (5, 2, 1);
INSERT INTO t (id) VALUES (6);
