-- Definitions through the ledger.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
GRANT CREATE ON DATABASE regress TO admin;
-- All is well: running states are those of a scan, blocks and tables verify, the definitions are those of the ledger.
CREATE FUNCTION test.all_well() RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(f, E'\n'), 'all well') FROM (
        SELECT 'running states' WHERE NOT test.states_hold()
        UNION ALL SELECT v.block || ' ' || v.what || ' ' || v.detail FROM chainify.verify_ledger() v WHERE v.what NOT LIKE 'certificate%'
        UNION ALL SELECT v.tbl || ' ' || v.what || coalesce(' ' || v.key::text, '') || coalesce(' ' || v.expected::text, '') || coalesce(' ' || v.found::text, '')
        FROM chainify_ledger.ledger_table t, chainify.verify_table(t.relation) v WHERE t.detached_at IS NULL) x (f)
$$;
CREATE TABLE local (a int PRIMARY KEY);
GRANT ALL ON local TO admin;
CREATE FUNCTION local_function() RETURNS int LANGUAGE sql AS 'SELECT 1';
ALTER FUNCTION local_function OWNER TO admin;

-- A table with what belongs to it, used in the same block.
SELECT * FROM test.block(test.tx($$
    CREATE SCHEMA shop;
    CREATE TYPE shop.colour AS ENUM ('red', 'green');
    CREATE DOMAIN shop.price AS numeric CHECK (VALUE >= 0);
    CREATE TABLE shop.item (id int PRIMARY KEY, name text NOT NULL, price shop.price DEFAULT 1, colour shop.colour);
    CREATE UNIQUE INDEX ON shop.item (name);
    CREATE INDEX ON shop.item (colour);
    CREATE VIEW shop.cheap AS SELECT id, name FROM shop.item WHERE price < 10;
    CREATE FUNCTION shop.total() RETURNS numeric LANGUAGE sql AS 'SELECT sum(price::numeric) FROM shop.item';
    CREATE PROCEDURE shop.reprice(by numeric) LANGUAGE plpgsql AS 'BEGIN UPDATE shop.item SET price = price * by; END';
    GRANT USAGE ON SCHEMA shop TO alice;
    GRANT SELECT, INSERT, UPDATE, DELETE ON shop.item, shop.cheap TO alice;
    COMMENT ON TABLE shop.item IS 'what we sell'
$$, 'admin', 3), test.tx($$INSERT INTO shop.item VALUES (1, 'pen', 2, 'red'), (2, 'car', 20000, 'green'); SELECT * FROM shop.cheap; SELECT shop.total()$$));
SELECT test.all_well();
SELECT kind, identity, definition, since FROM chainify.definitions ORDER BY kind, identity;
SELECT id, name, price, colour, _block, _tx, _op FROM chainify_history.shop__item ORDER BY id;

-- What a failing statement did, and those before it, is undone.
SELECT * FROM test.deploy('CREATE TABLE half (id int PRIMARY KEY); CREATE VIEW halves AS SELECT * FROM missing');
SELECT to_regclass('half'), to_regclass('chainify_history.half'), (SELECT count(*) FROM chainify.definitions WHERE identity LIKE '%half%');

-- History stays readable, whatever becomes of the table. Each ALTER with changes of rows before and after it in its block.
CREATE FUNCTION test.alter_item(command text, before text, after text) RETURNS TABLE (tx int, ok boolean, rows bigint, sqlstate text, message text, verdict text)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT b.tx, b.ok, b.rows, b.sqlstate, b.message, NULL FROM test.block(test.tx(before), test.tx(command, 'admin', 3), test.tx(after)) b;
    RETURN QUERY SELECT NULL::int, NULL::boolean, NULL::bigint, NULL, NULL, test.all_well();
END
$$;
SELECT * FROM test.alter_item('ALTER TABLE shop.item ADD COLUMN stock int', 'UPDATE shop.item SET price = 3 WHERE id = 1', 'UPDATE shop.item SET stock = 7 WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item ADD COLUMN added timestamptz NOT NULL DEFAULT now()', 'UPDATE shop.item SET price = 4 WHERE id = 1', 'UPDATE shop.item SET price = 5 WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item RENAME COLUMN stock TO pieces', 'UPDATE shop.item SET stock = 8 WHERE id = 1', 'UPDATE shop.item SET pieces = 9 WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item ALTER COLUMN pieces TYPE text USING ''n'' || pieces', 'UPDATE shop.item SET pieces = 10 WHERE id = 1', 'UPDATE shop.item SET pieces = ''many'' WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item DROP COLUMN pieces', 'UPDATE shop.item SET pieces = ''few'' WHERE id = 1', 'UPDATE shop.item SET price = 6 WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item ADD COLUMN pieces bigint, ADD CHECK (pieces >= 0), ALTER COLUMN name SET DEFAULT ''?''', 'DELETE FROM shop.item WHERE id = 2', 'INSERT INTO shop.item (id, pieces) VALUES (2, 5)');
SELECT * FROM test.alter_item('ALTER TABLE shop.item ALTER COLUMN id TYPE bigint', 'UPDATE shop.item SET id = 3 WHERE id = 2', 'UPDATE shop.item SET id = 20000000000 WHERE id = 3');
SELECT * FROM test.alter_item('ALTER TABLE shop.item DROP CONSTRAINT item_pkey, ADD PRIMARY KEY (id, name)', 'UPDATE shop.item SET price = 1 WHERE id = 1', 'UPDATE shop.item SET name = ''pin'' WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item RENAME TO article; ALTER TABLE shop.article SET SCHEMA public', 'UPDATE shop.item SET price = 2 WHERE id = 1', 'UPDATE article SET price = 3 WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE article ENABLE ROW LEVEL SECURITY; CREATE POLICY cheap ON article TO alice USING (price < 100)', 'UPDATE article SET price = 4 WHERE id = 1', 'UPDATE article SET price = 1');
SELECT t.name, t.attached_at, t.attached_tx, t.detached_at, t.detached_tx, string_agg(c.ordinal || ' ' || c.name || coalesce(' key ' || c.key_part, ''), ', ' ORDER BY c.ordinal) AS columns
FROM chainify_ledger.ledger_table t JOIN chainify_ledger.ledger_column c ON c.table_id = t.id GROUP BY t.id ORDER BY t.id;
SELECT _block, _tx, _op, h.* FROM chainify_history.article h ORDER BY _block, _tx, _serial;
SELECT kind, identity FROM chainify.definitions ORDER BY kind, identity;
-- What was altered is folded and repaired like anything else.
DO $$ BEGIN PERFORM chainify_node.checkpoint(); END $$;
SELECT * FROM chainify_node.fold_history();
SELECT test.all_well();
