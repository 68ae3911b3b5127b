-- Types of a user's own come with casts, operators and constraints that are the user's code. Whatever the ledger does with such values, it
-- runs none of that with more rights than the user's (X11): each piece warns when it is called as a superuser, and none does.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS own CASCADE;
CREATE SCHEMA own AUTHORIZATION alice;
GRANT USAGE ON SCHEMA own TO PUBLIC;
SET ROLE alice;
CREATE FUNCTION own.told(what text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_user = 'postgres' THEN RAISE WARNING 'called as a superuser: %', what; END IF;
END
$$;
CREATE TYPE own.mood AS ENUM ('sad', 'well');
CREATE TYPE own.pair AS (a int, b own.mood);
CREATE FUNCTION own.is_short(v text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM own.told('constraint'); RETURN length(v) < 9; END $$;
CREATE DOMAIN own.short AS text CHECK (own.is_short(VALUE));
-- casts to whatever a value is shown, hashed or written as, and operators that compare
DO $do$
DECLARE
    t text;
    c text;
BEGIN
    FOREACH t IN ARRAY '{own.mood,own.pair}'::text[] LOOP
        FOREACH c IN ARRAY '{text,varchar,name,json,jsonb,bytea,xml,int4,int8,bool,numeric}'::text[] LOOP
            EXECUTE format('CREATE FUNCTION own.%I(v %s) RETURNS %s LANGUAGE plpgsql IMMUTABLE AS $f$ BEGIN PERFORM own.told(%L); RETURN NULL; END $f$', 'to_' || c, t, c, format('cast of %s to %s', t, c));
            EXECUTE format('CREATE CAST (%s AS %s) WITH FUNCTION own.%I(%1$s) AS IMPLICIT', t, c, 'to_' || c);
            EXECUTE format('CREATE FUNCTION own.%I(v %s) RETURNS %s LANGUAGE plpgsql IMMUTABLE AS $f$ BEGIN PERFORM own.told(%L); RETURN NULL; END $f$', 'from_' || c || '_' || substr(t, 5), c, t, format('cast of %s to %s', c, t));
            EXECUTE format('CREATE CAST (%s AS %s) WITH FUNCTION own.%I(%1$s) AS ASSIGNMENT', c, t, 'from_' || c || '_' || substr(t, 5));
        END LOOP;
        FOREACH c IN ARRAY '{=,<>,<,>,<=,>=,||,->}'::text[] LOOP
            EXECUTE format('CREATE FUNCTION own.%I(l %s, r %s) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $f$ BEGIN PERFORM own.told(%L); RETURN NULL; END $f$', c, t, t, format('%s %s', t, c));
            EXECUTE format('CREATE OPERATOR own.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = own.%I)', c, t, t, c);
        END LOOP;
    END LOOP;
END
$do$;
RESET ROLE;
SELECT count(*) > 40 AS casts FROM pg_cast WHERE castfunc IN (SELECT oid FROM pg_proc WHERE pronamespace = 'own'::regnamespace);
-- They can warn: what is not the ledger's calls them as a superuser.
DO $$ BEGIN PERFORM to_jsonb('sad'::own.mood); EXCEPTION WHEN OTHERS THEN NULL; END $$;

CREATE TABLE t (id int PRIMARY KEY, m own.mood NOT NULL, ms own.mood[], p own.pair, ps own.pair[], s own.short);
ALTER TABLE t OWNER TO alice;
CREATE TABLE byname (m own.mood PRIMARY KEY, v int);
ALTER TABLE byname OWNER TO alice;
SELECT ok, sqlstate FROM test.deploy('ATTACH TABLE public.t, public.byname');
SELECT ok, sqlstate, message FROM test.run($$INSERT INTO t VALUES (1, 'sad', '{sad,well}', '(1,sad)', '{"(2,well)"}', 'a'), (2, 'well', NULL, NULL, NULL, 'b')$$, $$INSERT INTO byname VALUES ('sad', 1), ('well', 2)$$,
    $$UPDATE t SET m = 'well', s = 'c' WHERE id = 1$$, $$UPDATE byname SET v = 3 WHERE v = 1$$, $$INSERT INTO t VALUES (3, 'sad', NULL, NULL, NULL, 'much too long')$$);
SELECT chainify_node.checkpoint();
SELECT ok FROM test.run($$UPDATE t SET ms = '{well}', p = '(5,well)' WHERE id = 2$$, $$DELETE FROM byname WHERE v = 2$$, $$INSERT INTO t VALUES (4, 'sad', '{}', '(1,well)', NULL, 'd')$$);

-- what readers are told
SELECT test.all_well();
SELECT count(*) FROM chainify.history('public.t', 1);
SELECT count(*) FROM chainify.as_of(NULL::public.t, 2);
SELECT count(*) FROM chainify_history.t_ledger;
SELECT count(*) FROM chainify_history.t_as_of;
SELECT count(*) FROM chainify_history.t h WHERE chainify.row_hash(h) IS NOT NULL;
SELECT chainify.explain_block(2) IS NOT NULL AS explained;
SELECT chainify.receipt('public.t'::regclass, 1) IS NOT NULL AS receipt;
SELECT count(*) FROM chainify.mirrored_tables m, chainify.mirror_rows(m.table_id, 2);

-- rows, definitions and the base are changed behind the ledger, and put right; what is shown of it is not in the way
SET chainify.guard = off;
SET session_replication_role = replica;
UPDATE t SET m = 'sad', ms = NULL, p = NULL WHERE id = 2;
UPDATE byname SET v = 9;
DELETE FROM t WHERE id = 1;
ALTER TABLE t DISABLE TRIGGER chainify_digest;
RESET session_replication_role;
RESET chainify.guard;
SELECT tbl, what FROM chainify.verify_table('public.t') ORDER BY 1, 2;
SELECT what FROM chainify.verify_table('public.byname') ORDER BY 1;
SELECT findings > 0 AS found FROM chainify_node.scrub('public.t');
SELECT r.tbl, r.key, r.expected, r.found FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, '\x00', 'definitions') r ORDER BY 1, 2;
SELECT r.tbl, r.key, r.expected, r.found FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, '\x00', 'rows') r ORDER BY 1, 2, 3;
SELECT test.all_well();
SELECT count(*) FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, '\x00', 'reindex');
SELECT count(*) FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, '\x00', 'replay');
SELECT count(*) FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, '\x00', 'rebase');
SELECT chainify_node.fold_history() IS NOT NULL AS folded;
SELECT count(*) FROM chainify.deviations;
-- a block of another result is put right by its keys
SELECT test.tx($$UPDATE t SET m = 'well' WHERE id = 4$$) AS first, test.tx($$UPDATE byname SET v = v + 1$$) AS second \gset
BEGIN;
SELECT test.hash_of(:'first', :'second') AS hash \gset
ROLLBACK;
SET chainify.guard = off;
SET session_replication_role = replica;
UPDATE t SET s = NULL, ps = NULL WHERE id = 4;
RESET session_replication_role;
RESET chainify.guard;
SELECT r.hash = :'hash'::bytea AS certified FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, test.buffer(ARRAY[:'first', :'second']::bytea[]), certified_hash => :'hash') r;
SELECT cured_by, rows_total FROM chainify.deviations ORDER BY 1;
SELECT test.all_well();
