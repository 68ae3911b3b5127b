-- Every way in which the statements of a DEPLOY transaction change rows: the rows are what the organisations agree on, or the statement is refused.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
GRANT CREATE ON SCHEMA public TO admin;
-- Deploys a statement with changes of rows before and after it in its block, and says what is wrong then, on the ledger and in the table as of that block.
CREATE FUNCTION test.rewrite(command text, before text, after text) RETURNS TABLE (tx int, ok boolean, sqlstate text, message text)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT b.tx, b.ok, b.sqlstate, b.message FROM test.block(test.tx(before), test.tx(command, 'admin', 3), test.tx(after)) b;
    RETURN QUERY SELECT NULL::int, NULL::boolean, NULL, test.all_well();
END
$$;
SELECT ok, message FROM test.deploy($$
    CREATE TYPE pair AS (a int, b text);
    CREATE TYPE colour AS ENUM ('red', 'green');
    CREATE DOMAIN small AS int DEFAULT 5;
    CREATE TABLE held (id int PRIMARY KEY, x int);
    CREATE VIEW seen AS SELECT id, x FROM held;
    CREATE TYPE nest AS (c colour, h held);
    CREATE TABLE t (id int PRIMARY KEY, d text, i int, g int GENERATED ALWAYS AS (i * 2) STORED, n numeric, e colour, c pair, s small);
    CREATE TABLE holder (id int PRIMARY KEY, h held[], v seen, n nest);
    CREATE TABLE log (id int PRIMARY KEY, v text);
    CREATE TABLE p (id int PRIMARY KEY, k int) PARTITION BY RANGE (id);
    CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
    CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
    CREATE FUNCTION logged(i int, s text) RETURNS text LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (i, s); RETURN s; END';
    CREATE FUNCTION fine(i int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (i, ''c''); RETURN true; END';
    GRANT ALL ON t, p, held, holder, log TO alice
$$);
SELECT tx, ok, message FROM test.run($$INSERT INTO t (id, d, i, n, e, c, s) VALUES (1, 'a', 1, 1.5, 'red', '(1,x)', 1), (2, 'b', 2, 2.5, 'green', '(2,y)', 2)$$, 'INSERT INTO p VALUES (1, 1), (11, 2)',
    $$INSERT INTO holder VALUES (1, '{"(1,1)"}', '(1,1)', '(red,"(1,1)")')$$, 'INSERT INTO held VALUES (1, 1)');

-- USING computes other values of the same type.
SELECT * FROM test.rewrite($$ALTER TABLE t ALTER COLUMN d TYPE text USING 'x' || d$$, 'UPDATE t SET n = 3 WHERE id = 1', $$UPDATE t SET d = d || '!' WHERE id = 1$$);
SELECT * FROM test.rewrite('ALTER TABLE p ALTER COLUMN k TYPE int USING k + 1', 'UPDATE p SET k = 5 WHERE id = 1', 'UPDATE p SET k = k + 1');
SELECT * FROM test.rewrite('ALTER TABLE t ALTER COLUMN id TYPE int USING 3 - id', 'UPDATE t SET n = 4 WHERE id = 1', 'UPDATE t SET n = 5 WHERE id = 1');
SELECT * FROM test.rewrite($$ALTER TABLE t ALTER COLUMN c TYPE pair USING ROW(7, (c).b)::pair, ALTER COLUMN e TYPE colour USING 'red', ALTER COLUMN s TYPE small USING s + 1, ALTER COLUMN n TYPE numeric USING n * 1.00$$,
    $$UPDATE t SET c.a = 9 WHERE id = 1$$, $$UPDATE t SET c.a = 10, s = 6 WHERE id = 1$$);
SELECT * FROM test.rewrite($$ALTER TABLE t RENAME COLUMN d TO dd; ALTER TABLE t ALTER COLUMN dd TYPE text USING dd || '1', ADD COLUMN extra int DEFAULT 3; ALTER TABLE t ALTER COLUMN dd TYPE text USING dd || '2'$$,
    $$UPDATE t SET d = 'c' WHERE id = 1$$, $$UPDATE t SET dd = dd || '3' WHERE id = 1$$);
-- The expression is not computed where it is the column itself: no version starts.
SELECT * FROM test.rewrite('ALTER TABLE t ALTER COLUMN dd TYPE text USING dd', 'UPDATE t SET n = 6 WHERE id = 1', 'UPDATE t SET n = 7 WHERE id = 1');
SELECT * FROM t ORDER BY id;
SELECT * FROM p ORDER BY id;
SELECT name, attached_at, attached_tx FROM chainify_ledger.ledger_table WHERE follows IS NOT NULL ORDER BY id;
-- The past is still told, and its kept part is folded.
BEGIN;
SET LOCAL chainify.as_of = '2';
SELECT id, dd, n FROM chainify_history.t_as_of ORDER BY id;
ROLLBACK;
DO $$ BEGIN PERFORM chainify_node.checkpoint(); END $$;
SELECT * FROM chainify_node.fold_history();
SELECT test.all_well();

-- Other statements that compute rows.
SELECT * FROM test.rewrite($$ALTER TABLE t ADD COLUMN g2 int GENERATED ALWAYS AS (i + 3) STORED, ALTER COLUMN g DROP EXPRESSION$$, 'UPDATE t SET i = 5 WHERE id = 1', 'UPDATE t SET g = 8, i = 6 WHERE id = 1');
SELECT * FROM test.rewrite($$ALTER TABLE t ADD COLUMN s2 small, DROP COLUMN n, ADD COLUMN n numeric DEFAULT 1.10; ALTER DOMAIN small SET DEFAULT 7; ALTER TABLE t ADD COLUMN s3 small$$, 'UPDATE t SET n = 5 WHERE id = 1', 'UPDATE t SET n = 8 WHERE id = 1');
SELECT * FROM test.rewrite($$ALTER TABLE t ALTER COLUMN dd TYPE text COLLATE "C" USING dd || 'z'; DROP DOMAIN small CASCADE$$, 'UPDATE t SET i = 5 WHERE id = 1', 'UPDATE t SET i = 8 WHERE id = 1');
-- Functions that such statements call write nothing.
SELECT d.c, b.sqlstate, b.message FROM unnest(ARRAY['ALTER TABLE t ALTER COLUMN dd TYPE text USING logged(id, dd)', 'ALTER TABLE t ADD COLUMN l text DEFAULT logged(7, ''x'')', 'ALTER TABLE t ADD CHECK (fine(id))']) d (c), test.deploy(d.c) b;

-- Row types that columns on the ledger hold keep their columns: of a table, of a view, of a type in a type.
SELECT d.c, b.ok, b.sqlstate, b.message FROM unnest(ARRAY['ALTER TABLE held ADD COLUMN y int', 'ALTER TABLE held DROP COLUMN x CASCADE', 'CREATE OR REPLACE VIEW seen AS SELECT id, x, 1 AS z FROM held', 'DROP TYPE colour CASCADE', 'DROP TYPE nest CASCADE',
    'ALTER TABLE held ADD COLUMN y int DEFAULT 1', 'ALTER TABLE held ALTER COLUMN x TYPE bigint', 'ALTER TYPE pair ADD ATTRIBUTE z int CASCADE', 'ALTER TABLE holder ADD COLUMN other int', 'ALTER TABLE held RENAME COLUMN x TO xx', 'CREATE TABLE holders (id int PRIMARY KEY, h holder)', 'DROP TABLE holders; ALTER TABLE holder DROP COLUMN other']) WITH ORDINALITY d (c, n), test.deploy(d.c) b ORDER BY n;
SELECT * FROM holder;
SELECT test.all_well();

-- Executed again after ROLLBACK, a block gives the same hash.
SELECT ARRAY[test.tx('UPDATE p SET k = 3 WHERE id = 1', nonce => 1), test.tx('ALTER TABLE p ALTER COLUMN k TYPE int USING k * 2', 'admin', 3, nonce => 2), test.tx('UPDATE p SET k = k + 1', nonce => 3)] AS txs \gset
BEGIN;
SELECT test.hash_of(VARIADIC :'txs') AS first \gset
SELECT test.all_well();
ROLLBACK;
SELECT test.hash_of(VARIADIC :'txs') = :'first' AS again;
SELECT * FROM p ORDER BY id;
SELECT test.all_well();
