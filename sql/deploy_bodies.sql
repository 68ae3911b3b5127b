-- What deployment tells of the statements inside functions: the function, the line, the construct.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
GRANT CREATE ON SCHEMA public TO admin;
SELECT ok FROM test.deploy('CREATE TABLE item (id int PRIMARY KEY, name text, price float8); CREATE TABLE seen (id int PRIMARY KEY, at timestamptz); GRANT ALL ON item, seen TO alice');
CREATE FUNCTION test.refused(VARIADIC commands text[]) RETURNS TABLE (n bigint, sqlstate text, message text) LANGUAGE sql AS $$
    SELECT u.i, b.sqlstate, b.message FROM unnest(commands) WITH ORDINALITY u (c, i), test.deploy(c) b ORDER BY i
$$;
-- PL/pgSQL.
SELECT * FROM test.refused($c$CREATE FUNCTION f(i int) RETURNS void LANGUAGE plpgsql AS $x$
DECLARE
    t timestamptz;
BEGIN
    IF i > 0 THEN
        t := now();
    ELSIF i < 0 THEN
        t := clock_timestamp();
    END IF;
    INSERT INTO seen VALUES (i, t);
END $x$ $c$, $c$CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $x$
DECLARE
    r record;
    total int := 0;
BEGIN
    FOR r IN SELECT id FROM item
    LOOP
        total := total + r.id;
    END LOOP;
    RETURN total;
END $x$ $c$, $c$CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql AS $x$
DECLARE
    one item;
BEGIN
    SELECT * INTO one FROM item
    ORDER BY name LIMIT 1;
    RETURN one.name;
END $x$ $c$, $c$CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $x$
DECLARE
    n int := pg_backend_pid();
BEGIN
    RETURN n;
END $x$ $c$, $c$CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $x$
DECLARE
    c CURSOR FOR SELECT name FROM item LIMIT 3;
BEGIN
    OPEN c;
END $x$ $c$, $c$CREATE FUNCTION f() RETURNS SETOF item LANGUAGE plpgsql AS $x$
BEGIN
    BEGIN
        DELETE FROM item;
    EXCEPTION WHEN OTHERS THEN
        RAISE NOTICE '%', (SELECT sum(price) FROM item);
    END;
END $x$ $c$, $c$CREATE FUNCTION f() RETURNS SETOF int LANGUAGE plpgsql AS $x$
BEGIN
    CASE WHEN true THEN
        RETURN QUERY SELECT id FROM item;
    END CASE;
END $x$ $c$, $c$CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $x$
BEGIN
    LISTEN news;
END $x$ $c$, $c$CREATE PROCEDURE f() LANGUAGE plpgsql AS $x$
BEGIN
    COMMIT;
END $x$ $c$, $c$CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $x$
BEGIN
    UPDATE item SET name = (SELECT relname FROM pg_class LIMIT 1);
END $x$ $c$, $c$CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $x$
BEGIN
    PERFORM * FROM nowhere WHERE at < clock_timestamp();
END $x$ $c$);
-- SQL, as text and as parsed.
SELECT * FROM test.refused($c$CREATE FUNCTION f() RETURNS text LANGUAGE sql AS 'SELECT 1; SELECT name FROM item LIMIT 1'$c$, $c$CREATE FUNCTION f() RETURNS text BEGIN ATOMIC SELECT 1; SELECT name FROM item LIMIT 1; END$c$,
    $c$CREATE FUNCTION f() RETURNS timestamptz RETURN clock_timestamp()$c$, $c$CREATE PROCEDURE f() BEGIN ATOMIC INSERT INTO seen VALUES (1, clock_timestamp()); END$c$,
    $c$CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'DELETE FROM item; LISTEN news'$c$);
-- What is fine, or cannot be told before it runs.
SELECT * FROM test.refused($c$CREATE FUNCTION fine(i int, OUT n text, OUT total int) LANGUAGE plpgsql AS $x$
DECLARE
    r record;
    a int[] := ARRAY[1, 2];
    e int;
    c CURSOR (k int) FOR SELECT id, name FROM item WHERE id > k ORDER BY id;
BEGIN
    FOR r IN SELECT id, name FROM item ORDER BY id LOOP
        total := total + r.id;
        n := r.name;
    END LOOP;
    FOREACH e IN ARRAY a LOOP
        UPDATE item SET price = price * 2 WHERE id = e;
    END LOOP;
    FOR r IN c (k := 3) LOOP
        PERFORM r.id;
    END LOOP;
    SELECT * INTO r FROM item WHERE id = i;
    IF FOUND THEN
        n := r.name || now();
    END IF;
    TRUNCATE seen;
    RETURN;
END $x$ $c$, $c$CREATE FUNCTION executes(t text) RETURNS void LANGUAGE plpgsql AS $x$
BEGIN
    EXECUTE format('SELECT clock_timestamp() FROM %I', t);
END $x$ $c$, $c$CREATE FUNCTION later() RETURNS int LANGUAGE plpgsql AS $x$
BEGIN
    RETURN (SELECT count(*) FROM not_there_yet);
END $x$ $c$, $c$CREATE FUNCTION same(a anyelement) RETURNS anyelement LANGUAGE plpgsql AS $x$ BEGIN RETURN a; END $x$ $c$,
    $c$CREATE FUNCTION triggered() RETURNS trigger LANGUAGE plpgsql AS $x$ BEGIN NEW.at := clock_timestamp(); RETURN NEW; END $x$ $c$,
    $c$CREATE FUNCTION elsewhere() RETURNS int LANGUAGE plpgsql SET search_path = public AS $x$ BEGIN RETURN (SELECT name FROM item LIMIT 1); END $x$ $c$,
    $c$CREATE PROCEDURE calls() LANGUAGE plpgsql AS $x$ BEGIN CALL calls(); END $x$ $c$, $c$CREATE PROCEDURE parsed(i int) BEGIN ATOMIC INSERT INTO seen VALUES (i, now()); SELECT name FROM item ORDER BY id LIMIT 1; END$c$,
    $c$CREATE FUNCTION parsed(i text) RETURNS text RETURN upper(i)$c$);
-- It runs, and what could not be told is refused then.
SELECT tx, ok, sqlstate, message FROM test.run($$INSERT INTO item VALUES (1, 'pen', 2)$$, 'SELECT fine(1)', $$SELECT executes('item')$$, 'SELECT elsewhere()', 'CALL parsed(7)', $$SELECT parsed('x')$$, 'SELECT later()');
-- Where the order of rows is left to detection, so it is at deployment; the rest stays refused.
SELECT ok FROM test.deploy('SET DETERMINISM detect');
SELECT * FROM test.refused($c$CREATE FUNCTION sloppy() RETURNS text LANGUAGE plpgsql AS $x$ BEGIN RETURN (SELECT name FROM item LIMIT 1); END $x$ $c$, $c$CREATE VIEW sloppy AS SELECT name FROM item LIMIT 1$c$,
    $c$CREATE FUNCTION f() RETURNS timestamptz LANGUAGE plpgsql AS $x$ BEGIN RETURN clock_timestamp(); END $x$ $c$);
SELECT ok, message FROM test.run('SELECT sloppy()');
SELECT ok FROM test.deploy('SET DETERMINISM strict');
SELECT ok, message FROM test.run('SELECT sloppy()');
SELECT * FROM test.refused($c$CREATE OR REPLACE FUNCTION sloppy() RETURNS text LANGUAGE plpgsql AS $x$ BEGIN RETURN (SELECT name FROM item LIMIT 1); END $x$ $c$);
-- Expressions that rows are computed, checked and found with, each looked at when it is made, whatever it belongs to, and though there is no row yet.
CREATE FUNCTION backend_of(int) RETURNS int LANGUAGE internal IMMUTABLE AS 'pg_backend_pid';
SELECT ok FROM test.deploy('CREATE TABLE vacant (id int PRIMARY KEY)');
SELECT * FROM test.refused('CREATE INDEX ON vacant (backend_of(id))', 'CREATE INDEX ON vacant (id) WHERE backend_of(id) > 0', 'CREATE UNIQUE INDEX ON vacant (id, backend_of(id))', 'CREATE UNIQUE INDEX ON vacant (id) WHERE backend_of(id) > 0',
    'CREATE TABLE divided (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE INDEX ON divided (id) WHERE backend_of(id) > 0', 'CREATE TABLE divided (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE UNIQUE INDEX ON divided (id) WHERE backend_of(id) > 0',
    'CREATE POLICY p ON vacant USING (pg_backend_pid() > id)', 'CREATE POLICY p ON vacant WITH CHECK (pg_backend_pid() > id)', 'CREATE TABLE made (id int PRIMARY KEY, g int GENERATED ALWAYS AS (backend_of(id)) STORED)',
    'ALTER TABLE vacant ALTER id SET DEFAULT pg_backend_pid()', 'CREATE DOMAIN d AS int DEFAULT pg_backend_pid()', 'CREATE DOMAIN d AS int CHECK (VALUE < pg_backend_pid())');
-- A plan that the session keeps from before was not checked: what a DEPLOY transaction calls is planned anew.
CREATE FUNCTION first_name() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT name FROM item LIMIT 1); END $$;
SELECT first_name();
SELECT * FROM test.refused('ALTER TABLE seen ADD CONSTRAINT named CHECK (first_name() <> at::text)');
-- What is called while definitions change changes no rows.
CREATE FUNCTION writes(i int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN EXECUTE 'INSERT INTO seen VALUES (99)'; RETURN i; END $$;
SELECT * FROM test.refused('ALTER TABLE item ADD CONSTRAINT wrote CHECK (writes(id) > 0)');
SELECT test.all_well();
