-- Values are recorded as the ledger has them, whatever the settings of the session, or of the function, that changes them.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TYPE place AS (at point, name text);
CREATE TABLE shape (id int PRIMARY KEY, at point, boxes box[], place place, during timetz, bits bit(3), n int);
GRANT ALL ON shape TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.shape');
CREATE FUNCTION put(i int) RETURNS void LANGUAGE sql SET extra_float_digits = -5 SET datestyle = 'German' SET intervalstyle = 'iso_8601' SET timezone = 'Asia/Tokyo' SET bytea_output = 'escape' AS
    $$ INSERT INTO shape VALUES (i, point(1 / 3.0::float8, 0), ARRAY[box(point(1 / 3.0::float8, 0), point(0, 2 / 3.0::float8))], ROW(point(0, 1 / 7.0::float8), 'a'), '12:00:00+05', '101', 0) $$;
CREATE FUNCTION again(i int) RETURNS void LANGUAGE sql SET extra_float_digits = 0 AS $$ UPDATE shape SET n = n + 1 WHERE id = i $$;
SELECT tx, ok, sqlstate FROM test.run('SELECT put(1)', 'SELECT put(2)', 'SELECT again(1)', 'UPDATE shape SET n = 5 WHERE id = 2', 'INSERT INTO shape SELECT 3, at, boxes, place, during, bits, n FROM shape WHERE id = 1');
-- the rows are as recorded
SELECT * FROM chainify.verify_table('shape');
SELECT * FROM chainify.verify_ledger() WHERE what <> 'certificate missing';
