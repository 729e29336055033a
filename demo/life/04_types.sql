-- Types change, and the labels of an ENUM get another order
ALTER TABLE order_lines MODIFY quantity DECIMAL(9, 3) NOT NULL;

UPDATE order_lines SET quantity = quantity + 0.125 WHERE order_id % 10 = 0;

ALTER TABLE customers MODIFY credit DECIMAL(14, 4) NOT NULL DEFAULT 0, MODIFY email VARCHAR(160) CHARACTER SET utf8mb4 NOT NULL;

UPDATE customers SET credit = credit + 0.0001, email = CONCAT('ü', email) WHERE id % 10 = 1;

-- What was number 1 in the rows is now number 3.
ALTER TABLE customers MODIFY tier ENUM('gold', 'silver', 'basic', 'platinum') NOT NULL DEFAULT 'basic';

UPDATE customers SET tier = 'platinum' WHERE id % 17 = 0;

INSERT INTO customers (loyalty, id, email, name, tier, credit, since)
WITH RECURSIVE n (i) AS (SELECT 40001 UNION ALL SELECT i + 1 FROM n WHERE i < 44000)
SELECT 0, i, CONCAT('newest', i, '@example.org'), 'New Comer', 1 + i % 4, 0.0625, TIMESTAMP '2026-05-01 00:00:00' + INTERVAL i SECOND
FROM n;

-- A label gets another word: a new one beside the old, the rows moved, the old one taken away.
ALTER TABLE orders MODIFY status ENUM('new', 'paid', 'sent', 'settled') NOT NULL;

UPDATE orders SET status = 'settled' WHERE status = 'paid';

ALTER TABLE orders MODIFY status ENUM('new', 'settled', 'sent') NOT NULL;
