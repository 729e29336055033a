-- Orders are sent, prices corrected, some customers leave
UPDATE orders SET status = 'sent' WHERE status = 'paid' AND id % 2 = 0;

UPDATE order_lines SET price = price + 0.50 WHERE order_id % 5 = 0;

UPDATE customers SET credit = credit - 10, preferences = JSON_SET(preferences, '$.size', 40) WHERE id % 6 = 0;

DELETE FROM customers WHERE id % 50 = 0;

DELETE FROM payments WHERE id % 20 = 0;

INSERT INTO payments (order_id, method, amount, paid_at, receipt) VALUES
  (4, 'card,voucher', 12.50, '2026-03-01 10:00:00', 'paper'),
  (8, '', 0.00, NULL, NULL),
  (12, 'cash', 99999999.99, '2026-03-01 10:00:01', REPEAT('x', 3000));
