-- What could differ between organisations is refused with its reason, and its rewrite is accepted.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, balance numeric(12, 2) NOT NULL, rate float8, seen timestamptz, tag uuid);
CREATE TABLE entry (account int NOT NULL REFERENCES account, n int NOT NULL, amount numeric(12, 2) NOT NULL, PRIMARY KEY (account, n));
INSERT INTO account SELECT g, 'o' || g, 100, g FROM generate_series(1, 5) g;
INSERT INTO entry SELECT a, n, 10 * n FROM generate_series(1, 5) a, generate_series(1, 2) n;
CREATE VIEW newest AS SELECT * FROM account ORDER BY balance LIMIT 1;
CREATE VIEW richest AS SELECT * FROM account ORDER BY balance, id LIMIT 1;
CREATE COLLATION nodet (provider = icu, locale = 'und', deterministic = false);
CREATE SEQUENCE numbers;
GRANT ALL ON account, entry, newest, richest TO alice;
GRANT USAGE ON SEQUENCE numbers TO alice;
SELECT * FROM test.deploy('ATTACH TABLE public.account, public.entry');

-- what each statement is refused for; nothing: it is deterministic
CREATE TABLE test.seen (construct text, reason text, rewrite text);
CREATE FUNCTION test.verdicts(VARIADIC sqls text[]) RETURNS TABLE (sql text, refused_for text) LANGUAGE sql AS $$
    INSERT INTO test.seen SELECT construct, reason, rewrite FROM unnest(sqls) u (s), chainify.analyze(s) WHERE verdict <> 'deterministic';
    SELECT s, string_agg(a.construct, '; ' ORDER BY a.statement, a.construct) FROM unnest(sqls) WITH ORDINALITY u (s, i), chainify.analyze(s) a GROUP BY i, s ORDER BY i
$$;

-- functions: time, randomness, sequences, the session, the server, files, catalogs, queries in text
SELECT * FROM test.verdicts('SELECT clock_timestamp()', 'SELECT timeofday()', 'SELECT now(), transaction_timestamp(), statement_timestamp(), current_date, localtimestamp',
    'SELECT gen_random_uuid()', 'SELECT chainify.uuid()', 'SELECT random()', 'SELECT setseed(0.5)',
    'SELECT nextval(''numbers'')', 'SELECT currval(''numbers'')', 'SELECT lastval()', 'SELECT setval(''numbers'', 1)',
    'SELECT pg_sleep(1)', 'SELECT txid_current()', 'SELECT pg_current_xact_id()', 'SELECT pg_backend_pid()', 'SELECT inet_client_addr()', 'SELECT inet_server_port()',
    'SELECT version()', 'SELECT current_setting(''TimeZone'')', 'SELECT set_config(''a.b'', ''c'', true)', 'SELECT current_database()', 'SELECT current_catalog', 'SELECT session_user', 'SELECT current_user, current_schema',
    'SELECT pg_postmaster_start_time()', 'SELECT current_query()', 'SELECT pg_advisory_xact_lock(1)', 'SELECT pg_try_advisory_lock(1)',
    'SELECT lo_create(0)', 'SELECT lo_get(1)', 'SELECT pg_read_file(''x'')', 'SELECT pg_ls_dir(''.'')', 'SELECT query_to_xml(''SELECT 1'', true, true, '''')',
    'SELECT to_regclass(''account'') IS NULL', 'SELECT pg_get_viewdef(''newest''::regclass)', 'SELECT ''account''::regclass', 'SELECT has_table_privilege(''account'', ''SELECT'')',
    'SELECT pg_notify(''a'', ''b'')', 'SELECT pg_relation_size(1)', 'SELECT age(''3''::xid)');
SELECT * FROM test.verdicts('SELECT upper(owner), length(owner), round(balance), to_char(seen, ''YYYY''), date_trunc(''day'', seen), seen + interval ''1 day'', seen > ''2020-01-01'', balance::text, owner || id, format(''%s'', id), jsonb_build_object(''a'', id), to_jsonb(account), age(seen), extract(year FROM seen), ARRAY[1, 2] @> ARRAY[id], greatest(id, 2), md5(owner) FROM account');
-- where they hide: conditions, subqueries, WITH, VALUES, RETURNING, ON CONFLICT, MERGE, functions in FROM, views
SELECT * FROM test.verdicts('DELETE FROM account WHERE seen < clock_timestamp()', 'UPDATE account SET seen = (SELECT clock_timestamp()) WHERE id = 1',
    'WITH t AS (SELECT clock_timestamp() c) SELECT c FROM t', 'INSERT INTO account (id, owner, balance, seen) VALUES (1, ''a'', 1, now()), (2, ''b'', 1, clock_timestamp())',
    'DELETE FROM account RETURNING clock_timestamp()', 'INSERT INTO account VALUES (1, ''a'', 1) ON CONFLICT (id) DO UPDATE SET seen = clock_timestamp()',
    'MERGE INTO account a USING entry e ON a.id = e.account AND e.n = 1 WHEN MATCHED THEN UPDATE SET seen = clock_timestamp()',
    'SELECT * FROM pg_ls_dir(''.'')', 'SELECT * FROM account WHERE id IN (SELECT pid FROM pg_stat_activity)', 'SELECT * FROM newest', 'SELECT * FROM richest',
    'SELECT count(*) FROM account HAVING random() > 0.5', 'SELECT 1 LIMIT (SELECT pg_backend_pid())');
-- catalogs, system columns, cursors, samples, locks that do not wait
SELECT * FROM test.verdicts('SELECT relname FROM pg_class', 'SELECT table_name FROM information_schema.tables', 'SELECT ctid FROM account', 'SELECT xmin, tableoid FROM account', 'DELETE FROM account WHERE ctid = ''(0,1)''',
    'DELETE FROM account WHERE CURRENT OF c', 'SELECT * FROM account TABLESAMPLE SYSTEM (10)', 'SELECT * FROM account TABLESAMPLE BERNOULLI (10) REPEATABLE (1)',
    'SELECT * FROM account FOR UPDATE SKIP LOCKED', 'SELECT * FROM account FOR UPDATE NOWAIT', 'SELECT * FROM account FOR UPDATE');
-- LIMIT, OFFSET, DISTINCT ON
SELECT * FROM test.verdicts('SELECT * FROM account LIMIT 1', 'SELECT * FROM account ORDER BY balance LIMIT 1', 'SELECT * FROM account ORDER BY balance, id LIMIT 1', 'SELECT * FROM account OFFSET 1', 'SELECT * FROM account LIMIT ALL',
    'SELECT balance FROM account ORDER BY balance LIMIT 1', 'SELECT id, balance FROM account ORDER BY balance LIMIT 1', 'SELECT * FROM account WHERE id = $1 LIMIT 1', 'SELECT count(*) FROM account LIMIT 1',
    'SELECT * FROM account ORDER BY balance FETCH FIRST 2 ROWS WITH TIES', 'SELECT * FROM account ORDER BY balance OFFSET 1 FETCH FIRST 2 ROWS WITH TIES',
    'SELECT owner, sum(balance) FROM account GROUP BY owner ORDER BY owner LIMIT 1', 'SELECT owner, sum(balance) FROM account GROUP BY owner ORDER BY 2 LIMIT 1', 'SELECT owner, sum(balance) FROM account GROUP BY GROUPING SETS ((owner), ()) ORDER BY owner LIMIT 1',
    'SELECT DISTINCT owner FROM account ORDER BY owner LIMIT 1', 'SELECT id FROM account UNION SELECT n FROM entry ORDER BY 1 LIMIT 1', 'SELECT id, rate FROM account UNION ALL SELECT n, 1 FROM entry ORDER BY 1 LIMIT 1',
    'SELECT * FROM generate_series(1, 9) LIMIT 3', 'SELECT 1 FROM account LIMIT 1', 'SELECT * FROM account a JOIN entry e ON e.account = a.id ORDER BY e.account, n LIMIT 1', 'SELECT * FROM account a JOIN entry e ON e.account = a.id ORDER BY a.id LIMIT 1', 'SELECT * FROM account a JOIN entry e ON e.account = a.id WHERE e.n = 1 ORDER BY a.id LIMIT 1',
    'SELECT * FROM account a LEFT JOIN entry e ON e.account = a.id AND e.n = 1 ORDER BY a.id LIMIT 1', 'SELECT * FROM account a LEFT JOIN entry e ON e.account = a.id AND e.n = 1 ORDER BY e.account LIMIT 1', 'SELECT * FROM account a FULL JOIN entry e ON e.account = a.id ORDER BY e.account, e.n LIMIT 1',
    'SELECT * FROM account WHERE EXISTS (SELECT FROM entry LIMIT 1)', 'UPDATE account SET balance = (SELECT amount FROM entry LIMIT 1) WHERE id = 1', 'UPDATE account SET balance = (SELECT amount FROM entry e WHERE e.account = account.id ORDER BY n DESC LIMIT 1)',
    'DELETE FROM account WHERE id IN (SELECT id FROM account LIMIT 2)', 'DELETE FROM account WHERE id IN (SELECT id FROM account ORDER BY id LIMIT 2)',
    'SELECT DISTINCT ON (owner) owner, id FROM account', 'SELECT DISTINCT ON (owner) owner, id FROM account ORDER BY owner, id', 'SELECT DISTINCT ON (owner) owner, rate FROM account ORDER BY owner, rate',
    'SELECT * FROM account ORDER BY owner COLLATE "und-x-icu", id LIMIT 1', 'SELECT * FROM account ORDER BY owner COLLATE "C", id LIMIT 1', 'SELECT * FROM account WHERE owner = ''A'' COLLATE nodet',
    'SELECT ARRAY(SELECT rate FROM account)', 'SELECT ARRAY(SELECT rate FROM account ORDER BY id)');
-- aggregates and windows
SELECT * FROM test.verdicts('SELECT array_agg(owner) FROM account', 'SELECT array_agg(owner ORDER BY id) FROM account', 'SELECT array_agg(owner ORDER BY owner) FROM account', 'SELECT array_agg(rate ORDER BY owner) FROM account', 'SELECT array_agg(DISTINCT owner) FROM account',
    'SELECT string_agg(owner, '','') FROM account', 'SELECT string_agg(owner, '','' ORDER BY owner) FROM account', 'SELECT json_agg(account) FROM account', 'SELECT jsonb_object_agg(id, owner) FROM account', 'SELECT account, array_agg(n ORDER BY n) FROM entry GROUP BY account', 'SELECT account, array_agg(amount ORDER BY n) FROM entry GROUP BY account', 'SELECT array_agg(g) FROM generate_series(1, 3) g',
    'SELECT sum(rate) FROM account', 'SELECT avg(rate), stddev(rate) FROM account', 'SELECT corr(rate, rate) FROM account', 'SELECT sum(rate::numeric) FROM account', 'SELECT sum(rate ORDER BY rate) FROM account', 'SELECT min(rate), max(rate), sum(balance), avg(balance), count(*), bool_and(id > 0) FROM account',
    'SELECT sum(rate) OVER (PARTITION BY owner) FROM account', 'SELECT row_number() OVER (ORDER BY balance) FROM account', 'SELECT row_number() OVER (ORDER BY balance, id) FROM account', 'SELECT rank() OVER (ORDER BY balance) FROM account', 'SELECT lag(id) OVER (ORDER BY owner), first_value(id) OVER (PARTITION BY owner) FROM account', 'SELECT row_number() OVER (PARTITION BY account ORDER BY n) FROM entry',
    'SELECT sum(id) OVER (ORDER BY owner) FROM account', 'SELECT sum(id) OVER (ORDER BY owner ROWS UNBOUNDED PRECEDING) FROM account');
-- changes that depend on which row comes first
SELECT * FROM test.verdicts('UPDATE account SET balance = amount FROM entry WHERE entry.account = id', 'UPDATE account SET balance = amount FROM entry WHERE entry.account = id AND n = 1', 'UPDATE entry SET amount = balance FROM account WHERE id = entry.account', 'UPDATE account SET balance = s FROM (SELECT account a, sum(amount) s FROM entry GROUP BY account) e WHERE a = id', 'WITH e AS (SELECT account a, sum(amount) s FROM entry GROUP BY 1) UPDATE account SET balance = s FROM e WHERE a = id',
    'WITH gone AS (DELETE FROM entry WHERE account = 1 AND n = 1 RETURNING amount) UPDATE account SET balance = amount FROM gone WHERE id = 1', 'WITH gone AS (DELETE FROM entry WHERE account = 1 RETURNING amount) UPDATE account SET balance = amount FROM gone WHERE id = 1', 'UPDATE account SET balance = b FROM (VALUES (1, 5)) v (i, b) WHERE id = i',
    'DELETE FROM account USING entry WHERE entry.account = id', 'WITH d AS (DELETE FROM account USING entry WHERE entry.account = id RETURNING n) SELECT n FROM d', 'MERGE INTO account a USING entry e ON a.id = e.account WHEN MATCHED THEN UPDATE SET balance = amount',
    'INSERT INTO account SELECT account, ''x'', amount FROM entry ON CONFLICT DO NOTHING', 'INSERT INTO account SELECT account, ''x'', amount FROM entry ORDER BY account, n ON CONFLICT DO NOTHING', 'INSERT INTO account VALUES (1, ''a'', 1), (1, ''b'', 1) ON CONFLICT DO NOTHING', 'INSERT INTO account SELECT account, ''x'', amount FROM entry',
    'UPDATE account SET rate = random()', 'UPDATE account SET rate = random() WHERE id = 1', 'UPDATE account SET tag = chainify.uuid()', 'DELETE FROM account WHERE random() < 0.5', 'INSERT INTO account (id, owner, balance, tag) SELECT n, ''x'', 0, chainify.uuid() FROM entry', 'INSERT INTO account (id, owner, balance, tag) SELECT n, ''x'', 0, chainify.uuid() FROM entry ORDER BY account, n', 'INSERT INTO account (id, owner, balance, rate) SELECT g, ''x'', 0, random() FROM generate_series(10, 12) g', 'INSERT INTO account (id, owner, balance, tag) VALUES (20, ''x'', 0, chainify.uuid()), (21, ''y'', 0, chainify.uuid())');

-- what is drawn before rows are put in order, or once for each row that is not returned; and as often as a join likes
SELECT * FROM test.verdicts('SELECT sum(random()) FROM account', 'SELECT sum(random()) FROM generate_series(1, 3)', 'SELECT id FROM account ORDER BY random(), id', 'SELECT id FROM account ORDER BY id, random() LIMIT 1', 'SELECT DISTINCT id, random() FROM account ORDER BY id, 2', 'SELECT random() FROM account GROUP BY id, random() ORDER BY id',
    'UPDATE account SET rate = 1 WHERE id = 1 AND random() > 0', 'UPDATE account SET rate = random() WHERE id = 1', 'SELECT random() FROM account ORDER BY id', 'SELECT random() WHERE random() > 0.5', 'SELECT * FROM account, (SELECT random()) r', 'SELECT * FROM (SELECT random()) r', 'WITH r AS (SELECT random() r) SELECT * FROM account, r', 'WITH r AS (SELECT random() r) SELECT r, random() FROM r',
    'SELECT max(random()) OVER (ORDER BY id) FROM account ORDER BY id');

-- functions of users
CREATE FUNCTION late() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';
CREATE FUNCTION late_atomic() RETURNS timestamptz LANGUAGE sql VOLATILE BEGIN ATOMIC SELECT clock_timestamp(); END;
CREATE FUNCTION late_assigned() RETURNS timestamptz LANGUAGE plpgsql AS $$ DECLARE t timestamptz; BEGIN t := clock_timestamp(); RETURN t; END $$;
CREATE FUNCTION late_dynamic() RETURNS timestamptz LANGUAGE plpgsql AS $$ DECLARE t timestamptz; BEGIN EXECUTE 'SELECT clock_timestamp()' INTO t; RETURN t; END $$;
CREATE FUNCTION first_found() RETURNS int LANGUAGE plpgsql AS $$ DECLARE i int; BEGIN SELECT id INTO i FROM account; RETURN i; END $$;
CREATE FUNCTION loops() RETURNS void LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN FOR r IN SELECT * FROM account WHERE balance > 0 LOOP UPDATE account SET balance = r.balance WHERE id = 1; END LOOP; END $$;
CREATE FUNCTION loops_in_order() RETURNS void LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN FOR r IN SELECT * FROM account WHERE balance > 0 ORDER BY id LOOP UPDATE account SET balance = r.balance WHERE id = 1; END LOOP; END $$;
CREATE FUNCTION rows_of() RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT id FROM account LIMIT 1';
CREATE FUNCTION foreign_code() RETURNS int LANGUAGE internal AS 'pg_backend_pid';
CREATE FUNCTION pays(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE account SET balance = balance - 1 WHERE id = i; RETURN i; END $$;
SELECT tx, ok, sqlstate, message FROM test.run('UPDATE account SET seen = late() WHERE id = 1', 'UPDATE account SET seen = late_atomic() WHERE id = 1', 'UPDATE account SET seen = late_assigned() WHERE id = 1', 'UPDATE account SET seen = late_dynamic() WHERE id = 1',
    'SELECT first_found()', 'SELECT loops()', 'SELECT loops_in_order()', 'SELECT * FROM rows_of()', 'SELECT foreign_code()', 'SELECT pays(1)', 'SELECT pays(id) FROM account', 'SELECT pays(id) FROM account ORDER BY id');
-- what a call leaves to a default is part of the statement
CREATE FUNCTION defaulted(i int, t timestamptz DEFAULT clock_timestamp(), u float8 DEFAULT 1) RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RETURN t; END $$;
SELECT * FROM test.verdicts('SELECT defaulted(1)', 'SELECT defaulted(1, now())', 'SELECT defaulted(i => 1, u => 2)', 'SELECT defaulted(u => 2, i => 1, t => now())', 'SELECT * FROM defaulted(1)', 'SELECT (SELECT defaulted(1))', 'UPDATE account SET seen = defaulted(1) WHERE id = 1');
SELECT tx, ok, sqlstate, message FROM test.run('SELECT defaulted(1)', 'SELECT defaulted(1, now())');
-- a plan that this session made outside of a block is checked as well
CREATE FUNCTION planned() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RETURN clock_timestamp(); END $$;
SELECT planned() IS NOT NULL;
SELECT ok, sqlstate, message FROM test.run('UPDATE account SET seen = planned() WHERE id = 1');
-- each of them says why, and what to write instead
SELECT min(construct COLLATE "C") AS construct, reason, rewrite FROM test.seen GROUP BY reason, rewrite ORDER BY 1;
-- refusals are outcomes: the block goes on
SELECT tx, ok, rows, sqlstate, message FROM test.run('UPDATE account SET seen = clock_timestamp() WHERE id = 1', 'UPDATE account SET seen = now(), balance = 7 WHERE id = 1', 'DELETE FROM entry WHERE account = 2; SELECT * FROM entry LIMIT 1', 'DELETE FROM entry WHERE account = 3; DELETE FROM account WHERE id = 3', 'DELETE FROM account WHERE id = 2');
SELECT id, balance, seen AT TIME ZONE 'UTC' AS seen FROM account WHERE id < 4 ORDER BY id;
SELECT test.states_hold();

-- chainify.uuid() follows from the transaction
SELECT chainify.uuid();
BEGIN;
SELECT ok FROM test.block(test.tx('UPDATE account SET tag = chainify.uuid() WHERE id = 1; UPDATE account SET tag = chainify.uuid() WHERE id = 2', nonce => 900));
SELECT tag AS first FROM account WHERE id = 1 \gset
ROLLBACK;
SELECT ok FROM test.block(test.tx('UPDATE account SET tag = chainify.uuid() WHERE id = 1; UPDATE account SET tag = chainify.uuid() WHERE id = 2', nonce => 900));
SELECT tag = :'first' AS same, substr(tag::text, 15, 1) AS version, tag <> (SELECT tag FROM account WHERE id = 2) AS differ FROM account WHERE id = 1;

-- chainify.analyze: whole rows, as a client, and nothing is run
SET ROLE alice;
\x on
SELECT * FROM chainify.analyze($$UPDATE account SET owner = 'it''s', balance = 1.5e3, seen = clock_timestamp() WHERE id = $2; DELETE FROM account WHERE id = 7 -- 8
    AND owner = E'a\'b' || $t$ x $t$; DROP TABLE account; TRUNCATE entry$$);
\x off
SELECT count(*) FROM account;
SELECT * FROM chainify.analyze('SELEC 1');
SELECT * FROM chainify.analyze('SELECT nothing FROM account');
RESET ROLE;
SET ROLE stranger;
SELECT * FROM chainify.analyze('SELECT 1');
RESET ROLE;

-- The order of bytes is that of the system's own collations: not of one that is called so, and not of a database with another provider, whatever its LC_COLLATE.
CREATE COLLATION public."C.utf8" (provider = icu, locale = 'de');
SELECT verdict, left(reason, 90) AS reason FROM chainify.analyze($$SELECT n FROM (VALUES ('a'), ('B')) v (n) ORDER BY n COLLATE public."C.utf8" LIMIT 1$$);
SELECT current_database() AS database \gset
CREATE DATABASE chainify_regress_icu TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de' LC_COLLATE 'C';
\c chainify_regress_icu
SET client_min_messages = warning;
CREATE EXTENSION chainify;
SELECT verdict, left(reason, 90) AS reason FROM chainify.analyze($$SELECT n FROM (VALUES ('a'), ('B')) v (n) ORDER BY n LIMIT 1$$);
\c :database
DROP DATABASE chainify_regress_icu;
SELECT verdict, reason FROM chainify.analyze($$SELECT n FROM (VALUES ('a'), ('B')) v (n) ORDER BY n LIMIT 1$$);
