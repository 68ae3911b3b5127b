-- Blocks: turn, chain, repetition, quarantine.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE t (id int PRIMARY KEY, v int);
GRANT ALL ON t TO alice;
SELECT * FROM test.deploy('ATTACH TABLE public.t');
SELECT number, length(hash) AS hash, certified FROM chainify_node.position();

-- executed again after ROLLBACK it is the same block
BEGIN;
SELECT r.hash AS first FROM chainify_node.position() p, chainify_node.execute_block(2, 20, 1700000000000000, p.hash, test.buffer(ARRAY[test.tx('INSERT INTO t SELECT g, g FROM generate_series(1, 100) g', nonce => 1), test.tx('DELETE FROM t WHERE id % 3 = 0', nonce => 2)])) r \gset
ROLLBACK;
SELECT count(*) FROM t;
SELECT number FROM chainify_node.position();
SELECT r.hash = :'first' AS same, r.outcomes, r.rows, r.sqlstates, r.messages, length(r.header) AS header, sha256(r.header) = r.hash AS header_hashes FROM chainify_node.position() p, chainify_node.execute_block(2, 20, 1700000000000000, p.hash, test.buffer(ARRAY[test.tx('INSERT INTO t SELECT g, g FROM generate_series(1, 100) g', nonce => 1), test.tx('DELETE FROM t WHERE id % 3 = 0', nonce => 2)])) r;
SELECT number, tx_count, effects_count, hash = :'first' AS same, previous_hash = (SELECT hash FROM chainify_ledger.block WHERE number = 1) AS chained FROM chainify_ledger.block WHERE number = 2;

-- out of turn, wrong previous hash, malformed: refused, and nothing changes
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
SELECT chainify_node.execute_block(2, 21, 0, (SELECT hash FROM chainify_node.position()), test.buffer(ARRAY[test.tx('SELECT 1')]));
SELECT chainify_node.execute_block(4, 21, 0, (SELECT hash FROM chainify_node.position()), test.buffer(ARRAY[test.tx('SELECT 1')]));
SELECT chainify_node.execute_block(3, 21, 0, sha256('x'), test.buffer(ARRAY[test.tx('SELECT 1')]));
SELECT chainify_node.execute_block(3, 21, 0, NULL, test.buffer(ARRAY[test.tx('SELECT 1')]));
SELECT chainify_node.execute_block(3, 21, 0, (SELECT hash FROM chainify_node.position()), '\x');
SELECT chainify_node.execute_block(3, 21, 0, (SELECT hash FROM chainify_node.position()), '\x00000000');
SELECT chainify_node.execute_block(3, 21, 0, (SELECT hash FROM chainify_node.position()), '\x0000000100');
SELECT chainify_node.execute_block(3, 21, 0, (SELECT hash FROM chainify_node.position()), '\x0000000100000001ff');
SELECT chainify_node.execute_block(3, 21, 0, (SELECT hash FROM chainify_node.position()), test.buffer(ARRAY[test.tx('SELECT 1')]) || '\x00');
SELECT chainify_node.execute_block(3, 21, -9223372036854775808, (SELECT hash FROM chainify_node.position()), test.buffer(ARRAY[test.tx('SELECT 1')]));
SELECT chainify_node.execute_block(3, -1, 0, (SELECT hash FROM chainify_node.position()), test.buffer(ARRAY[test.tx('SELECT 1')]));
SELECT chainify_node.init('otherchain', 'acme', '[]');
SELECT chainify_node.init('testchain', 'acme', '[]');
SET ROLE alice;
SELECT chainify_node.execute_block(3, 21, 0, '', '');
SELECT chainify_node.position();
RESET ROLE;
\set VERBOSITY default
SELECT chainify_node.execute_block(3, 21, 0, (SELECT hash FROM chainify_node.position()), '\x0000000100000001ff');
SELECT chainify_node.execute_block(7, 21, 0, (SELECT hash FROM chainify_node.position()), '');
SELECT number FROM chainify_node.position();

-- what the node calls is the node's alone; what is behind the users' functions has no rights of its own, and nobody comes to it by name
SELECT p.oid::regprocedure AS function, r AS role FROM pg_proc p, unnest(ARRAY['public', 'chainify_client', 'chainify_reader', 'chainify_admin', 'alice', 'admin', 'stranger']) r WHERE pronamespace = 'chainify_node'::regnamespace AND has_function_privilege(r, p.oid, 'EXECUTE') ORDER BY 1, 2;
SELECT p.oid::regprocedure AS not_for_the_node FROM pg_proc p WHERE pronamespace = 'chainify_node'::regnamespace AND NOT has_function_privilege('chainify_node', p.oid, 'EXECUTE') ORDER BY 1;
SELECT n.nspname AS schema, string_agg(r, ' ' ORDER BY r) FILTER (WHERE has_schema_privilege(r, n.oid, 'USAGE')) AS usage, string_agg(r, ' ' ORDER BY r) FILTER (WHERE has_schema_privilege(r, n.oid, 'CREATE')) AS create
FROM pg_namespace n, unnest(ARRAY['public', 'chainify_client', 'chainify_reader', 'chainify_admin', 'chainify_node']) r WHERE n.nspname LIKE 'chainify%' GROUP BY 1 ORDER BY 1;
SELECT p.oid::regprocedure AS definers_and_public FROM pg_proc p WHERE pronamespace = 'chainify_ledger'::regnamespace AND prosecdef AND has_function_privilege('public', p.oid, 'EXECUTE') ORDER BY 1;
SELECT r AS role, p.oid::regprocedure AS function FROM pg_proc p, unnest(ARRAY['chainify_client', 'chainify_reader', 'chainify_admin']) r
WHERE pronamespace = 'chainify_ledger'::regnamespace AND has_function_privilege(r, p.oid, 'EXECUTE') AND NOT has_function_privilege('public', p.oid, 'EXECUTE') ORDER BY 1, proname;
SELECT p.oid::regprocedure AS helper_of_all FROM pg_proc p WHERE pronamespace = 'chainify_ledger'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE') ORDER BY proname, pronargs;
-- of the users' functions, which are not for everybody, and whose they are
SELECT p.oid::regprocedure AS function, string_agg(r, ' ' ORDER BY r) FILTER (WHERE has_function_privilege(r, p.oid, 'EXECUTE')) AS may FROM pg_proc p, unnest(ARRAY['public', 'chainify_client', 'chainify_reader', 'chainify_admin']) r
WHERE pronamespace = 'chainify'::regnamespace AND NOT has_function_privilege('public', p.oid, 'EXECUTE') GROUP BY p.oid ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT c.oid::regclass AS written, r AS role FROM pg_class c, unnest(ARRAY['public', 'chainify_client', 'chainify_reader', 'chainify_admin', 'chainify_node', 'alice']) r
WHERE relnamespace::regnamespace::text LIKE 'chainify%' AND relkind IN ('r', 'v', 'm', 'p', 'f') AND has_table_privilege(r, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER, REFERENCES') ORDER BY 1, 2;

-- a member of chainify_node that owns nothing
GRANT chainify_node TO stranger;
SELECT test.buffer(ARRAY[test.tx('INSERT INTO t VALUES (900, 1)')]) AS buffer \gset
SET ROLE stranger;
SELECT number FROM chainify_node.position();
SELECT r.outcomes FROM chainify_node.position() p, chainify_node.execute_block(3, 21, 1700000001000000, p.hash, '\x00000000') r;
BEGIN;
SELECT r.outcomes, r.sqlstates FROM chainify_node.position() p, chainify_node.execute_block(3, 21, 1700000001000000, p.hash, :'buffer') r;
SELECT current_user, current_setting('session_replication_role');
ROLLBACK;
RESET ROLE;
REVOKE chainify_node FROM stranger;

-- quarantined: not run
SELECT r.outcomes, r.sqlstates FROM chainify_node.position() p, chainify_node.execute_block(3, 21, 1700000001000000, p.hash,
    test.buffer(ARRAY[test.tx('INSERT INTO t VALUES (1000, 1)'), test.tx('INSERT INTO t VALUES (1001, 1)')]), ARRAY[0]) r;
SELECT r.outcomes, r.sqlstates FROM chainify_node.position() p, chainify_node.execute_block(4, 22, 1700000001000000, p.hash,
    test.buffer(ARRAY[test.tx('INSERT INTO t VALUES (1002, 1)'), test.tx('INSERT INTO t VALUES (1003, 1)')]), '{}', true) r;
SELECT * FROM t WHERE id >= 1000;
SELECT test.states_hold();

-- an error of the machine is no outcome: the block fails as a whole; here the disk has no room for temporary files
CREATE FUNCTION sort_much() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM (SELECT i FROM generate_series(1, 50000) i ORDER BY i) s); END $$;
CREATE FUNCTION sort_unless_refused() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM sort_much(); EXCEPTION WHEN OTHERS THEN NULL; END $$;
CREATE FUNCTION sort_or_fail_otherwise() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM sort_much(); EXCEPTION WHEN OTHERS THEN RAISE EXCEPTION 'otherwise'; END $$;
SET work_mem = '64kB';
SET temp_file_limit = 0;
\set VERBOSITY sqlstate
SELECT * FROM test.run('SELECT sort_much()');
-- nor one that a function caught, for what the function did then was decided by the machine
SELECT * FROM test.run('SELECT sort_unless_refused()');
SELECT * FROM test.run('SELECT sort_or_fail_otherwise()');
\set VERBOSITY default
SELECT * FROM test.run('SELECT 1', 'SELECT sort_unless_refused()');
-- the same for one that shares a subtransaction with others
SET chainify.group_after = 0;
SELECT * FROM test.run('SELECT 1', 'SELECT 2', 'SELECT sort_unless_refused()');
RESET chainify.group_after;
RESET work_mem;
RESET temp_file_limit;
-- a statement that says it was the machine is an ordinary failure, the same everywhere
BEGIN;
CREATE FUNCTION break_down(state text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken' USING ERRCODE = state; END $$;
CREATE FUNCTION break_down_unseen(state text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM break_down(state); EXCEPTION WHEN OTHERS OR query_canceled THEN RETURN 1; END $$;
SELECT tx, ok, sqlstate, message FROM test.run(VARIADIC ARRAY(SELECT format('SELECT %s(%L)', f, s)
    FROM unnest(ARRAY['53100', '58030', '57014', 'XX001', '40P01', '55P03']) s, unnest(ARRAY['break_down', 'break_down_unseen']) f ORDER BY f, s));
ROLLBACK;
SELECT number FROM chainify_node.position();
SELECT * FROM test.run('INSERT INTO t VALUES (2000, 1)');

-- guard off and a changed row: from the next block on the state root is another one
BEGIN;
SELECT r.hash AS honest FROM chainify_node.position() p, chainify_node.execute_block(6, 30, 1700000009000000, p.hash, test.buffer(ARRAY[test.tx('UPDATE t SET v = v + 1 WHERE id = 2000', nonce => 5)])) r \gset
ROLLBACK;
BEGIN;
SET LOCAL chainify.guard = off;
UPDATE t SET v = 500 WHERE id = 2000;
SELECT r.hash = :'honest' AS same FROM chainify_node.position() p, chainify_node.execute_block(6, 30, 1700000009000000, p.hash, test.buffer(ARRAY[test.tx('UPDATE t SET v = 2 WHERE id = 2000', nonce => 5)])) r;
SELECT test.states_hold();
ROLLBACK;
SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid();

-- the index of blocks learns of blocks whose rows come to pages that it knows already, several rows to a page
SELECT brin_summarize_new_values('chainify_ledger.transaction_block') >= 0 AS summarised;
SELECT count(*) FILTER (WHERE ok) AS ok FROM test.run('SELECT 1', 'SELECT 2', 'SELECT 3');
SELECT count(*) FILTER (WHERE ok) AS ok FROM test.run('SELECT 1', 'SELECT 2', 'SELECT 3');
SET enable_seqscan = off;
SELECT max(number) AS last FROM chainify_ledger.block \gset
EXPLAIN (COSTS OFF) SELECT count(*) FROM chainify_ledger.transaction WHERE block = :last;
SELECT number - :last AS block, (SELECT count(*) FROM chainify_ledger.transaction WHERE block = number) AS transactions FROM chainify_ledger.block WHERE number >= :last - 1 ORDER BY number;
RESET enable_seqscan;
-- an error of the machine is none of the transaction's, also a lock that is not to be had, and data or an index that is broken here
CREATE EXTENSION dblink;
CREATE EXTENSION pg_surgery;
CREATE TABLE machine (id int PRIMARY KEY, v text);
CREATE INDEX machine_hash ON machine USING hash (id);
GRANT ALL ON machine TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.machine');
SELECT ok FROM test.run($$INSERT INTO machine SELECT 1, string_agg(md5(i::text), '' ORDER BY i) FROM generate_series(1, 200) i$$);
SELECT dblink_connect('other', format('host=%s dbname=%s', split_part(current_setting('unix_socket_directories'), ',', 1), current_database()));
SELECT dblink_exec('other', 'SET chainify.guard = off; BEGIN; LOCK TABLE machine IN ACCESS EXCLUSIVE MODE');
CREATE FUNCTION waits() RETURNS int LANGUAGE plpgsql SET lock_timeout = 1 AS $$ BEGIN RETURN (SELECT count(*) FROM machine); END $$;
\set VERBOSITY sqlstate
SELECT * FROM test.run('SELECT waits()');
SELECT dblink_exec('other', 'ROLLBACK');
BEGIN;
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'machine'::regclass \gset
SELECT heap_force_kill(:'toast', ARRAY(SELECT ctid FROM :toast));
SELECT * FROM test.run('SELECT length(v || id) FROM machine WHERE id = 1');
ROLLBACK;
BEGIN;
SET LOCAL chainify.guard = off;
UPDATE pg_class SET relfilenode = (SELECT relfilenode FROM pg_class WHERE relname = 'machine_hash') WHERE relname = 'machine_pkey';
SET LOCAL chainify.guard = on;
SELECT * FROM test.run('UPDATE machine SET id = 2 WHERE id = 1');
ROLLBACK;
\set VERBOSITY default
-- names that the order does not know by this spelling, or none; and organisations of no chain
SELECT chainify_node.init('Testchain', 'acme');
SELECT chainify_node.init('testchain', 'Acme');
SELECT chainify_node.init(NULL, 'acme');
BEGIN;
DELETE FROM chainify_ledger.chain;
SELECT chainify_node.set_registry('[]');
ROLLBACK;
