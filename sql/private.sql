-- Private values: circles, sealed columns, writes through the opened view, and what an organisation holds.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
GRANT CREATE ON SCHEMA public TO admin;
DO $$ BEGIN PERFORM chainify_node.set_registry(jsonb_build_object('organisations', jsonb_agg(jsonb_build_object('name', o, 'gateway_key', repeat('0' || i, 32),
    'ordering_only', false, 'from_block', 0, 'until_block', null)))) FROM unnest(ARRAY['acme', 'bolt', 'cargo', 'delta']) WITH ORDINALITY u (o, i); END $$;
SELECT ok, message FROM test.deploy($$CREATE TABLE trades (id int PRIMARY KEY, item text DEFAULT 'nut', price chainify.sealed, note chainify.sealed, other chainify.sealed,
    size int GENERATED ALWAYS AS (length(item)) STORED);
    CREATE TABLE numbered (n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, secret chainify.sealed);
    GRANT SELECT, INSERT, UPDATE, DELETE ON trades, numbered TO alice, stranger; GRANT SELECT ON trades TO PUBLIC$$);

-- Circles and columns that are none.
SELECT sqlstate, message FROM test.block(
    test.tx('CREATE CIRCLE pricing OF acme, eve', 'admin', 3),
    test.tx('CREATE CIRCLE pricing', 'admin', 3),
    test.tx('CREATE CIRCLE pricing OF bolt, acme', 'admin', 3),
    test.tx('CREATE CIRCLE pricing OF bolt', 'admin', 3),
    test.tx('CREATE CIRCLE others OF bolt, cargo', 'admin', 3),
    test.tx('CREATE CIRCLE unused OF cargo', 'admin', 3),
    test.tx('DROP CIRCLE unused', 'admin', 3),
    test.tx('DROP CIRCLE unused', 'admin', 3),
    test.tx('ALTER TABLE public.trades SEAL COLUMN item AS text FOR pricing', 'admin', 3),
    test.tx('ALTER TABLE public.trades SEAL COLUMN missing AS text FOR pricing', 'admin', 3),
    test.tx('ALTER TABLE public.trades SEAL COLUMN price AS text FOR unknown', 'admin', 3),
    test.tx('ALTER TABLE public.missing SEAL COLUMN price AS text FOR pricing', 'admin', 3),
    test.tx('ALTER TABLE chainify_ledger.circle SEAL COLUMN name AS text FOR pricing', 'admin', 3),
    test.tx('ALTER TABLE public.trades SEAL price AS text FOR pricing', 'admin', 3),
    test.tx('ALTER TABLE public.trades SEAL COLUMN price AS text FOR pricing', 'alice', 3));
-- Types that users make would run where the owner works; nor is anything of a text executed.
CREATE DOMAIN public.mine AS text;
SELECT sqlstate, message FROM test.block(VARIADIC ARRAY(SELECT test.tx('ALTER TABLE public.trades SEAL COLUMN price AS ' || t || ' FOR pricing', 'admin', 3) FROM unnest(ARRAY[
    'public.mine', 'mine', 'text[]', 'regclass', 'oid', 'char', 'text from pg_authid', 'text; DROP TABLE trades', 'text(3)', 'numeric(1,2,3)', 'numeric(99999)', 'int4range', '"text"']) t));
SELECT sqlstate, message FROM test.block(
    test.tx('ALTER TABLE public.trades SEAL COLUMN price AS Decimal(12, 2) FOR pricing', 'admin', 3),
    test.tx('alter table public.trades seal column note as varchar ( 40 ) for Pricing;', 'admin', 3),
    test.tx('ALTER TABLE public.trades SEAL COLUMN other AS timestamp(3) with time zone FOR others', 'admin', 3),
    test.tx('ALTER TABLE public.numbered SEAL COLUMN secret AS text FOR pricing', 'admin', 3),
    test.tx('ALTER TABLE public.trades SEAL COLUMN price AS text FOR pricing', 'admin', 3),
    test.tx('DROP CIRCLE pricing', 'admin', 3));
TABLE chainify.circles ORDER BY 1;
SELECT * FROM chainify.sealed_columns ORDER BY 1, 2;
SELECT * FROM chainify_node.circles();
SELECT * FROM chainify_node.sealed_columns();
\d chainify_private.*
SELECT pg_get_viewdef('chainify_open.trades'::regclass);

-- Writes of plain SQL through the view; a role that may not read private values writes none the less.
\c - alice
INSERT INTO chainify_open.trades (id, price) VALUES (1, 12.5);
SELECT chainify.seal('trades', 'price', 12.5);
SET chainify.writes = 'effects';
INSERT INTO chainify_open.trades (id, price) VALUES (1, NULL);
\c - postgres
GRANT SELECT ON ALL TABLES IN SCHEMA chainify_private TO alice;
\c - alice
SET chainify.writes = 'effects';
BEGIN;
INSERT INTO chainify_open.trades (id, price, note) VALUES (1, 12.5, 'canary'), (2, 12.5, 'canary'), (3, NULL, NULL) RETURNING *;
SELECT * FROM chainify_open.trades ORDER BY id;
-- the ledger's table has 32 bytes, another for the same value again, and NULL for NULL
SELECT count(price), count(DISTINCT price), bool_and(octet_length(price) = 32), count(note) FROM trades;
SELECT price AS was FROM trades WHERE id = 1 \gset
UPDATE chainify_open.trades SET item = 'bolt' WHERE id = 1 RETURNING *;
SELECT price = :'was' AS kept FROM trades WHERE id = 1;
UPDATE chainify_open.trades SET price = price * 2, item = 'x' WHERE price = 12.50 AND id = 1 RETURNING id, price, size;
SELECT price = :'was' AS kept FROM trades WHERE id = 1;
SAVEPOINT s;
UPDATE chainify_open.trades SET price = 99, note = NULL WHERE id = 1;
SELECT id, price, note FROM chainify_open.trades WHERE id = 1;
ROLLBACK TO s;
SELECT id, price, note FROM chainify_open.trades WHERE id = 1;
DELETE FROM chainify_open.trades WHERE price = 25 RETURNING id, price;
COPY chainify_open.trades (id, item, price) FROM stdin;
7	seven	7.77
8	eight	\N
\.
COPY (SELECT id, item, price, size FROM chainify_open.trades ORDER BY id) TO stdout;
INSERT INTO chainify_open.numbered (secret) VALUES ('one'), ('two') RETURNING n > 0 AS numbered, secret;
SELECT chainify.is_sealed('trades', 'price', price), chainify.is_sealed('public.trades', 'other', '\x00') FROM trades WHERE id = 7;
-- values that the column's type refuses; one for a circle of others; one by hand
\set VERBOSITY terse
SAVEPOINT s;
UPDATE chainify_open.trades SET price = 99999999999 WHERE id = 7;
ROLLBACK TO s;
UPDATE chainify_open.trades SET other = now() WHERE id = 7;
ROLLBACK TO s;
SELECT chainify.seal('trades', 'item', 'x');
ROLLBACK TO s;
\set VERBOSITY default
UPDATE trades SET note = chainify.seal('trades', 'note', 'by hand') WHERE id = 7;
SELECT note, other FROM chainify_open.trades WHERE id = 7;
-- a bound, and room again after the statement was undone
SAVEPOINT s;
INSERT INTO chainify_open.numbered (secret) SELECT repeat('x', 400000) FROM generate_series(1, 3);
ROLLBACK TO s;
INSERT INTO chainify_open.trades (id, note) SELECT g, repeat('x', 41) FROM generate_series(100, 101) g;
ROLLBACK TO s;
INSERT INTO chainify_open.trades (id, note) SELECT g, repeat('x', 40) FROM generate_series(100, 101) g;
-- what is not committed leaves nothing
COMMIT;
SELECT count(*) FROM chainify_open.trades;
SELECT count(*) FROM chainify_private.trades_price;

-- Nothing of it may be ordered as a statement.
SELECT chainify.execute('INSERT INTO chainify_open.trades (id, price) VALUES (1, 12.5)');
SELECT chainify.submit('UPDATE trades SET price = Chainify . "seal" (''trades'', ''price'', 12.5)');
SELECT chainify.plan('DELETE FROM CHAINIFY_OPEN.trades');
SET chainify.writes = 'ledger';
INSERT INTO chainify_open.trades (id, price) VALUES (1, 12.5);
RESET chainify.writes;
\c - postgres
-- In a block organisations would differ.
SELECT sqlstate, message FROM test.run('INSERT INTO trades (id, item) SELECT 1, count(*)::text FROM chainify_open.trades', 'SELECT * FROM chainify_private.trades_price',
    $$INSERT INTO trades (id, price) VALUES (1, chainify.seal('trades', 'price', 1))$$, $$INSERT INTO trades (id, price) VALUES (1, '\x00')$$);

-- Values of a block: held before it, by their commitments.
CREATE FUNCTION test.committed(col text, type text, value bytea, salt int DEFAULT 1) RETURNS bytea LANGUAGE sql AS $$
    SELECT chainify_ledger.commitment('public.trades', col, type, decode(repeat(lpad(to_hex(salt), 2, '0'), 32), 'hex'), value) $$;
SELECT test.committed('price', 'numeric(12,2)', '\x030000000431322e35') AS one, test.committed('price', 'numeric(12,2)', '\x030000000431322e35', 2) AS two,
       test.committed('price', 'numeric(12,2)', '\x0300000006312e32333435', 1) AS finer, test.committed('price', 'numeric(12,2)', '\x050000000161') AS text,
       test.committed('note', 'character varying(40)', '\x050000000161') AS note \gset
SELECT encode(:'one', 'hex') = encode(sha256('chainify/sealed/1'::bytea || '\x00000009'::bytea || 'testchain' || '\x0000000d'::bytea || 'public.trades' || '\x00000005'::bytea || 'price'
    || '\x0000000d'::bytea || 'numeric(12,2)' || decode(repeat('01', 32), 'hex') || '\x030000000431322e35'::bytea), 'hex') AS as_specified;
SELECT ok FROM test.run(format('INSERT INTO trades (id, price, note) VALUES (1, %L, %L), (2, %L, NULL)', :'one', :'note', :'two'));
SELECT * FROM chainify.private_missing WHERE "column" = 'note';
SELECT count(*) FROM chainify_node.missing_private(100);
SELECT count(*) FROM chainify_node.missing_private(1);
SELECT id, price, note, chainify.is_sealed('trades', 'price', (SELECT t.price FROM trades t WHERE t.id = o.id)) FROM chainify_open.trades o ORDER BY id;
CREATE FUNCTION test.salt(n int DEFAULT 1) RETURNS bytea LANGUAGE sql AS $$ SELECT decode(repeat(lpad(to_hex(n), 2, '0'), 32), 'hex') $$;
SELECT chainify_node.hold('public.trades', 'price', :'one', test.salt(2), '\x030000000431322e35');
SELECT chainify_node.hold('public.trades', 'price', :'one', '\x01', '\x030000000431322e35');
SELECT chainify_node.hold_many('{public.trades}', '{price,note}', ARRAY[:'one'::bytea], ARRAY[test.salt()], ARRAY['\x030000000431322e35'::bytea]);
-- those that the type cannot have as they are committed to stay out, and keep none of the others out
SELECT chainify_node.hold_many(array_fill('public.trades'::text, '{5}'), '{price,price,price,note,other}',
    ARRAY[:'one'::bytea, :'finer', :'text', :'note', :'note'], array_fill(test.salt(), '{5}'),
    ARRAY['\x030000000431322e35'::bytea, '\x0300000006312e32333435', '\x050000000161', '\x050000000161', '\x050000000161']);
SELECT chainify_node.hold('public.trades', 'price', :'one', test.salt(), '\x030000000431322e35') AS again;
SELECT id, price, note FROM chainify_open.trades ORDER BY id;
SELECT relation, column_name, type, commitment = :'one' AS one, salt = test.salt() AS salt, value FROM chainify_node.held_private(
    '{public.trades,public.trades,public.trades}', '{price,price,other}', ARRAY[:'one'::bytea, :'two', :'one']);
SELECT "column", commitment = :'two' FROM chainify.private_missing;
SELECT chainify_node.hold('public.trades', 'price', :'two', test.salt(2), '\x030000000431322e35');
SELECT id, price, note FROM chainify_open.trades ORDER BY id;
SELECT * FROM chainify.private_missing;
-- one that somebody changed
SELECT * FROM chainify.verify_private();
UPDATE chainify_private.trades_price SET value = 13 WHERE commitment = :'one';
SELECT "table", "column", commitment = :'one' FROM chainify.verify_private();
DELETE FROM chainify_private.trades_price WHERE commitment = :'one';
SELECT chainify_node.hold('public.trades', 'price', :'one', test.salt(), '\x030000000431322e35');
SELECT * FROM chainify.verify_private();

-- A value for somebody outside, by those who may read it.
SELECT chainify.disclose('trades', 'price', :'one') - 'commitment' AS disclosed, chainify.disclose('trades', 'price', '\x00') AS nothing;
SELECT chainify.disclose('trades', 'other', :'one');
SET ROLE alice;
SELECT chainify.disclose('trades', 'price', :'one') ->> 'text';
RESET ROLE;
GRANT chainify_client TO stranger;
SET ROLE stranger;
SELECT chainify.disclose('trades', 'price', :'one');
RESET ROLE;
REVOKE chainify_client FROM stranger;

-- Others neither read private values nor seal.
\c - stranger
SELECT id FROM chainify_open.trades;
SELECT * FROM chainify_private.trades_price;
SET chainify.writes = 'effects';
INSERT INTO chainify_open.trades (id, price) VALUES (9, 1);
SELECT chainify_node.hold('public.trades', 'price', '\x', '\x', '\x');
SELECT chainify_ledger.encoded_value(1);
CREATE TABLE chainify_private.mine (id int);
CREATE FUNCTION chainify_open.mine() RETURNS int LANGUAGE sql AS 'SELECT 1';
\c - postgres

-- A DEPLOY transaction keeps sealed columns, and the view follows it.
SELECT sqlstate, message FROM test.block(
    test.tx('ALTER TABLE trades DROP COLUMN price', 'admin', 3),
    test.tx('ALTER TABLE trades ALTER COLUMN price TYPE bytea', 'admin', 3),
    test.tx('ALTER TABLE trades RENAME COLUMN price TO cost', 'admin', 3),
    test.tx('ALTER TABLE trades RENAME TO deals', 'admin', 3),
    test.tx('DETACH TABLE public.trades', 'admin', 3),
    test.tx('DROP TABLE trades', 'admin', 3),
    test.tx('ALTER TABLE trades DROP COLUMN size, ADD COLUMN day date', 'admin', 3),
    test.tx('CREATE VIEW seen AS SELECT * FROM chainify_open.trades', 'admin', 3));
SELECT * FROM chainify_open.trades ORDER BY id;
-- a view of one's own keeps nobody from a change: it goes
CREATE VIEW test.needs AS SELECT id, price, day FROM chainify_open.trades;
SELECT ok, message FROM test.deploy('ALTER TABLE trades ALTER COLUMN day TYPE timestamp, ADD COLUMN more int');
SELECT to_regclass('test.needs') AS needs;
SELECT * FROM chainify_open.trades ORDER BY id;

-- A dump has the values and the views.
\! pg_dump -Fc -f private.dump regress
\! createdb -T template0 regress_restored
\! pg_restore --exit-on-error -d regress_restored private.dump
\c regress_restored
SELECT chainify.adopt_restored();
SELECT chainify.verify_private();
SET ROLE alice;
SELECT id, price, note FROM chainify_open.trades ORDER BY id;
RESET ROLE;
\c regress
DROP DATABASE regress_restored;
SET client_min_messages = warning;

-- An organisation outside of the circle has the bytes, and no place for the values.
UPDATE chainify_ledger.chain SET organisation = 'delta';
DROP TABLE chainify_private.trades_price, chainify_private.trades_note, chainify_private.numbered_secret CASCADE;
SELECT ok FROM test.deploy('COMMENT ON TABLE trades IS ''x''');
SELECT id, price, note FROM chainify_open.trades ORDER BY id;
SELECT chainify_node.hold('public.trades', 'price', :'one', test.salt(), '\x030000000431322e35');
SELECT * FROM chainify.private_missing;
SELECT chainify.is_sealed('trades', 'price', price) FROM trades ORDER BY id;
\dt chainify_private.*
UPDATE chainify_ledger.chain SET organisation = 'acme';
SELECT test.all_well();
