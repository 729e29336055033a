-- A query in each line, over the table of edge_values.sql (test_engines.py). Spark refuses the last one.
SELECT id FROM {db}.f WHERE b
SELECT id FROM {db}.f WHERE NOT b OR g
SELECT id FROM {db}.f WHERE b = 1 AND c IN (1, 300)
SELECT id, b = TRUE, b <=> 0, c > 255, g >= 9223372036854775808, g > -1, b = c, CASE b WHEN 1 THEN 'y' ELSE 'n' END FROM {db}.f
SELECT id, CAST(b AS SIGNED) + 1, CAST(c AS SIGNED) * 2, CAST(y AS SIGNED) - 1 FROM {db}.f WHERE id <> 1
SELECT SUM(CAST(b AS SIGNED)), COUNT(b), COUNT(DISTINCT c), COUNT(DISTINCT b) FROM {db}.f
SELECT id FROM {db}.f WHERE c BETWEEN 1 AND 299 ORDER BY c DESC, id /* ordered */
SELECT id FROM {db}.f ORDER BY b, g, id /* ordered */
SELECT x.id FROM {db}.f x JOIN {db}.f y ON x.b = y.b AND x.c <> y.c
SELECT id, CAST(y AS CHAR), CONCAT(y, '-') FROM {db}.f
SELECT id FROM {db}.f WHERE y = 2155 OR CAST(y AS SIGNED) = 0
SELECT id, z, m, z + 1, z * 2, m + 1 FROM {db}.f
SELECT id, CONCAT(z + 0, '') FROM {db}.f
SELECT id, p * p, q + q, q - p, q * 1.5, - -1.5, - - -p FROM {db}.f
SELECT id, - -1 FROM {db}.f
SELECT id, CHAR_LENGTH('😀'), '😀' FROM {db}.f
SELECT id, CONCAT(z, '') FROM {db}.f
SELECT id, CAST(m AS CHAR) FROM {db}.f
SELECT id, CONCAT(IF(id > 1, z, 1)), CAST(COALESCE(z, id) AS CHAR) FROM {db}.f
SELECT id, v = x'00FF', v <=> x'', v IN (x'', 0x612762), x'0041' FROM {db}.f
SELECT id, v, LENGTH(v), CHAR_LENGTH(v) FROM {db}.f WHERE v = 0x00ff OR v > X'61'
SELECT f.id, e.id FROM {db}.f STRAIGHT_JOIN {db}.e ON f.id = e.id
SELECT id, b + 1, SUM(b) FROM {db}.f GROUP BY id, b
SELECT id FROM {db}.f WHERE w = 1 OR w > 0
SELECT NULLIF(b, 0), NULLIF(c, 1) FROM {db}.f
SELECT id, f + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 AS many, 1 / (f * 2) FROM {db}.e WHERE id > 1
SELECT id, 1 / (f * 2) FROM {db}.e
SELECT id, f * 2 * 0, f * 2 - f * 2 FROM {db}.e
SELECT id, i DIV 2 DIV 3 DIV 2 DIV 1 FROM {db}.e WHERE id > 2
SELECT id, i + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 AS many FROM {db}.e WHERE id > 2
SELECT id, CONCAT(CONCAT(CONCAT(CONCAT(CONCAT(UPPER(LOWER(UPPER(LOWER(UPPER(b))))), 'a'), 'b'), 'c'), 'd'), 'e') AS q FROM {db}.e WHERE id <> 2
SELECT id FROM {db}.e LIMIT 18446744073709551615
SELECT * FROM {db}.e
SELECT id, '\n x', '  y', 'a' FROM {db}.e
SELECT id, LEFT(s, i), SUBSTRING(s, z, i) FROM {db}.e WHERE id > 3
SELECT id, DATE_FORMAT(t, '100%% %d%%') AS p, DATE_FORMAT(day, '''%m''%d') AS q FROM {db}.e
SELECT id, u + 1 FROM {db}.e WHERE id > 1
SELECT id, u + 1 FROM {db}.e
SELECT id, i - 1 FROM {db}.e WHERE id <> 2
SELECT id, i - 1 FROM {db}.e
SELECT id, u - 8 FROM {db}.e WHERE id > 2
SELECT id, u DIV 3, u % 7 FROM {db}.e
SELECT id, i DIV 3, i % 7, i DIV z, i % z FROM {db}.e WHERE id > 2
SELECT id, i DIV u, u DIV i FROM {db}.e WHERE id = 5
SELECT id, i DIV 3 FROM {db}.e
SELECT id, i / 3, i / z, z / 7, i / u FROM {db}.e
SELECT id, d / 3 FROM {db}.e
SELECT id, CAST(d AS DECIMAL(32,12)) / 7 FROM {db}.e
SELECT id, ROUND(i / 3, 2), ROUND(z / 7, 3) FROM {db}.e
SELECT id, ROUND(d, 3), ROUND(d), ROUND(d, 9) FROM {db}.e WHERE id <> 1
SELECT id, ROUND(CAST(z AS DECIMAL(10,3)) / 7, 2) FROM {db}.e
SELECT id, CAST(d AS DECIMAL(38,10)) + 1, -d, d + i FROM {db}.e
SELECT SUM(i), AVG(i), SUM(z), AVG(z), SUM(DISTINCT z), AVG(DISTINCT z) FROM {db}.e
SELECT SUM(u), AVG(u) FROM {db}.e
SELECT SUM(d), AVG(d), AVG(CAST(z AS DECIMAL(10,3))) FROM {db}.e
SELECT SUM(w) FROM {db}.e
SELECT MIN(w), MAX(w), MIN(d), MAX(f), MIN(k), MAX(y), MIN(v), MAX(ts), MIN(day) FROM {db}.e
SELECT id, ABS(i), SIGN(i), ABS(d), SIGN(d), FLOOR(d), CEIL(d) FROM {db}.e WHERE id > 2
SELECT id, SIGN(d), FLOOR(CAST(z AS DECIMAL(10,3))) FROM {db}.e
SELECT id, ABS(i) FROM {db}.e
SELECT id, f + 1, f * 2, f / 3, f / z, -f, ABS(f) FROM {db}.e WHERE id > 1
SELECT id, f * 2 FROM {db}.e
SELECT f, COUNT(*) FROM {db}.e GROUP BY f
SELECT DISTINCT f FROM {db}.e WHERE f = 0
SELECT id FROM {db}.e WHERE f = 0 OR f < 0.2
SELECT id FROM {db}.e WHERE i = 9223372036854775807 OR u = 18446744073709551615 OR i = -9223372036854775808
SELECT id FROM {db}.e WHERE i < u
SELECT id FROM {db}.e WHERE d > 2.4 OR d < -2.4
SELECT id FROM {db}.e WHERE w = 7 OR w > 12345678901234567890123
SELECT id, 'it''s', 'back\\slash', '${spark.app.name}', 'a\nb', 'tab\t', '\"q\"', '%', '_', 'ü日本', '\\u0041', '\\' FROM {db}.e WHERE id = 1
SELECT id FROM {db}.e WHERE s = 'it''s' OR b = 'back\\slash' OR g = '${spark.app.name}'
SELECT id FROM {db}.e WHERE g LIKE 'a\\%b\\_c' OR g LIKE '$%'
SELECT id FROM {db}.e WHERE b LIKE '%\\\\%' OR b LIKE '%\t%'
SELECT id FROM {db}.e WHERE g LIKE 'a|%b|_c' ESCAPE '|'
SELECT id FROM {db}.e WHERE s NOT LIKE '%a%' OR s LIKE ''
SELECT id, CONCAT(s, b), CONCAT(s, NULL), CONCAT_WS('-', s, g, b), REPLACE(b, 'a', '\\') FROM {db}.e
SELECT id, LEFT(s, 1), RIGHT(s, 2), LEFT(s, z), RIGHT(s, z), SUBSTRING(s, z), SUBSTRING(s, 1, z), SUBSTRING(s, -2) FROM {db}.e
SELECT id, SUBSTRING_INDEX(b, 'a', 1), SUBSTRING_INDEX(b, 'a', -1), SUBSTRING_INDEX(s, 'a', 0), SUBSTRING_INDEX(b, 'l', 5) FROM {db}.e
SELECT id, TRIM(g), TRIM(LEADING FROM g), TRIM(TRAILING FROM g), UPPER(s), LOWER(b), LENGTH(s), CHAR_LENGTH(b) FROM {db}.e
SELECT s, COUNT(*) FROM {db}.e WHERE id < 5 GROUP BY s
SELECT COUNT(DISTINCT s), COUNT(DISTINCT g), COUNT(DISTINCT b), COUNT(DISTINCT s, z), COUNT(DISTINCT x) FROM {db}.e
SELECT id FROM {db}.e ORDER BY s, id /* ordered */
SELECT id FROM {db}.e ORDER BY s DESC, id DESC LIMIT 3 /* ordered */
SELECT id FROM {db}.e WHERE id > 2 ORDER BY g, id /* ordered */
SELECT id FROM {db}.e ORDER BY b, id /* ordered */
SELECT id FROM {db}.e ORDER BY x DESC, id /* ordered */
SELECT id FROM {db}.e ORDER BY n, id /* ordered */
SELECT id FROM {db}.e ORDER BY v DESC, id /* ordered */
SELECT id FROM {db}.e ORDER BY d, f, id LIMIT 2, 3 /* ordered */
SELECT id, YEAR(t), MONTH(t), DAY(t), QUARTER(t), HOUR(t), MINUTE(t), SECOND(t), DAYOFYEAR(t), DAYOFWEEK(t), WEEKDAY(t) FROM {db}.e
SELECT id, EXTRACT(YEAR FROM t), EXTRACT(SECOND FROM t), EXTRACT(HOUR FROM ts), EXTRACT(QUARTER FROM day) FROM {db}.e
SELECT id, DATE(t), LAST_DAY(t), LAST_DAY(day), DATEDIFF(t, ts), DATEDIFF(day, '2000-01-01') FROM {db}.e
SELECT id, t + INTERVAL 1 MONTH, t - INTERVAL 1 MONTH, day + INTERVAL 1 MONTH, t + INTERVAL 3 QUARTER, day - INTERVAL 2 WEEK, ts + INTERVAL z DAY FROM {db}.e WHERE id > 1
SELECT id, t + INTERVAL 1 MICROSECOND, t - INTERVAL 90 SECOND, day + INTERVAL 5 MINUTE, day + INTERVAL -1 HOUR, t + INTERVAL 4 YEAR FROM {db}.e WHERE id > 2
SELECT id, t + INTERVAL 1 DAY FROM {db}.e
SELECT id, day - INTERVAL 1000 YEAR FROM {db}.e
SELECT id, DATE_FORMAT(t, '%Y-%m-%d %H:%i:%s.%f'), DATE_FORMAT(t, '%j %y %p'), DATE_FORMAT(day, '%d''%m ''%%x''') AS q FROM {db}.e
SELECT id FROM {db}.e WHERE t BETWEEN '2023-01-31 01:00:00' AND TIMESTAMP '2023-01-31 13:45:59.5'
SELECT id FROM {db}.e WHERE day = '2024-02-29' OR day > '9000-01-01' OR ts < '1971-01-01 00:00:00'
SELECT id FROM {db}.e WHERE k > '00:00:01' OR k = '-00:00:00.5'
SELECT id, j ->> '$.a', j ->> '$.b.c', j ->> '$.t', j ->> '$.n' FROM {db}.e
SELECT id, j ->> '$.d' FROM {db}.e
SELECT id, j ->> '$.arr' FROM {db}.e
SELECT n, COUNT(*), GROUP_CONCAT(id ORDER BY id DESC) FROM {db}.e GROUP BY n
SELECT GROUP_CONCAT(b ORDER BY id SEPARATOR '\n') FROM {db}.e
SELECT m, COUNT(*) FROM {db}.e GROUP BY m
SELECT id FROM {db}.e WHERE n = 'A' OR m = 'q' OR v = 'ab'
SELECT id, z IN (SELECT z FROM {db}.e WHERE id > 1) AS q FROM {db}.e
SELECT id, NOT (z IN (SELECT z FROM {db}.e)) AS q FROM {db}.e
SELECT id FROM {db}.e WHERE z NOT IN (SELECT z FROM {db}.e)
SELECT id FROM {db}.e WHERE z NOT IN (SELECT z FROM {db}.e WHERE z > 1)
SELECT id FROM {db}.e WHERE z NOT IN (SELECT z FROM {db}.e WHERE z > 100)
SELECT id FROM {db}.e WHERE z NOT IN (SELECT z FROM {db}.e WHERE z > 1) AND id > 1
SELECT id FROM {db}.e WHERE z NOT IN (SELECT z FROM {db}.e WHERE z > 1) OR id > 1
SELECT id FROM {db}.e WHERE z IN (SELECT z FROM {db}.e WHERE z > 0) OR id = 3
SELECT id FROM {db}.e WHERE (z IN (SELECT z FROM {db}.e WHERE z > 0)) IS NULL
SELECT id, (SELECT COUNT(*) FROM {db}.e q WHERE q.z = e.z) AS c FROM {db}.e e
SELECT id, (SELECT SUM(q.z) FROM {db}.e q WHERE q.z < e.z) AS c FROM {db}.e e
SELECT id, (SELECT q.id FROM {db}.e q WHERE q.id = e.id) AS c FROM {db}.e e
SELECT id, (SELECT q.id FROM {db}.e q WHERE q.z = 1) AS c FROM {db}.e e
SELECT id, EXISTS (SELECT 1 FROM {db}.e q WHERE q.z > e.z) AS c FROM {db}.e e
SELECT id, NOT EXISTS (SELECT 1 FROM {db}.e q WHERE q.z > e.z) AS c, (SELECT MAX(id) FROM {db}.e) AS most FROM {db}.e e
SELECT id, CASE WHEN EXISTS (SELECT 1 FROM {db}.e q WHERE q.z > e.z) THEN 'y' ELSE 'n' END AS c FROM {db}.e e
SELECT COUNT(*) FROM {db}.e a JOIN {db}.e b ON a.z = b.z AND EXISTS (SELECT 1 FROM {db}.e q WHERE q.id = a.id)
SELECT a.id, b.id FROM {db}.e a LEFT JOIN {db}.e b ON a.z = b.id AND b.z > 0
SELECT a.id, b.id FROM {db}.e a RIGHT JOIN {db}.e b ON a.z < b.z AND a.id = 5
SELECT a.id, b.id FROM {db}.e a CROSS JOIN {db}.e b WHERE a.s = b.s
SELECT a.id, b.id FROM {db}.e a JOIN {db}.e b USING (z)
SELECT 'x' AS c, COUNT(*) FROM {db}.e GROUP BY c
SELECT 1 AS c, COUNT(*) FROM {db}.e GROUP BY c ORDER BY c
SELECT z > 0 AS c, COUNT(*) FROM {db}.e GROUP BY c HAVING COUNT(*) > 1 ORDER BY c /* ordered */
SELECT MONTH(t) AS c, MAX(id) FROM {db}.e GROUP BY MONTH(t) HAVING MAX(id) > 1 ORDER BY 2 DESC /* ordered */
SELECT id, GREATEST(z, i), LEAST(d, z), GREATEST(t, ts), LEAST(f, 1e0) FROM {db}.e
SELECT id, CAST(i AS CHAR), CAST(d AS CHAR), CAST(day AS CHAR), CONCAT(d, ''), CONCAT(y, '') FROM {db}.e
SELECT id, CAST(z AS DECIMAL(20,6)), CAST(z AS SIGNED), CAST(t AS DATE), CAST(s AS BINARY) FROM {db}.e
SELECT id, z IS TRUE, z IS NOT FALSE, z IS NULL, z <=> NULL, NOT z, z AND 1, z OR NULL FROM {db}.e
SELECT id, NULLIF(z, 1), COALESCE(z, 9), IFNULL(d, 0), IF(z, 'a', 'b'), CASE z WHEN 1 THEN 'one' WHEN 3 THEN 'three' END FROM {db}.e
SELECT COUNT(*), MAX(z), SUM(z), GROUP_CONCAT(id ORDER BY id) FROM {db}.e WHERE id > 100
SELECT z, COUNT(*) FROM {db}.e WHERE id > 100 GROUP BY z
SELECT id FROM {db}.e UNION ALL SELECT z FROM {db}.e ORDER BY id DESC LIMIT 4 /* ordered */
SELECT DISTINCT z FROM {db}.e ORDER BY z DESC /* ordered */
(SELECT id FROM {db}.e ORDER BY id LIMIT 2) UNION (SELECT id FROM {db}.e ORDER BY id DESC LIMIT 2)
SELECT q.id, q.c FROM (SELECT id, COUNT(*) AS c FROM {db}.e GROUP BY id ORDER BY id LIMIT 3) q WHERE q.c = 1
SELECT id FROM {db}.e WHERE id IN (1, 2, 3) AND (id, z) IN ((2, 1), (3, 0))
SELECT id FROM {db}.e WHERE i / 2 > 3
SELECT id, ROUND(AVG(z), 2) FROM {db}.e GROUP BY id
SELECT id FROM {db}.e WHERE s > 'a' OR g >= 'a' OR b < 'b'
SELECT MAX(s), MIN(b) FROM {db}.e WHERE id IN (1, 2, 3)
SELECT MAX(g) FROM {db}.e
SELECT id, d * z, d * 1.5, z * 1.25, i * 0 FROM {db}.e WHERE id > 2
SELECT id, FIELD(s, 'A', '', 'it''s', NULL), FIELD(b, 'A'), FIELD(n, 'M', 'z'), FIELD(NULL, 'a'), FIELD(i, 7, 9223372036854775807) FROM {db}.e WHERE id <> 2
SELECT id, FIELD(s, g) FROM {db}.e
SELECT id, UNIX_TIMESTAMP(day) FROM {db}.e WHERE id IN (3, 4, 5, 6)
SELECT id, UNIX_TIMESTAMP(DATE(ts)), UNIX_TIMESTAMP(TIMESTAMP '2038-01-19 03:14:07'), UNIX_TIMESTAMP(DATE '1970-01-02') FROM {db}.e WHERE id > 2
SELECT id, UNIX_TIMESTAMP(day) FROM {db}.e WHERE id = 1
SELECT id, YEAR(day) - 1000, YEAR(day) * 100 + MONTH(day), YEAR(day) DIV 7, YEAR(day) + 1 - QUARTER(day), CAST(YEAR(day) AS SIGNED) - 3000 FROM {db}.e WHERE id > 2
SELECT id, YEAR(day) - 3000 FROM {db}.e WHERE id = 3
SELECT id, YEAR(day) * 10 - 90000 FROM {db}.e WHERE id = 3
SELECT id, w * 1 FROM {db}.e
SELECT id, w + 1 FROM {db}.e
SELECT id FROM {db}.g ORDER BY n /* ordered */
SELECT id FROM {db}.g ORDER BY n DESC /* ordered */
SELECT id FROM {db}.g ORDER BY m /* ordered */
SELECT n, COUNT(*) FROM {db}.g GROUP BY n ORDER BY n /* ordered */
SELECT DISTINCT n FROM {db}.g ORDER BY n DESC /* ordered */
SELECT id FROM {db}.e ORDER BY NULL
SELECT id FROM {db}.e ORDER BY 'a', 1.5, TRUE, id DESC /* ordered */
SELECT z, COUNT(*) FROM {db}.e GROUP BY z ORDER BY NULL
SELECT DISTINCT z FROM {db}.e ORDER BY NULL, z DESC /* ordered */
SELECT id FROM {db}.e UNION SELECT 100 ORDER BY NULL
SELECT id, -id FROM {db}.e ORDER BY (2) /* ordered */
SELECT z > 1, COUNT(*) FROM {db}.e GROUP BY (1) ORDER BY ((1)) DESC /* ordered */
SELECT GROUP_CONCAT(id ORDER BY 1 DESC) FROM {db}.e
SELECT GROUP_CONCAT(id ORDER BY NULL) FROM {db}.e
SELECT * FROM (SELECT n, COUNT(*) FROM {db}.e GROUP BY n) q
SELECT `COUNT(*)` + 1 AS c FROM (SELECT n, COUNT(*) FROM {db}.e GROUP BY n) q ORDER BY `COUNT(*)`
SELECT * FROM (SELECT 1, ('a'), null, id  + 1, "q", x'41' FROM {db}.e) q
SELECT DISTINCT z + 1, 'x' FROM {db}.e
SELECT id + 1 FROM {db}.e UNION SELECT 2 ORDER BY `id + 1` /* ordered */
WITH q AS (SELECT 1 UNION SELECT 2) SELECT * FROM q
SELECT * FROM (SELECT 1, 1) q
SELECT ('a'), ((2)), (1 + 1), (SELECT 1), 1 /* c */ + 1, null
SELECT id, j ->> '$.big' FROM {db}.e
