-- Columns come first, change their names, and go
ALTER TABLE customers ADD COLUMN loyalty INT UNSIGNED NOT NULL DEFAULT 0 FIRST;

INSERT INTO customers (loyalty, id, email, name, tier, born, credit, since)
WITH RECURSIVE n (i) AS (SELECT 30001 UNION ALL SELECT i + 1 FROM n WHERE i < 36000)
SELECT i % 1000, i, CONCAT('late', i, '@example.org'), CONCAT('Late Comer ', i), 'silver', '1990-05-17', 5, TIMESTAMP '2026-04-01 00:00:00' + INTERVAL i SECOND
FROM n;

UPDATE customers SET loyalty = id % 77 WHERE id % 9 = 0;

ALTER TABLE orders RENAME COLUMN note TO remark;

UPDATE orders SET remark = CONCAT('was told: ', remark) WHERE remark IS NOT NULL AND id % 8 = 0;

ALTER TABLE customers DROP COLUMN born;

UPDATE customers SET name = UPPER(name) WHERE id % 13 = 0;

-- Two columns swap their names: the table map of the rows stays the same to the byte.
ALTER TABLE order_lines ADD COLUMN list_price DECIMAL(12, 2) NOT NULL DEFAULT 0;

UPDATE order_lines SET list_price = price * 2 WHERE order_id % 3 = 0;

ALTER TABLE order_lines RENAME COLUMN price TO list_price, RENAME COLUMN list_price TO price;

INSERT INTO order_lines (order_id, line_no, sku, quantity, list_price, price)
SELECT id, 3, UNHEX(LPAD(HEX(id), 8, '0')), 2, 10.00, 9.00 FROM orders WHERE id % 5 = 0;
