-- CHECK constraints in schema text 2 (spec/engines.md, "Checks").
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
CREATE FUNCTION positive(n integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT n > 0';
CREATE OPERATOR public.< (LEFTARG = integer, RIGHTARG = integer, PROCEDURE = pg_catalog.int4lt);
CREATE OPERATOR pg_catalog.<# (LEFTARG = integer, RIGHTARG = integer, PROCEDURE = pg_catalog.int4lt);
CREATE FUNCTION before(a varchar, b varchar) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE OPERATOR pg_catalog.>= (LEFTARG = varchar, RIGHTARG = varchar, PROCEDURE = before);
CREATE TABLE base (id integer PRIMARY KEY, s smallint, i integer, n numeric(10,2), m numeric(65,38), ok boolean, t text, v varchar(10), raw bytea, day date, clock time, ts timestamp,
    tz timestamptz, u uuid, j jsonb, d double precision, "order" integer);
GRANT ALL ON base TO alice;
-- The lines of checks that schema text 2 has words for.
CREATE FUNCTION test.line(VARIADIC checks text[]) RETURNS TABLE (written text, line text) LANGUAGE plpgsql AS $$
BEGIN
    FOREACH written IN ARRAY checks LOOP
        BEGIN
            EXECUTE 'ALTER TABLE base ADD CONSTRAINT k CHECK (' || written || ')';
            SELECT sqlstate || ' ' || replace(message, 'table "public.base" cannot be put on the ledger with ENCODING 2: ', '') INTO line FROM test.deploy('ATTACH TABLE public.base ENCODING 2');
            line := coalesce(nullif(line, ' '), (SELECT l FROM chainify_ledger.ledger_table t, string_to_table(t.shared_text, E'\n') l WHERE l LIKE 'check %'));
            RAISE EXCEPTION USING ERRCODE = 'TEST0';
        EXCEPTION WHEN SQLSTATE 'TEST0' THEN RETURN NEXT;
        END;
    END LOOP;
END
$$;
\pset format unaligned
SELECT * FROM test.line('i > 0', 'i BETWEEN 1 AND 5', 'i NOT BETWEEN 5 AND 1', 'i IN (2, 1, -3, 2)', 'i NOT IN (1, 2)', 'i IN (7)', 'NOT (i = 1 OR s < 2 AND NOT id > 3)', '5 < i', 'id < i', 's >= i',
    'i = 3000000000', 's IN (1, 70000)', 'n > 0', 'n >= -5.50', 'n IN (1, 2.5)', 'm > 0.00000000000000000000000000000000000000000000000000000000000000000000001',
    'ok', 'NOT ok', 'ok <> true', 'ok = false OR t IS NOT NULL', 'NOT (t IS NULL)', $c$t = 'it''s \é '$c$, $c$v < 'x'$c$, 'v = t', $c$v IN ('a', 'longer than the column')$c$,
    $c$t NOT IN ('a', 'b')$c$, $c$raw <> '\x00FF'$c$, $c$day >= '2024-02-29'$c$, $c$day IN ('2024-02-29', '0001-01-01')$c$, $c$clock <= '24:00:00'$c$, $c$ts < '2024-02-29 12:00:00.5'$c$,
    $c$tz < '2024-02-29 12:00:00+02'$c$, $c$u <> '00112233-4455-6677-8899-aabbccddeeff'$c$, 'j IS NOT NULL', 'd > 1.5', 'd BETWEEN -1 AND 1e2', $c$d <> '0.5'$c$, '"order" > 0', 'i > 0 AND i > 0',
    'i > 0 AND (s > 0 AND (i < 9 OR (i IS NULL OR s IS NULL)))');
-- Others, each with the construct.
SELECT * FROM test.line('positive(i)', 'i + 1 > 0', 'i OPERATOR(public.<) 5', 'i <# 5', 'v >= v', 'char_length(t) > 0', 'lower(t) = t', $c$t LIKE 'a%'$c$, $c$t < 'x' COLLATE "und-x-icu"$c$, $c$t < 'x' COLLATE "C"$c$,
    'i::text < id::text', 'i > 1.5', 'n > i', 'i = s::integer', 'n = 1.005::numeric(10,2)', $c$n = 'NaN'$c$, $c$t = 'a'::char(3)$c$, $c$v = 'abc'::varchar(2)$c$,
    'd > 0.1234567890123456', $c$d < 'Infinity'$c$, $c$day < 'infinity'$c$, $c$day < '10000-01-01'$c$, $c$day < '0001-01-01 BC'$c$, $c$ts < 'infinity'$c$, $c$ts < '2024-02-29'::date$c$, 'ts < tz', 'day < CURRENT_DATE',
    'ts < now()', 'i = NULL', 'i IN (1, NULL)', $c$i = ANY ('{1,2}')$c$, 'i < ANY (ARRAY[1, 2])', 'i IS DISTINCT FROM 1', 'ok IS TRUE', '(i > 0) IS NULL', '(i > 0) = ok', 'true', '5 > 3', 'coalesce(i, 1) > 0',
    'CASE WHEN ok THEN i > 0 END', '(i, s) = (1, 2)', 'base IS NOT NULL', 'tableoid > 5', $c$u < '00112233-4455-6677-8899-aabbccddeeff'$c$, $c$j = '{}'$c$, $c$t <> 'a?'$c$, $c$t <> '😀'$c$,
    'm > 0.' || repeat('0', 80) || '1', 'i IN (' || (SELECT string_agg(n::text, ', ') FROM generate_series(1, 300) n) || ')',
    (SELECT string_agg(format('(i = %s %s ', n, CASE WHEN n % 2 = 0 THEN 'AND' ELSE 'OR' END), '') || 's = 1' || repeat(')', 17) FROM generate_series(1, 17) n));
\pset format aligned
SELECT * FROM test.refusals($$test.deploy('ATTACH TABLE public.base ENCODING 2')$$, 'ALTER TABLE base ADD CHECK (i > 0) NOT VALID', 'ALTER TABLE base ADD CHECK (i > 0) NO INHERIT',
    (SELECT string_agg(format('ALTER TABLE base ADD CHECK (i > %s)', n), ';') FROM generate_series(1, 65) n));
-- Names and order of constraints are not in the text, nor is the place where a check is written; each line is there once.
ALTER TABLE base ADD CONSTRAINT later CHECK (i <> 9), ADD CONSTRAINT again CHECK (n >= 0), ADD CONSTRAINT wide CHECK (i BETWEEN 0 AND 100 OR v IS NULL), ADD CONSTRAINT same CHECK (0 <= n);
INSERT INTO base (id, i, v) VALUES (1, 5, 'a');
CREATE FUNCTION test.judged(VARIADIC txs bytea[]) RETURNS TABLE (tx bigint, ok boolean, sqlstate text, message text) LANGUAGE sql AS $$
    SELECT i - 1, get_byte(r.outcomes, 0) >> (i - 1)::int & 1 = 1, s.state, s.message
    FROM chainify_node.position() p, test.execute_block(p.number + 1, p.number + 10, 1700000000000000 + p.number * 1000000, p.hash, test.buffer(txs),
        ', refused => ''{}'', refused_sqlstates => ''{}'', refused_messages => ''{}''') r, unnest(r.sqlstates, r.messages) WITH ORDINALITY s (state, message, i)
$$;
SELECT * FROM test.judged(test.tx('ATTACH TABLE public.base ENCODING 2', 'admin', 3));
SELECT line FROM chainify_ledger.ledger_table, string_to_table(shared_text, E'\n') line WHERE line LIKE 'check %' ORDER BY 1;
SELECT * FROM test.judged(test.tx('INSERT INTO base (id, i, n) VALUES (2, 9, 1)'), test.tx('INSERT INTO base (id, i, n) VALUES (2, 8, -0.01)'), test.tx('INSERT INTO base (id, i, n, v) VALUES (2, 101, 0, ''b'')'),
    test.tx('INSERT INTO base (id, i, n) VALUES (2, 101, 0)'), test.tx('UPDATE base SET i = 9'), test.tx('UPDATE base SET v = ''c'' WHERE id = 2'), test.tx('UPDATE base SET n = NULL, i = NULL'));
SELECT id, i, n, v FROM base ORDER BY id;
SELECT test.all_well();
-- A check that is changed, dropped or added shows in the state root of the next block, and is put back.
CREATE FUNCTION test.other(change text, undo text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM test.found(change, undo);
    RETURN QUERY SELECT 'live ' || (t.schema_hash = chainify_ledger.live_schema_hash(t.relation))::text FROM chainify_ledger.ledger_table t;
END
$$;
SELECT * FROM test.other('ALTER TABLE base DROP CONSTRAINT wide', 'ALTER TABLE base ADD CONSTRAINT wide CHECK (i BETWEEN 0 AND 100 OR v IS NULL)');
SELECT * FROM test.other('ALTER TABLE base ADD CONSTRAINT more CHECK (i < 200)', 'ALTER TABLE base DROP CONSTRAINT more');
SELECT * FROM test.other('ALTER TABLE base DROP CONSTRAINT later, ADD CONSTRAINT later CHECK (i <> 10)', 'ALTER TABLE base DROP CONSTRAINT later, ADD CONSTRAINT later CHECK (i <> 9)');
DROP OPERATOR pg_catalog.<# (integer, integer);
DROP OPERATOR pg_catalog.>= (varchar, varchar);
