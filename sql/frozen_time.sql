-- Literals that read the clock ('now', 'today' …) are constants of a kept plan. A transaction sees its block's time, or is refused with the rewrite.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET timezone = 'UTC';
SET datestyle = ISO;
CREATE TABLE stamp (id int PRIMARY KEY, v text, at timestamptz, day date, days date[], during tstzrange);
CREATE TYPE moment AS (at timestamptz, what text);
CREATE DOMAIN day AS date CHECK (VALUE > '2000-01-01');
CREATE TYPE shift AS (of day, what text);
CREATE TYPE spring AS RANGE (subtype = timestamp);
CREATE TYPE mood AS ENUM ('now', 'today');
GRANT ALL ON stamp TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.stamp');

CREATE FUNCTION test.verdicts(VARIADIC sqls text[]) RETURNS TABLE (sql text, refused_for text) LANGUAGE sql AS $$
    SELECT s, string_agg(a.construct, '; ' ORDER BY a.statement, a.construct) FROM unnest(sqls) WITH ORDINALITY u (s, i), chainify.analyze(s) a GROUP BY i, s ORDER BY i
$$;
-- what reads the clock: in every type, at every place, however it is written
SELECT * FROM test.verdicts($$SELECT timestamp 'now'$$, $$SELECT date 'today'$$, $$SELECT 'now'::timestamp$$, $$SELECT CAST('tomorrow' AS date)$$, $$SELECT timestamptz 'Yesterday 12:00'$$, $$SELECT time 'now', timetz 'now'$$, $$SELECT timetz '12:00 MSK'$$, $$SELECT timestamp(0) 'now'$$,
    $$SELECT '{now}'::timestamp[]$$, $$SELECT ARRAY['2024-01-01', 'now']::date[]$$, $$SELECT '[today,tomorrow)'::daterange$$, $$SELECT daterange('today', 'tomorrow')$$, $$SELECT '{[now,infinity)}'::tstzmultirange$$, $$SELECT '[now,)'::spring$$,
    $$SELECT '(now,a)'::moment$$, $$SELECT ROW('now', 'a')::moment$$, $$SELECT 'today'::day$$, $$SELECT '{today}'::day[]$$, $$SELECT '(today,a)'::shift$$, $$SELECT '{"(today,a)"}'::shift[]$$,
    $$SELECT E'n\x6fw'::date$$, $$SELECT U&'\006eow'::date$$, $$SELECT U&'!006eow' UESCAPE '!'::date$$, $q$SELECT $$now$$::date$q$, $q$SELECT $a$now$a$::date$q$, E'SELECT \'no\'\n\'w\'::date', $$/* 'it''s' */ SELECT "day", 'now'::date FROM stamp -- '$$, $$SELECT 1; SELECT 'é', date 'now'$$);
SELECT * FROM test.verdicts($$SELECT id FROM stamp WHERE at < 'now'$$, $$SELECT id FROM stamp WHERE at BETWEEN 'yesterday' AND '2030-01-01'$$, $$SELECT id FROM stamp WHERE day IN ('today', '2024-01-01')$$, $$SELECT CASE day WHEN 'today' THEN 1 END FROM stamp$$, $$SELECT coalesce(at, 'now') FROM stamp$$, $$SELECT nullif(day, 'today') FROM stamp$$, $$SELECT at + '1 day' FROM stamp$$,
    $$SELECT id FROM stamp WHERE during @> timestamptz 'now'$$, $$SELECT id FROM stamp WHERE 'today' = ANY (days)$$, $$SELECT day FROM stamp UNION ALL SELECT 'today'$$, $$SELECT greatest(day, 'today') FROM stamp$$, $$SELECT date_trunc('day', timestamptz 'now')$$, $$SELECT age('now', at) FROM stamp$$, $$SELECT to_char(date 'now', 'YYYY')$$,
    $$INSERT INTO stamp (id, at) VALUES (1, 'now')$$, $$INSERT INTO stamp (id, at) VALUES (1, '2024-01-01'), (2, 'now')$$, $$INSERT INTO stamp (id, at) SELECT 1, 'now'$$, $$INSERT INTO stamp (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET day = 'today'$$, $$UPDATE stamp SET at = 'now'$$, $$UPDATE stamp SET days[1] = 'now'$$, $$DELETE FROM stamp WHERE id = 1 RETURNING date 'now'$$,
    $$MERGE INTO stamp s USING (SELECT 1 i) t ON s.id = i WHEN MATCHED AND day = 'today' THEN DELETE$$, $$WITH t AS (SELECT date 'now' AS d) SELECT * FROM t$$, $$SELECT (SELECT date 'now')$$, $$SELECT id FROM stamp ORDER BY day = 'today', id LIMIT 1$$, $$SELECT sum(id) FILTER (WHERE day = 'today') FROM stamp$$, $$SELECT sum(id) OVER (ORDER BY day = 'today') FROM stamp$$, $$SELECT * FROM generate_series(timestamp '2024-01-01', 'now', '1 day') g$$,
    $$SELECT * FROM XMLTABLE('/a' PASSING ('<a/>'::xml) COLUMNS d date DEFAULT 'today')$$);
-- texts and what reads no clock
SELECT * FROM test.verdicts($$SELECT 'now'$$, $$SELECT 'now'::text, varchar 'today', 'today'::char(5), name 'now'$$, $$SELECT id FROM stamp WHERE v IN ('now', 'today')$$, $$INSERT INTO stamp (id, v) VALUES (1, 'now')$$, $$SELECT 'now'::mood, '{now}'::mood[], '{now}'::text[], '(2024-01-01,now)'::moment, '(2024-01-01,now)'::shift$$, $$SELECT '"now"'::jsonb, 'now & today'::tsquery, '$.now'::jsonpath$$,
    $$SELECT 'now'::text::timestamp, CAST(v AS date) FROM stamp$$, $$SELECT $1::timestamp, date '2024-01-01', timestamptz '2024-01-01 12:00 Europe/Moscow', 'infinity'::timestamp, 'epoch'::date, 'allballs'::time, timetz '12:00+03', timetz '12:00 UTC', '{2024-01-01}'::date[], '[2024-01-01,infinity)'::daterange$$,
    $$SELECT now(), current_date, current_date + 1, localtimestamp, transaction_timestamp(), current_time$$, $$SELECT NULL::timestamp, interval '1 day', 'now() '::text$$);
SELECT DISTINCT verdict, reason, rewrite FROM chainify.analyze($$SELECT date 'now', timestamp 'today'$$);

-- The outcome is the same whether literals are taken as parameters or not, and whatever ran before.
SELECT tx, ok, sqlstate, split_part(message, ' is not', 1) AS refused_for FROM test.run($$INSERT INTO stamp (id, at) VALUES (1, '2024-01-01')$$, $$INSERT INTO stamp (id, at) VALUES (2, 'now')$$, $$INSERT INTO stamp (id, at) VALUES (3, 'infinity')$$, $$INSERT INTO stamp (id, at) VALUES (4, '2024-01-02')$$,
    $$INSERT INTO stamp (id, at) VALUES (5, 'now') -- as written$$, $$INSERT INTO stamp (id, v) VALUES (6, 'now'::timestamp)$$, $$INSERT INTO stamp (id, v) VALUES (7, 'now')$$);
-- a literal that stays in the text of its plan is known by its place
SELECT tx, ok, sqlstate FROM test.run($$UPDATE stamp SET at = 'infinity', v = 'a' WHERE id = 1$$, $$UPDATE stamp SET at = '2024-01-01', v = 'infinity' WHERE id = 3$$, $$UPDATE stamp SET (at, day) = ('infinity', '2024-01-01') WHERE id = 4$$, $$UPDATE stamp SET (at, day) = ('2024-01-01', 'infinity') WHERE id = 7$$);
SELECT id, v, at, day FROM stamp ORDER BY id;

-- Functions, procedures, policies and views of this database. What is read when it runs has its block's time; the rest is refused.
SET client_min_messages = error;
CREATE FUNCTION put(i int, t timestamptz) RETURNS void LANGUAGE sql AS 'INSERT INTO stamp (id, at) VALUES (i, t)';
CREATE FUNCTION f_cast(i int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM put(i, timestamptz 'now'); END $$;
CREATE FUNCTION f_argument(i int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM put(i, 'now'); END $$;
CREATE FUNCTION f_declare(i int) RETURNS void LANGUAGE plpgsql AS $$ DECLARE t timestamptz := 'now'; BEGIN PERFORM put(i, t); END $$;
CREATE FUNCTION f_assign(i int) RETURNS void LANGUAGE plpgsql AS $$ DECLARE t timestamptz; BEGIN t := 'now'; PERFORM put(i, t); END $$;
CREATE FUNCTION f_element(i int) RETURNS void LANGUAGE plpgsql AS $$ DECLARE t timestamptz[]; BEGIN t[1] := 'now'; PERFORM put(i, t[1]); END $$;
CREATE FUNCTION f_field(i int) RETURNS void LANGUAGE plpgsql AS $$ DECLARE t moment; BEGIN t.at := 'now'; PERFORM put(i, t.at); END $$;
CREATE FUNCTION f_row(i int) RETURNS void LANGUAGE plpgsql AS $$ DECLARE t stamp; BEGIN t := ROW(i, NULL, 'now', NULL, NULL, NULL)::stamp; PERFORM put(i, t.at); END $$;
CREATE FUNCTION f_default(i int, t timestamptz DEFAULT 'infinity') RETURNS void LANGUAGE plpgsql AS $$ DECLARE u timestamptz NOT NULL DEFAULT 'now'; BEGIN PERFORM put(i, u); END $$;
CREATE FUNCTION returned() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RETURN 'now'; END $$;
CREATE FUNCTION f_return(i int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM put(i, returned()); END $$;
CREATE FUNCTION f_using(i int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELECT put($1, $2::timestamptz)' USING i, 'now'; END $$;
CREATE FUNCTION f_dynamic(i int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('SELECT put(%s, %L)', i, 'now'); END $$;
CREATE FUNCTION f_text(i int) RETURNS void LANGUAGE plpgsql AS $$ DECLARE w text := 'now'; BEGIN PERFORM put(i, w::timestamptz); END $$;
CREATE FUNCTION f_case(i int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN CASE current_date WHEN 'today' THEN PERFORM put(i, 'epoch'); ELSE PERFORM put(i, 'infinity'); END CASE; END $$;
CREATE FUNCTION f_if(i int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN IF current_date IN ('today') THEN PERFORM put(i, 'epoch'); ELSE PERFORM put(i, 'infinity'); END IF; END $$;
CREATE FUNCTION f_loop(i int) RETURNS void LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN FOR r IN SELECT timestamptz 'now' AS t LOOP PERFORM put(i, r.t); END LOOP; END $$;
CREATE FUNCTION f_cursor(i int) RETURNS void LANGUAGE plpgsql AS $$ DECLARE c CURSOR (t timestamptz) FOR SELECT t; u timestamptz; BEGIN OPEN c('now'); FETCH c INTO u; PERFORM put(i, u); CLOSE c; END $$;
CREATE FUNCTION f_sql(i int) RETURNS void LANGUAGE sql AS $$ SELECT put(i, 'now') $$;
CREATE FUNCTION f_sql_text(i int) RETURNS void LANGUAGE sql AS $$ SELECT put(i, 'now'::text::timestamptz) $$;
CREATE FUNCTION f_zone(i int) RETURNS void LANGUAGE plpgsql SET timezone = 'Europe/Berlin' AS $$ BEGIN UPDATE stamp SET v = timetz '12:00' WHERE id = i; END $$;
CREATE FUNCTION f_quotes(i int) RETURNS void LANGUAGE plpgsql SET standard_conforming_strings = off SET escape_string_warning = off AS $$ BEGIN PERFORM put(i, '\156ow'); END $$;
CREATE PROCEDURE p_put(i int, t timestamptz) LANGUAGE plpgsql AS $$ BEGIN PERFORM put(i, t); END $$;
CREATE FUNCTION f_call(i int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL p_put(i, 'now'); END $$;
GRANT ALL ON ALL TABLES IN SCHEMA public TO alice;
CREATE FUNCTION test.calls(of int) RETURNS text[] LANGUAGE sql AS $$
    SELECT array_agg(format('SELECT %I(%s)', proname, of + n) ORDER BY n) FROM (SELECT proname, row_number() OVER (ORDER BY proname COLLATE "C") FROM pg_proc WHERE proname LIKE 'f\_%' AND pronamespace = 'public'::regnamespace) p (proname, n)
$$;
SELECT c, ok, sqlstate, split_part(message, ' is not', 1) AS refused_for FROM unnest(test.calls(100)) WITH ORDINALITY u (c, i), test.run(VARIADIC test.calls(100)) r WHERE r.tx = i - 1 ORDER BY i;
SELECT ok, sqlstate, split_part(message, ' is not', 1) AS refused_for FROM test.run($$CALL p_put(90, 'now')$$, $$CALL p_put(91, '2024-01-01')$$);
-- the same block in this session and in a new one: its time is told by the next second
SELECT number, hash, at FROM chainify_node.position(), (SELECT max(at) AS at FROM stamp WHERE at < 'infinity') s \gset
\set block 'SELECT r.hash, r.sqlstates FROM chainify_node.execute_block(:number + 1, :number + 10, 1800000000000000, :''hash'', test.buffer(ARRAY(SELECT test.tx(c, nonce => 7000000 + i) FROM unnest(test.calls(200)) WITH ORDINALITY u (c, i) ORDER BY i))) r'
BEGIN;
:block \gset kept_
SELECT id, at FROM stamp WHERE id > 200 ORDER BY id;
ROLLBACK;
\c
SET client_min_messages = error;
BEGIN;
:block \gset fresh_
ROLLBACK;
SELECT :'kept_hash' = :'fresh_hash' AS same, :'kept_sqlstates' = :'fresh_sqlstates' AS same_outcomes;
-- values given are read in each block; as a key they are not known before it
CREATE TABLE timed (at timestamptz PRIMARY KEY, v int);
GRANT ALL ON timed TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.timed');
SELECT ok, sqlstate FROM test.block(test.tx('INSERT INTO timed VALUES ($1, 1)', params => ARRAY['timestamp with time zone', 'now']));
SELECT ok, sqlstate FROM test.block(test.tx('INSERT INTO timed VALUES ($1, 1)', params => ARRAY['', 'now']), test.tx('UPDATE timed SET v = 2 WHERE at = $1', params => ARRAY['timestamp with time zone', 'now']));
SELECT count(*), count(DISTINCT at), max(v) FROM timed;

-- Definitions hold what a literal said when they were made: refused, when they are deployed.
CREATE FUNCTION test.deploys(VARIADIC commands text[]) RETURNS TABLE (command text, sqlstate text, message text) LANGUAGE sql AS $$
    SELECT c, d.sqlstate, split_part(d.message, ' is not', 1) FROM unnest(commands) WITH ORDINALITY u (c, i), LATERAL test.deploy(c) d ORDER BY i
$$;
GRANT CREATE ON SCHEMA public TO admin;
SELECT * FROM test.deploys($$CREATE TABLE d (id int PRIMARY KEY, at timestamptz DEFAULT 'now')$$, $$CREATE TABLE d (id int PRIMARY KEY, at date CHECK (at <= 'today'))$$, $$CREATE TABLE d (id int PRIMARY KEY, at date, late boolean GENERATED ALWAYS AS (at < 'today') STORED)$$, $$CREATE TABLE d (id int PRIMARY KEY, at date[] DEFAULT '{today,tomorrow}')$$,
    $$CREATE TABLE d (id int PRIMARY KEY, at date) PARTITION BY RANGE (id); CREATE TABLE d1 PARTITION OF d (CHECK (at > 'yesterday')) FOR VALUES FROM (0) TO (9)$$, $$CREATE TABLE d (at date PRIMARY KEY) PARTITION BY RANGE (at); CREATE TABLE d1 PARTITION OF d FOR VALUES FROM ('today') TO ('tomorrow')$$,
    $$CREATE TABLE d (id int PRIMARY KEY, at date); CREATE INDEX ON d (id) WHERE at > 'now'$$, $$CREATE TABLE d (id int PRIMARY KEY, at date); CREATE UNIQUE INDEX ON d ((at > date 'now'))$$, $$CREATE TABLE d (id int PRIMARY KEY, at date); ALTER TABLE d ALTER at SET DEFAULT 'now'$$, $$CREATE TABLE d (id int PRIMARY KEY); ALTER TABLE d ADD at timetz DEFAULT '12:00 MSK'$$, $$CREATE TABLE d (id int PRIMARY KEY, at date); ALTER TABLE d ADD CHECK (at > 'to'
        'day')$$, $$CREATE TABLE d (id int PRIMARY KEY, at text); ALTER TABLE d ALTER at TYPE date USING date 'now'$$,
    $$CREATE TABLE d (id int PRIMARY KEY, at date); CREATE POLICY p ON d USING (at = 'today')$$, $$CREATE TABLE d (id int PRIMARY KEY, at date); CREATE POLICY p ON d WITH CHECK (at = E'n\x6fw')$$, $$CREATE VIEW dv AS SELECT * FROM stamp WHERE day = 'today'$$, $$CREATE VIEW dv AS SELECT date 'now' AS d$$,
    $$CREATE DOMAIN dd AS date DEFAULT 'today'$$, $$CREATE DOMAIN dd AS date CHECK (VALUE >= 'today')$$, $$CREATE DOMAIN dd AS date; ALTER DOMAIN dd SET DEFAULT 'now'$$, $$CREATE FUNCTION df(t timestamptz DEFAULT 'now') RETURNS int LANGUAGE sql AS 'SELECT 1'$$,
    $$CREATE FUNCTION df() RETURNS date LANGUAGE sql BEGIN ATOMIC SELECT date 'now'; END$$, $$CREATE FUNCTION df() RETURNS date LANGUAGE sql RETURN date 'now'$$, $$CREATE FUNCTION df() RETURNS date LANGUAGE sql AS $f$ SELECT date 'now' $f$ $$, $$CREATE FUNCTION df() RETURNS date LANGUAGE plpgsql AS $f$ BEGIN RETURN date 'now'; END $f$ $$);
-- texts, and what is computed when it is used, are not
SELECT * FROM test.deploys($$CREATE TABLE e (id int PRIMARY KEY, at timestamptz DEFAULT now(), day date DEFAULT current_date + 1, kind text DEFAULT 'now' CHECK (kind IN ('now', 'today')), until date DEFAULT 'infinity', mood public.mood DEFAULT 'now'); GRANT ALL ON e TO alice$$, $$COMMENT ON TABLE e IS 'as of now'$$, $$ALTER TABLE e ADD due timestamptz; ALTER TABLE e ALTER due SET DEFAULT 'now'::text::timestamptz$$,
    $$CREATE INDEX ON e (id) WHERE kind = 'today'$$, $$CREATE VIEW ev AS SELECT * FROM e WHERE kind = 'today' AND at > now() - interval '1 day'$$, $$CREATE POLICY p ON e USING (kind = 'now')$$, $$CREATE TYPE when_type AS ENUM ('now', 'later')$$, $$CREATE FUNCTION ef(t text DEFAULT 'now') RETURNS text LANGUAGE plpgsql AS $f$ DECLARE d date := 'today'; BEGIN RETURN t || 'today' || d; END $f$ $$, $$CREATE FUNCTION eg() RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT 'now' || current_date; END$$,
    $$CREATE TABLE ep (at date PRIMARY KEY) PARTITION BY RANGE (at); CREATE TABLE ep1 PARTITION OF ep FOR VALUES FROM (current_date) TO (current_date + 1)$$);
SELECT tx, ok, sqlstate FROM test.run('INSERT INTO e (id) VALUES (1)', 'SELECT ef(), eg()');
SELECT count(*) FROM e WHERE at = due AND day = at::date + 1;
-- a function that is declared IMMUTABLE is computed while a statement is planned
SELECT * FROM test.deploys($$CREATE FUNCTION di() RETURNS timestamptz IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN now(); END'$$, $$CREATE FUNCTION di() RETURNS date IMMUTABLE LANGUAGE sql AS 'SELECT current_date'$$, $$CREATE FUNCTION di() RETURNS date IMMUTABLE LANGUAGE sql BEGIN ATOMIC SELECT current_date; END$$, $$CREATE FUNCTION di() RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM stamp); END'$$,
    $$CREATE FUNCTION di() RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT eg()'$$, $$CREATE FUNCTION di(t timestamptz) RETURNS interval IMMUTABLE LANGUAGE sql AS 'SELECT age(t)'$$, $$CREATE FUNCTION di() RETURNS date STABLE LANGUAGE sql AS 'SELECT current_date'; ALTER FUNCTION di IMMUTABLE$$,
    $$CREATE FUNCTION ei(a text, b timestamptz) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT concat(a, to_char(b, ''YYYY''), age(b, b), current_user)'$$, $$CREATE FUNCTION ej(a text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN ei(a, NULL); END'$$);
-- what two organisations made at different times is told apart when they attach it
CREATE TABLE made (id int PRIMARY KEY, at timestamptz DEFAULT 'now', CHECK (at < timestamptz 'now'));
SELECT chainify_ledger.wording('made') AS wording \gset
ALTER TABLE made ALTER at SET DEFAULT 'now';
SELECT :'wording' = chainify_ledger.wording('made') AS same;
