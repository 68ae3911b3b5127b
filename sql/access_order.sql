-- Access sets are not too small: two transactions whose sets do not meet give the same outcomes and rows in either order.
-- Others: ACCESS_SEED=n ACCESS_PAIRS=n scripts/regress PREFIX access_order.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set seed 0
\set pairs 600
\getenv seed ACCESS_SEED
\getenv pairs ACCESS_PAIRS
SELECT set_config('test.seed', :'seed', false), set_config('test.pairs', :'pairs', false) \gset
CREATE TABLE p (id int PRIMARY KEY, code text COLLATE "C" UNIQUE, n numeric NOT NULL DEFAULT 0);
CREATE TABLE c (id bigint PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, line smallint, v numeric(6,2), UNIQUE (p, line));
CREATE INDEX ON c (v);
CREATE TABLE d (k char(3), day date, c bigint REFERENCES c ON DELETE SET NULL, w int GENERATED ALWAYS AS (extract(day FROM day)::int) STORED, note varchar(4) UNIQUE, PRIMARY KEY (k, day));
CREATE TABLE e (id int PRIMARY KEY, code text COLLATE "C" REFERENCES p (code), part int, UNIQUE (part) DEFERRABLE);
ALTER TABLE e DROP CONSTRAINT e_part_key;
CREATE UNIQUE INDEX ON e (part) WHERE id > 2;
CREATE VIEW joined AS SELECT c.id, c.v, p.id AS parent, p.code FROM c JOIN p ON p.id = c.p;
CREATE VIEW summed AS SELECT p, sum(v) AS total, count(*) AS n FROM c GROUP BY p;
CREATE VIEW listed AS SELECT id::bigint AS id, n FROM p UNION ALL SELECT id, v FROM c;
CREATE FUNCTION pay(a bigint, b bigint, amount numeric) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    source CONSTANT bigint := a;
    held numeric;
BEGIN
    SELECT v INTO held FROM c WHERE id = source FOR UPDATE;
    IF held >= amount THEN
        UPDATE c SET v = v - amount WHERE id = source;
        UPDATE c SET v = coalesce(v, 0) + amount WHERE id = b;
    END IF;
    RETURN FOUND;
END
$$;
CREATE FUNCTION each(list int[], by int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one int;
    r record;
BEGIN
    FOREACH one IN ARRAY list LOOP
        UPDATE p SET n = n + by WHERE id = one;
    END LOOP;
    FOR i IN 1..cardinality(list) LOOP
        UPDATE c SET v = v + by WHERE id = list[i] AND p = by;
    END LOOP;
    FOR r IN SELECT id, n FROM p WHERE id = by ORDER BY id LOOP
        UPDATE d SET note = r.n::text WHERE k = 'k' || by AND day = '2020-01-01';
    END LOOP;
END
$$;
CREATE FUNCTION total(of int) RETURNS numeric LANGUAGE sql STABLE AS 'SELECT coalesce(sum(v), 0) FROM c WHERE p = of';
GRANT ALL ON ALL TABLES IN SCHEMA public TO alice;

-- In a statement, # is a digit and [table] a condition on its rows.
CREATE TABLE test.shape (number int PRIMARY KEY, sql text);
INSERT INTO test.shape SELECT i - 1, s FROM unnest(ARRAY[
    'INSERT INTO p VALUES (#, ''c#'', #)', 'INSERT INTO p VALUES (1#, ''d#''), (2#, NULL)', 'UPDATE p SET n = n + # WHERE [p]', 'UPDATE p SET code = ''c#'' WHERE [p]',
    'UPDATE p SET id = 1# WHERE id = #', 'DELETE FROM p WHERE [p]', 'UPDATE p SET n = (SELECT coalesce(sum(v), 0) FROM c WHERE c.p = p.id) WHERE [p]',
    'UPDATE p SET n = n + 1 WHERE [p] AND EXISTS (SELECT FROM c WHERE c.p = p.id AND [c])', 'UPDATE p SET n = 0 WHERE NOT EXISTS (SELECT FROM c WHERE c.p = p.id) AND [p]',
    'INSERT INTO c VALUES (#, #, #, #.5)', 'INSERT INTO c (id, p) VALUES (1#, #), (2#, NULL)', 'UPDATE c SET v = v * # WHERE [c]', 'UPDATE c SET p = # WHERE [c]', 'UPDATE c SET line = # WHERE [c]',
    'DELETE FROM c WHERE [c]', 'UPDATE c SET v = p.n FROM p WHERE p.id = c.p AND [c]', 'INSERT INTO c SELECT 30 + id, id, 9, n FROM p WHERE [p]',
    'INSERT INTO c VALUES (#, #, #, #) ON CONFLICT (id) DO UPDATE SET v = c.v + excluded.v', 'INSERT INTO c VALUES (#, #, #, #) ON CONFLICT DO NOTHING',
    'MERGE INTO c USING (VALUES (#::bigint, #), (1#, #)) s (id, p) ON c.id = s.id WHEN MATCHED AND c.v > # THEN DELETE WHEN MATCHED THEN UPDATE SET v = # WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, s.p, #)',
    'INSERT INTO d (k, day, c, note) VALUES (''k#'', ''2020-01-0#'', #, ''n#'')', 'UPDATE d SET note = ''n#'' WHERE [d]', 'UPDATE d SET day = day + # WHERE [d]', 'DELETE FROM d WHERE [d]', 'UPDATE d SET c = # WHERE [d]',
    'INSERT INTO e VALUES (#, ''c#'', #)', 'UPDATE e SET part = # WHERE id = #', 'UPDATE e SET id = # WHERE id = #', 'DELETE FROM e WHERE id BETWEEN # AND #', 'UPDATE e SET code = NULL WHERE code = ''c#''',
    'SELECT pay(#, #, #)', 'SELECT pay(id, #, 1) FROM p WHERE id = #', 'SELECT each(ARRAY[#, #], #)', 'SELECT pay(total(#)::bigint, #, 1)', 'SELECT FROM joined WHERE id = #', 'SELECT FROM joined WHERE code = ''c#''',
    'UPDATE e SET part = (SELECT n FROM summed WHERE p = #) WHERE id = #', 'SELECT FROM summed WHERE total > # AND p = #', 'SELECT FROM listed WHERE id = #', 'SELECT FROM listed WHERE n > #',
    'UPDATE p SET n = total(id) WHERE [p]', 'SELECT FROM p LEFT JOIN c ON c.p = p.id AND [c] WHERE [p]', 'SELECT FROM p LEFT JOIN c ON c.p = p.id WHERE c.id IS NULL AND [p]', 'SELECT FROM p FULL JOIN c ON c.p = p.id AND [c]',
    'INSERT INTO e SELECT 1#, s.code, # FROM (SELECT code FROM p WHERE [p] ORDER BY id LIMIT 1) s', 'UPDATE c SET v = # WHERE id IN (SELECT c FROM d WHERE [d])', 'SELECT FROM (SELECT p, line FROM c EXCEPT SELECT id, # FROM p) s WHERE p = #',
    'SELECT FROM (SELECT DISTINCT ON (p) p, id FROM c WHERE p IS NOT NULL ORDER BY p, id) s WHERE id = #', 'WITH gone AS (DELETE FROM d WHERE [d] RETURNING c) UPDATE c SET v = 1 WHERE id = # AND EXISTS (SELECT FROM gone)',
    'UPDATE p SET n = 7 WHERE id = # AND NOT EXISTS (SELECT FROM e WHERE e.code = p.code)', 'SELECT FROM c WHERE [c] FOR UPDATE', 'SELECT FROM p WHERE [p] FOR SHARE', 'INSERT INTO e SELECT id, code, n::int FROM p LEFT JOIN (SELECT # AS x) s ON s.x = p.id WHERE p.id = #'
]) WITH ORDINALITY u (s, i);
CREATE TABLE test.condition (tbl text, number int, sql text, PRIMARY KEY (tbl, number));
INSERT INTO test.condition SELECT t, row_number() OVER (PARTITION BY t) - 1, s FROM (VALUES
    ('p', 'p.id = #'), ('p', 'p.id = #'), ('p', 'p.id IN (#, #)'), ('p', 'p.id > # AND p.id <= 1#'), ('p', 'p.code = ''c#'''), ('p', 'p.code >= ''c#'''), ('p', 'p.code IS NULL'), ('p', 'p.id = # OR p.code = ''c#'''), ('p', 'p.id = # OR p.id = #'), ('p', 'p.id <> #'),
    ('c', 'c.id = #'), ('c', 'c.id = #'), ('c', 'c.id = ANY (''{#,#}'')'), ('c', 'c.p = #'), ('c', 'c.p = # AND c.line = #'), ('c', '(c.p, c.line) IN ((#, #), (#, #))'), ('c', 'c.p = # AND c.line < #'), ('c', 'c.v = #.5'), ('c', 'c.v BETWEEN # AND 1#'), ('c', 'c.v > # AND c.id = #'), ('c', 'c.p IS NULL'), ('c', 'c.id = c.p'),
    ('d', 'd.k = ''k#'''), ('d', 'd.k = ''k#'' AND d.day = ''2020-01-0#'''), ('d', 'd.k = ''k#'' AND d.day > ''2020-01-0#'''), ('d', 'd.c = #'), ('d', 'd.note = ''n#'''), ('d', 'd.w = #')) v (t, s);

-- Not random(), which every transaction of a block seeds anew.
CREATE SEQUENCE test.draw;
CREATE FUNCTION test.drawn(n int) RETURNS int LANGUAGE sql VOLATILE AS $$
    SELECT ((hashtextextended(current_setting('test.seed') || ' ' || nextval('test.draw'), 0) >> 8 & 4294967295) % n)::int
$$;
CREATE FUNCTION test.statement() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    made text := (SELECT sql FROM test.shape WHERE number = (SELECT test.drawn((SELECT count(*)::int FROM test.shape))));
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['p', 'c', 'd'] LOOP
        WHILE strpos(made, '[' || t || ']') > 0 LOOP
            made := regexp_replace(made, '\[' || t || '\]', '(' || (SELECT sql FROM test.condition WHERE tbl = t AND number = (SELECT test.drawn((SELECT count(*)::int FROM test.condition WHERE tbl = t)))) || ')');
        END LOOP;
    END LOOP;
    WHILE strpos(made, '#') > 0 LOOP
        made := regexp_replace(made, '#', (1 + test.drawn(5))::text);
    END LOOP;
    RETURN made;
END
$$;
-- Runs a block and undoes it: the outcomes in order, the tables, the graph.
CREATE FUNCTION test.once(txs text[], OUT outcomes text[], OUT tables text, OUT graph text) LANGUAGE plpgsql AS $$
DECLARE
    position record;
    r record;
BEGIN
    SELECT * INTO position FROM chainify_node.position();
    BEGIN
        SELECT * INTO r FROM chainify_node.execute_block(position.number + 1, 99, 1700000000000000, position.hash,
            test.buffer(ARRAY(SELECT test.tx(s, nonce => hashtext(s)::bigint + 4294967296) FROM unnest(txs) WITH ORDINALITY u (s, i) ORDER BY i)));
        outcomes := ARRAY(SELECT concat_ws(' ', r.rows[i], r.sqlstates[i]) FROM generate_series(1, cardinality(txs)) i);
        tables := (SELECT string_agg(format('%s %s %s', table_id, row_count, encode(lanes, 'hex')), ';' ORDER BY table_id) FROM chainify_ledger.table_state);
        graph := chainify.explain_block(position.number + 1);
        RAISE EXCEPTION 'undo';
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
END
$$;
CREATE FUNCTION test.pairs() RETURNS TABLE (enough boolean, wrong text) LANGUAGE plpgsql AS $$
DECLARE
    n int := current_setting('test.pairs');
    sqls text[];
    a record;
    b record;
    apart int := 0;
    worked int := 0;
BEGIN
    FOR i IN 1..n LOOP
        sqls := ARRAY[test.statement(), test.statement(), test.statement()];
        IF test.drawn(10) < 3 THEN
            sqls[2] := sqls[2] || '; ' || test.statement();
        END IF;
        a := test.once(sqls);
        IF a.graph !~ 't2 waits for t1' THEN
            apart := apart + 1;
            worked := worked + (a.outcomes[2] ~ '^[1-9]\d*$' AND a.outcomes[3] ~ '^[1-9]\d*$')::int;
            b := test.once(ARRAY[sqls[1], sqls[3], sqls[2]]);
            IF (a.tables, a.outcomes[2], a.outcomes[3]) IS DISTINCT FROM (b.tables, b.outcomes[3], b.outcomes[2]) THEN
                wrong := concat_ws(E'\n', 'seed ' || current_setting('test.seed'), sqls::text, a.outcomes::text, b.outcomes::text, a.graph);
                RETURN QUERY SELECT true, wrong;
                RETURN;
            END IF;
        END IF;
    END LOOP;
    RAISE LOG '% pairs, % apart, of which % change something', n, apart, worked;
    RETURN QUERY SELECT worked > n / 50, NULL::text;
END
$$;
\set ECHO none
DO $$ BEGIN PERFORM test.deploy('ATTACH TABLE public.p, public.c, public.d, public.e'); END $$;
DO $$ BEGIN PERFORM test.run('INSERT INTO p SELECT i, ''c'' || i, i FROM generate_series(1, 4) i ORDER BY i', 'INSERT INTO c SELECT i, 1 + i % 4, i % 3, i + 0.5 FROM generate_series(1, 6) i ORDER BY i',
    'INSERT INTO d (k, day, c, note) SELECT ''k'' || i % 3, date ''2020-01-01'' + i, i, ''n'' || i FROM generate_series(1, 5) i ORDER BY i', 'INSERT INTO e SELECT i, ''c'' || i, i FROM generate_series(1, 3) i ORDER BY i'); END $$;
\set ECHO queries
SELECT * FROM test.pairs();
