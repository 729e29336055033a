-- The shop opens: four tables and their first rows
SET SESSION /*!80003 cte_max_recursion_depth*//*M! max_recursive_iterations*/ = 1000000;

CREATE TABLE customers (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  email VARCHAR(120) CHARACTER SET latin1 NOT NULL,
  name VARCHAR(80) NOT NULL,
  tier ENUM('basic', 'silver', 'gold') NOT NULL DEFAULT 'basic',
  born DATE,
  credit DECIMAL(10, 2) NOT NULL DEFAULT 0,
  preferences JSON,
  since TIMESTAMP(3) NOT NULL
) DEFAULT CHARSET utf8mb4;

CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  customer_id INT UNSIGNED NOT NULL,
  status ENUM('new', 'paid', 'sent') NOT NULL,
  placed DATETIME(6) NOT NULL,
  note VARCHAR(200),
  KEY (customer_id)
) DEFAULT CHARSET utf8mb4;

CREATE TABLE order_lines (
  order_id BIGINT UNSIGNED NOT NULL,
  line_no TINYINT UNSIGNED NOT NULL,
  sku BINARY(8) NOT NULL,
  quantity SMALLINT UNSIGNED NOT NULL,
  price DECIMAL(12, 2) NOT NULL,
  PRIMARY KEY (order_id, line_no)
);

CREATE TABLE payments (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  order_id BIGINT UNSIGNED NOT NULL,
  method SET('card', 'voucher', 'cash') NOT NULL,
  amount DECIMAL(12, 2) NOT NULL,
  paid_at TIMESTAMP NULL,
  receipt BLOB
);

INSERT INTO customers (id, email, name, tier, born, credit, preferences, since)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
SELECT i, CONCAT('customer', i, '@example.org'),
  CONCAT(ELT(1 + i % 5, 'Zoë', 'Łukasz', '春子', 'Ada', 'Jürgen'), ' ', ELT(1 + i % 7, 'Smith', 'Nowak', '田中', 'O''Neill', 'Weiß', 'Öz', 'Li')),
  1 + CRC32(CONCAT('tier', i)) % 3, IF(i % 11 = 0, NULL, DATE '1950-01-01' + INTERVAL CRC32(i) % 20000 DAY),
  CRC32(CONCAT('credit', i)) % 100000 / 100, JSON_OBJECT('newsletter', i % 2 = 0, 'size', 34 + i % 14, 'tags', JSON_ARRAY('a', i % 9)),
  TIMESTAMP '2026-01-01 00:00:00' + INTERVAL i * 317 SECOND
FROM n;

INSERT INTO orders (id, customer_id, status, placed, note)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
SELECT i, 1 + CRC32(CONCAT('who', i)) % 30000, 1 + CRC32(CONCAT('status', i)) % 3,
  TIMESTAMP '2026-02-01 08:00:00' + INTERVAL i * 61000003 MICROSECOND, IF(i % 4 = 0, CONCAT('gift for ', i % 97, ' 🎁'), NULL)
FROM n;

INSERT INTO order_lines (order_id, line_no, sku, quantity, price)
SELECT o.id, l.line_no, UNHEX(LPAD(HEX(o.id * 3 + l.line_no), 10, '0')), 1 + CRC32(CONCAT(o.id, l.line_no)) % 9, CRC32(CONCAT('price', o.id, l.line_no)) % 20000 / 100
FROM orders o JOIN (SELECT 1 AS line_no UNION ALL SELECT 2) l;

INSERT INTO payments (order_id, method, amount, paid_at, receipt)
SELECT order_id, 1 + CRC32(order_id) % 7, total, TIMESTAMP '2026-02-02 00:00:00' + INTERVAL order_id SECOND, UNHEX(SHA2(order_id, 256))
FROM (SELECT order_id, SUM(quantity * price) AS total FROM order_lines GROUP BY order_id HAVING order_id % 4 <> 0) AS bills;
