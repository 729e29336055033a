-- A reader that comes after all of this and takes the last schema gets wrong names, wrong labels and lost values.
CREATE TABLE items (id INT PRIMARY KEY, price INT, state ENUM('new','sold'), note VARCHAR(20));
INSERT INTO items VALUES (1, 100, 'new', 'first'), (2, 200, 'sold', NULL);
ALTER TABLE items ADD COLUMN tag VARCHAR(10) FIRST;
UPDATE items SET tag = 'x' WHERE id = 1;
ALTER TABLE items RENAME COLUMN price TO amount, MODIFY state ENUM('sold','new','gone');
INSERT INTO items VALUES ('y', 3, 300, 'gone', 'third');
ALTER TABLE items DROP COLUMN note;
DELETE FROM items WHERE id = 2;
