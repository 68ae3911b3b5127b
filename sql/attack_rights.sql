-- Rights inside the database: no client or admin has own SQL of the ledger run code of theirs with more rights than theirs (X11).
-- Each function below makes its author a superuser, if it is called with the rights to do that.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
GRANT USAGE ON SCHEMA test TO alice, admin;
GRANT CREATE ON SCHEMA public TO admin;

-- Who became a superuser.
CREATE FUNCTION test.gained() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(rolname || ' is a superuser', ', ' ORDER BY rolname), 'nothing gained')
    FROM pg_roles WHERE rolname IN ('alice', 'admin', 'stranger') AND rolsuper
$$;
-- Makes a role what it was.
CREATE FUNCTION test.forgive() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    ALTER ROLE alice NOSUPERUSER;
    ALTER ROLE admin NOSUPERUSER;
END
$$;
-- Makes its author a superuser, where it is called with the rights to do that.
CREATE FUNCTION test.seize(author text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_user <> author THEN EXECUTE format('ALTER ROLE %I SUPERUSER', author); END IF;
    RETURN true;
EXCEPTION WHEN insufficient_privilege OR read_only_sql_transaction THEN RETURN true;
END
$$;

SELECT * FROM test.deploy('CREATE TABLE t (id int PRIMARY KEY); GRANT ALL ON t TO alice');
SELECT * FROM test.run('INSERT INTO t VALUES (1)');

-- A domain's CHECK and DEFAULT: the history and the checkpoint follow the table with columns of the type below the domain.
SELECT * FROM test.deploy($d$
    CREATE FUNCTION f(v int) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        BEGIN EXECUTE 'ALTER ROLE admin SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END;
        RETURN true;
    END $$;
    CREATE DOMAIN d AS int CHECK (f(VALUE));
    ALTER TABLE t ADD COLUMN c d $d$);
SELECT test.gained();
SELECT * FROM test.deploy($d$
    CREATE FUNCTION f2(v int) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        IF current_user <> 'admin' THEN EXECUTE 'ALTER ROLE admin SUPERUSER'; END IF;
        RETURN true;
    END $$;
    CREATE DOMAIN d2 AS int CHECK (f2(VALUE));
    ALTER TABLE t ADD COLUMN c2 d2 $d$);
SELECT test.gained();
SELECT test.forgive();
SELECT * FROM test.deploy($d$
    CREATE FUNCTION g() RETURNS int LANGUAGE plpgsql AS $$
    BEGIN
        BEGIN EXECUTE 'ALTER ROLE admin SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END;
        RETURN 1;
    END $$;
    CREATE DOMAIN e AS int DEFAULT g();
    ALTER TABLE t ADD COLUMN e e $d$);
SELECT test.gained();
SELECT test.forgive();
-- Domains of domains, over arrays and rows, in arrays and rows; also in the key of a new table, with rows that come and go.
SELECT * FROM test.deploy($d$
    CREATE DOMAIN dd AS d NOT NULL;
    CREATE DOMAIN da AS int[] CHECK (f(VALUE[1]));
    CREATE TYPE pair AS (a d, b text);
    CREATE DOMAIN dp AS pair CHECK (f((VALUE).a));
    ALTER TABLE t ADD COLUMN aa d[], ADD COLUMN da da, ADD COLUMN p pair, ADD COLUMN dp dp;
    CREATE TABLE u (k d PRIMARY KEY, v dd DEFAULT 1, w d[] DEFAULT '{1,2}', x da DEFAULT '{1}', y pair DEFAULT (1, 'a'), z dp DEFAULT (1, 'a'));
    GRANT ALL ON u TO alice $d$);
SELECT * FROM test.run('INSERT INTO u (k) VALUES (1), (2), (3)', 'UPDATE u SET v = 2 WHERE k = 1', 'DELETE FROM u WHERE k = 3');
SELECT attrelid::regclass, attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid IN ('chainify_history.t'::regclass, 'chainify_checkpoint.t'::regclass, 'chainify_history.u'::regclass, 'chainify_checkpoint.u'::regclass)
  AND attnum > 0 AND NOT attisdropped AND attname NOT LIKE '\_%' ORDER BY 1, attnum;
SELECT test.gained();
-- Verification, folding, the scrubber, recovery and reading the past evaluate nothing of a user's as the ledger's owner.
SELECT chainify_node.checkpoint();
SELECT * FROM chainify_node.fold_history();
SELECT findings FROM chainify_node.scrub('u');
-- What is put back may be older than a condition: no row is refused that was there.
SELECT ok, sqlstate FROM test.deploy('ALTER DOMAIN dd ADD CONSTRAINT later CHECK (VALUE < 1) NOT VALID');
SET chainify.guard = off;
DELETE FROM u WHERE k = 2;
RESET chainify.guard;
SELECT tbl, key, expected, found FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, '\x00');
SELECT * FROM chainify.as_of(NULL::u, (SELECT max(number) FROM chainify_ledger.block)) ORDER BY k;
SELECT * FROM chainify_history.u_as_of ORDER BY k;
SELECT op, "row" FROM chainify.history('u', 1);
SELECT test.all_well();
SELECT test.gained();
SELECT test.forgive();

-- The caller's search_path: own operators and types of an admin, who has one schema.
DROP SCHEMA IF EXISTS x CASCADE;
CREATE SCHEMA x;
GRANT ALL ON SCHEMA x TO admin, alice;
SET ROLE admin;
CREATE FUNCTION x.eq(a text, b text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM test.seize('admin');
    RETURN a OPERATOR(pg_catalog.=) b;
END $$;
CREATE OPERATOR x.= (LEFTARG = text, RIGHTARG = text, FUNCTION = x.eq);
CREATE FUNCTION x.cat(a name, b name) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM test.seize('admin');
    RETURN a::pg_catalog.text OPERATOR(pg_catalog.||) b::pg_catalog.text;
END $$;
CREATE OPERATOR x.|| (LEFTARG = name, RIGHTARG = name, FUNCTION = x.cat);
SET search_path = x, pg_catalog;
SELECT chainify.approve_deploy('anything');
SELECT chainify.approve_deploy('anything');
SELECT chainify.set_agreement_check('public.t', NULL);
RESET search_path;
CREATE FUNCTION x.ok(a pg_catalog.text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN test.seize('admin'); END $$;
CREATE DOMAIN x.text AS pg_catalog.text CHECK (x.ok(VALUE));
SET search_path = x, pg_catalog;
SELECT chainify.set_agreement_check('public.t', NULL);
RESET search_path;
RESET ROLE;
SELECT test.gained();
SELECT test.forgive();
DROP DOMAIN x.text;
DROP OPERATOR x.= (text, text);
-- It still finds names by the caller's search_path, with the caller's rights.
CREATE SCHEMA y;
GRANT ALL ON SCHEMA y TO admin;
SET ROLE admin;
CREATE FUNCTION y.agree(op text, o public.t, n public.t) RETURNS boolean LANGUAGE sql AS 'SELECT true';
SET search_path = y, public;
SELECT chainify.set_agreement_check('t', 'agree');
RESET search_path;
\set VERBOSITY terse
SELECT chainify.set_agreement_check('t', 'agree');
SELECT chainify.set_agreement_check('nothing', 'agree');
\set VERBOSITY default
RESET ROLE;
SELECT name, function::regprocedure FROM chainify_ledger.agreement_check;
DELETE FROM chainify_ledger.agreement_check;
SELECT test.forgive();

-- The search_path that a client's function sets while it draws from a sequence of the ledger.
SELECT * FROM test.deploy('CREATE TABLE led (id serial PRIMARY KEY, n int); GRANT ALL ON led TO alice; GRANT USAGE ON SEQUENCE led_id_seq TO alice');
SET ROLE alice;
CREATE FUNCTION x.eq2(a text, b text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM test.seize('alice');
    RETURN a OPERATOR(pg_catalog.=) b;
END $$;
CREATE OPERATOR x.= (LEFTARG = text, RIGHTARG = text, FUNCTION = x.eq2);
CREATE FUNCTION x.draw() RETURNS bigint LANGUAGE plpgsql SET search_path = x, pg_catalog AS $$ BEGIN RETURN nextval('public.led_id_seq'); END $$;
RESET ROLE;
SELECT ok, sqlstate FROM test.run('INSERT INTO led (id, n) VALUES (x.draw(), 1)');
SELECT test.gained();
SELECT test.forgive();

-- Operators in public, where a block's statements look: for types between which there is none of PostgreSQL's own.
SET ROLE alice;
CREATE FUNCTION public.eq(a oid, b regnamespace) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM test.seize('alice');
    RETURN a OPERATOR(pg_catalog.=) b::oid;
END $$;
CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = regnamespace, FUNCTION = public.eq);
CREATE FUNCTION public.eq(a oid, b regprocedure) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_user <> 'alice' THEN EXECUTE $p$COPY (SELECT current_user) TO PROGRAM 'cat > proof'$p$; END IF;
    RETURN a OPERATOR(pg_catalog.=) b::oid;
END $$;
CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = regprocedure, FUNCTION = public.eq);
RESET ROLE;
SELECT ok, sqlstate FROM test.deploy('CREATE FUNCTION innocent() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN abs(1); END $$');
SELECT test.gained();
-- In a rehearsal, which is undone but for what a program did.
SELECT ok, sqlstate FROM test.deploy('CREATE TABLE trades (id int PRIMARY KEY, buyer text); GRANT ALL ON trades TO alice');
SELECT ok, sqlstate FROM test.deploy($$SET AGREEMENT POLICY public.trades TO org(buyer)$$);
CREATE FUNCTION agree(op text, o trades, n trades) RETURNS boolean LANGUAGE sql AS 'SELECT true';
SELECT chainify.set_agreement_check('trades', 'public.agree');
SELECT * FROM chainify_node.rehearse(test.tx($$INSERT INTO trades VALUES (1, 'acme')$$), 1700000000000000);
SELECT pg_read_file('proof', 0, 100, true) IS NULL AS no_proof;
SELECT test.gained();
SELECT test.forgive();

-- What the ledger executes in place of PostgreSQL's own functions, and behind views, nobody calls by name: not a client that is a reader, in no
-- session and in no block. An identity's sequence asks for no right.
SELECT ok, sqlstate FROM test.deploy('CREATE TABLE numbered (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int); GRANT INSERT, SELECT ON numbered TO alice');
GRANT chainify_reader TO alice;
SELECT n.nspname, string_agg(r, ' ' ORDER BY r) FILTER (WHERE has_schema_privilege(r, n.oid, 'USAGE')) AS usage
FROM pg_namespace n, unnest(ARRAY['public', 'chainify_client', 'chainify_reader', 'chainify_admin', 'chainify_node', 'alice']) r WHERE n.nspname = 'chainify_ledger' GROUP BY 1;
\set VERBOSITY terse
SET ROLE alice;
SELECT chainify_ledger.announce_tables();
SELECT chainify_ledger.next_identity('numbered_id_seq');
RESET ROLE;
SELECT ok, sqlstate, message FROM test.run($$SELECT chainify_ledger.next_identity('numbered_id_seq')$$, 'INSERT INTO numbered (n) VALUES (1)');
SELECT * FROM numbered;
REVOKE chainify_reader FROM alice;
