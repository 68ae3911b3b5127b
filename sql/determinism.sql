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
    'SELECT DISTINCT ON (owner) owner, id FROM account', 'SELECT DISTINCT ON (owner) owner, id FROM account ORDER BY owner', 'SELECT DISTINCT ON (owner) owner, id FROM account ORDER BY owner, id', 'SELECT DISTINCT ON (owner) owner, rate FROM account ORDER BY owner, rate',
    'SELECT * FROM account ORDER BY owner COLLATE "und-x-icu", id LIMIT 1', 'SELECT * FROM account ORDER BY owner COLLATE "C", id LIMIT 1', 'SELECT * FROM account WHERE owner = ''A'' COLLATE nodet',
    'SELECT ARRAY(SELECT rate FROM account)', 'SELECT ARRAY(SELECT rate FROM account ORDER BY id)');
-- aggregates and windows
SELECT * FROM test.verdicts('SELECT array_agg(owner) FROM account', 'SELECT array_agg(owner ORDER BY id) FROM account', 'SELECT array_agg(owner ORDER BY owner) FROM account', 'SELECT array_agg(rate ORDER BY owner) FROM account', 'SELECT array_agg(DISTINCT owner) FROM account',
    'SELECT string_agg(owner, '','') FROM account', 'SELECT string_agg(owner, '','' ORDER BY owner) FROM account', 'SELECT json_agg(account) FROM account', 'SELECT jsonb_object_agg(id, owner) FROM account', 'SELECT account, array_agg(n ORDER BY n) FROM entry GROUP BY account', 'SELECT account, array_agg(amount ORDER BY n) FROM entry GROUP BY account', 'SELECT array_agg(g) FROM generate_series(1, 3) g',
    'SELECT sum(rate) FROM account', 'SELECT avg(rate), stddev(rate) FROM account', 'SELECT corr(rate, rate) FROM account', 'SELECT sum(rate::numeric) FROM account', 'SELECT sum(rate ORDER BY rate) FROM account', 'SELECT min(rate), max(rate), sum(balance), avg(balance), count(*), bool_and(id > 0) FROM account',
    'SELECT sum(rate) OVER (PARTITION BY owner) FROM account', 'SELECT row_number() OVER (ORDER BY balance) FROM account', 'SELECT row_number() OVER (ORDER BY balance, id) FROM account', 'SELECT rank() OVER (ORDER BY balance) FROM account', 'SELECT lag(id) OVER (ORDER BY owner), first_value(id) OVER (PARTITION BY owner) FROM account', 'SELECT row_number() OVER (PARTITION BY account ORDER BY n) FROM entry',
    'SELECT sum(id) OVER (ORDER BY owner) FROM account', 'SELECT sum(id) OVER (ORDER BY owner ROWS UNBOUNDED PRECEDING) FROM account');
-- of values that are equal and may differ, one is kept
SELECT * FROM test.verdicts('SELECT DISTINCT rate FROM account', 'SELECT DISTINCT id, rate FROM account', 'SELECT DISTINCT balance FROM account', 'SELECT rate FROM account GROUP BY rate', 'SELECT rate FROM account GROUP BY id, rate', 'SELECT id, rate FROM account UNION SELECT n, 1 FROM entry', 'SELECT id, rate FROM account UNION ALL SELECT n, 1 FROM entry',
    'SELECT DISTINCT seen - now() FROM account', 'SELECT DISTINCT to_jsonb(id) FROM account', 'SELECT DISTINCT ARRAY[id] FROM account', 'SELECT DISTINCT ARRAY[rate] FROM account', 'SELECT DISTINCT owner::char(5) FROM account', 'SELECT DISTINCT owner::bpchar FROM account',
    'SELECT max(rate::numeric(9, 2)) FROM account', 'SELECT max(rate::numeric) FROM account', 'SELECT max(rate ORDER BY id) FROM account', 'SELECT max(rate) FROM account GROUP BY id', 'SELECT count(DISTINCT rate) FROM account', 'SELECT sum(DISTINCT seen - now()) FROM account',
    'SELECT mode() WITHIN GROUP (ORDER BY rate) FROM account', 'SELECT mode() WITHIN GROUP (ORDER BY id) FROM account', 'SELECT min(rate) OVER (PARTITION BY owner) FROM account', 'SELECT min(id) OVER (PARTITION BY owner) FROM account', 'SELECT id FROM account WHERE EXISTS (SELECT DISTINCT rate FROM account)');
-- each aggregate that takes rows as they come; of those of floating-point numbers, and of window functions, these alone do not depend on the order
SELECT * FROM test.verdicts(VARIADIC ARRAY(SELECT format('SELECT %s FROM account', c) FROM unnest(ARRAY['array_agg(id)', 'string_agg(owner, owner)', 'json_agg(id)', 'jsonb_agg(id)', 'json_object_agg(id, owner)', 'jsonb_object_agg(id, owner)', 'xmlagg(xmlelement(name a, owner))']) c));
SELECT p.oid::regprocedure AS aggregate FROM pg_proc p JOIN pg_aggregate g ON g.aggfnoid = p.oid, chainify.analyze(format('SELECT %I(%s) FROM account', proname, (SELECT string_agg('rate::' || format_type(a, NULL), ', ') FROM unnest(proargtypes) a))) v
WHERE pronamespace = 'pg_catalog'::regnamespace AND aggkind = 'n' AND proargtypes::oid[] && ARRAY['float4', 'float8']::regtype[]::oid[] AND v.verdict = 'deterministic' ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT p.oid::regprocedure AS window_function FROM pg_proc p, chainify.analyze(format('SELECT %I(%s) OVER (ORDER BY owner) FROM account', proname, (SELECT string_agg('id', ', ') FROM unnest(proargtypes) a))) v
WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'w' AND v.verdict = 'deterministic' ORDER BY p.oid::regprocedure::text COLLATE "C";
-- a collation of the machine orders the input, the window or the ties; one row of a group is the row, one of grouping sets is not
SELECT * FROM test.verdicts('SELECT string_agg(owner, '','' ORDER BY owner COLLATE "und-x-icu", id) FROM account', 'SELECT row_number() OVER (ORDER BY owner COLLATE "und-x-icu", id) FROM account', 'SELECT * FROM account ORDER BY owner COLLATE "und-x-icu" FETCH FIRST 2 ROWS WITH TIES',
    'SELECT array_agg(owner) FROM account GROUP BY id', 'SELECT array_agg(owner) FROM account GROUP BY GROUPING SETS ((id), ())', 'SELECT row_number() OVER (ORDER BY owner) FROM account GROUP BY owner', 'SELECT row_number() OVER (ORDER BY owner) FROM account GROUP BY GROUPING SETS ((owner), ())');
-- changes that depend on which row comes first
SELECT * FROM test.verdicts('UPDATE account SET balance = amount FROM entry WHERE entry.account = id', 'UPDATE account SET balance = amount FROM entry WHERE entry.account = id AND n = 1', 'UPDATE entry SET amount = balance FROM account WHERE id = entry.account', 'UPDATE account SET balance = s FROM (SELECT account a, sum(amount) s FROM entry GROUP BY account) e WHERE a = id', 'WITH e AS (SELECT account a, sum(amount) s FROM entry GROUP BY 1) UPDATE account SET balance = s FROM e WHERE a = id',
    'WITH gone AS (DELETE FROM entry WHERE account = 1 AND n = 1 RETURNING amount) UPDATE account SET balance = amount FROM gone WHERE id = 1', 'WITH gone AS (DELETE FROM entry WHERE account = 1 RETURNING amount) UPDATE account SET balance = amount FROM gone WHERE id = 1', 'UPDATE account SET balance = b FROM (VALUES (1, 5)) v (i, b) WHERE id = i',
    'DELETE FROM account USING entry WHERE entry.account = id', 'WITH d AS (DELETE FROM account USING entry WHERE entry.account = id RETURNING n) SELECT n FROM d', 'MERGE INTO account a USING entry e ON a.id = e.account WHEN MATCHED THEN UPDATE SET balance = amount',
    'INSERT INTO account SELECT account, ''x'', amount FROM entry ON CONFLICT DO NOTHING', 'INSERT INTO account SELECT account, ''x'', amount FROM entry ORDER BY account, n ON CONFLICT DO NOTHING', 'INSERT INTO account VALUES (1, ''a'', 1), (1, ''b'', 1) ON CONFLICT DO NOTHING', 'INSERT INTO account SELECT account, ''x'', amount FROM entry',
    'UPDATE account SET rate = random()', 'UPDATE account SET rate = random() WHERE id = 1', 'UPDATE account SET tag = chainify.uuid()', 'DELETE FROM account WHERE random() < 0.5', 'INSERT INTO account (id, owner, balance, tag) SELECT n, ''x'', 0, chainify.uuid() FROM entry', 'INSERT INTO account (id, owner, balance, tag) SELECT n, ''x'', 0, chainify.uuid() FROM entry ORDER BY account, n', 'INSERT INTO account (id, owner, balance, rate) SELECT g, ''x'', 0, random() FROM generate_series(10, 12) g', 'INSERT INTO account (id, owner, balance, tag) VALUES (20, ''x'', 0, chainify.uuid()), (21, ''y'', 0, chainify.uuid())');

-- what is drawn before rows are put in order, or once for each row that is not returned; and as often as a join likes
SELECT * FROM test.verdicts('SELECT sum(random()) FROM account', 'SELECT sum(random()) FROM generate_series(1, 3)', 'SELECT id FROM account ORDER BY random(), id', 'SELECT id FROM account ORDER BY id, random() LIMIT 1', 'SELECT DISTINCT id, random() FROM account ORDER BY id, 2', 'SELECT random() FROM account GROUP BY id, random() ORDER BY id',
    'UPDATE account SET rate = 1 WHERE id = 1 AND random() > 0', 'UPDATE account SET rate = random() WHERE id = 1', 'UPDATE account SET rate = random() RETURNING 1', 'SELECT random() FROM account ORDER BY id', 'SELECT random() WHERE random() > 0.5', 'SELECT * FROM account, (SELECT random()) r', 'SELECT * FROM (SELECT random()) r', 'WITH r AS (SELECT random() r) SELECT * FROM account, r', 'WITH r AS (SELECT random() r) SELECT r, random() FROM r',
    'SELECT max(random()) OVER (ORDER BY id) FROM account ORDER BY id', 'SELECT DISTINCT ON (owner) owner, random() FROM account ORDER BY owner, id', 'WITH a AS (SELECT random() r), b AS (SELECT random() r) SELECT a.r, b.r FROM a, b', 'SELECT (SELECT random() WHERE id > 0) FROM account ORDER BY id');

-- collations of the machine: what is before what, what is upper case and what is a letter, wherever it stands; whether texts are equal is a matter of bytes
CREATE TABLE named (id int PRIMARY KEY, name text COLLATE "de-x-icu" NOT NULL UNIQUE, short varchar(9) COLLATE "de-x-icu", names text[] COLLATE "de-x-icu", tag text COLLATE nodet);
INSERT INTO named SELECT g, 'n' || g, 's', '{a}', 't' FROM generate_series(1, 3) g;
GRANT ALL ON named TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.named');
SELECT * FROM test.verdicts('SELECT id FROM named WHERE name < ''m''', 'SELECT id FROM named WHERE name COLLATE "C" < ''m''', 'SELECT id FROM named WHERE short BETWEEN ''a'' AND ''b''', 'SELECT id FROM named WHERE (id, name) < (1, ''m'')', 'SELECT id FROM named WHERE (id, name COLLATE "C") < (1, ''m'')', 'SELECT id FROM named WHERE name > ANY (ARRAY[''a'', ''b''])', 'SELECT id FROM named WHERE name > (SELECT max(owner) FROM account)', 'SELECT id FROM named WHERE names < ARRAY[''b'']',
    'SELECT greatest(name, ''m''), least(id, 2) FROM named', 'SELECT min(name), max(id) FROM named', 'SELECT max(name COLLATE "C") FROM named', 'SELECT max(name) OVER () FROM named', 'SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY name) FROM named', 'SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY id) FROM named', 'SELECT rank() OVER (ORDER BY name) FROM named', 'SELECT rank() OVER (ORDER BY name COLLATE "C") FROM named', 'SELECT width_bucket(name, ARRAY[''a'', ''b'']) FROM named',
    'SELECT array_agg(DISTINCT name) FROM named', 'SELECT array_agg(DISTINCT name COLLATE "C") FROM named', 'SELECT count(DISTINCT name) FROM named', 'SELECT array_agg(id) FROM (SELECT id FROM named ORDER BY name) o', 'SELECT array_agg(id) FROM (SELECT id FROM named ORDER BY name COLLATE "C") o', 'SELECT array_agg(n.id ORDER BY n) FROM named n', 'SELECT id, random() FROM named ORDER BY name', 'SELECT id, random() FROM named ORDER BY id', 'INSERT INTO account (id, owner, balance) SELECT 30, name, 0 FROM named ORDER BY name ON CONFLICT DO NOTHING',
    'SELECT upper(name), lower(name), initcap(name) FROM named', 'SELECT upper(name COLLATE "C") FROM named', 'SELECT id FROM named WHERE name ILIKE ''N%''', 'SELECT id FROM named WHERE name LIKE ''n%''', 'SELECT id FROM named WHERE name ~ ''\w''', 'SELECT id FROM named WHERE name COLLATE "C" ~ ''\w''', 'SELECT id FROM named WHERE name SIMILAR TO ''n%''', 'SELECT regexp_replace(name, ''\w'', ''''), substring(name, ''n''), substring(name, 1) FROM named', 'SELECT substring(name, 1), length(name), name || short, name = ''n1'', name IN (''n1''), position(''n'' IN name) FROM named',
    'SELECT id FROM named ORDER BY name', 'SELECT name FROM named GROUP BY name', 'SELECT DISTINCT name FROM named', 'SELECT (SELECT name FROM named WHERE id = 1 ORDER BY name LIMIT 1)', 'SELECT name FROM named ORDER BY name LIMIT 1');
-- collations that take different texts as equal, wherever texts are compared or counted as one
SELECT * FROM test.verdicts('SELECT id FROM named WHERE tag = ''t''', 'SELECT id FROM named WHERE tag IN (''t'', ''u'')', 'SELECT id FROM named WHERE tag IN (SELECT owner FROM account)', 'SELECT id FROM named WHERE tag IS DISTINCT FROM ''t''', 'SELECT nullif(tag, ''t'') FROM named', 'SELECT CASE tag WHEN ''t'' THEN 1 END FROM named', 'SELECT id FROM named WHERE (id, tag) < (1, ''t'')', 'SELECT greatest(tag, ''t'') FROM named', 'SELECT tag FROM named GROUP BY tag', 'SELECT DISTINCT tag FROM named', 'SELECT DISTINCT ON (tag) id FROM named ORDER BY tag, id', 'SELECT tag FROM named UNION SELECT ''t''', '(SELECT 1, ''a'' UNION ALL SELECT id, tag FROM named) EXCEPT SELECT 1, ''t''',
    'SELECT count(DISTINCT tag) FROM named', 'SELECT array_agg(DISTINCT tag) FROM named', 'SELECT sum(id) OVER (PARTITION BY tag) FROM named', 'SELECT rank() OVER (ORDER BY tag) FROM named', 'SELECT tag FROM named', 'SELECT DISTINCT tag COLLATE "C" FROM named', 'SELECT count(tag), to_jsonb(max(id)) FROM named', 'SELECT tag FROM named ORDER BY tag COLLATE "C" LIMIT 1');
-- rows taken one by one in an order of the machine
CREATE FUNCTION loops_by_name() RETURNS void LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN FOR r IN SELECT * FROM named ORDER BY name LOOP UPDATE account SET owner = r.name WHERE id = 1; END LOOP; END $$;
CREATE FUNCTION loops_by_bytes() RETURNS void LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN FOR r IN SELECT * FROM named ORDER BY name COLLATE "C" LOOP UPDATE account SET owner = r.name WHERE id = 1; END LOOP; END $$;
SELECT tx, ok, sqlstate, message FROM test.run('SELECT loops_by_name()', 'SELECT loops_by_bytes()');
-- and what no statement shows: constraints, generated columns, keys, bounds of partitions, domains
CREATE DOMAIN early AS text COLLATE "de-x-icu" CHECK (VALUE < 'n');
CREATE TABLE checked (id int PRIMARY KEY, name text COLLATE "de-x-icu" CHECK (name < 'n'));
CREATE TABLE generated (id int PRIMARY KEY, name text COLLATE "de-x-icu", u text GENERATED ALWAYS AS (upper(name)) STORED);
CREATE TABLE keyed (id int PRIMARY KEY, name text COLLATE "de-x-icu");
CREATE UNIQUE INDEX ON keyed (lower(name));
CREATE TABLE loose (id int PRIMARY KEY, tag text COLLATE nodet UNIQUE);
CREATE TABLE parted (name text COLLATE "de-x-icu" PRIMARY KEY) PARTITION BY RANGE (name);
CREATE TABLE parted_a PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
CREATE TABLE listed (name text PRIMARY KEY) PARTITION BY LIST (name);
CREATE TABLE listed_a PARTITION OF listed (CHECK (upper(name COLLATE "de-x-icu") > '')) DEFAULT;
CREATE TABLE in_domain (id int PRIMARY KEY, name early);
CREATE TABLE fine (id int PRIMARY KEY, name text COLLATE "de-x-icu" UNIQUE CHECK (name <> ''), u text GENERATED ALWAYS AS (upper(name COLLATE "C")) STORED);
CREATE INDEX ON fine (lower(name));
CREATE INDEX ON fine (name);
GRANT SELECT ON fine TO alice;
SELECT n, ok, sqlstate, message FROM unnest(ARRAY['checked', 'generated', 'keyed', 'loose', 'parted', 'listed', 'in_domain', 'fine']) n, LATERAL test.deploy('ATTACH TABLE public.' || n) d;
SELECT ok, sqlstate, message FROM unnest(ARRAY['CREATE TABLE deployed (id int PRIMARY KEY, name text COLLATE "de-x-icu" CHECK (name < ''n''))', 'CREATE TABLE deployed (id int PRIMARY KEY, tag text COLLATE public.nodet UNIQUE)', 'CREATE TABLE deployed (name text COLLATE "de-x-icu" PRIMARY KEY) PARTITION BY RANGE (name)', 'CREATE DOMAIN late AS text COLLATE "de-x-icu" CHECK (VALUE > ''n'')', 'CREATE TABLE indexed (id int PRIMARY KEY, name text COLLATE "de-x-icu"); CREATE INDEX ON indexed (upper(name))', 'CREATE TABLE indexed (id int PRIMARY KEY, name text COLLATE "de-x-icu"); CREATE INDEX ON indexed (upper(name COLLATE "C"))', 'CREATE VIEW late_names AS SELECT * FROM fine WHERE name > ''n''']) n, LATERAL test.deploy(n) d;
-- where the order of rows is left to detection, order and case of texts are as well; collations that take different texts as equal are not
SELECT ok, message FROM test.deploy('SET DETERMINISM detect');
SELECT tx, ok, sqlstate, message FROM test.run('SELECT upper(name) FROM fine WHERE name < ''m''', 'SELECT id FROM fine WHERE name COLLATE nodet = ''t''');
SELECT ok, message FROM test.deploy('SET DETERMINISM strict');

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
-- also one of a query that no function call gives away: in a session that has run no block, in one that has, and made while more was allowed
CREATE FUNCTION planned_query() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT balance FROM account LIMIT 1); END $$;
CREATE FUNCTION planned_later() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT balance FROM account LIMIT 1); END $$;
CREATE FUNCTION planned_before() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT balance FROM account LIMIT 1); END $$;
\c -
\set SHOW_CONTEXT never
SELECT planned_query() IS NOT NULL;
SELECT ok, split_part(message, ':', 1) AS message FROM test.run('SELECT planned_query()');
SELECT planned_later() IS NOT NULL;
SELECT ok, split_part(message, ':', 1) AS message FROM test.run('SELECT planned_later()');
SELECT ok, split_part(message, ':', 1) AS message FROM test.block(test.tx('SET DETERMINISM detect', 'admin', 3), test.tx('SELECT planned_before()'), test.tx('SET DETERMINISM strict', 'admin', 3), test.tx('SELECT planned_before()'));
-- functions of extensions: immutable ones of those that are known
CREATE EXTENSION pgcrypto;
CREATE EXTENSION "uuid-ossp";
SELECT * FROM test.verdicts('SELECT digest(owner, ''sha256'') FROM account', 'SELECT gen_random_bytes(8)', 'SELECT uuid_ns_dns()');
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
-- What works by the database's own collation, whatever that of its arguments.
CREATE EXTENSION citext SCHEMA public;
CREATE EXTENSION pg_trgm SCHEMA public;
CREATE TABLE docs (id int PRIMARY KEY, j jsonb, t text COLLATE "C", c citext);
SELECT s, string_agg(construct, '; ') FILTER (WHERE construct NOT LIKE 'table%') AS refused_for FROM unnest(ARRAY['SELECT id FROM docs WHERE j < ''{}''', 'SELECT id FROM docs WHERE j = ''{}''', 'SELECT greatest(j, ''{}'') FROM docs', 'SELECT array_agg(id ORDER BY j, id) FROM docs', 'SELECT array_agg(d.id ORDER BY d) FROM docs d', 'SELECT id FROM docs d WHERE d < ROW(1, ''{}''::jsonb, ''t'', ''c''::citext)', 'SELECT to_tsvector(''simple'', t) FROM docs', 'SELECT id FROM docs WHERE c = ''x''', 'SELECT similarity(t, ''x'') FROM docs', 'SELECT upper(t), id < 2, int4range(1, 2) @> id FROM docs WHERE t < ''m''']) WITH ORDINALITY u (s, i), LATERAL chainify.analyze(s) GROUP BY i, s ORDER BY i;
\c :database
DROP DATABASE chainify_regress_icu;
SELECT verdict, reason FROM chainify.analyze($$SELECT n FROM (VALUES ('a'), ('B')) v (n) ORDER BY n LIMIT 1$$);
