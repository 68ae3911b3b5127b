-- Tables with schema text 2, which all engines share (spec/engines.md).
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
CREATE TABLE kinds (
    id bigint PRIMARY KEY, s smallint, i integer NOT NULL DEFAULT -7, n numeric(10,2) DEFAULT 1.005, ok boolean DEFAULT true, t text DEFAULT 'it''s',
    v varchar(10) NOT NULL DEFAULT 'x', raw bytea DEFAULT '\x00ff', day date DEFAULT '2024-02-29', clock time, ts timestamp, tz timestamptz DEFAULT '2024-01-01 00:00:00+00',
    u uuid, j jsonb DEFAULT '{"b": [1.0], "a": null}', d double precision DEFAULT 1.5, nothing varchar(3) DEFAULT NULL, UNIQUE (v, i));
CREATE UNIQUE INDEX ON kinds (u);
CREATE INDEX ON kinds (v);
INSERT INTO kinds (id, v) VALUES (1, 'a');
CREATE TABLE parents (id integer PRIMARY KEY);
CREATE TABLE children (id integer PRIMARY KEY, parent integer REFERENCES parents ON DELETE RESTRICT);
CREATE TABLE line (id integer PRIMARY KEY, parent integer REFERENCES parents ON DELETE CASCADE);
CREATE TABLE remark (id integer PRIMARY KEY, line integer REFERENCES line ON DELETE SET NULL);
GRANT ALL ON kinds, parents, children, line, remark TO alice;

-- Parts that the words cannot describe, each named.
CREATE TABLE base (id integer PRIMARY KEY, n integer, t text);
SELECT * FROM test.refusals($$test.deploy('ATTACH TABLE public.base ENCODING 2')$$, 'ALTER TABLE base ADD CHECK (n + 1 > 0)', 'ALTER TABLE base ADD m integer GENERATED ALWAYS AS (n + 1) STORED',
    'ALTER TABLE base ADD m integer GENERATED ALWAYS AS IDENTITY', 'ALTER TABLE base ADD m integer DEFAULT (random() * 10)::integer',
    'ALTER TABLE base ADD m date DEFAULT CURRENT_DATE', 'ALTER TABLE base ADD m numeric', 'ALTER TABLE base ADD m varchar', 'ALTER TABLE base ADD m char(3)',
    'ALTER TABLE base ADD m integer[]', 'ALTER TABLE base ADD m interval', 'CREATE DOMAIN small AS integer; ALTER TABLE base ADD m small', 'ALTER TABLE base ADD m timestamp(3)',
    'ALTER TABLE base ADD m varchar(16384)', 'ALTER TABLE base ADD "M" integer', 'ALTER TABLE base ADD m varchar(9) COLLATE "und-x-icu"',
    'ALTER TABLE base ADD UNIQUE (t)', 'CREATE UNIQUE INDEX ON base (n) WHERE n > 0', 'CREATE INDEX ON base ((n + 1))', 'CREATE INDEX ON base (t)', 'CREATE UNIQUE INDEX ON base (n) INCLUDE (t)',
    'CREATE UNIQUE INDEX ON base (n) NULLS NOT DISTINCT', 'CREATE POLICY own ON base USING (true)', 'ALTER TABLE base ENABLE ROW LEVEL SECURITY',
    'ALTER TABLE base ADD up integer REFERENCES base', 'DROP TABLE base; CREATE TABLE base (id integer PRIMARY KEY) PARTITION BY RANGE (id)', 'ALTER TABLE base RENAME TO other');
-- Foreign keys.
CREATE FUNCTION test.refused_key(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    why text;
BEGIN
    EXECUTE command;
    SELECT sqlstate || ' ' || message INTO why
    FROM test.deploy('ATTACH TABLE public.base, public.parents, public.children, public.line, public.remark ENCODING 2') WHERE NOT ok;
    RAISE EXCEPTION USING ERRCODE = 'TEST0';
EXCEPTION WHEN SQLSTATE 'TEST0' THEN RETURN why;
END
$$;
SELECT test.refused_key('ALTER TABLE base ADD parent integer REFERENCES parents ' || action) FROM unnest(ARRAY[
    'ON UPDATE CASCADE', 'ON DELETE SET DEFAULT', 'ON DELETE SET NULL (parent)', 'MATCH FULL', 'DEFERRABLE']) action;
SELECT test.refused_key('ALTER TABLE base ADD parent integer NOT NULL REFERENCES parents ON DELETE SET NULL');
SELECT test.refused_key('ALTER TABLE base ADD remark integer REFERENCES remark ON DELETE SET NULL; ALTER TABLE parents ADD base integer REFERENCES base');
SELECT test.refused_key('ALTER TABLE line ADD other integer REFERENCES parents');
SELECT test.refused_key('ALTER TABLE remark ADD parent integer REFERENCES parents ON DELETE SET NULL');
-- Other spellings, and other ledgers.
SELECT ok, sqlstate, message FROM test.deploy('attach table public.kinds encoding 2');
SELECT ok, sqlstate, message FROM test.deploy('ATTACH PROCEDURE public.pay (integer) ENCODING 2 POSTGRESQL ' || repeat('0a', 32));
BEGIN;
SELECT ok FROM test.deploy('ATTACH TABLE public.base');
SELECT ok, sqlstate, message FROM test.deploy('ATTACH TABLE public.kinds ENCODING 2');
ROLLBACK;
BEGIN;
SELECT ok FROM test.deploy('CREATE TABLE made (id integer PRIMARY KEY); DROP TABLE made');
SELECT ok, sqlstate, message FROM test.deploy('ATTACH TABLE public.kinds ENCODING 2');
ROLLBACK;
SELECT * FROM chainify_node.shared_tables();

-- As the node calls it: with what it refuses.
CREATE FUNCTION test.judged(refused int[], VARIADIC txs bytea[]) RETURNS TABLE (tx bigint, ok boolean, sqlstate text, message text) LANGUAGE sql AS $$
    SELECT i - 1, get_byte(r.outcomes, 0) >> (i - 1)::int & 1 = 1, s.state, s.message
    FROM chainify_node.position() p, test.execute_block(p.number + 1, p.number + 10, 1700000000000000 + p.number * 1000000, p.hash, test.buffer(txs),
        format(', refused => %L, refused_sqlstates => %L, refused_messages => %L', refused, array_fill('CH011'::text, ARRAY[cardinality(refused)]), array_fill('function lower'::text, ARRAY[cardinality(refused)]))) r,
        unnest(r.sqlstates, r.messages) WITH ORDINALITY s (state, message, i)
$$;
SELECT * FROM test.judged('{}', test.tx('ATTACH TABLE public.kinds, public.parents, public.children, public.line, public.remark ENCODING 2', 'admin', 3));
SELECT name, shared_text FROM chainify_ledger.ledger_table ORDER BY id;
SELECT standing, names FROM chainify_node.shared_tables();
SELECT test.all_well();
SELECT * FROM test.run('INSERT INTO kinds (id) VALUES (2)');
SELECT * FROM test.judged('{1,2}', test.tx('INSERT INTO kinds (id) VALUES (2)'), test.tx('UPDATE kinds SET t = lower(t)'), test.tx('DELETE FROM kinds'));
SELECT index, succeeded, sqlstate, message FROM chainify_ledger.transaction WHERE block = (SELECT number FROM chainify_node.position()) ORDER BY index;
SELECT test.all_well();
-- Changes by foreign keys are recorded like all others.
SELECT * FROM test.judged('{}', test.tx('INSERT INTO parents (id) VALUES (1), (2)'), test.tx('INSERT INTO line (id, parent) VALUES (10, 1), (11, 1), (12, 2)'),
    test.tx('INSERT INTO remark (id, line) VALUES (100, 10), (101, 12)'));
SELECT * FROM test.judged('{}', test.tx('DELETE FROM parents WHERE id = 1'));
SELECT id, line, _op FROM chainify_history.remark ORDER BY _block, id;
SELECT id, parent, _op FROM chainify_history.line ORDER BY _block, id;
SELECT test.all_well();
-- The only DEPLOY transactions.
SELECT * FROM test.judged('{}', test.tx('ATTACH TABLE public.base', 'admin', 3), test.tx('ALTER TABLE kinds ADD m integer', 'admin', 3), test.tx('SET DETERMINISM detect', 'admin', 3),
    test.tx('DROP TABLE parents', 'admin', 3), test.tx('ATTACH TABLE public.base ENCODING 2', 'admin', 3), test.tx('DETACH TABLE public.base', 'admin', 3));
SELECT * FROM test.judged('{}', test.tx('ATTACH TABLE public.base', 'admin', 3), test.tx('ATTACH TABLE public.base ENCODING 2', 'admin', 3));
SELECT * FROM test.judged('{7}', test.tx('SELECT 1'));
SELECT chainify_node.execute_block(p.number + 1, 1, 1, p.hash, test.buffer(ARRAY[test.tx('SELECT 1')]), refused => '{0}') FROM chainify_node.position() p;

-- A definition that PostgreSQL words otherwise than when the table was attached.
CREATE FUNCTION test.other(change text, undo text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM test.found(change, undo);
    RETURN QUERY SELECT DISTINCT 'live ' || (t.schema_hash = chainify_ledger.live_schema_hash(t.relation))::text FROM chainify_ledger.ledger_table t WHERE t.detached_at IS NULL;
END
$$;
SELECT * FROM test.other('ALTER TABLE kinds ALTER ok DROP DEFAULT', 'ALTER TABLE kinds ALTER ok SET DEFAULT true');
SELECT * FROM test.other('ALTER TABLE kinds ADD CHECK (i < 100)', 'ALTER TABLE kinds DROP CONSTRAINT kinds_i_check');
SELECT * FROM test.other($$UPDATE chainify_ledger.ledger_table SET shared_text = shared_text || 'x' WHERE name = 'public.kinds'$$,
    $$UPDATE chainify_ledger.ledger_table SET shared_text = left(shared_text, -1) WHERE name = 'public.kinds'$$);

-- Procedures, each engine's in words of its own.
CREATE PROCEDURE pay(giver integer, amount numeric) LANGUAGE plpgsql AS $$
BEGIN
    IF amount < 0 THEN
        RAISE EXCEPTION 'amount below zero';
    END IF;
    UPDATE kinds SET n = n - amount WHERE id = giver;
END
$$;
CREATE FUNCTION test.digest(name text DEFAULT 'pay(integer, numeric)') RETURNS text LANGUAGE sql AS $$ SELECT chainify.procedure_digest(('public.' || name)::regprocedure) $$;
CREATE FUNCTION test.attach(digest text DEFAULT test.digest(), procedure text DEFAULT 'pay (integer, numeric)') RETURNS bytea LANGUAGE sql AS $$
    SELECT test.tx(format('ATTACH PROCEDURE public.%s ENCODING 2 MARIADB %s POSTGRESQL %s', procedure, repeat('0a', 32), digest), 'admin', 3)
$$;
SELECT test.digest() = encode(sha256(convert_to(pg_get_functiondef('pay(integer, numeric)'::regprocedure), 'UTF8')), 'hex') AS as_specified;
-- Procedures that cannot be attached, each with its reason.
SELECT * FROM test.refusals($$test.judged('{}', test.attach(repeat('0b', 32), 'other (integer)'))$$, 'SELECT 1', $$CREATE FUNCTION other(n integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'$$,
    $$CREATE PROCEDURE other(n integer) LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'$$, $$CREATE PROCEDURE other(n integer, OUT m integer) LANGUAGE sql AS 'SELECT 1'$$,
    $$CREATE PROCEDURE other(INOUT n integer) LANGUAGE sql AS 'SELECT 1'$$, $$CREATE PROCEDURE other(VARIADIC n integer[]) LANGUAGE sql AS 'SELECT 1'$$,
    $$CREATE PROCEDURE other(n integer DEFAULT 1) LANGUAGE sql AS 'SELECT 1'$$, $$CREATE PROCEDURE other(n integer) LANGUAGE sql SET search_path = public AS 'SELECT 1'$$,
    $$CREATE PROCEDURE other(n integer) LANGUAGE sql BEGIN ATOMIC SELECT 1; END$$, $$CREATE PROCEDURE other(n bigint) LANGUAGE sql AS 'SELECT 1'$$,
    $$CREATE PROCEDURE other(n kinds) LANGUAGE sql AS 'SELECT 1'$$, $$CREATE PROCEDURE other(n json) LANGUAGE sql AS 'SELECT 1'$$, $$CREATE PROCEDURE other() LANGUAGE sql AS 'SELECT 1'$$,
    $$CREATE PROCEDURE other(n integer) LANGUAGE sql AS 'SELECT 1'; CREATE PROCEDURE other(n text) LANGUAGE sql AS 'SELECT 1'$$,
    $$CREATE PROCEDURE other(n integer) LANGUAGE internal AS 'now'$$, $$CREATE PROCEDURE other(n integer) LANGUAGE sql AS 'SELECT 1'$$);
-- Nor one whose name PostgreSQL has a function of, one without a digest for PostgreSQL, and by a role that may not attach.
CREATE PROCEDURE public.lower(n integer) LANGUAGE sql AS 'SELECT 1';
SELECT * FROM test.judged('{}', test.attach(repeat('0b', 32), 'lower (integer)'), test.tx('ATTACH PROCEDURE public.pay (integer, numeric) ENCODING 2 MARIADB ' || repeat('0a', 32), 'admin', 3),
    test.tx(format('ATTACH PROCEDURE public.pay (integer, numeric) ENCODING 2 POSTGRESQL %s', test.digest()), 'alice', 3));
DROP PROCEDURE public.lower(integer);
SELECT * FROM test.judged('{}', test.attach(), test.attach(), test.tx('ATTACH PROCEDURE public.pay (integer)', 'admin', 3), test.tx('DETACH PROCEDURE public.buy', 'admin', 3));
SELECT name, signature, mariadb, postgresql = test.digest() AS same FROM chainify.procedures;
SELECT standing, procedures, signatures FROM chainify_node.shared_tables();
SELECT name FROM chainify.state_parts WHERE name NOT LIKE '%.%';
SELECT test.all_well();
SELECT * FROM test.judged('{}', test.tx('CALL pay(2, 0.5)'), test.tx('CALL public.pay($1, $2)', params => ARRAY['smallint', '2', '', '0.25']), test.tx('CALL pay(2, -1)'));
SELECT id, n FROM kinds WHERE id = 2;
REVOKE EXECUTE ON PROCEDURE pay FROM PUBLIC;
SELECT * FROM test.judged('{}', test.tx('CALL pay(2, 0.5)'));
GRANT EXECUTE ON PROCEDURE pay TO alice;
SELECT test.all_well();
-- It is guarded, and one that changed all the same is found: in the state root of the next block, and by verification.
CREATE OR REPLACE PROCEDURE pay(giver integer, amount numeric) LANGUAGE sql AS 'SELECT 1';
DROP PROCEDURE pay;
ALTER PROCEDURE pay RENAME TO paid;
ALTER PROCEDURE pay SET SCHEMA test;
ALTER PROCEDURE pay SET search_path = public;
CREATE PROCEDURE pay(giver text) LANGUAGE sql AS 'SELECT 1';
CREATE PROCEDURE paid(giver text) LANGUAGE sql AS 'SELECT 1';
ALTER PROCEDURE paid RENAME TO pay;
DROP PROCEDURE paid;
CREATE FUNCTION test.next_hash(change text DEFAULT 'SELECT 1') RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    hash bytea;
BEGIN
    SET LOCAL chainify.guard = off;
    EXECUTE change;
    SELECT r.hash INTO hash FROM chainify_node.position() p, test.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash,
        test.buffer(ARRAY[test.tx('DELETE FROM remark', nonce => 7)]), ', refused => ''{}'', refused_sqlstates => ''{}'', refused_messages => ''{}''') r;
    RETURN hash;
END
$$;
BEGIN;
SELECT test.next_hash() AS agreed \gset
ROLLBACK;
BEGIN;
SELECT test.next_hash() = :'agreed' AS same;
ROLLBACK;
BEGIN;
SELECT test.next_hash($$CREATE OR REPLACE PROCEDURE pay(giver integer, amount numeric) LANGUAGE sql AS 'SELECT 1'$$) = :'agreed' AS same;
ROLLBACK;
BEGIN;
SELECT test.next_hash('DROP PROCEDURE pay') = :'agreed' AS same;
ROLLBACK;
BEGIN;
SELECT test.found($$CREATE OR REPLACE PROCEDURE pay(giver integer, amount numeric) LANGUAGE sql AS 'SELECT 1'$$, 'SELECT 1');
ROLLBACK;
SELECT test.found('CREATE PROCEDURE pay(giver text, amount numeric) LANGUAGE sql AS $x$SELECT 1$x$', 'DROP PROCEDURE pay(text, numeric)');
-- A name has one wording for good.
SELECT * FROM test.judged('{}', test.tx('DETACH PROCEDURE public.pay', 'admin', 3), test.attach(repeat('0b', 32)),
    test.attach(procedure => 'pay (integer)'), test.tx('ATTACH PROCEDURE public.pay (integer, numeric) ENCODING 2 POSTGRESQL ' || test.digest(), 'admin', 3),
    test.tx(format('ATTACH PROCEDURE public.pay (integer, numeric) ENCODING 2 MARIADB %s POSTGRESQL %s', repeat('0c', 32), test.digest()), 'admin', 3), test.attach());
SELECT * FROM test.judged('{}', test.tx('DETACH PROCEDURE public.pay', 'admin', 3));
SELECT name FROM chainify.state_parts WHERE name NOT LIKE '%.%';
SELECT test.all_well();
