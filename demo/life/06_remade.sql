-- A table is dropped and made again with other columns
DROP TABLE payments;

CREATE TABLE payments (
  reference CHAR(12) CHARACTER SET ascii NOT NULL PRIMARY KEY,
  cents BIGINT NOT NULL,
  currency CHAR(3) NOT NULL,
  order_id BIGINT UNSIGNED NOT NULL,
  details JSON,
  settled YEAR
) DEFAULT CHARSET utf8mb4;

INSERT INTO payments (reference, cents, currency, order_id, details, settled)
SELECT CONCAT('P', LPAD(id, 10, '0')), CRC32(id) % 1000000, ELT(1 + id % 3, 'EUR', 'USD', 'JPY'), id, JSON_OBJECT('bank', CONCAT('b', id % 10), 'fee', 0.25), 2026
FROM orders WHERE id % 3 <> 0;

UPDATE payments SET cents = -cents WHERE order_id % 40 = 1;
