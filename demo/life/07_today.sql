-- Trade goes on under the schemas of today
INSERT INTO orders (id, customer_id, channel, status, remark, placed_on)
WITH RECURSIVE n (i) AS (SELECT 40001 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
SELECT i, 1 + CRC32(i) % 30000, 1 + i % 2, 1 + i % 3, NULL, DATE '2026-06-01' + INTERVAL i % 100 DAY
FROM n;

INSERT INTO order_lines (order_id, line_no, sku, quantity, list_price, price)
SELECT id, 1, UNHEX(LPAD(HEX(id), 16, '0')), 0.5, 3.00, 2.50 FROM orders WHERE id > 40000;

UPDATE customers SET loyalty = loyalty + 1 WHERE id % 4 = 0;

DELETE FROM order_lines WHERE order_id % 31 = 0;

DELETE FROM orders WHERE id % 31 = 0;
