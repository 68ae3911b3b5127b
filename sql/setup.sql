-- Helpers of the tests: a chain, roles, and blocks made by hand. Included by every test, which starts in an empty database or after another test.
\set ECHO none
SET client_min_messages = warning;
SET chainify.guard = off;
-- Maintenance of the test before reads the tables that go, and nothing here starts it again.
DO $$ BEGIN PERFORM pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'chainify maintenance' AND datname = current_database(); END $$;
DROP SCHEMA IF EXISTS test, public CASCADE;
DROP EXTENSION IF EXISTS chainify CASCADE;
DROP SCHEMA IF EXISTS chainify, chainify_node, chainify_ledger, chainify_history, chainify_checkpoint, chainify_initial, chainify_private, chainify_open CASCADE;
RESET chainify.guard;
CREATE SCHEMA public;
GRANT ALL ON SCHEMA public TO PUBLIC;
CREATE SCHEMA test;
CREATE EXTENSION chainify;
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'alice') THEN
        CREATE ROLE alice LOGIN;
        CREATE ROLE admin LOGIN;
        CREATE ROLE stranger LOGIN;
    END IF;
END
$$;
SELECT coalesce(current_setting('test.sessions', true), 'off') <> 'off' AS sessions \gset
GRANT chainify_client TO alice;
GRANT chainify_admin TO admin;
GRANT CREATE ON SCHEMA public TO alice;
DO $$ BEGIN PERFORM chainify_node.init('testchain', 'acme', '[]'); END $$;

-- Protobuf by hand: varint, and a length-delimited field.
CREATE FUNCTION test.varint(n bigint) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    out bytea := '';
BEGIN
    WHILE n > 127 LOOP
        out := out || set_byte('\x00', 0, ((n & 127) | 128)::int);
        n := n >> 7;
    END LOOP;
    RETURN out || set_byte('\x00', 0, n::int);
END
$$;
CREATE FUNCTION test.field(number int, value bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN value IS NULL OR value = '' THEN '' ELSE test.varint(number * 8 + 2) || test.varint(length(value)) || value END
$$;
CREATE FUNCTION test.number(number int, value bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN value = 0 THEN ''::bytea ELSE test.varint(number * 8) || test.varint(value) END
$$;
CREATE FUNCTION test.utf8(value text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT convert_to(value, 'UTF8') $$;
CREATE SEQUENCE test.nonce;

-- A ChainedTx. Parameters alternate type name and value; a NULL value is a NULL parameter. An EFFECTS transaction has a write set.
CREATE FUNCTION test.tx(sql text, role text DEFAULT 'alice', kind int DEFAULT 1, params text[] DEFAULT '{}', nonce bigint DEFAULT NULL, effects bytea DEFAULT NULL) RETURNS bytea LANGUAGE sql AS $$
    SELECT test.field(1, test.field(1,
        test.field(1, test.utf8('testchain')) ||
        test.field(2, test.field(1, test.utf8('acme')) || test.field(2, test.utf8(role))) ||
        test.number(3, coalesce(nonce, nextval('test.nonce'))) || test.number(4, 1000) || test.number(5, kind) || test.field(6, test.utf8(sql)) ||
        coalesce((SELECT string_agg(
            test.varint(7 * 8 + 2) || test.varint(length(p)) || p, ''::bytea ORDER BY i)
          FROM generate_series(1, cardinality(params), 2) i, LATERAL (SELECT
            test.field(1, test.utf8(params[i])) || CASE WHEN params[i + 1] IS NULL THEN test.number(2, 1) ELSE test.field(3, test.utf8(params[i + 1])) END AS p) x), '') || test.field(8, effects)))
$$;
CREATE FUNCTION test.buffer(txs bytea[]) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT int4send(cardinality(txs)) || coalesce((SELECT string_agg(int4send(length(t)) || t, ''::bytea ORDER BY i) FROM unnest(txs) WITH ORDINALITY u (t, i)), '')
$$;
-- Answers of other sessions to a block, and whether the answer here is the same (other_sessions.psql).
CREATE FUNCTION test.others(number bigint, height bigint, at bigint, previous bytea, buffer bytea, more text DEFAULT '') RETURNS text[] LANGUAGE sql AS 'SELECT NULL::text[]';
CREATE FUNCTION test.same(number bigint, others text[], hash bytea, outcomes bytea, rows bigint[], sqlstates text[]) RETURNS void LANGUAGE sql AS '';
\if :sessions
\ir other_sessions.psql
\endif
-- Runs the next block.
CREATE FUNCTION test.block(VARIADIC txs bytea[]) RETURNS TABLE (number bigint, tx int, ok boolean, rows bigint, sqlstate text, message text)
LANGUAGE plpgsql AS $$
DECLARE
    p record;
    r record; others text[];
BEGIN
    SELECT * INTO p FROM chainify_node.position(); others := test.others(p.number + 1, p.number + 10, 1700000000000000 + p.number * 1000000, p.hash, test.buffer(txs));
    SELECT * INTO r FROM chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000 + p.number * 1000000, p.hash, test.buffer(txs));
    PERFORM test.same(p.number + 1, others, r.hash, r.outcomes, r.rows, r.sqlstates);
    RETURN QUERY SELECT p.number + 1, i - 1, get_byte(r.outcomes, (i - 1) / 8) >> ((i - 1) % 8) & 1 = 1, r.rows[i], r.sqlstates[i], r.messages[i]
    FROM generate_series(1, cardinality(txs)) i;
END
$$;
-- The same with statements of alice.
CREATE FUNCTION test.run(VARIADIC sqls text[]) RETURNS TABLE (number bigint, tx int, ok boolean, rows bigint, sqlstate text, message text)
LANGUAGE sql AS $$ SELECT * FROM test.block(VARIADIC ARRAY(SELECT test.tx(s) FROM unnest(sqls) WITH ORDINALITY u (s, i) ORDER BY i)) $$;
CREATE FUNCTION test.deploy(command text) RETURNS TABLE (number bigint, tx int, ok boolean, rows bigint, sqlstate text, message text)
LANGUAGE sql AS $$ SELECT * FROM test.block(test.tx(command, 'admin', 3)) $$;
-- Whether the running state of every table is that of a full scan.
CREATE FUNCTION test.states_hold() RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce(bool_and((s.row_count, s.lanes) = (f.row_count, f.lanes)), true)
    FROM chainify_ledger.ledger_table t JOIN chainify_ledger.table_state s ON s.table_id = t.id,
         LATERAL (SELECT array_agg(c.name ORDER BY c.ordinal) n, array_agg(c.ordinal ORDER BY c.ordinal) o FROM chainify_ledger.ledger_column c WHERE c.table_id = t.id) c,
         LATERAL chainify_ledger.scan_state(chainify_ledger.leaves(t.relation), t.name, c.n, c.o) f
    WHERE t.detached_at IS NULL
$$;
-- All is well: running states are those of a scan, blocks and tables verify, the definitions are those of the ledger.
CREATE FUNCTION test.all_well() RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(f, E'\n'), 'all well') FROM (
        SELECT 'running states' WHERE NOT test.states_hold()
        UNION ALL SELECT v.block || ' ' || v.what || ' ' || v.detail FROM chainify.verify_ledger() v WHERE v.what NOT LIKE 'certificate%'
        UNION ALL SELECT v.tbl || ' ' || v.what || coalesce(' ' || v.key::text, '') || coalesce(' ' || v.expected::text, '') || coalesce(' ' || v.found::text, '')
        FROM chainify_ledger.ledger_table t, chainify.verify_table(t.relation) v WHERE t.detached_at IS NULL) x (f)
$$;
-- What verification says of a change behind the guard, and after it was undone.
CREATE FUNCTION test.found(change text, undo text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL chainify.guard = off;
    EXECUTE change;
    RETURN QUERY SELECT v.what || ' ' || split_part(v.detail, ':', 1) FROM chainify.verify_ledger() v WHERE v.what NOT LIKE 'certificate%';
    RETURN QUERY SELECT v.tbl || ' ' || v.what FROM chainify_ledger.ledger_table t, chainify.verify_table(t.relation) v WHERE t.detached_at IS NULL;
    EXECUTE undo;
    RETURN QUERY SELECT test.all_well();
END
$$;
-- chainify_node.execute_block, in other sessions too. `more`: further parameters, by name.
CREATE FUNCTION test.execute_block(number bigint, height bigint, at bigint, previous bytea, buffer bytea, more text DEFAULT '',
    OUT hash bytea, OUT header bytea, OUT outcomes bytea, OUT rows bigint[], OUT sqlstates text[], OUT messages text[], OUT transaction_effects bytea[])
LANGUAGE plpgsql AS $$
DECLARE
    others text[] := test.others(number, height, at, previous, buffer, more);
BEGIN
    EXECUTE format('SELECT * FROM chainify_node.execute_block($1, $2, $3, $4, $5%s)', more) INTO hash, header, outcomes, rows, sqlstates, messages, transaction_effects
        USING number, height, at, previous, buffer;
    PERFORM test.same(number, others, hash, outcomes, rows, sqlstates);
END
$$;
-- The hash that a block of these transactions has.
CREATE FUNCTION test.hash_of(VARIADIC txs bytea[]) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    p record;
BEGIN
    SELECT * INTO p FROM chainify_node.position();
    RETURN (test.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, test.buffer(txs))).hash;
END
$$;
-- The outcome of each transaction, or the error that ended the block.
CREATE FUNCTION test.raised(VARIADIC sqls text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    said text;
BEGIN
    RETURN (SELECT string_agg(coalesce(sqlstate, 'done'), ' ') FROM test.run(VARIADIC sqls));
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS said = PG_EXCEPTION_DETAIL;
    RETURN SQLSTATE || ' ' || SQLERRM || ', ' || regexp_replace(said, 'block \d+|\n.*', '', 'g');
END
$$;
-- What `asked`, a call of test.deploy or the like, refuses after each of these commands. The commands are undone.
CREATE FUNCTION test.refusals(asked text, VARIADIC commands text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    command text;
BEGIN
    FOREACH command IN ARRAY commands LOOP
        BEGIN
            EXECUTE command;
            RETURN QUERY EXECUTE $q$SELECT sqlstate || ' ' || message FROM $q$ || asked || ' WHERE NOT ok';
            RAISE EXCEPTION USING ERRCODE = 'TEST0';
        EXCEPTION WHEN SQLSTATE 'TEST0' THEN NULL;
        END;
    END LOOP;
END
$$;
RESET client_min_messages;
\set ECHO all
