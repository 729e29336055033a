-- A table is rebuilt beside itself and swapped in by RENAME, as gh-ost does it
CREATE TABLE _orders_gho LIKE orders;

ALTER TABLE _orders_gho ADD COLUMN channel ENUM('web', 'phone') NOT NULL DEFAULT 'web' AFTER customer_id, DROP COLUMN placed, ADD COLUMN placed_on DATE;

INSERT INTO _orders_gho (id, customer_id, status, remark, placed_on)
SELECT id, customer_id, status, remark, DATE(placed) FROM orders WHERE id <= 20000;

UPDATE orders SET status = 'sent' WHERE id BETWEEN 19000 AND 21000;

UPDATE _orders_gho g JOIN orders o USING (id) SET g.status = o.status WHERE g.id BETWEEN 19000 AND 21000;

INSERT INTO _orders_gho (id, customer_id, status, remark, placed_on)
SELECT id, customer_id, status, remark, DATE(placed) FROM orders WHERE id > 20000;

RENAME TABLE orders TO _orders_del, _orders_gho TO orders;

DROP TABLE _orders_del;

UPDATE orders SET channel = 'phone' WHERE id % 7 = 0;
