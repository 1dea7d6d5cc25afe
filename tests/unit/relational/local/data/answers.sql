SELECT * FROM t WHERE k IN (SELECT k FROM u)
SELECT * FROM t WHERE k NOT IN (SELECT k FROM u)
SELECT * FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)
SELECT * FROM t WHERE k NOT IN (SELECT k FROM e)
SELECT * FROM t WHERE k NOT IN (SELECT y FROM u WHERE u.w = t.s)
SELECT * FROM t WHERE k IN (SELECT y FROM u WHERE u.w = t.s)
SELECT id, k IN (SELECT y FROM u WHERE u.w = t.s) FROM t
SELECT id, k NOT IN (SELECT y FROM u WHERE u.w = t.s) FROM t
SELECT id, k IN (SELECT k FROM u) FROM t
SELECT id, k IN (SELECT k FROM e), k NOT IN (SELECT k FROM e) FROM t
SELECT id, k IN (SELECT k FROM v) FROM t
SELECT id FROM t WHERE (k, s) IN (SELECT k, w FROM u)
SELECT id FROM t WHERE (k, s) NOT IN (SELECT k, w FROM u) ||| SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE (t.k = u.k AND t.s = u.w) IS NOT FALSE)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.y > t.x)
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.y > t.x)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u) AND NOT EXISTS (SELECT 1 FROM e)
SELECT id, EXISTS (SELECT 1 FROM u WHERE u.k = t.k) AND s = 'a' FROM t
SELECT id FROM t WHERE s = 'a' OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k)
SELECT id FROM t WHERE CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.k = t.k) THEN x > 0 ELSE s = 'a' END
SELECT id FROM t WHERE x > ALL (SELECT y FROM u)
SELECT id FROM t WHERE x > ALL (SELECT k FROM e)
SELECT id FROM t WHERE x > ANY (SELECT y FROM u)
SELECT id FROM t WHERE x > ANY (SELECT k FROM e)
SELECT id FROM t WHERE x >= ALL (SELECT y FROM u WHERE u.k = t.k)
SELECT id FROM t WHERE NOT (x >= ALL (SELECT y FROM u WHERE u.k = t.k))
SELECT id FROM t WHERE NOT (x > ANY (SELECT y FROM u WHERE u.k = t.k))
SELECT id, x > ALL (SELECT y FROM u WHERE u.k = t.k) FROM t
SELECT id, x > ANY (SELECT y FROM u WHERE u.k = t.k) FROM t
SELECT id, k = ALL (SELECT y FROM u WHERE u.k = t.k), k <> ALL (SELECT y FROM u WHERE u.k = t.k), k <> ANY (SELECT y FROM u), k = ANY (SELECT y FROM u) FROM t
SELECT id, (SELECT MAX(y) FROM u) FROM t
SELECT id, (SELECT MAX(y) FROM u WHERE u.k = t.k) FROM t
SELECT id, (SELECT COUNT(*) FROM u WHERE u.k = t.k) FROM t
SELECT id, (SELECT COUNT(*) + 1 FROM u WHERE u.k = t.k AND u.y > 1) FROM t
SELECT id, (SELECT COALESCE(SUM(y), -1) FROM u WHERE u.k = t.k) FROM t
SELECT id, (SELECT COUNT(y) FROM u WHERE u.k < t.k) FROM t
SELECT id, (SELECT MAX(y) + t.k FROM u WHERE u.k = t.k) FROM t
SELECT id, (SELECT MAX(y + t.k) FROM u WHERE u.k <= t.k) FROM t
SELECT id, (SELECT COUNT(*) FROM u WHERE u.k = t.k HAVING COUNT(*) > 1) FROM t
SELECT id, (SELECT COUNT(*) FROM u WHERE u.k = t.k HAVING COUNT(*) < 1) FROM t
SELECT id, (SELECT z FROM v WHERE v.k = t.k) FROM t
SELECT id, (SELECT z + t.id FROM v WHERE v.k = t.k) FROM t
SELECT id, (SELECT DISTINCT k FROM u WHERE u.k = t.k) FROM t
SELECT id, (SELECT y FROM u WHERE u.k = t.k ORDER BY y DESC NULLS LAST LIMIT 1) FROM t
SELECT id, (SELECT y FROM u WHERE u.k < t.k ORDER BY y DESC NULLS LAST LIMIT 1) FROM t
SELECT id FROM t WHERE x > (SELECT AVG(y) FROM u WHERE u.k = t.k)
SELECT id FROM t WHERE 1 = (SELECT COUNT(*) FROM u WHERE u.k = t.k)
SELECT id FROM t WHERE 0 = (SELECT COUNT(*) FROM u WHERE u.k = t.k)
SELECT id FROM t WHERE k IN (SELECT COUNT(*) FROM u WHERE u.k = t.k)
SELECT id FROM t WHERE k IN (SELECT MAX(y) FROM u WHERE u.k <> t.k GROUP BY w)
SELECT id FROM t WHERE EXISTS (SELECT COUNT(*) FROM u WHERE u.k = t.k)
SELECT id FROM t WHERE EXISTS (SELECT w FROM u WHERE u.k = t.k GROUP BY w HAVING COUNT(*) > 1)
SELECT id FROM t WHERE EXISTS (SELECT w FROM u WHERE u.k <= t.k GROUP BY w HAVING COUNT(*) > t.k)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM v WHERE v.k = u.y))
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM v WHERE v.k = u.y AND v.k <= t.id))
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE EXISTS (SELECT 1 FROM v WHERE v.k = t.k))
SELECT id FROM t WHERE k > (SELECT MIN(y) FROM u WHERE u.k IN (SELECT k FROM v WHERE v.k <= t.id))
SELECT id FROM t WHERE k IN (SELECT k FROM u WHERE u.y > (SELECT MIN(z) / 10 FROM v WHERE v.k <= t.id))
SELECT k, SUM(x) FROM t GROUP BY k HAVING SUM(x) > (SELECT MIN(y) FROM u WHERE u.k = t.k)
SELECT k, COUNT(*) FROM t GROUP BY k HAVING k IN (SELECT k FROM u)
SELECT k, COUNT(*), (SELECT COUNT(*) FROM u WHERE u.k = t.k) FROM t GROUP BY k
SELECT SUM((SELECT COUNT(*) FROM u WHERE u.k = t.k)) FROM t
SELECT (SELECT COUNT(*) FROM u WHERE u.k = t.k) AS c, COUNT(*) FROM t GROUP BY c
SELECT id, (SELECT MAX(n) FROM (SELECT w, COUNT(*) AS n FROM u WHERE u.k = t.k GROUP BY w) q) FROM t
SELECT id, (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM u WHERE u.k = t.k) q) FROM t
SELECT id, (SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM u WHERE u.k = t.k UNION ALL SELECT COUNT(*) FROM v WHERE v.k = t.k) q) FROM t
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k UNION ALL SELECT 1 FROM v WHERE v.k = t.k)
SELECT id FROM t WHERE k IN (SELECT k FROM u UNION SELECT k FROM v)
SELECT id FROM t WHERE k IN (SELECT k FROM u EXCEPT SELECT k FROM v)
SELECT t.id, q.y FROM t, LATERAL (SELECT y FROM u WHERE u.k = t.k) q
SELECT t.id, q.y FROM t LEFT JOIN LATERAL (SELECT y FROM u WHERE u.k = t.k AND u.y > t.x) q ON TRUE
SELECT t.id, q.n FROM t, LATERAL (SELECT COUNT(*) AS n FROM u WHERE u.k = t.k) q
SELECT t.id, q.n FROM t, LATERAL (SELECT COUNT(*) AS n FROM u WHERE u.k < t.k) q
SELECT t.id, q.y FROM t, LATERAL (SELECT y, ROW_NUMBER() OVER (ORDER BY y NULLS LAST, w NULLS LAST) AS rn FROM u WHERE u.k = t.k) q WHERE rn = 1
SELECT t.id, q.y, p.z FROM t, LATERAL (SELECT y FROM u WHERE u.k = t.k) q, LATERAL (SELECT z FROM v WHERE v.k = q.y) p
SELECT t.id, q.s2 FROM t, LATERAL (SELECT t.k + 1 AS s2) q
SELECT t.id, u.w FROM t JOIN u ON t.k = u.k AND t.x < u.y
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND t.x < u.y
SELECT t.id, u.w FROM t RIGHT JOIN u ON t.k = u.k AND t.x < u.y
SELECT t.id, u.w FROM t FULL JOIN u ON t.k = u.k AND t.x < u.y
SELECT t.id, u.w FROM t LEFT JOIN u ON t.x < u.y
SELECT t.id, u.w FROM t LEFT JOIN u ON t.s = 'a' AND t.k = u.k
SELECT t.id, u.w FROM t FULL JOIN u ON t.k = u.k + 1
SELECT k, t.id, u.y FROM t JOIN u USING (k)
SELECT k, t.id, u.y FROM t LEFT JOIN u USING (k)
SELECT k, t.id, u.y FROM t RIGHT JOIN u USING (k)
SELECT k, t.id, u.y FROM t FULL JOIN u USING (k)
SELECT k, id, y, z FROM t FULL JOIN u USING (k) FULL JOIN v USING (k)
SELECT * FROM u NATURAL JOIN v
SELECT id, w FROM t JOIN u ON t.k IS NOT DISTINCT FROM u.k
SELECT t.id, u.y, v.z FROM t LEFT JOIN (u JOIN v ON u.k = v.k) ON t.k = u.k
SELECT t.id FROM t WHERE t.k = 1 AND t.id IN (SELECT id FROM t WHERE s = 'a')
SELECT s, COUNT(*), COUNT(k), COUNT(DISTINCT k), SUM(x), MIN(k), MAX(x), AVG(x) FROM t GROUP BY s
SELECT s, k, COUNT(*) FROM t GROUP BY GROUPING SETS ((s, k), (s), ())
SELECT s, k, COUNT(*), GROUPING(s), GROUPING(k), GROUPING_ID(s, k) FROM t GROUP BY ROLLUP (s, k) ||| SELECT s, k, COUNT(*), GROUPING(s), GROUPING(k), GROUPING_ID(s, k) FROM t GROUP BY ROLLUP (s, k)
SELECT s, k, SUM(k) FROM t GROUP BY CUBE (s, k)
SELECT s, k, id % 2 AS p, SUM(k) FROM t GROUP BY id % 2, CUBE (s, k) ||| SELECT s, k, id % 2 AS p, SUM(k) FROM t GROUP BY GROUPING SETS ((id % 2, s, k), (id % 2, s), (id % 2, k), (id % 2))
SELECT s, COUNT(*) FROM t GROUP BY GROUPING SETS ((s), (s), ())
SELECT s, k + 1, COUNT(*) FROM t GROUP BY s, k + 1 HAVING COUNT(*) > 1 OR s IS NULL
SELECT k + 1 AS p, (k + 1) * 2 FROM t GROUP BY k + 1
SELECT UPPER(s) AS p, COUNT(*) FROM t GROUP BY p
SELECT s, COUNT(*) FILTER (WHERE k > 1), SUM(x) FILTER (WHERE k > 1), COUNT(DISTINCT k) FILTER (WHERE x > 0) FROM t GROUP BY s
SELECT COUNT(DISTINCT k), COUNT(DISTINCT s), SUM(DISTINCT k) FROM t
SELECT id, ROW_NUMBER() OVER (PARTITION BY s ORDER BY id), RANK() OVER (PARTITION BY s ORDER BY k NULLS FIRST), DENSE_RANK() OVER (ORDER BY k NULLS FIRST), SUM(k) OVER (PARTITION BY s ORDER BY id), COUNT(*) OVER (PARTITION BY s) FROM t
SELECT id, LAG(k) OVER (ORDER BY id), LEAD(k, 2, 0) OVER (PARTITION BY s ORDER BY id), FIRST_VALUE(k) OVER (ORDER BY id), LAST_VALUE(k) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), NTILE(3) OVER (ORDER BY id) FROM t
SELECT id, SUM(k) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING), MAX(k) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t
SELECT s, SUM(k), RANK() OVER (ORDER BY SUM(k) DESC NULLS LAST), SUM(SUM(k)) OVER () FROM t GROUP BY s
SELECT id, s FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY id DESC) = 1
SELECT id, s FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY id DESC) BETWEEN 2 AND 3
SELECT id, rn FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) AS rn FROM t) q WHERE rn <= 3 AND id > 9
SELECT id, rn FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) AS rn FROM t) q WHERE rn = 0
SELECT id FROM (SELECT id, s, RANK() OVER (PARTITION BY s ORDER BY k NULLS FIRST) AS r FROM t) q WHERE r = 1
SELECT s FROM t UNION SELECT w FROM u
SELECT s FROM t UNION ALL SELECT w FROM u
SELECT s FROM t INTERSECT SELECT w FROM u
SELECT s FROM t INTERSECT ALL SELECT w FROM u
SELECT s FROM t EXCEPT SELECT w FROM u
SELECT s FROM t EXCEPT ALL SELECT w FROM u
SELECT k FROM t UNION SELECT z FROM v UNION ALL SELECT NULL
SELECT k FROM t EXCEPT SELECT k FROM u INTERSECT SELECT k FROM v
SELECT DISTINCT s, k > 1 FROM t
SELECT id FROM t ORDER BY x DESC NULLS LAST, id LIMIT 4 OFFSET 1
SELECT DISTINCT k FROM t ORDER BY k DESC NULLS LAST LIMIT 2
(SELECT id FROM t ORDER BY id LIMIT 2) UNION ALL (SELECT k FROM v ORDER BY k DESC LIMIT 1)
SELECT k FROM (SELECT k FROM t ORDER BY id LIMIT 5) q WHERE k > 1
WITH q AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k), p AS (SELECT k, n FROM q WHERE n > 1) SELECT q.k, q.n, p.n FROM q LEFT JOIN p ON q.k = p.k
WITH t AS (SELECT k FROM t WHERE k > 1) SELECT * FROM t
SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS q(a, b) JOIN v ON q.a = v.k
SELECT a, b FROM (SELECT k AS a, s AS b FROM t) AS q WHERE a IN (1, 2) AND b LIKE '%a%'
SELECT CASE k WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE s END FROM t
SELECT t1.id, t2.id FROM t t1, t t2 WHERE t1.k = t2.k AND t1.id < t2.id
SELECT COUNT(*) FROM t, u, v WHERE t.k = u.k AND u.k = v.k
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u LEFT JOIN v ON u.k = v.k WHERE u.y = t.k AND v.z IS NULL)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u JOIN v ON u.k = v.k AND v.k = t.k)
SELECT id FROM t WHERE x = (SELECT MAX(x) FROM t t2 WHERE t2.s = t.s)
SELECT id FROM t WHERE (SELECT COUNT(*) FROM u WHERE u.k = t.k) > (SELECT COUNT(*) FROM u WHERE u.y = t.k)
SELECT id FROM t WHERE x IN (SELECT y FROM u) OR k IN (SELECT k FROM v)
SELECT id FROM t WHERE NOT (x IN (SELECT y FROM u) OR k IN (SELECT k FROM v))
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k LIMIT 1)
SELECT id FROM t WHERE k IN (SELECT k FROM u ORDER BY y NULLS LAST, k NULLS LAST LIMIT 2)
SELECT id, (SELECT LISTAGG(w, ',') WITHIN GROUP (ORDER BY w) FROM u WHERE u.k = t.k) FROM t ||| SELECT id, (SELECT STRING_AGG(w, ',' ORDER BY w) FROM u WHERE u.k = t.k) FROM t
SELECT s, MAX(k) - MIN(k) AS d FROM t GROUP BY s ORDER BY MAX(k) - MIN(k) DESC NULLS LAST, s NULLS LAST LIMIT 2
SELECT 1 WHERE EXISTS (SELECT 1 FROM t)
SELECT k, k FROM t GROUP BY k
SELECT s AS k, COUNT(*) FROM t GROUP BY s
SELECT MAX(id) FROM t HAVING COUNT(*) > 100
SELECT 'x' FROM t HAVING COUNT(*) > 1
SELECT x FROM t GROUP BY x
SELECT id, (SELECT MAX(q.m) FROM (SELECT MAX(y) AS m FROM u WHERE u.k = t.k AND u.y > t.x) q) FROM t
SELECT id FROM t WHERE k = ANY (SELECT k FROM u WHERE u.w = t.s) AND k <> ALL (SELECT k FROM v WHERE k > 2)
SELECT u.k, (SELECT SUM(x) FROM t WHERE t.k = u.k AND t.id IN (SELECT id FROM t t3 WHERE t3.s = u.w)) FROM u
SELECT id, (SELECT id FROM u WHERE u.k = t.k HAVING COUNT(*) < 1) FROM t
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k UNION ALL SELECT k FROM v WHERE v.k = t.k)
SELECT t.k, COUNT(*) FROM t GROUP BY t.k HAVING EXISTS (SELECT 1 FROM u WHERE u.k = t.k)
SELECT (SELECT COUNT(*) FROM u WHERE u.k = t.k) AS c, COUNT(*) FROM t GROUP BY c
SELECT s, (SELECT MAX(y) FROM u WHERE u.w = t.s) AS m, SUM(k) FROM t GROUP BY s
SELECT id, COUNT(*) OVER (PARTITION BY (SELECT COUNT(*) FROM u WHERE u.k = t.k)) FROM t
SELECT id, SUM(k) OVER (PARTITION BY s ORDER BY id) + (SELECT MAX(y) FROM u) FROM t
SELECT id, k FROM t ORDER BY (SELECT COUNT(*) FROM u WHERE u.k = t.k), id
SELECT q.a + 1 AS b FROM (SELECT k AS a FROM t) q WHERE q.a + 1 > 2
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT k, y FROM u WHERE u.y > t.id) q WHERE q.k = t.k)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT MAX(y) AS m FROM u WHERE u.k = t.k) q WHERE q.m > t.x)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT DISTINCT y FROM u WHERE u.k < t.k) q JOIN v ON q.y = v.k)
SELECT id, (SELECT SUM(q.y * p.z) FROM (SELECT y FROM u WHERE u.k = t.k) q, (SELECT z FROM v WHERE v.k = t.k) p) FROM t
SELECT id, (SELECT COUNT(*) FROM (SELECT y FROM u WHERE u.k = t.k) q, (SELECT z FROM v WHERE v.k <> t.k) p) FROM t
SELECT id FROM t WHERE (SELECT MIN(y) FROM u WHERE u.k = t.k) IS NULL
SELECT id FROM t WHERE COALESCE((SELECT MIN(y) FROM u WHERE u.k = t.k), 0) < 2
SELECT id FROM t WHERE x BETWEEN (SELECT MIN(y) FROM u) AND (SELECT MAX(y) FROM u)
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.k = u.k AND v.k = t.k))
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k IS NOT NULL AND NOT EXISTS (SELECT 1 FROM t t2 WHERE t2.k = u.k AND t2.s = t.s))
SELECT id FROM t WHERE k IN (SELECT k FROM u WHERE u.y IN (SELECT k FROM v WHERE v.k <= t.k))
SELECT id, (SELECT COUNT(*) FROM u WHERE u.k = t.k OR u.y = t.k) FROM t
SELECT id, (SELECT COUNT(*) FROM u WHERE u.k = t.k AND (u.y = t.id OR u.w = t.s)) FROM t
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k OR u.y = t.k)
SELECT id, (SELECT CASE WHEN COUNT(*) > 1 THEN 'many' ELSE t.s END FROM u WHERE u.k = t.k) FROM t
SELECT t.id, t2.id FROM t LEFT JOIN t t2 ON t.k = t2.k AND t2.id IN (1, 2, 5)
SELECT t.id, u.w FROM t JOIN u ON t.k = u.k AND EXISTS (SELECT 1 FROM v WHERE v.k = t.k AND v.k = u.k)
SELECT t.id FROM t JOIN u ON t.k = (SELECT MAX(k) FROM v) AND u.k = t.k
SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING n = (SELECT MAX(c) FROM (SELECT COUNT(*) AS c FROM t GROUP BY k) q)
SELECT COUNT(*) FROM (SELECT DISTINCT s, k FROM t) q
SELECT s, COUNT(*) FROM (SELECT s, ROW_NUMBER() OVER (PARTITION BY s ORDER BY id) AS rn FROM t) q WHERE rn <= 2 GROUP BY s
SELECT * FROM (SELECT s, k, ROW_NUMBER() OVER (PARTITION BY s ORDER BY id) AS rn FROM t) q JOIN v ON q.k = v.k WHERE rn = 1
SELECT rn, COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY s ORDER BY id) AS rn FROM t) q WHERE rn < 3 GROUP BY rn
SELECT id FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS a, ROW_NUMBER() OVER (ORDER BY id DESC) AS b FROM t) q WHERE a <= 9 AND b <= 9
SELECT id, SUM(x) OVER w1, COUNT(*) OVER (w1 ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t WINDOW w1 AS (PARTITION BY s ORDER BY id)
SELECT id, COUNT(*) FILTER (WHERE k > 1) OVER (PARTITION BY s) FROM t
SELECT id, LAST_VALUE(k) OVER (PARTITION BY s ORDER BY id), PERCENT_RANK() OVER (ORDER BY id), CUME_DIST() OVER (ORDER BY k NULLS FIRST) FROM t
SELECT SUM(k) AS s1, s1 + 1 AS s2 FROM t
SELECT k AS a, a + 1 AS b, b * 2 AS c FROM t
SELECT k, SUM(id) AS total FROM t GROUP BY ALL HAVING total > 5 ORDER BY total
SELECT s AS g, COUNT(*) FROM t GROUP BY 1 ORDER BY 2 DESC, 1
SELECT COUNT(*), MAX(q.n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) q
SELECT t.*, v.z FROM t LEFT JOIN v USING (k)
SELECT v.*, u.y FROM u JOIN v USING (k)
SELECT * EXCEPT (x) FROM t ||| SELECT * EXCLUDE (x) FROM t
SELECT id FROM t LEFT SEMI JOIN u ON t.k = u.k AND u.y > t.x ||| SELECT id FROM t SEMI JOIN u ON t.k = u.k AND u.y > t.x
SELECT id FROM t LEFT ANTI JOIN u ON t.k = u.k ||| SELECT id FROM t ANTI JOIN u ON t.k = u.k
SELECT id FROM t LEFT SEMI JOIN u USING (k) ||| SELECT id FROM t SEMI JOIN u USING (k)
SELECT id, e FROM t CROSS JOIN UNNEST(ARRAY(1, k)) AS q(e) ||| SELECT id, UNNEST([1, k]) AS e FROM t
SELECT id, e FROM t LATERAL VIEW explode(ARRAY(1, k)) q AS e ||| SELECT id, UNNEST([1, k]) AS e FROM t
SELECT id, explode(ARRAY(k, id)) AS e FROM t WHERE id < 4 ||| SELECT id, UNNEST([k, id]) AS e FROM t WHERE id < 4
SELECT MAX(e) FROM (SELECT explode(ARRAY(k, id)) AS e FROM t) q ||| SELECT MAX(e) FROM (SELECT UNNEST([k, id]) AS e FROM t) q
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS x FROM a), c AS (SELECT x FROM a UNION ALL SELECT x FROM b) SELECT SUM(x) FROM c
SELECT id FROM t WHERE k IN (WITH q AS (SELECT k FROM u) SELECT k FROM q WHERE k > 1)
SELECT (WITH q AS (SELECT MAX(y) AS m FROM u) SELECT m FROM q) FROM v
SELECT * FROM (SELECT k FROM u UNION SELECT k FROM v) q WHERE k > 1 ORDER BY k LIMIT 2
SELECT DISTINCT k FROM t WHERE k IS NOT NULL ORDER BY k LIMIT 2 OFFSET 1
SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC, k NULLS LAST LIMIT 2
SELECT s, k FROM t GROUP BY s, k ORDER BY s NULLS LAST, MAX(id) LIMIT 3
SELECT CASE WHEN id < 3 THEN 'lo' ELSE 'hi' END AS b, COUNT(*) FROM t GROUP BY CASE WHEN id < 3 THEN 'lo' ELSE 'hi' END
SELECT id % 3 AS m, s, COUNT(*) FROM t GROUP BY ROLLUP (id % 3, s)
SELECT GROUPING(s) + GROUPING(k) AS g, COUNT(*) FROM t GROUP BY CUBE (s, k)
SELECT s, SUM(k) FROM t GROUP BY ROLLUP (s) HAVING GROUPING(s) = 1 OR SUM(k) > 3
SELECT t.id, u.y, v.z FROM t LEFT JOIN (u JOIN v ON u.k = v.k AND EXISTS (SELECT 1 FROM t t2 WHERE t2.k = u.k)) ON t.k = u.k
SELECT t.id, u.w, v.z FROM t JOIN u ON t.k = u.k AND t.k IN (SELECT k FROM v) RIGHT JOIN v ON v.k = t.k
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u JOIN v ON u.k = v.k AND v.k = t.k WHERE u.y > 0)
SELECT id, (SELECT COUNT(*) FROM u JOIN v ON v.z > t.id WHERE u.k = t.k) FROM t
SELECT t.id, (SELECT COUNT(*) + t.k FROM u WHERE u.k = u.y) FROM t
SELECT t.id, (SELECT COUNT(*) + t.k FROM u WHERE u.k < t.k) FROM t
SELECT t.id, (SELECT MAX(u.y + t.id) - t.k FROM u) FROM t
SELECT id, (SELECT id FROM u WHERE t.id = t.k HAVING COUNT(*) < 1) FROM t
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k UNION ALL SELECT 1 FROM v WHERE v.k = t.id)
SELECT id FROM t WHERE k IN (SELECT k FROM u WHERE u.y > t.id UNION SELECT k FROM v)
SELECT id FROM t WHERE k NOT IN (SELECT y FROM u WHERE u.w = t.s EXCEPT SELECT k FROM v WHERE v.k < t.k)
SELECT id, (SELECT SUM(y) FROM (SELECT y FROM u WHERE u.k = t.k UNION ALL SELECT z FROM v WHERE v.k >= t.k) q) FROM t
SELECT id, q.y FROM t, LATERAL (SELECT y FROM u WHERE u.k = t.k UNION ALL SELECT t.id) q
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k INTERSECT SELECT 1 FROM v WHERE v.k > 1 UNION SELECT 2 FROM v WHERE v.k = t.x)
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND u.y IN (SELECT y FROM u WHERE w = 'a')
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND t.k IN (SELECT k FROM v) ||| SELECT t.id, u.w FROM (SELECT *, k IN (SELECT k FROM v) AS f FROM t) t LEFT JOIN u ON t.k = u.k AND f
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND EXISTS (SELECT 1 FROM v WHERE v.k = t.k) ||| SELECT t.id, u.w FROM (SELECT *, EXISTS (SELECT 1 FROM v WHERE v.k = t.k) AS f FROM t) t LEFT JOIN u ON t.k = u.k AND f
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND NOT EXISTS (SELECT 1 FROM v WHERE v.k = u.k)
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND u.y > (SELECT MIN(k) FROM v)
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND t.id > (SELECT COUNT(*) FROM v WHERE v.k = t.k) ||| SELECT t.id, u.w FROM (SELECT *, id > (SELECT COUNT(*) FROM v WHERE v.k = t.k) AS f FROM t) t LEFT JOIN u ON t.k = u.k AND f
SELECT 'x' FROM t HAVING 5 > 1
SELECT 1 WHERE EXISTS (SELECT COUNT(*) FROM t)
SELECT (WITH q AS (SELECT MAX(y) AS m FROM u) SELECT v.k FROM q) FROM v
SELECT t.id, u.y FROM t RIGHT JOIN u ON t.k = u.k AND u.y > (SELECT min(y) FROM u) ||| SELECT t.id, u.y FROM t RIGHT JOIN u ON t.k = u.k AND u.y > 1
SELECT t.id, u.y FROM t RIGHT JOIN u ON t.k = u.k AND t.id IN (SELECT k FROM v)
SELECT t.id, u.y FROM t FULL JOIN u ON t.k = u.k AND t.x > (SELECT min(x) FROM t) ||| SELECT t.id, u.y FROM t FULL JOIN u ON t.k = u.k AND t.x > -1
SELECT t.id, u.y FROM t FULL JOIN u ON t.k = u.k AND EXISTS (SELECT 1 FROM v WHERE v.k = t.k) ||| SELECT t.id, u.y FROM t FULL JOIN u ON t.k = u.k AND t.k < 4
SELECT t.id, u.y FROM t LEFT JOIN u ON t.k = u.k AND t.id + u.y > (SELECT min(z) FROM v) ||| SELECT t.id, u.y FROM t LEFT JOIN u ON t.k = u.k AND t.id + u.y > 10
SELECT a.id, b.id AS other FROM t a LEFT JOIN t b ON b.id = (SELECT max(c.id) FROM t c WHERE c.id < a.id) ||| SELECT a.id, b.id FROM t a LEFT JOIN t b ON b.id = a.id - 1
SELECT t.id, u.y FROM t RIGHT JOIN u ON (t.k IN (SELECT k FROM v) OR u.y IN (SELECT z / 10 FROM v)) AND t.k = u.k ||| SELECT t.id, u.y FROM t RIGHT JOIN u ON (t.k IN (1, 2, 3) OR u.y IN (1, 3)) AND t.k = u.k
SELECT t.id, u.y FROM t FULL JOIN u ON t.k = u.k AND (SELECT count(*) FROM v WHERE v.k = u.k) > (SELECT count(*) FROM v WHERE v.z = t.k) ||| SELECT t.id, u.y FROM t FULL JOIN u ON t.k = u.k AND u.k < 4
SELECT id, k FROM t ORDER BY ALL DESC LIMIT 3 ||| SELECT id, k FROM t ORDER BY id DESC LIMIT 3
SELECT k FROM t UNION SELECT k FROM u ORDER BY ALL LIMIT 2 ||| SELECT k FROM t UNION SELECT k FROM u ORDER BY k NULLS FIRST LIMIT 2
SELECT * FROM (SELECT k, s, id FROM t) PIVOT (sum(id) FOR s IN ('a', 'b')) ||| SELECT k, sum(id) FILTER (WHERE s = 'a'), sum(id) FILTER (WHERE s = 'b') FROM t GROUP BY k
SELECT k, a_total, b_n FROM (SELECT k, s, id FROM t) PIVOT (sum(id) AS total, count(*) AS n FOR s IN ('a' AS a, 'b' AS b)) ||| SELECT k, sum(id) FILTER (WHERE s = 'a'), nullif(count(*) FILTER (WHERE s = 'b'), 0) FROM t GROUP BY k
SELECT p.`1`, p.`2` FROM (SELECT k, id FROM t) PIVOT (max(id) FOR k IN (1, 2)) AS p ||| SELECT max(id) FILTER (WHERE k = 1), max(id) FILTER (WHERE k = 2) FROM t
SELECT * FROM (SELECT k, s, id FROM t) PIVOT (count(id) FOR (k, s) IN ((1, 'b') AS x, (2, 'a') AS y)) ||| SELECT nullif(count(id) FILTER (WHERE k = 1 AND s = 'b'), 0), nullif(count(id) FILTER (WHERE k = 2 AND s = 'a'), 0) FROM t
SELECT * FROM v UNPIVOT INCLUDE NULLS (val FOR name IN (z AS zed)) AS q WHERE q.k > 1 ||| SELECT k, 'zed', z FROM v WHERE k > 1
SELECT id, stack(2, 'k', k, 'i', id) AS (n, v) FROM t ||| SELECT id, 'k', k FROM t UNION ALL SELECT id, 'i', id FROM t
SELECT stack(2, 1, 'a', 2) ||| VALUES (1, 'a'), (2, NULL)
SELECT id, q.a, b FROM t LATERAL VIEW json_tuple('{"x": 1, "y": {"z": "w"}}', 'x', 'y') q AS a, b ||| SELECT id, '1', '{"z":"w"}' FROM t
SELECT json_tuple('{"x": "q"}', 'x', 'no') ||| SELECT 'q', NULL
TABLE v ||| SELECT * FROM v
TABLE v ORDER BY k LIMIT 1 ||| SELECT * FROM v ORDER BY k LIMIT 1
SELECT -1 >>> 1, 8 >> 1 + 1, 16 >>> 1 >>> 1 ||| SELECT 2147483647, 2, 4
SELECT window.start AS a, count(*) FROM (SELECT TIMESTAMP_NTZ '2020-01-01 00:00:00' + id * INTERVAL 1 MINUTE AS ts, k FROM t) GROUP BY window(ts, '5 minutes') ||| SELECT TIMESTAMP '2020-01-01 00:00:00' + g * INTERVAL 5 MINUTE, c FROM (VALUES (0, 5), (1, 5), (2, 2)) q(g, c)
SELECT window.end AS b, k, sum(id) AS n FROM (SELECT TIMESTAMP_NTZ '2020-01-01 00:00:00' + id * INTERVAL 1 MINUTE AS ts, k, id FROM t) GROUP BY window(ts, '10 minutes', '5 minutes', '0 seconds'), k HAVING window.end > TIMESTAMP_NTZ '2020-01-01 00:10:00' ORDER BY window.start ||| SELECT TIMESTAMP '2020-01-01 00:00:00' + e * INTERVAL 5 MINUTE, k, sum(id) FROM t, (VALUES (3), (4)) q(e) WHERE id >= 5 * e - 10 AND id < 5 * e GROUP BY e, k
SELECT w.start = w.end - INTERVAL 5 MINUTES AS same, n FROM (SELECT window(ts, INTERVAL 5 MINUTES) AS w, count(*) AS n FROM (SELECT CASE WHEN id > 3 THEN TIMESTAMP_NTZ '2020-01-01 00:00:00' END AS ts FROM t) GROUP BY 1) ||| SELECT true, 8
(TABLE v) UNION ALL TABLE v ||| SELECT * FROM v UNION ALL SELECT * FROM v
SELECT id, name, val FROM (SELECT id, k, id * 2 AS d FROM t) UNPIVOT (val FOR name IN (k, d)) ||| SELECT id, 'k', k FROM t WHERE k IS NOT NULL UNION ALL SELECT id, 'd', id * 2 FROM t
SELECT id, k FROM t ORDER BY ALL
SELECT id, k FROM t ORDER BY ALL DESC
SELECT k, count(*) FILTER (WHERE s = 'a') AS a, count(*) FILTER (WHERE s = 'b') AS b FROM t GROUP BY ALL ORDER BY ALL
SELECT * FROM (SELECT k, s, id FROM t) PIVOT (sum(id) AS total, count(*) AS n FOR s IN ('a' AS a, 'b' AS b)) ||| SELECT k, sum(id) FILTER (WHERE s = 'a'), nullif(count(*) FILTER (WHERE s = 'a'), 0), sum(id) FILTER (WHERE s = 'b'), nullif(count(*) FILTER (WHERE s = 'b'), 0) FROM t GROUP BY k
SELECT sum(y) FROM u HAVING sum(y) > 100
SELECT 1 AS one FROM t HAVING count(*) > 1
SELECT k, s, sum(id) AS n FROM t GROUP BY CUBE (k, s) HAVING GROUPING(k) = 0
SELECT k, s, GROUPING_ID(k, s) AS g, count(*) FROM t GROUP BY GROUPING SETS ((k, s), (k), (s), ())
SELECT k, s, count(*) FROM t GROUP BY k, s WITH ROLLUP ||| SELECT k, s, count(*) FROM t GROUP BY ROLLUP (k, s)
SELECT k, s, count(*) FROM t GROUP BY k, s WITH CUBE ||| SELECT k, s, count(*) FROM t GROUP BY CUBE (k, s)
SELECT k, sum(id) OVER w AS a, rank() OVER (w) AS r FROM t WINDOW w AS (PARTITION BY s ORDER BY id)
SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) rn FROM t WHERE id > 2 QUALIFY rn = 1 AND id < 9
SELECT s, count(*) n FROM t GROUP BY s QUALIFY row_number() OVER (ORDER BY count(*) DESC, s NULLS FIRST) = 1
SELECT id FROM t WHERE (k, s) IN ((1, 'b'), (2, 'a'))
SELECT id, (SELECT max(y) FROM u WHERE u.k = t.k) m, (SELECT count(*) FROM u WHERE u.k = t.k AND y > t.id) c FROM t
SELECT k, (SELECT max(y) FROM u WHERE u.k = t.k) m FROM t GROUP BY k
SELECT id FROM t ORDER BY (SELECT max(y) FROM u WHERE u.k = t.k) NULLS LAST, id LIMIT 3
SELECT id, CASE WHEN (SELECT count(*) FROM u WHERE u.k = t.k) > 2 THEN 'many' ELSE 'few' END AS c FROM t
SELECT k FROM t GROUP BY k HAVING count(*) > (SELECT count(*) FROM u WHERE u.k = t.k)
SELECT id FROM t WHERE k = (SELECT k FROM v WHERE v.k = t.k LIMIT 1)
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w = t.s) AND k IS NOT NULL
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)
SELECT id FROM t WHERE k <> ALL (SELECT k FROM v)
SELECT t.id, q.n FROM t LEFT JOIN LATERAL (SELECT count(*) AS n FROM u WHERE u.k = t.k) q ON true
SELECT t.id, q.y FROM t CROSS JOIN LATERAL (SELECT y FROM u WHERE u.k = t.k ORDER BY y DESC NULLS LAST LIMIT 1) q
SELECT t.id, q.y FROM t, LATERAL (SELECT sum(y) AS y FROM u WHERE u.y < t.id) q
SELECT a.id, b.id AS i2 FROM t a LEFT JOIN t b ON b.id = (SELECT max(c.id) FROM t c WHERE c.id < a.id)
SELECT k FROM t UNION DISTINCT SELECT k FROM u ORDER BY 1 NULLS FIRST LIMIT 3
SELECT k FROM t MINUS SELECT k FROM u ||| SELECT k FROM t EXCEPT SELECT k FROM u
SELECT k, s FROM t INTERSECT DISTINCT SELECT k, w FROM u ||| SELECT k, s FROM t INTERSECT SELECT k, w FROM u
(SELECT k FROM t UNION SELECT k FROM u) EXCEPT SELECT k FROM v
SELECT u.*, id FROM t JOIN u ON t.k = u.k
SELECT k, any_value(s) IS NULL AS b FROM t WHERE s IS NULL GROUP BY k
SELECT k, max(struct(id, s)).s AS last FROM t GROUP BY k ||| SELECT k, arg_max(coalesce(s, '~'), id) AS last FROM t GROUP BY k HAVING last <> '~' UNION ALL SELECT k, NULL FROM (SELECT k, arg_max(coalesce(s, '~'), id) AS last FROM t GROUP BY k) WHERE last = '~'
SELECT k, sum(id) / count(*) AS a, sum(id) * 100.0 / sum(sum(id)) OVER () AS pct FROM t GROUP BY k
SELECT id, sum(id) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) c, avg(id) OVER (ORDER BY id ROWS 2 PRECEDING) a FROM t
SELECT id, first(s, true) OVER (ORDER BY id) f FROM t ||| SELECT id, first_value(s IGNORE NULLS) OVER (ORDER BY id) f FROM t
SELECT id, last(s) IGNORE NULLS OVER (ORDER BY id) f FROM t ||| SELECT id, last_value(s IGNORE NULLS) OVER (ORDER BY id) f FROM t
SELECT id, count(*) OVER (PARTITION BY s) / count(*) OVER () AS share FROM t
SELECT id, lag(k) OVER (ORDER BY id) IS DISTINCT FROM k AS changed FROM t
SELECT sum(CASE WHEN changed THEN 1 ELSE 0 END) FROM (SELECT id, coalesce(lag(k) OVER (ORDER BY id) <> k, true) AS changed FROM t)
SELECT id, date_add(DATE '2020-02-27', id) d FROM t ||| SELECT id, DATE '2020-02-27' + id AS d FROM t
SELECT datediff(DATE '2020-03-01', DATE '2020-02-01') ||| SELECT DATE '2020-03-01' - DATE '2020-02-01'
SELECT extract(YEAR FROM DATE '2020-03-01') y, year(DATE '2020-03-01') z
SELECT id, if(k IS NULL, 'none', CAST(k AS STRING)) FROM t ||| SELECT id, CASE WHEN k IS NULL THEN 'none' ELSE CAST(k AS VARCHAR) END FROM t
SELECT id, nvl(k, -1), nvl2(k, 1, 0), nullif(k, 1), ifnull(k, 0) FROM t ||| SELECT id, coalesce(k, -1), CASE WHEN k IS NOT NULL THEN 1 ELSE 0 END, nullif(k, 1), ifnull(k, 0) FROM t
SELECT id, decode(s, 'a', 1, 'b', 2, 0) FROM t ||| SELECT id, CASE s WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 0 END FROM t
SELECT s, count(*) FROM t WHERE s LIKE ANY ('a%', 'b%') GROUP BY s ||| SELECT s, count(*) FROM t WHERE s LIKE 'a%' OR s LIKE 'b%' GROUP BY s
SELECT id FROM t WHERE s RLIKE '^[ab]$' ||| SELECT id FROM t WHERE s IN ('a', 'b')
SELECT id, e FROM t LATERAL VIEW OUTER explode(CASE WHEN id > 8 THEN array(id, k) END) x AS e ||| SELECT id, id FROM t WHERE id > 8 UNION ALL SELECT id, k FROM t WHERE id > 8 UNION ALL SELECT id, NULL FROM t WHERE id <= 8
SELECT x.id, y.e FROM t x LATERAL VIEW explode(split('1,2', ',')) y AS e ||| SELECT id, e FROM t, (VALUES ('1'), ('2')) q(e)
SELECT stack(2, 1, 'a', 2, 'b') ||| VALUES (1, 'a'), (2, 'b')
SELECT explode(sequence(1, 3)) AS n ||| VALUES (1), (2), (3)
SELECT * FROM explode(array(1, 2)) ||| VALUES (1), (2)
SELECT t.id, c FROM t, LATERAL explode(array(id, k)) AS q(c) WHERE id < 2 ||| VALUES (0, 0), (0, 2), (1, 1), (1, 1)
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS q(n, c) ||| VALUES (1, 'a'), (2, 'b')
VALUES (1, 'a'), (2, 'b')
FROM v SELECT k ||| SELECT k FROM v
SELECT count(DISTINCT k, s), count(k, s), count(DISTINCT s) FROM t ||| SELECT count(DISTINCT CASE WHEN k IS NOT NULL AND s IS NOT NULL THEN (k, s) END), count(*) FILTER (WHERE k IS NOT NULL AND s IS NOT NULL), count(DISTINCT s) FROM t
SELECT percentile(y, 0.5), median(y) FROM u ||| SELECT quantile_cont(y, 0.5), median(y) FROM u
SELECT max_by(w, y), min_by(w, y) FROM u WHERE y < 7 ||| SELECT arg_max(w, y), arg_min(w, y) FROM u WHERE y < 7
SELECT string_agg(s, ',') WITHIN GROUP (ORDER BY s) FROM t ||| SELECT string_agg(s, ',' ORDER BY s) FROM t
SELECT try_divide(id, k - 1), try_add(id, 1), id % 3, pmod(-id, 3) FROM t WHERE k IS NULL OR id > 0 ||| SELECT CASE WHEN k <> 1 THEN id / (k - 1) END, id + 1, id % 3, ((-id % 3) + 3) % 3 FROM t WHERE k IS NULL OR id > 0
SELECT id FROM t WHERE x BETWEEN -1 AND 1 AND NOT s IN ('c')
SELECT id AS `select`, k `my col` FROM t ||| SELECT id, k FROM t
SELECT k, id, sum(id) OVER (PARTITION BY k ORDER BY id RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) FROM t
SELECT t.k, u.k FROM t JOIN u ON t.k <=> u.k ||| SELECT t.k, u.k FROM t JOIN u ON t.k IS NOT DISTINCT FROM u.k
SELECT count(*) FROM t JOIN u ON t.k = u.k OR t.s = u.w
SELECT grouping(k), k, count(*) FROM t GROUP BY ROLLUP(k) ORDER BY grouping(k), k NULLS FIRST
SELECT s AS g, sum(id) AS n FROM t GROUP BY g ORDER BY n DESC, g
SELECT id, id + 1 AS a, a * 2 AS b FROM t
SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS ONLY ||| SELECT id FROM t ORDER BY id LIMIT 2
SELECT k, s, rank() OVER (ORDER BY k NULLS FIRST, s NULLS FIRST) FROM t
SELECT id FROM t WHERE (SELECT bool_or(y > 6) FROM u WHERE u.k = t.k)
SELECT * FROM t WHERE id = (SELECT max(id) FROM t)
SELECT id FROM t WHERE k > SOME (SELECT k FROM v) ||| SELECT id FROM t WHERE k > ANY (SELECT k FROM v)
SELECT transform(collect_list(id), i -> i + 1) IS NOT NULL FROM t ||| SELECT true
SELECT aggregate(array(1, 2, 3), 0, (a, b) -> a + b), exists(array(1), i -> i = 1) ||| SELECT 6, true
SELECT id, x FROM t WHERE x IS NOT NULL ORDER BY abs(x) DESC, id
SELECT named_struct('a', id, 'b', s).b FROM t ||| SELECT s FROM t
SELECT m['a'], m.b FROM (SELECT map('a', id, 'b', k) AS m FROM t) ||| SELECT id, k FROM t
SELECT from_json('{"a": {"b": [1, 2]}}', 'a STRUCT<b: ARRAY<INT>>').a.b[1] ||| SELECT 2
SELECT get_json_object('{"a": {"b": [1, 2]}}', '$.a.b[1]') ||| SELECT '2'
SELECT k, sum(id) s1, sum(sum(id)) OVER (ORDER BY k NULLS FIRST) run FROM t GROUP BY k
SELECT q.* FROM (SELECT k, count(*) n FROM t GROUP BY k) q WHERE n = (SELECT max(n) FROM (SELECT count(*) n FROM t GROUP BY k) z)
SELECT DISTINCT k, count(*) OVER (PARTITION BY k) n FROM t
SELECT a.k FROM (SELECT k FROM t GROUP BY k) a FULL OUTER JOIN (SELECT k FROM u GROUP BY k) b ON a.k = b.k WHERE a.k IS NULL OR b.k IS NULL
SELECT t.id FROM t LEFT JOIN u ON t.k = u.k AND u.w = 'a' WHERE u.k IS NULL
SELECT t.id FROM t LEFT ANTI JOIN u ON t.k = u.k AND u.y > 2 ||| SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.y > 2)
SELECT t.id FROM t SEMI JOIN u USING (k) ||| SELECT id FROM t WHERE k IN (SELECT k FROM u)
SELECT k, x, id FROM t GROUP BY k, x, id HAVING id = max(id) AND k > 1
SELECT id FROM t WHERE EXISTS (SELECT k FROM u WHERE u.k = t.k GROUP BY k HAVING count(*) > 2)
SELECT id FROM t WHERE EXISTS (SELECT y FROM u WHERE u.k = t.k UNION ALL SELECT z FROM v WHERE v.k = t.k)
SELECT id, (SELECT y FROM u WHERE u.k = t.k ORDER BY y DESC NULLS LAST LIMIT 1) AS y FROM t
SELECT id, (SELECT sum(y) OVER () FROM u WHERE u.k = t.k LIMIT 1) AS y FROM t
SELECT id, (SELECT concat(t.s, max(w)) FROM u WHERE u.k = t.k) AS y FROM t ||| SELECT id, (SELECT t.s || max(w) FROM u WHERE u.k = t.k) AS y FROM t
SELECT (SELECT count(*) FROM u WHERE u.k = t.k), count(*) FROM t GROUP BY 1
SELECT sum((SELECT count(*) FROM u WHERE u.k = t.k)) FROM t
SELECT id, sum((SELECT count(*) FROM u WHERE u.k = t.k)) OVER (ORDER BY id) FROM t
SELECT id FROM t WHERE id IN (SELECT t2.id FROM t t2 WHERE t2.k IN (SELECT k FROM u WHERE u.y = t.id))
SELECT id, k FROM t WHERE k = (SELECT max(k) FROM t AS i WHERE i.s = t.s)
SELECT s, count(*) AS n, count(*) * 100 / sum(count(*)) OVER () AS p FROM t GROUP BY s HAVING count(*) > 1 ORDER BY n DESC, s NULLS FIRST
WITH a AS (SELECT k, id FROM t), b AS (SELECT k, max(id) AS m FROM a GROUP BY k) SELECT a.* FROM a JOIN b ON a.k <=> b.k AND a.id = b.m ||| WITH a AS (SELECT k, id FROM t), b AS (SELECT k, max(id) AS m FROM a GROUP BY k) SELECT a.* FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k AND a.id = b.m
SELECT id, sum(id) OVER (PARTITION BY s ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) - id AS d FROM t
SELECT id, last_value(k) OVER (PARTITION BY s ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM t
SELECT id, max(id) FILTER (WHERE k IS NOT NULL) OVER (ORDER BY id) AS m FROM t
SELECT t.id, v.z FROM t LEFT JOIN v USING (k) WHERE v.z IS NULL OR v.z > 10
SELECT coalesce(t.k, v.k) AS k, count(t.id), max(z) FROM t FULL JOIN v ON t.k = v.k GROUP BY 1
SELECT a.id FROM t a WHERE 2 <= (SELECT count(DISTINCT b.s) FROM t b WHERE b.k = a.k)
SELECT k FROM t WHERE s = 'a' INTERSECT SELECT k FROM t WHERE s = 'b'
SELECT k, count(*) FROM (SELECT k FROM t UNION ALL SELECT k FROM u UNION ALL SELECT k FROM v) GROUP BY k
SELECT id FROM t WHERE k IN (1, 2) OR (s, k) IN (SELECT w, k FROM u)
SELECT id, (k IN (SELECT k FROM u)) IS TRUE AS b FROM t
SELECT id, k BETWEEN 1 AND 3 AND s <> 'a' AS b FROM t
SELECT id, (SELECT max(z) FROM v WHERE v.k <= t.k) AS m FROM t
SELECT id, (SELECT count(*) FROM u JOIN v ON u.k = v.k WHERE u.y > t.id) AS m FROM t
SELECT v.k, (SELECT string_agg(w, '-') WITHIN GROUP (ORDER BY w) FROM u WHERE u.k = v.k) AS l FROM v ||| SELECT v.k, (SELECT string_agg(w, '-' ORDER BY w) FROM u WHERE u.k = v.k) AS l FROM v
SELECT x.k, x.n FROM (SELECT k, count(*) AS n, dense_rank() OVER (ORDER BY count(*) DESC) AS r FROM t GROUP BY k) x WHERE r = 1
SELECT id, CASE WHEN x > 0 THEN 'p' WHEN x < 0 THEN 'n' ELSE 'z' END AS c, count(*) OVER (PARTITION BY CASE WHEN x > 0 THEN 'p' WHEN x < 0 THEN 'n' ELSE 'z' END) AS n FROM t
SELECT DISTINCT s, first_value(id) OVER (PARTITION BY s ORDER BY id) AS f FROM t
SELECT min(id), max(id), s FROM (SELECT id, s, id - row_number() OVER (PARTITION BY s ORDER BY id) AS g FROM t) GROUP BY s, g
SELECT a.k, b.k FROM v a CROSS JOIN v b WHERE a.k < b.k
SELECT a.id, b.id FROM t a JOIN t b ON b.id BETWEEN a.id - 1 AND a.id + 1 AND a.s = b.s
SELECT array_size(collect_set(k)), sort_array(collect_set(k))[0] FROM t ||| SELECT count(DISTINCT k), min(k) FROM t
SELECT q.a, size(q.l) FROM (SELECT s AS a, collect_list(struct(id, k)) AS l FROM t GROUP BY s) q ||| SELECT s, count(*) FROM t GROUP BY s
SELECT s, e.id FROM (SELECT s, collect_list(struct(id, k)) AS l FROM t GROUP BY s) LATERAL VIEW explode(l) x AS e ||| SELECT s, id FROM t
SELECT s, i.id, i.k FROM (SELECT s, collect_list(named_struct('id', id, 'k', k)) AS l FROM t GROUP BY s) LATERAL VIEW inline(l) i AS id, k ||| SELECT s, id, k FROM t
SELECT map_keys(m)[0], m['b'] FROM (SELECT map_from_entries(array(struct('b', 2))) AS m) ||| SELECT 'b', 2
SELECT size(filter(array(1, 2, 3), e -> e > (SELECT min(k) FROM v))) ||| SELECT 2
SELECT id, element_at(array('x', 'y', 'z'), k) FROM t WHERE k BETWEEN 1 AND 3 ||| SELECT id, CASE k WHEN 1 THEN 'x' WHEN 2 THEN 'y' ELSE 'z' END FROM t WHERE k BETWEEN 1 AND 3
SELECT to_json(named_struct('a', 1, 'b', array('x'))) ||| SELECT '{"a":1,"b":["x"]}'
SELECT date_format(DATE '2020-02-29' + INTERVAL 1 YEAR, 'yyyy/MM/dd') ||| SELECT '2021/02/28'
SELECT months_between(DATE '2020-03-31', DATE '2020-02-29') ||| SELECT 1.0
SELECT k, sum(id) AS total FROM t GROUP BY k UNION ALL SELECT NULL, sum(id) FROM t
SELECT k, s, sum(id) FROM t GROUP BY k, GROUPING SETS ((s), ())
SELECT s, sum(CASE WHEN k = 1 THEN id END) AS one, sum(CASE WHEN k = 2 THEN id ELSE 0 END) AS two FROM t GROUP BY ROLLUP (s)
SELECT id, ntile(3) OVER (PARTITION BY s ORDER BY id), cume_dist() OVER (ORDER BY id), percent_rank() OVER (ORDER BY s NULLS FIRST) FROM t
SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k) <> EXISTS (SELECT 1 FROM v WHERE v.k = t.k)
SELECT id FROM t WHERE s IN (SELECT w FROM u WHERE u.y > t.k) OR NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)
SELECT t.s, u.w, count(*) FROM t, u WHERE t.k = u.k GROUP BY ALL HAVING count(*) >= 1
SELECT (SELECT max(y) FROM u) AS m, (SELECT count(*) FROM t) AS n
SELECT * FROM (SELECT k, max(id) m FROM t GROUP BY k) a NATURAL JOIN (SELECT k, max(y) y FROM u GROUP BY k) b
SELECT * FROM t a LEFT JOIN (u b JOIN v c ON b.k = c.k) ON a.k = b.k ||| SELECT * FROM t a LEFT JOIN (SELECT b.k, b.y, b.w, c.k AS k2, c.z FROM u b JOIN v c ON b.k = c.k) q ON a.k = q.k
SELECT id, (SELECT w FROM u WHERE u.k = t.k AND y = (SELECT min(y) FROM u i WHERE i.k = t.k) LIMIT 1) AS w FROM t
SELECT id FROM t GROUP BY id HAVING max(k) = ANY (SELECT k FROM v)
SELECT id % 2 = 0 AS even, avg(k) FROM t GROUP BY id % 2 = 0
SELECT id % 2 AS p, sum(id) AS n FROM t GROUP BY p ORDER BY n DESC LIMIT 1
SELECT k, id FROM t ORDER BY k NULLS LAST, id DESC LIMIT 3 OFFSET 2
SELECT t.* FROM t WHERE (SELECT sum(y) FROM u WHERE u.k = t.k) > 5 AND id < 11
SELECT u.k, sum(y) OVER (PARTITION BY u.k), v.z FROM u LEFT JOIN v ON u.k = v.k AND v.z > (SELECT min(z) FROM v)  ||| SELECT u.k, sum(y) OVER (PARTITION BY u.k), v.z FROM u LEFT JOIN v ON u.k = v.k AND v.z > 10
SELECT DISTINCT k FROM t WHERE k IS NOT NULL ORDER BY abs(k - 3) DESC, k + 0 LIMIT 3
SELECT DISTINCT k, s FROM t WHERE k > 1 AND s IS NOT NULL ORDER BY concat(s, CAST(k AS STRING)) DESC LIMIT 2 ||| SELECT DISTINCT k, s FROM t WHERE k > 1 AND s IS NOT NULL ORDER BY s || CAST(k AS VARCHAR) DESC LIMIT 2
SELECT DISTINCT k + 1 AS n FROM t WHERE k IS NOT NULL ORDER BY (k + 1) * -1 LIMIT 2 ||| SELECT n FROM (SELECT DISTINCT k + 1 AS n FROM t WHERE k IS NOT NULL) ORDER BY n DESC LIMIT 2
SELECT id, rank() OVER (ORDER BY 1) AS r, dense_rank() OVER (PARTITION BY k ORDER BY NULL) AS d, cume_dist() OVER (ORDER BY 'x') AS c FROM t
SELECT n, a, b FROM u UNPIVOT ((a, b) FOR n IN ((k, y) AS one, (y, k) AS two)) ||| SELECT * FROM (SELECT 'one' AS n, k AS a, y AS b FROM u UNION ALL SELECT 'two', y, k FROM u) WHERE a IS NOT NULL OR b IS NOT NULL
SELECT w, n, a, b FROM u UNPIVOT INCLUDE NULLS ((a, b) FOR n IN ((k, y))) ||| SELECT w, 'k_y' AS n, k AS a, y AS b FROM u
