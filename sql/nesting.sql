\i sql/setup.sql
-- How deep calls and statements may be nested is the same wherever the block is executed from; what exceeds the stack all the same is an
-- error of the machine.
SET client_min_messages = error;
CREATE TABLE t (id int PRIMARY KEY, n bigint);
INSERT INTO t VALUES (1, 0);
GRANT ALL ON t TO alice;
CREATE FUNCTION deep(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN CASE WHEN n = 0 THEN 0 ELSE deep(n - 1) + 1 END; END';
CREATE FUNCTION selects(n int) RETURNS int LANGUAGE plpgsql AS 'DECLARE r int; BEGIN IF n = 0 THEN RETURN 0; END IF; SELECT selects(n - 1) INTO r; RETURN r + 1; END';
CREATE FUNCTION in_sql(n int) RETURNS int LANGUAGE sql AS 'SELECT CASE WHEN n = 0 THEN 0 ELSE in_sql(n - 1) + 1 END';
CREATE FUNCTION caught(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN deep(n); EXCEPTION WHEN OTHERS THEN RETURN -1; END';
SELECT ok FROM test.deploy('ATTACH TABLE public.t');
-- The deepest that each reaches: asked for in a block executed at once, and from within calls of this session.
CREATE PROCEDURE test.deepest(f text, INOUT said text) LANGUAGE plpgsql AS $$
DECLARE
    low int := 0;
    high int := 2000;
    middle int;
    b record;
BEGIN
    WHILE low < high LOOP
        middle := (low + high + 1) / 2;
        SELECT * INTO b FROM test.run(format('UPDATE t SET n = %s(%s) WHERE id = 1', f, middle));
        COMMIT; -- other sessions execute the next block too
        IF b.ok THEN low := middle; ELSE high := middle - 1; END IF;
    END LOOP;
    SELECT * INTO b FROM test.run(format('UPDATE t SET n = %s(%s) WHERE id = 1', f, low + 1));
    COMMIT;
    said := low || ' ' || b.sqlstate || ' ' || b.message;
END
$$;
CREATE PROCEDURE test.below(levels int, f text, INOUT said text) LANGUAGE plpgsql AS $$
BEGIN
    IF levels = 0 THEN CALL test.deepest(f, said); ELSE CALL test.below(levels - 1, f, said); END IF;
END
$$;
CREATE TABLE test.reached (f text, deepest text, same_below boolean);
DO $$
DECLARE
    f text;
    here text;
    below text;
BEGIN
    FOREACH f IN ARRAY '{deep,selects,in_sql}'::text[] LOOP
        CALL test.deepest(f, here);
        CALL test.below(50, f, below);
        INSERT INTO test.reached VALUES (f, here, here = below);
    END LOOP;
END
$$;
SELECT * FROM test.reached;
-- Called directly or as part of a query, and caught by the function itself.
SELECT ok, sqlstate, message FROM test.run('SELECT deep(199)', 'SELECT deep(200)', 'SELECT 1 + deep(200)', 'SELECT caught(1000)', 'SELECT deep(1000000)');
-- With less of a stack the same; the block sets its own.
SET max_stack_depth = '100kB';
SELECT ok, sqlstate FROM test.run('SELECT deep(190)', 'SELECT deep(1000000)');
RESET max_stack_depth;

-- Statements.
CREATE FUNCTION test.chain(n int) RETURNS text LANGUAGE sql AS $$ SELECT 'UPDATE t SET n = 0' || repeat(' + n', n) $$;
CREATE FUNCTION test.inner(n int) RETURNS text LANGUAGE sql AS $$ SELECT 'UPDATE t SET n = ' || repeat('abs(', n) || 'n' || repeat(')', n) $$;
CREATE FUNCTION test.subqueries(n int) RETURNS text LANGUAGE sql AS $$ SELECT repeat('SELECT n FROM (', n) || 'SELECT n FROM t' || repeat(') x', n) $$;
CREATE FUNCTION test.united(n int) RETURNS text LANGUAGE sql AS $$ SELECT 'SELECT n FROM t' || repeat(' UNION ALL SELECT n FROM t', n) $$;
SELECT length(s), b.ok, b.sqlstate, b.message
FROM unnest(ARRAY[test.chain(900), test.chain(1100), test.chain(100000), test.inner(400), test.inner(1100), test.subqueries(100), test.united(300), test.united(1100)])
    WITH ORDINALITY u (s, i), LATERAL test.run(s) b ORDER BY i;

-- What only the machine knows ends the block, and names the transaction: a function that caught it as well.
CREATE FUNCTION parses(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM repeat('[', n)::json; RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN 2; END $$;
SELECT test.raised('SELECT 1', 'SELECT repeat(''['', 1000000)::json');
SELECT test.raised('SELECT parses(1000000)');
-- So does an error that PostgreSQL does not expect of itself.
CREATE FUNCTION averages(of float8[]) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM float8_avg(of); RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN 2; END $$;
SELECT test.raised('SELECT averages(''{1,2,3}'')', 'SELECT float8_avg(''{1}'')');
SELECT test.raised('SELECT averages(''{1}'')');
-- What a statement RAISE raises so is an outcome.
CREATE FUNCTION says(state text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = state; END $$;
SELECT ok, sqlstate, message FROM test.run('SELECT says(''54001'')', 'SELECT says(''XX000'')');
SELECT test.all_well();
