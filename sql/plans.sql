-- Texts that differ in literals alone share a plan (sql/plans.rs, X5): the results are those of the texts as written.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN short AS text CHECK (length(VALUE) < 5);
CREATE TABLE item (id int PRIMARY KEY, small smallint, big bigint, price numeric(10,2), ratio float8, name varchar(8), code char(4), born date, seen timestamptz,
    lasts interval day, mood mood, tags text[], doc jsonb, tag short);
GRANT ALL ON item TO alice;
INSERT INTO item SELECT i, i, i * 1000000000::bigint, i * 1.25, i / 4.0, 'name' || i, 'c' || i, date '2020-01-01' + i, timestamptz '2020-01-01 00:00Z' + i * interval '1 hour',
    i * interval '1 day', CASE WHEN i % 2 = 0 THEN 'sad' ELSE 'happy' END::mood, ARRAY['a', i::text], jsonb_build_object('k', i), 't' || i FROM generate_series(1, 50) i;
SELECT * FROM test.deploy('ATTACH TABLE public.item');

-- Runs the statements in one block as it would be with and without sharing, and undoes both; what differs is shown.
CREATE FUNCTION test.once(sqls text[], share boolean) RETURNS TABLE (hash bytea, outcome text[]) LANGUAGE plpgsql AS $$
DECLARE
    p record;
    r record;
BEGIN
    PERFORM set_config('chainify.share_plans', share::text, true);
    SELECT * INTO p FROM chainify_node.position();
    BEGIN
        SELECT * INTO r FROM chainify_node.execute_block(p.number + 1, 1, 1700000000000000, p.hash,
            test.buffer(ARRAY(SELECT test.tx(s, nonce => i) FROM unnest(sqls) WITH ORDINALITY u (s, i) ORDER BY i)));
        hash := r.hash;
        outcome := ARRAY(SELECT concat_ws(' ', r.rows[i], r.sqlstates[i], r.messages[i]) FROM generate_series(1, cardinality(sqls)) i);
        RAISE EXCEPTION 'undo';
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
    RETURN NEXT;
END
$$;
CREATE FUNCTION test.same(sqls text[]) RETURNS TABLE (sql text, shared text, as_written text) LANGUAGE plpgsql AS $$
DECLARE
    a record;
    b record;
BEGIN
    SELECT * INTO a FROM test.once(sqls, true);
    SELECT * INTO b FROM test.once(sqls, false);
    IF a.hash IS DISTINCT FROM b.hash THEN
        RETURN QUERY SELECT 'LedgerBlockHash', a.hash::text, b.hash::text;
    END IF;
    RETURN QUERY SELECT sqls[i], a.outcome[i], b.outcome[i] FROM generate_subscripts(sqls, 1) i WHERE a.outcome[i] IS DISTINCT FROM b.outcome[i];
END
$$;

-- each construct twice, with other values
SELECT * FROM test.same(ARRAY[
    'UPDATE item SET price = price + 1 WHERE id = 1', 'UPDATE item SET price = price + 2 WHERE id = 2',
    'UPDATE item SET price = -1.5, big = - 7 WHERE id = 3', 'UPDATE item SET price = -2.25, big = -5000000000 WHERE id = 4',
    'UPDATE item SET big = -2147483648 WHERE id = 5', 'UPDATE item SET big = -9223372036854775808 WHERE id = 6', 'UPDATE item SET big = - -5 WHERE id = 6',
    'UPDATE item SET name = ''it''''s'' WHERE id = 5', 'UPDATE item SET name = '''' WHERE id = 6',
    'UPDATE item SET code = ''x'' WHERE id = 7', 'UPDATE item SET code = ''too long'' WHERE id = 8', 'UPDATE item SET name = ''far too long'' WHERE id = 9',
    'UPDATE item SET small = 40000 WHERE id = 10', 'UPDATE item SET small = 4 WHERE id = 10', 'UPDATE item SET tag = ''far too long'' WHERE id = 11', 'UPDATE item SET tag = ''ok'' WHERE id = 11',
    'UPDATE item SET lasts = ''1'' WHERE id = 12', 'UPDATE item SET lasts = ''3'' WHERE id = 13', 'UPDATE item SET lasts = lasts + ''1 hour''::interval hour WHERE id = 14',
    'UPDATE item SET lasts = interval ''2'' day WHERE id = 15', 'UPDATE item SET born = date ''2021-01-01'' WHERE id = 16', 'UPDATE item SET born = ''2021-02-30'' WHERE id = 17',
    'UPDATE item SET born = ''2021-02-28''::date WHERE id = 17', 'UPDATE item SET seen = ''now'' WHERE id = 18', 'UPDATE item SET mood = ''sad'' WHERE id = 19', 'UPDATE item SET mood = ''mad'' WHERE id = 19',
    'UPDATE item SET tags = ''{x,y}'', doc = ''{"a": 1}'' WHERE id = 20', 'UPDATE item SET tags = ARRAY[''p'', ''q''], doc = doc || ''{"b": 2}'' WHERE id = 21',
    'UPDATE item SET tags[1] = ''z'' WHERE id = 22', 'UPDATE item SET doc[''k''] = ''5'' WHERE id = 23', 'UPDATE item SET ratio = 1e3 WHERE id = 24', 'UPDATE item SET ratio = .5 WHERE id = 25']);
SELECT * FROM test.same(ARRAY[
    'INSERT INTO item (id, name, price) VALUES (101, ''a'', 1), (102, ''b'', 2.5), (103, NULL, -3)', 'INSERT INTO item (id, name) SELECT 104, ''sel'' UNION SELECT 105, ''ect''',
    'INSERT INTO item (id, name) VALUES (1, ''x'') ON CONFLICT (id) DO UPDATE SET name = ''upd''', 'INSERT INTO item (id, born) VALUES (106, ''2020-02-29'')',
    'DELETE FROM item WHERE id IN (2, 3) OR name LIKE ''name4%'' OR id BETWEEN 30 AND 31', 'DELETE FROM item WHERE id = ANY (''{5,6}'')',
    'MERGE INTO item i USING (VALUES (7, ''m''), (200, ''n'')) v (id, n) ON i.id = v.id WHEN MATCHED AND v.id > 3 THEN UPDATE SET name = n WHEN NOT MATCHED THEN INSERT (id, name) VALUES (v.id, ''new'')',
    'UPDATE item SET name = ''one'' WHERE id = 8; UPDATE item SET name = ''two'' WHERE id = 9; DELETE FROM item WHERE id = 10',
    'WITH gone AS (DELETE FROM item WHERE id = 11 RETURNING price) UPDATE item SET price = item.price + gone.price * 2 FROM gone WHERE id = 12',
    'UPDATE item SET name = CASE id WHEN 13 THEN ''a'' WHEN 14 THEN ''b'' ELSE ''c'' END WHERE id < 16', 'UPDATE item SET big = coalesce(big, 0) + 1 WHERE id = 17',
    'UPDATE item SET name = (SELECT ''sub'' || max(id) FROM item WHERE id < 20) WHERE id = 18', 'UPDATE item SET name = ''far too long'' WHERE id = 999', 'UPDATE item SET small = 40000 WHERE id = 999', 'UPDATE item SET price = 1e9 WHERE id = 999', 'TRUNCATE item']);
SELECT * FROM test.same(ARRAY[
    'SELECT id, name FROM item ORDER BY 1 LIMIT 3', 'SELECT id, name FROM item ORDER BY 2 DESC LIMIT 5 OFFSET 2', 'SELECT id FROM item ORDER BY 3', 'SELECT id % 3, count(*) FROM item GROUP BY 1',
    'SELECT id % 3 + 1, count(*) FROM item GROUP BY id % 3 + 1', 'SELECT DISTINCT ON (id % 3) id FROM item ORDER BY id % 3, 1', 'SELECT id, ntile(4) OVER (ORDER BY id) FROM item',
    'SELECT ''a'' UNION SELECT 1', 'SELECT ''a'', 1, 1.5', 'SELECT ROW(1, ''a'') = ROW(1, ''b'')', 'SELECT ''a'' COLLATE "C" < ''b''', 'SELECT x::numeric(10,1) FROM (VALUES (1.55)) v (x)',
    'SELECT CASE WHEN 1 = 2 THEN 1/0 ELSE 3 END', 'SELECT CASE 1 WHEN 2 THEN 1/0 END', 'SELECT coalesce(5, 1/0, id) FROM item', 'SELECT CASE WHEN id > 9999 THEN 1/0 END FROM item',
    'SELECT 1/0 FROM item WHERE id = 9999', 'SELECT count(*) FROM item WHERE ''f'' AND 1/0 = 1', 'SELECT extract(year FROM born), extract(''month'' FROM born) FROM item WHERE id = 1',
    'SELECT substring(name FROM 2 FOR 3), name SIMILAR TO ''n%'', seen AT TIME ZONE ''UTC'' FROM item', 'SELECT doc ->> ''k'', jsonb_path_query(doc, ''$.k'') FROM item', 'SELECT generate_series(1, 3), abs(-5)',
    'SELECT repeat(''x'', 3)', 'SELECT repeat(''x'', ''three'')', 'SELECT nosuch(1)', 'SELECT $1 + 1', 'SELECT 300000000000::int', 'SELECT 5::bigint + 2::numeric', 'SELECT id FROM item FETCH FIRST 2 ROWS ONLY',
    'SELECT 1 WHERE 2', 'SELECT 1a', 'SELECT ''open', 'SELECT E''\t''', 'SELECT $$q$$ /* c */ -- d', 'SELECT ''a''
    ''b''', 'SELECT', 'SELECT 1; SELECT ''x'' ; ', 'SELECT count(*) FROM item TABLESAMPLE system (100) REPEATABLE (1)']);

-- parameters and literals together
SELECT * FROM test.block(
    test.tx('UPDATE item SET price = $1 + 1, name = ''mixed'' WHERE id = $2 + 1', params => ARRAY['numeric', '10', 'integer', '20']),
    test.tx('UPDATE item SET price = $1 + 2, name = ''other'' WHERE id = $2 + 2', params => ARRAY['numeric', '20', '', '20']),
    test.tx('UPDATE item SET price = $3 WHERE id = 1', params => ARRAY['numeric', '10', '', '20']));
SELECT id, price, name FROM item WHERE id IN (21, 22) ORDER BY id;

-- A shape's types are resolved again when a definition changes.
CREATE FUNCTION which(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
SELECT * FROM test.run('UPDATE item SET small = which(7) WHERE id = 23');
CREATE FUNCTION which(x bigint) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2';
DROP FUNCTION which(int);
SELECT * FROM test.run('UPDATE item SET small = which(8) WHERE id = 24');
SELECT id, small FROM item WHERE id IN (23, 24) ORDER BY id;
CREATE VIEW seen_item AS SELECT id, name AS label FROM item;
GRANT SELECT ON seen_item TO alice;
SELECT * FROM test.block(test.tx('SELECT * FROM seen_item WHERE label = ''a'''), test.tx('SELECT * FROM seen_item WHERE label = $1', params => ARRAY['', 'a']));
DROP VIEW seen_item;
CREATE VIEW seen_item AS SELECT id, id AS label FROM item;
GRANT SELECT ON seen_item TO alice;
SELECT * FROM test.block(test.tx('SELECT * FROM seen_item WHERE label = ''1'''), test.tx('SELECT * FROM seen_item WHERE label = $1', params => ARRAY['', '1']));

-- So it is of casts, operators, schemas, roles and domains, each changed between two blocks of this session; with a literal and without.
CREATE TABLE found (id int PRIMARY KEY, v text);
GRANT ALL ON found TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.found');
-- Runs statements that insert the rows 1 .. n, and tells what they now give.
CREATE FUNCTION test.now_gives(VARIADIC sqls text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    states text[];
BEGIN
    PERFORM test.run('DELETE FROM found');
    states := ARRAY(SELECT r.sqlstate FROM test.run(VARIADIC sqls) r ORDER BY r.tx);
    RETURN QUERY SELECT coalesce(states[i], (SELECT f.v FROM public.found f WHERE id = i)) FROM generate_subscripts(sqls, 1) i;
END
$$;
CREATE FUNCTION to_mood(int) RETURNS mood LANGUAGE sql IMMUTABLE AS $$ SELECT 'sad'::mood $$;
CREATE FUNCTION to_other_mood(int) RETURNS mood LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN 'happy'::mood; END $$;
SELECT ARRAY['INSERT INTO found VALUES (1, 5::mood)', 'INSERT INTO found SELECT min(id) + min(id), min(id)::mood FROM item'] AS casts \gset
SELECT test.now_gives(VARIADIC :'casts');
CREATE CAST (int AS mood) WITH FUNCTION to_mood(int);
SELECT test.now_gives(VARIADIC :'casts');
DROP CAST (int AS mood);
CREATE CAST (int AS mood) WITH FUNCTION to_other_mood(int);
SELECT test.now_gives(VARIADIC :'casts');
DROP CAST (int AS mood);
SELECT test.now_gives(VARIADIC :'casts');
CREATE FUNCTION one(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE FUNCTION two(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2';
CREATE FUNCTION three(bigint, bigint) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 3';
SELECT ARRAY['INSERT INTO found VALUES (1, 5 ### 6)', 'INSERT INTO found SELECT min(id) + min(id), min(id) ### min(id) FROM item'] AS operators \gset
CREATE OPERATOR ### (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = three);
SELECT test.now_gives(VARIADIC :'operators');
CREATE OPERATOR ### (LEFTARG = int, RIGHTARG = int, FUNCTION = one);
SELECT test.now_gives(VARIADIC :'operators');
DROP OPERATOR ### (int, int);
CREATE OPERATOR ### (LEFTARG = int, RIGHTARG = int, FUNCTION = two);
SELECT test.now_gives(VARIADIC :'operators');
DROP OPERATOR ### (int, int);
SELECT test.now_gives(VARIADIC :'operators');
CREATE SCHEMA rack;
CREATE SCHEMA other_rack;
CREATE FUNCTION rack.which() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE FUNCTION other_rack.which() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2';
GRANT USAGE ON SCHEMA rack, other_rack TO alice;
SELECT ARRAY['INSERT INTO found VALUES (1, rack.which())', 'INSERT INTO found SELECT min(id) + min(id), rack.which() FROM item'] AS schemas \gset
SELECT test.now_gives(VARIADIC :'schemas');
ALTER SCHEMA rack RENAME TO old_rack;
SELECT test.now_gives(VARIADIC :'schemas');
ALTER SCHEMA other_rack RENAME TO rack;
SELECT test.now_gives(VARIADIC :'schemas');
REVOKE USAGE ON SCHEMA rack FROM alice;
SELECT test.now_gives(VARIADIC :'schemas');
-- a role that is taken out of another, is no client, is gone, is made anew, is a superuser
CREATE ROLE rolf;
CREATE ROLE writers;
GRANT chainify_client, writers TO rolf;
GRANT ALL ON found TO writers;
CREATE FUNCTION test.as_rolf() RETURNS TABLE (sqlstate text, message text) LANGUAGE sql AS $$ SELECT coalesce(sqlstate, 'done'), split_part(message, ':', 1) FROM test.block(test.tx('UPDATE found SET v = ''rolf'' WHERE id = 1', 'rolf'), test.tx('UPDATE found SET v = id', 'rolf')) $$;
SELECT * FROM test.as_rolf();
REVOKE writers FROM rolf;
SELECT * FROM test.as_rolf();
GRANT writers TO rolf;
REVOKE chainify_client FROM rolf;
SELECT * FROM test.as_rolf();
GRANT chainify_client TO rolf;
SELECT * FROM test.as_rolf();
ALTER ROLE rolf SUPERUSER;
SELECT * FROM test.as_rolf();
DROP ROLE rolf;
SELECT * FROM test.as_rolf();
CREATE ROLE rolf;
GRANT chainify_client TO rolf;
SELECT * FROM test.as_rolf();
GRANT writers TO rolf;
SELECT * FROM test.as_rolf();
REVOKE ALL ON found FROM writers;
SELECT * FROM test.as_rolf();
DROP ROLE rolf, writers;
-- domains change through the ledger, in the midst of a block
GRANT CREATE ON SCHEMA public TO admin;
SELECT ok FROM test.deploy('CREATE DOMAIN tiny AS int; CREATE TABLE small (id int PRIMARY KEY, v tiny); GRANT ALL ON small TO alice');
CREATE FUNCTION as_tiny(i int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE t tiny; BEGIN t := i; RETURN t; END $$;
SELECT tx, ok, sqlstate FROM test.block(test.tx('INSERT INTO small VALUES (1, 50)'), test.tx('SELECT 51::tiny'), test.tx('SELECT as_tiny(52)'), test.tx('UPDATE small SET v = id * 50'), test.tx('ALTER DOMAIN tiny ADD CONSTRAINT below CHECK (VALUE < 10) NOT VALID', 'admin', 3),
    test.tx('INSERT INTO small VALUES (2, 50)'), test.tx('SELECT 51::tiny'), test.tx('SELECT as_tiny(52)'), test.tx('UPDATE small SET v = id * 50'), test.tx('ALTER DOMAIN tiny DROP CONSTRAINT below', 'admin', 3),
    test.tx('INSERT INTO small VALUES (3, 50)'), test.tx('SELECT 51::tiny'), test.tx('SELECT as_tiny(52)'), test.tx('UPDATE small SET v = id * 50'));
-- what was planned with definitions that were then undone: a block that was rolled back, and a DEPLOY transaction that failed
SELECT ok FROM test.deploy('CREATE FUNCTION version() RETURNS int LANGUAGE sql IMMUTABLE AS ''SELECT 1''; CREATE FUNCTION uses_version() RETURNS int LANGUAGE plpgsql AS ''BEGIN RETURN public.version(); END''');
SELECT ARRAY['INSERT INTO found VALUES (1, public.version())', 'INSERT INTO found SELECT min(id) + min(id), public.version() FROM item', 'INSERT INTO found VALUES (3, uses_version())', 'INSERT INTO found SELECT 4, v::text FROM small WHERE id = 1'] AS versions \gset
SELECT test.now_gives(VARIADIC :'versions');
BEGIN;
SELECT ok FROM test.deploy('CREATE OR REPLACE FUNCTION version() RETURNS int LANGUAGE sql IMMUTABLE AS ''SELECT 2''; ALTER TABLE small ALTER v TYPE text USING ''text''');
SELECT test.now_gives(VARIADIC :'versions');
ROLLBACK;
SELECT test.now_gives(VARIADIC :'versions');
SELECT tx, ok, sqlstate FROM test.block(test.tx('CREATE OR REPLACE FUNCTION version() RETURNS int LANGUAGE sql IMMUTABLE AS ''SELECT 3''; CREATE VIEW planned AS SELECT public.version() AS v; ALTER TABLE small ALTER v TYPE text USING public.version()::text; CREATE VIEW fails AS SELECT * FROM missing', 'admin', 3), test.tx('UPDATE found SET v = public.version() WHERE id = 1'));
SELECT test.now_gives(VARIADIC :'versions');
SELECT test.all_well();

-- more texts than plans are kept, and one longer than those kept
SELECT count(*), bool_and(b.ok) FROM test.block(VARIADIC ARRAY(SELECT test.tx('SELECT ' || i || ' AS a' || i) FROM generate_series(1, 1200) i)) b;
SELECT count(*), bool_or(b.ok) FROM test.block(VARIADIC ARRAY(SELECT test.tx('SELECT nosuch' || i || '(1)') FROM generate_series(1, 2500) i)) b;
SELECT count(*), bool_and(b.ok) FROM test.block(VARIADIC ARRAY(SELECT test.tx('SELECT id AS b' || i || ' FROM item WHERE false') FROM generate_series(1, 5000) i)) b;
-- the plans there are, with some of the extension's own
SELECT count(*) > 1000 AS kept, count(*) < 2048 + 100 AS bounded FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource';
SELECT ok, rows FROM test.block(test.tx('SELECT 1 WHERE 1 IN (' || (SELECT string_agg(i::text, ',') FROM generate_series(1, 900) i) || repeat(' ', 20000) || ')'));
-- Nor do plans take much more memory than 64 MiB, as last measured: these take 400 kB each, beside those there are.
SELECT count(*), bool_and(b.ok) FROM test.block(VARIADIC ARRAY(SELECT test.tx('SELECT 1 WHERE 1 IN (' || (SELECT string_agg(i::text, ',') FROM generate_series(1, n) i) || ')') FROM generate_series(1501, 1750) n)) b;
SELECT sum(total_bytes) > 20000000 AS kept, sum(total_bytes) < 100000000 AS bounded FROM pg_backend_memory_contexts WHERE name LIKE 'CachedPlan%';

-- Plans of one shape are forgotten together when definitions may have changed, and one is made anew: their number tells. Temporary tables of other
-- sessions are no such change: those that are gone when this session looks, those that are there, and those that go then.
CREATE FUNCTION test.sorted(VARIADIC columns int[]) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM test.block(VARIADIC ARRAY(SELECT test.tx('SELECT id, small, big, price FROM item ORDER BY ' || c) FROM unnest(columns) c));
    RETURN count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' AND ident LIKE 'SELECT id, small, big, price FROM item%';
END
$$;
-- Waits until a query says so, up to 10 min.
CREATE FUNCTION test.until(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    latest timestamptz := clock_timestamp() + interval '10 min';
    done boolean;
BEGIN
    LOOP
        PERFORM pg_stat_clear_snapshot();
        EXECUTE query INTO done;
        IF done OR clock_timestamp() > latest THEN RETURN done; END IF;
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;
-- The first temporary table of a session with this number makes a schema, which is a change: here for more numbers than there are sessions below.
SELECT pg_advisory_lock(6);
\! for i in 1 2 3 4 5 6; do psql -XAtqd regress -c 'CREATE TEMP TABLE far (id int)' -c 'SELECT pg_advisory_lock_shared(6)' >/dev/null 2>&1 & done
SELECT test.until($$SELECT count(*) = 6 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted$$);
SELECT pg_advisory_unlock(6);
SELECT test.until($$SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> ''$$);
SELECT test.sorted(1, 2, 3, 4);
\! psql -XAtqd regress -c 'CREATE TEMP TABLE far (id serial PRIMARY KEY, v text); CREATE TEMP VIEW farther AS SELECT * FROM far; DROP VIEW farther; DROP TABLE far'
SELECT test.sorted(1);
\! psql -XAtqd regress -c 'BEGIN; CREATE TEMP TABLE far (id int) ON COMMIT DROP; COMMIT'
SELECT test.sorted(2);
SELECT pg_advisory_lock(7);
\! psql -XAtqd regress -c 'CREATE TEMP TABLE far (id serial PRIMARY KEY, v text)' -c 'SELECT pg_advisory_lock(7)' >/dev/null 2>&1 &
SELECT test.until($$SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted$$), test.sorted(3);
SELECT pg_advisory_unlock(7);
SELECT test.until($$SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> ''$$), test.sorted(4);
-- a table for good is one
\! psql -XAtqd regress -c 'CREATE TABLE near (id int)'
SELECT test.sorted(1);

-- statements made up at random; the seed is shown when one differs
CREATE FUNCTION test.random_statement() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n int := floor(random() * 60);
    number text := (ARRAY[n::text, '-' || n, n || '.5', '3000000000', '1e2', '-0', '2147483648', '0' || n])[1 + floor(random() * 8)];
    word text := quote_literal((ARRAY['a', 'name' || n, 'it''s', '', 'far too long a name', '2021-01-' || n, n::text])[1 + floor(random() * 7)]);
    col text := (ARRAY['small', 'big', 'price', 'ratio', 'name', 'code', 'born', 'lasts', 'mood', 'tag', 'tags', 'doc'])[1 + floor(random() * 12)];
    val text := CASE WHEN random() < 0.5 THEN number ELSE word END;
BEGIN
    val := (ARRAY[val, val, 'coalesce(' || col || ', ' || val || ')', 'CASE WHEN id > ' || n || ' THEN ' || val || ' ELSE ' || col || ' END', col || ' || ' || val, col || ' + ' || number,
        val || '::numeric', val || '::text', '(' || number || ' - ' || n || ')', 'greatest(' || val || ', ' || col || ')',
        '(' || number || ' + ' || n || ') * ' || (ARRAY[n, 32767, 32768, 70000])[1 + n % 4], 'CASE WHEN id > 999 THEN ' || number || ' * ' || (ARRAY[n, 32767, 32768, 2147483647])[1 + n % 4] || ' ELSE ' || col || ' END'])[1 + floor(random() * 12)];
    RETURN (ARRAY['UPDATE item SET ' || col || ' = ' || val || ' WHERE id >= 1 AND id % 50 = ' || n % 50, 'INSERT INTO item (id, ' || col || ') VALUES (' || 1000 + n || ', ' || val || ')',
        'INSERT INTO item (id, ' || col || ') VALUES (' || n || ', ' || val || ') ON CONFLICT (id) DO UPDATE SET ' || col || ' = ' || val,
        'DELETE FROM item WHERE ' || col || ' = ' || val, 'SELECT ' || col || ', ' || val || ' FROM item WHERE id IN (' || n || ', 1, 2) ORDER BY ' || 1 + n % 3,
        'SELECT ' || val || ', count(*) FROM item GROUP BY 1', 'UPDATE item SET ' || col || ' = ' || word || ' WHERE id = 1; UPDATE item SET ' || col || ' = ' || val || ' WHERE id = 2'])[1 + floor(random() * 7)];
END
$$;
SET client_min_messages = notice;
DO $$
DECLARE
    seed float8;
    sqls text[];
    d record;
    tried int := 0;
BEGIN
    FOR run IN 1 .. coalesce(nullif(current_setting('test.runs', true), '')::int, 5) LOOP
        seed := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint * 31 % 1000003 / 1000003.0;
        PERFORM setseed(seed);
        sqls := ARRAY(SELECT test.random_statement() FROM generate_series(1, 60));
        FOR d IN SELECT * FROM test.same(sqls) LOOP
            RAISE NOTICE 'seed %: "%" gives % when shared, % as written', seed, d.sql, d.shared, d.as_written;
        END LOOP;
        tried := tried + cardinality(sqls);
    END LOOP;
END
$$;
RESET client_min_messages;

-- what is computed of integers is a parameter's while they are small: a sum too large for its column or for an integer fails where it
-- is written, also in a branch or for rows that are not there
SELECT * FROM test.same(ARRAY['UPDATE item SET small = 1 + 2 WHERE id = 1', 'UPDATE item SET small = 30000 + 2 WHERE id = 999', 'UPDATE item SET small = 30000 + 30000 WHERE id = 999', 'UPDATE item SET small = 20000 * 20000 WHERE id = 999',
    'UPDATE item SET big = 1 + 2 * 3 - 4 WHERE id = 2', 'UPDATE item SET big = 32767 * 32767 WHERE id = 2', 'UPDATE item SET big = 32767 * 32767 * 2 WHERE id = 2', 'UPDATE item SET big = 32767 * 32767 * 3 WHERE id = 999', 'UPDATE item SET big = -32767 - 32768 WHERE id = 3',
    'UPDATE item SET big = CASE WHEN id > 0 THEN big ELSE 1 + 1 END', 'UPDATE item SET big = CASE WHEN id > 0 THEN big ELSE 2147483647 + 1 END', 'UPDATE item SET big = CASE WHEN id > 0 THEN big ELSE 50000 * 50000 END', 'UPDATE item SET big = CASE WHEN id > 0 THEN big ELSE 5 / (1 - 1) END',
    'UPDATE item SET price = price + (7 - 8) * 2, name = (1 + 1)::text WHERE id = 4', 'UPDATE item SET price = price + (70000 - 8) * 2, name = (100000 + 1)::text WHERE id = 4', 'UPDATE item SET price = 99999999 + 1 WHERE id = 999', 'UPDATE item SET price = 32767 * 32767 WHERE id = 999',
    'UPDATE item SET mood = (1 + 1)::text WHERE id = 5', 'UPDATE item SET tag = (100 + 1)::text WHERE id = 5', 'UPDATE item SET tag = (10000 + 1)::text WHERE id = 999', 'SELECT id FROM item ORDER BY id LIMIT 1 + 2', 'SELECT id FROM item ORDER BY id LIMIT 40000 + 2', 'SELECT id, 2 + 3 FROM item ORDER BY id, 1 + 1', 'SELECT 1 + 1, count(*) FROM item GROUP BY 1 + 1']);
SELECT ok, rows, sqlstate FROM test.run('UPDATE item SET small = 30000 + 30000 WHERE id = 999', 'UPDATE item SET big = CASE WHEN id > 0 THEN big ELSE 50000 * 50000 END WHERE id = 1', 'UPDATE item SET big = 32767 * 32767 * 2 WHERE id = 2', 'UPDATE item SET big = 3 * 4 WHERE id = 2');
SELECT big FROM item WHERE id = 2;

-- a minus sign stands elsewhere in another text of the shape, whose plan is another one because a literal that is no parameter differs
CREATE TABLE signed (id int PRIMARY KEY, span int4range, n int);
GRANT ALL ON signed TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.signed');
SELECT ok, sqlstate FROM test.run('INSERT INTO signed VALUES (1, ''[1,5]''::int4range, -3)', 'INSERT INTO signed VALUES (2, ''empty''::int4range, - 32768)',
    'INSERT INTO signed VALUES (3, ''(,)''::int4range, -1)', 'INSERT INTO signed VALUES (12345678, ''[1000000,2000000]''::int4range, -12345678)');
SELECT * FROM signed ORDER BY id;

-- plans made in one block serve the next one: what is computed while planning is computed once
CREATE FUNCTION planned(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE WARNING 'planned'; RETURN i; END $$;
CREATE FUNCTION uses_plan() RETURNS void LANGUAGE plpgsql AS $$ BEGIN UPDATE signed SET n = planned(7) WHERE id = 1; END $$;
SET client_min_messages = warning;
SELECT test.buffer(ARRAY[test.tx('SELECT uses_plan()')]) AS txs, hash AS h1, number + 1 AS n1 FROM chainify_node.position() \gset
SELECT outcomes, hash AS h2, :n1 + 1 AS n2 FROM chainify_node.execute_block(:n1, 1, 1700000000000000, :'h1', :'txs') \gset
SELECT outcomes, hash AS h3, :n2 + 1 AS n3 FROM chainify_node.execute_block(:n2, 2, 1700000000000000, :'h2', :'txs') \gset
SELECT outcomes FROM chainify_node.execute_block(:n3, 3, 1700000000000000, :'h3', :'txs');
RESET client_min_messages;

-- and the first time does what later ones do: no plan is made for the values of one call, which would compute what no row comes to
CREATE FUNCTION late_branch(p int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN UPDATE signed SET n = CASE WHEN id > 0 THEN n ELSE p + 1 END WHERE id = 1; END $$;
SELECT tx, ok, sqlstate FROM test.run('SELECT late_branch(2147483647)', 'SELECT late_branch(1)', 'SELECT late_branch(2)', 'SELECT late_branch(3)', 'SELECT late_branch(4)', 'SELECT late_branch(5)', 'SELECT late_branch(2147483647)');

-- the same text with parameters of other types is another statement, with a literal and without
SELECT ok, sqlstate FROM test.block(test.tx('INSERT INTO found VALUES ($1, ($2 / $3)::text)', params => ARRAY['integer', '101', 'integer', '7', 'integer', '2']), test.tx('INSERT INTO found VALUES ($1, ($2 / $3)::text)', params => ARRAY['integer', '102', 'numeric', '7', 'integer', '2']),
    test.tx('INSERT INTO found VALUES ($1, ($2 / 2)::text)', params => ARRAY['integer', '103', 'integer', '7']), test.tx('INSERT INTO found VALUES ($1, ($2 / 2)::text)', params => ARRAY['integer', '104', 'numeric', '7']));
SELECT * FROM found WHERE id > 100 ORDER BY id;
