-- Every function and view that a role may call, under a search_path on which operators, functions and domains of a stranger's come before
-- PostgreSQL's (X11). Each of them warns when it is called as a superuser: none is.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
GRANT CREATE ON SCHEMA public TO admin;
GRANT chainify_node TO stranger;
DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT chainify_reader TO reader;
SELECT ok, sqlstate FROM test.deploy('CREATE TABLE t (id serial PRIMARY KEY, name text, n int); GRANT ALL ON t TO alice; GRANT USAGE ON SEQUENCE t_id_seq TO alice; CREATE FUNCTION one(id int) RETURNS int LANGUAGE sql AS $f$ SELECT n FROM t WHERE t.id = one.id $f$; GRANT EXECUTE ON FUNCTION one(int) TO alice');
SELECT ok, sqlstate FROM test.run($$INSERT INTO t (name, n) VALUES ('a', 1), ('b', 2)$$, 'UPDATE t SET n = 3 WHERE id = 1');
SELECT ok, sqlstate FROM test.deploy($$SET AGREEMENT POLICY public.t TO org(name)$$);

-- The stranger's.
DROP SCHEMA IF EXISTS x CASCADE;
CREATE SCHEMA x;
CREATE FUNCTION x.told(what text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN RAISE WARNING 'called as a superuser: %', what; END IF;
END
$$;
GRANT ALL ON SCHEMA x TO PUBLIC;
CREATE FUNCTION test.traps(types text[]) RETURNS TABLE (operators bigint, functions bigint, domains bigint) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o record;
    trap text := 'CREATE FUNCTION x.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN PERFORM x.told(%L); RETURN %s; END $f$';
BEGIN
    FOR o IN SELECT p.oprname, p.oprleft::regtype AS l, p.oprright::regtype AS r, p.oprresult::regtype AS result, 'operator_' || p.oid AS name FROM pg_operator p
             WHERE p.oprnamespace = 'pg_catalog'::regnamespace AND p.oprleft::regtype::text = ANY (types) AND p.oprright::regtype::text = ANY (types) LOOP
        EXECUTE format(trap, o.name, concat_ws(', ', o.l, o.r), o.result, concat_ws(' ', o.l, o.oprname, o.r), format('$1 OPERATOR(pg_catalog.%s) $2', o.oprname));
        EXECUTE format('CREATE OPERATOR x.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = x.%I)', o.oprname, o.l, o.r, o.name);
    END LOOP;
    FOR o IN SELECT p.proname, array_to_string(ARRAY(SELECT t::regtype FROM unnest(p.proargtypes) WITH ORDINALITY u (t, i) ORDER BY i), ', ') AS arguments, p.prorettype::regtype AS result,
                    (SELECT string_agg('$' || i, ', ' ORDER BY i) FROM generate_series(1, p.pronargs) i) AS passed
             FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND NOT p.proretset AND p.pronargs BETWEEN 1 AND 3
               AND p.prorettype::regtype::text = ANY (types) AND p.proname !~ '^(pg_sleep|pg_terminate|pg_cancel|pg_advisory|pg_try|lo_|set_config)'
               AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) a WHERE a::regtype::text <> ALL (types)) LOOP
        EXECUTE format(trap, o.proname, o.arguments, o.result, o.proname || '(' || o.arguments || ')', format('pg_catalog.%I(%s)', o.proname, o.passed));
    END LOOP;
    FOR o IN SELECT t.typname FROM pg_type t WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.oid::regtype::text = ANY (types) LOOP
        EXECUTE format('CREATE FUNCTION x.ok(v pg_catalog.%I) RETURNS pg_catalog.bool LANGUAGE plpgsql AS $f$ BEGIN PERFORM x.told(%L); RETURN true; END $f$', o.typname, 'domain ' || o.typname);
        EXECUTE format('CREATE DOMAIN x.%I AS pg_catalog.%1$I CHECK (x.ok(VALUE))', o.typname);
    END LOOP;
    RETURN QUERY SELECT (SELECT count(*) FROM pg_operator WHERE oprnamespace = 'x'::regnamespace), (SELECT count(*) FROM pg_proc WHERE pronamespace = 'x'::regnamespace),
        (SELECT count(*) FROM pg_type WHERE typnamespace = 'x'::regnamespace);
END
$$;
SELECT operators > 200 AS operators, functions > 800 AS functions, domains > 10 AS domains
FROM test.traps('{oid,regclass,regproc,regprocedure,regtype,regnamespace,name,text,"character varying","\"char\"",smallint,integer,bigint,boolean,bytea,jsonb,text[],integer[],bigint[],oid[],"timestamp with time zone",interval,"double precision"}');

-- Runs a statement as a role under that path; how it went.
CREATE FUNCTION test.under(who text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r record;
    state text;
BEGIN
    BEGIN
        EXECUTE format('SET LOCAL ROLE %I', who);
        SET LOCAL search_path = x, pg_catalog, public, pg_temp;
        FOR r IN EXECUTE statement LOOP END LOOP;
        state := 'done';
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE;
    END;
    SET LOCAL search_path = public;
    RESET ROLE;
    RETURN state;
END
$$;
CREATE TABLE test.calls (place serial, who text, call text);
INSERT INTO test.calls (who, call) VALUES
    ('alice', $$SELECT chainify.execute('SELECT 1')$$), ('alice', $$SELECT chainify.execute('SELECT $1', 1)$$), ('alice', $$SELECT chainify.submit('SELECT 1')$$),
    ('alice', $$SELECT chainify.submit('SELECT $1', 'a')$$), ('alice', $$SELECT chainify.submit_batch(ARRAY['SELECT 1'])$$), ('alice', $$SELECT chainify.wait('\x00', '1 ms')$$),
    ('alice', $$SELECT chainify.plan('SELECT 1', '2030-01-01', 'acme')$$), ('alice', $$SELECT chainify.plan('SELECT $1', NULL, NULL, NULL, 'a')$$), ('alice', $$SELECT chainify.cancel_planned(sha256('x'))$$),
    ('alice', $$SELECT chainify.execute_planned(sha256('x'))$$), ('admin', $$SELECT chainify.approve_planned(sha256('x'))$$),
    ('alice', $$SELECT chainify.uuid()$$), ('alice', $$SELECT * FROM chainify.analyze('UPDATE t SET n = 1 WHERE id = 1')$$), ('alice', $$SELECT * FROM chainify.access('SELECT one(1)')$$),
    ('reader', $$SELECT count(*) FROM chainify.environment()$$),
    ('admin', $$SELECT chainify.attach('t')$$), ('admin', $$SELECT chainify.detach('t')$$), ('admin', $$SELECT chainify.deploy('DROP TABLE t')$$), ('admin', $$SELECT chainify.set_policy('t', NULL)$$),
    ('admin', $$SELECT chainify.set_role_organisations('alice', '{acme}')$$),
    ('alice', $$SELECT chainify.seal('public.t', 'n', 1)$$), ('alice', $$SELECT chainify.is_sealed('public.t', 'n', '')$$),
    ('reader', $$SELECT * FROM chainify.verify_private()$$), ('alice', $$SELECT chainify.disclose('public.t', 'n', '')$$),
    ('stranger', $$SELECT chainify_node.hold('public.t', 'n', '', '', '')$$), ('stranger', $$SELECT chainify_node.hold_many('{public.t}', '{n}', '{a}', '{b}', '{c}')$$),
    ('stranger', $$SELECT * FROM chainify_node.held_private('{public.t}', '{n}', '{a}')$$), ('stranger', $$SELECT * FROM chainify_node.circles()$$), ('stranger', $$SELECT * FROM chainify_node.sealed_columns()$$), ('stranger', $$SELECT * FROM chainify_node.missing_private(1)$$),
    ('admin', $$SELECT chainify.set_agreement_check('t', NULL)$$), ('admin', $$SELECT chainify.set_agreement_check('t', 'no_such')$$), ('admin', $$SELECT chainify.approve_deploy('DROP TABLE t')$$),
    ('admin', $$SELECT chainify.rejoin()$$), ('admin', $$SELECT chainify.declare_access('public.one', 'public.t', 'id')$$), ('admin', $$SELECT * FROM chainify.access('SELECT one(1)')$$),
    ('admin', $$SELECT chainify.undeclare_access('public.one', 'public.t')$$),
    ('admin', $$SELECT chainify.mirror('public.t')$$), ('alice', $$SELECT chainify.translate_query('SELECT id, id + 1 FROM t WHERE name = ''a''')$$),
    ('alice', $$SELECT * FROM chainify.query_at(NULL, 'SELECT id FROM public.t') AS f (id int)$$), ('alice', $$SELECT * FROM chainify.query_at(NULL, 'SELECT id FROM t WHERE id = $1', 1) AS f (id int)$$),
    ('alice', $$SELECT * FROM chainify.query_at_json(NULL, 'SELECT id FROM t')$$), ('alice', $$SELECT * FROM chainify.query_at_json(NULL, 'SELECT id FROM t WHERE id = $1', 1)$$),
    ('admin', $$SELECT chainify.pin_snapshot(1, 'a')$$), ('admin', $$SELECT chainify.unpin_snapshot('a')$$), ('admin', $$SELECT * FROM chainify.mirrors$$), ('admin', $$SELECT chainify.unmirror('public.t')$$),
    ('reader', $$SELECT * FROM chainify.verify_ledger()$$), ('reader', $$SELECT * FROM chainify.verify_table('public.t')$$), ('reader', $$SELECT chainify.digest()$$), ('reader', $$SELECT chainify.digest(1)$$),
    ('reader', $$SELECT chainify.verify('{}'::jsonb)$$), ('reader', $$SELECT * FROM chainify.history('public.t', 1)$$), ('reader', $$SELECT * FROM chainify.as_of(NULL::public.t, 2)$$),
    ('reader', $$SELECT count(*) FROM chainify.mirrored_tables m, chainify.mirror_rows(m.table_id, 2)$$), ('reader', $$SELECT count(*) FROM chainify.mirrored_tables m, chainify.mirror_changes(m.table_id, 0, 9)$$),
    ('reader', $$SELECT count(*) > 0 FROM (SELECT max(number) AS number FROM chainify.ledger) l, chainify.state_parts_at(l.number)$$),
    ('reader', $$SELECT chainify.row_hash(h) FROM chainify_history.t h$$), ('reader', $$SELECT chainify.explain_block(2)$$), ('reader', $$SELECT chainify.read_block()$$),
    ('reader', $$SELECT chainify.procedure_digest('chainify.read_block()')$$),
    ('reader', $$SELECT chainify.receipt('\x00'::bytea)$$), ('reader', $$SELECT chainify.receipt('public.t'::regclass, 1)$$), ('reader', $$SELECT * FROM chainify_history.t_ledger$$), ('reader', $$SELECT * FROM chainify_history.t_as_of$$),
    ('stranger', $$SELECT epoch, mark, standby, last_block FROM chainify_node.server()$$), ('stranger', $$SELECT chainify_node.take_server('testchain', 'acme', 1, decode(repeat('a1', 16), 'hex'))$$), ('stranger', $$SELECT chainify_node.supersede(1)$$),
    ('stranger', $$SELECT * FROM chainify_node.position()$$), ('stranger', $$SELECT chainify_node.init('testchain', 'acme')$$), ('stranger', $$SELECT chainify_node.set_registry('{"organisations": []}')$$),
    ('stranger', $$SELECT chainify_node.kept_executions()$$), ('stranger', $$SELECT * FROM chainify_node.missing_roles()$$), ('stranger', $$SELECT chainify_node.has_policies()$$), ('stranger', $$SELECT chainify_node.due_plans(0, 10)$$), ('stranger', $$SELECT chainify_node.checkpoint()$$), ('stranger', $$SELECT chainify_node.fold_history()$$),
    ('stranger', $$SELECT chainify_node.scrub('public.t')$$), ('stranger', $$SELECT chainify_node.scrub_soon()$$), ('stranger', $$SELECT chainify_node.audit(1000)$$), ('stranger', $$SELECT chainify_node.store_certificate(1, 0, '\x00', '[]')$$),
    ('stranger', $$SELECT chainify_node.record_deviation(1, '\x00', '\x00', 'retry', '1 s')$$), ('stranger', $$SELECT chainify_node.repair(p.number, p.hash, p.number, '\x00') FROM chainify_node.position() p$$),
    ('stranger', $$SELECT chainify_node.repair(p.number, p.hash, p.number + 1, '\x00', 'definitions') FROM chainify_node.position() p$$), ('stranger', $$SELECT chainify_node.repair(p.number, p.hash, p.number + 1, '\x00', 'reindex') FROM chainify_node.position() p$$),
    ('stranger', $$SELECT chainify_node.repair(p.number, p.hash, p.number, '\x00', 'checkpoints') FROM chainify_node.position() p$$), ('stranger', $$SELECT chainify_node.state_tables(p.number, p.hash) FROM chainify_node.position() p$$),
    ('stranger', $$SELECT chainify_node.state_ranges(p.number, 'public.t', 0, '{0}', 4) FROM chainify_node.position() p$$), ('stranger', $$SELECT chainify_node.state_rows(p.number, 'public.t', 0, '{0}') FROM chainify_node.position() p$$),
    ('stranger', $$SELECT chainify_node.stage_rows('public.t', '\x00000000')$$), ('stranger', $$SELECT chainify_node.restore(p.number, p.hash, p.number, '\x00', '[]') FROM chainify_node.position() p$$),
    ('stranger', $$SELECT chainify_node.block_parts(p.number, p.hash) FROM chainify_node.position() p$$), ('stranger', $$SELECT chainify_node.stage_changes(1, '\x00000000')$$),
    ('stranger', $$SELECT chainify_node.restore_block(1, '\x00', '\x00', '\x00000000')$$),
    ('stranger', format('SELECT chainify_node.adopt_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, %L, ''{}'', false, ''\x00'', ''\x00'') FROM chainify_node.position() p',
        test.buffer(ARRAY[test.tx($$UPDATE t SET n = n + 1 WHERE name = 'acme'$$)]))),
    ('stranger', $$SELECT count(*) FROM chainify_node.position() p, chainify_node.foundation(p.number, p.hash)$$), ('stranger', $$SELECT chainify_node.join_parts(1, '\x00', '\x00000000')$$),
    ('stranger', $$SELECT chainify_node.join_schema(1, '\x00')$$), ('stranger', $$SELECT chainify_node.join_rows('public.t', '\x00000000')$$), ('stranger', $$SELECT chainify_node.join_end(1)$$),
    ('stranger', $$SELECT chainify_node.keep_received('public.t', 1, '\x00000000')$$), ('stranger', $$SELECT chainify_node.join_received('public.t', 9)$$),
    ('stranger', $$SELECT chainify_node.join_without('public.t', 0, '{0}')$$), ('stranger', $$SELECT chainify_node.forget_received('public.t')$$),
    ('stranger', $$SELECT chainify_node.archive_blocks(1, 9)$$), ('stranger', $$SELECT chainify_node.archive_transactions(1, 9)$$), ('stranger', $$SELECT chainify_node.archive_changes(1, 9)$$),
    ('stranger', $$SELECT chainify_node.archive_columns()$$), ('stranger', $$SELECT chainify_node.archive_definitions()$$), ('stranger', $$SELECT chainify_node.set_archived('/archive', p.number, p.hash) FROM chainify_node.position() p$$),
    ('stranger', $$SELECT chainify_node.archived()$$), ('stranger', $$SELECT chainify_node.drop_archived(1)$$),
    ('stranger', format('SELECT chainify_node.rehearse(%L, 1700000000000000)', test.tx($$INSERT INTO t (name, n) VALUES ('acme', 3)$$))),
    ('stranger', format('SELECT chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, %L) FROM chainify_node.position() p',
        test.buffer(ARRAY[test.tx($$UPDATE t SET n = n + 1 WHERE name = 'acme'$$), test.tx('CREATE TABLE w (id int PRIMARY KEY, v text CHECK (length(v) < 9))', 'admin', 3)]))),
    ('stranger', $$SELECT * FROM chainify_node.shared_tables()$$), ('stranger', $$SELECT * FROM chainify_node.position()$$);
INSERT INTO test.calls (who, call) SELECT 'reader', format('SELECT * FROM %s', c.oid::regclass) FROM pg_class c WHERE c.relnamespace = 'chainify'::regnamespace AND c.relkind = 'v' ORDER BY c.relname COLLATE "C";
SELECT c.who, left(c.call, 80) AS call, test.under(c.who, c.call) AS how FROM test.calls c ORDER BY c.place;

-- All that are there were called.
SELECT p.oid::regprocedure AS not_called FROM pg_proc p WHERE p.pronamespace IN ('chainify'::regnamespace, 'chainify_node'::regnamespace)
    AND NOT EXISTS (SELECT FROM test.calls c WHERE strpos(c.call, p.pronamespace::regnamespace::text || '.' || p.proname || '(') > 0) ORDER BY 1;
SELECT test.all_well();
REVOKE chainify_node FROM stranger;
