-- Repair of partitions that belong to other roles than their table, one of them with policies that bind its owner.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE stock (place text, id int, n int CHECK (n >= 0), PRIMARY KEY (place, id)) PARTITION BY LIST (place);
CREATE TABLE stock_a PARTITION OF stock FOR VALUES IN ('a');
CREATE TABLE stock_b PARTITION OF stock FOR VALUES IN ('b') PARTITION BY RANGE (id);
CREATE TABLE stock_b_1 PARTITION OF stock_b FOR VALUES FROM (0) TO (100);
CREATE TABLE stock_c PARTITION OF stock FOR VALUES IN ('c');
ALTER TABLE stock OWNER TO admin;
ALTER TABLE stock_a OWNER TO alice;
ALTER TABLE stock_b_1 OWNER TO stranger;
ALTER TABLE stock_c OWNER TO stranger;
ALTER TABLE stock_c ENABLE ROW LEVEL SECURITY;
ALTER TABLE stock_c FORCE ROW LEVEL SECURITY;
GRANT ALL ON stock TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.stock');
SELECT ok, message FROM test.run($$INSERT INTO stock SELECT p, g, 10 FROM generate_series(1, 5) g, unnest(ARRAY['a', 'b', 'c']) p$$);
SET chainify.guard = off;
SET session_replication_role = replica;
UPDATE stock SET n = 99 WHERE id = 1;
DELETE FROM stock WHERE id = 2;
INSERT INTO stock VALUES ('a', 6, 1), ('b', 6, 1), ('c', 6, 1);
RESET session_replication_role;
RESET chainify.guard;
SELECT key, expected -> 'n' AS expected, found -> 'n' AS found FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, NULL);
SELECT * FROM chainify.verify_table('stock');
SELECT relname, relforcerowsecurity FROM pg_class WHERE relname LIKE 'stock__' ORDER BY 1;
SELECT ok, message FROM test.run('UPDATE stock SET n = n + 1');
SELECT test.states_hold();
-- A table of the ledger's own is put there by DEPLOY transactions alone, whose blocks make checkpoints: the next blocks can be executed again.
SELECT ok FROM test.deploy('SET DETERMINISM detect');
SELECT t.name, array_agg(c.block ORDER BY c.block) AS checkpoints FROM chainify_ledger.ledger_table t LEFT JOIN chainify_ledger.checkpoint c ON c.table_id = t.id GROUP BY t.id ORDER BY t.id;
SELECT ok FROM test.run('UPDATE stock SET n = n + 1');
SET chainify.guard = off;
UPDATE chainify_history.stock SET n = 1000 WHERE _block = 5 AND id = 1;
UPDATE stock SET n = 1000 WHERE id = 1;
RESET chainify.guard;
SELECT key, expected -> 'n' AS expected, found -> 'n' AS found FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, NULL, 'replay');
SELECT * FROM chainify.verify_table('stock');
SELECT block, what, detail FROM chainify.verify_ledger() WHERE what NOT LIKE 'certificate%';
