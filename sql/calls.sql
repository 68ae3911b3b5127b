-- A transaction that only calls a function runs without the executor (pg/run/direct_call.rs); what can be seen of it is the same.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE item (id int PRIMARY KEY, n int CHECK (n >= 0), note text);
GRANT ALL ON item TO alice;
CREATE FUNCTION add_item(i int, n int, note text DEFAULT 'none') RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item VALUES (i, n, note); RETURN i; END $$;
CREATE FUNCTION add_strictly(i int, n int) RETURNS int LANGUAGE plpgsql STRICT AS $$ BEGIN INSERT INTO item VALUES (i, n, 'strict'); RETURN i; END $$;
CREATE FUNCTION add_as_owner(i int) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$ BEGIN INSERT INTO item VALUES (i, 1, 'owner'); RETURN 'x'; END $$;
CREATE FUNCTION add_by_sql(i int) RETURNS void LANGUAGE sql AS 'INSERT INTO item VALUES (i, 1, ''sql'')';
CREATE FUNCTION add_any(i int, VARIADIC v anyarray) RETURNS anyelement LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item VALUES (i, cardinality(v), v[1]::text); RETURN v[1]; END $$;
CREATE FUNCTION rows_of(i int) RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT generate_series(1, i); END $$;
CREATE FUNCTION pair(i int) RETURNS item LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT item FROM item WHERE id = i); END $$;
CREATE FUNCTION hidden(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item VALUES (i, 1); RETURN 1; END $$;
REVOKE EXECUTE ON FUNCTION hidden FROM PUBLIC;
SELECT * FROM test.deploy('ATTACH TABLE public.item');

-- rows counted, and what the functions did
SELECT tx, ok, rows, sqlstate, message FROM test.block(
    test.tx('SELECT add_item($1, $2, $3)', params => ARRAY['integer', '1', 'integer', '10', 'text', 'three']), test.tx('SELECT add_item($1, $2)', params => ARRAY['', '2', '', '20']),
    test.tx('SELECT add_item(3, 30, NULL)'), test.tx('SELECT add_item(4, 40); SELECT add_item(5, 50)'), test.tx('SELECT add_item(6, 60), add_item(7, 70)'),
    test.tx('SELECT add_item($1, 2 + $2)', params => ARRAY['integer', '8', 'integer', '78']), test.tx('SELECT add_item(i => 9, n => 90)'),
    test.tx('SELECT add_strictly(10, 1)'), test.tx('SELECT add_strictly(11, NULL)'), test.tx('SELECT add_strictly($1, $2)', params => ARRAY['integer', NULL, 'integer', '1']),
    test.tx('SELECT add_as_owner(12)'), test.tx('SELECT add_by_sql(13)'), test.tx('SELECT add_any(14, 1, 2, 3)'), test.tx('SELECT add_any(15, ''a''::text)'), test.tx('SELECT rows_of(5)'), test.tx('SELECT pair(1)'),
    test.tx('SELECT add_item(16, 1) WHERE false'), test.tx('SELECT add_item(17, 1) LIMIT 0'), test.tx('SELECT add_item($1::text::int, 1)', params => ARRAY['integer', '18']));
SELECT * FROM item ORDER BY id;
-- what a function learns from its call: its arguments' types, their collation
CREATE FUNCTION shout(i int, said text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item VALUES (i, length(said), upper(said)); RETURN said; END $$;
SELECT tx, ok, rows, sqlstate, message FROM test.block(
    test.tx('SELECT add_any($1, VARIADIC $2)', params => ARRAY['integer', '19', 'integer[]', '{4,5}']), test.tx('SELECT add_any($1, VARIADIC $2)', params => ARRAY['integer', '20', 'text[]', '{d}']),
    test.tx('SELECT shout($1, $2)', params => ARRAY['integer', '21', 'text', 'loud']));
SELECT * FROM item WHERE id BETWEEN 19 AND 21 ORDER BY id;
-- what may not be called, is not there, fails, or is refused inside
SELECT tx, ok, rows, sqlstate, message FROM test.block(
    test.tx('SELECT hidden(100)'), test.tx('SELECT nosuch(100)'), test.tx('SELECT add_item(101, -1)'), test.tx('SELECT add_item(1, 1)'), test.tx('SELECT add_item(''x'', 1)'),
    test.tx('SELECT add_item($1, 1)', params => ARRAY['integer', 'x']), test.tx('SELECT clock_timestamp()'));
-- rights and definitions that change from block to block
GRANT EXECUTE ON FUNCTION hidden TO alice;
SELECT tx, ok, sqlstate FROM test.run('SELECT hidden(100)');
REVOKE EXECUTE ON FUNCTION hidden FROM alice;
SELECT tx, ok, sqlstate, message FROM test.run('SELECT hidden(101)');
CREATE OR REPLACE FUNCTION add_item(i int, n int, note text DEFAULT 'other') RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item VALUES (i, n + 1000, note); RETURN i; END $$;
SELECT tx, ok, sqlstate FROM test.block(test.tx('SELECT add_item($1, $2)', params => ARRAY['', '102', '', '20']));
CREATE OR REPLACE FUNCTION add_item(i int, n int, note text DEFAULT 'other') RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item VALUES (i, n, clock_timestamp()::text); RETURN i; END $$;
SELECT tx, ok, sqlstate, message FROM test.block(test.tx('SELECT add_item($1, $2)', params => ARRAY['', '103', '', '20']));
DROP FUNCTION add_item;
SELECT tx, ok, sqlstate, message FROM test.block(test.tx('SELECT add_item($1, $2)', params => ARRAY['', '104', '', '20']));
-- counted as elsewhere when calls are counted
SET track_functions = 'all';
SELECT tx, ok, rows FROM test.run('SELECT add_strictly(105, 1)');
RESET track_functions;
SELECT * FROM item WHERE id > 50 ORDER BY id;
SELECT test.states_hold();
