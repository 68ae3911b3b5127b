-- Statements whose executor state is kept from one execution to the next (pg/run/executor_cache.rs) do what they do when each execution starts anew (X10).
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE item (id int PRIMARY KEY, n int CHECK (n >= 0), note text);
CREATE TABLE part (id int PRIMARY KEY, item int REFERENCES item ON DELETE CASCADE, n int NOT NULL DEFAULT 0);
CREATE INDEX ON part (item);
CREATE TABLE odd (id int PRIMARY KEY, n int, CONSTRAINT below CHECK (n < 1000));
CREATE FUNCTION is_small(n int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN n < 100; END $$;
ALTER TABLE odd ADD CHECK (is_small(n));
CREATE TABLE own (id int PRIMARY KEY, role name, n int);
ALTER TABLE own ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON own USING (role = current_user);
CREATE TABLE shaped (id int PRIMARY KEY, n int);
CREATE UNIQUE INDEX ON shaped ((n % 1000));
GRANT ALL ON item, part, odd, own, shaped TO alice;
ALTER TABLE item OWNER TO admin;
ALTER TABLE part OWNER TO admin;
ALTER TABLE own OWNER TO admin;
GRANT CREATE ON SCHEMA public TO admin;
DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'bob') THEN CREATE ROLE bob LOGIN; END IF; END $$;
GRANT chainify_client TO bob;
GRANT ALL ON own TO bob;
INSERT INTO item SELECT i, i FROM generate_series(1, 60) i;
INSERT INTO part SELECT i, i FROM generate_series(1, 40) i;
INSERT INTO own SELECT i, CASE WHEN i % 2 = 0 THEN 'alice' ELSE 'bob' END, i FROM generate_series(1, 20) i;
ANALYZE;
-- plans of small tables that look as those of large ones
SET seq_page_cost = 1000;
CREATE FUNCTION add(i int, v int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN UPDATE item SET n = n + v WHERE id = i; RETURN FOUND; END $$;
CREATE FUNCTION add_as_owner(i int, v int) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN UPDATE item SET n = n + v WHERE id = i; RETURN FOUND; END $$;
CREATE FUNCTION total(i int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN RETURN (SELECT a.n + b.n FROM item a JOIN part b ON b.id = a.id WHERE a.id = i); END $$;
CREATE FUNCTION locked(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
    SELECT a.n, b.n AS m INTO STRICT r FROM item a JOIN part b ON b.id = a.id WHERE a.id = i FOR UPDATE;
    UPDATE part SET n = n + r.n WHERE id = i RETURNING n INTO r.m;
    RETURN r.m;
END $$;
CREATE FUNCTION tried(i int, v int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE said text := '';
BEGIN
    FOR k IN 1..3 LOOP
        BEGIN
            UPDATE item SET n = n - v / (id - 7), note = coalesce(note, '') || k WHERE id = i + k;
            said := said || 'u';
        EXCEPTION WHEN division_by_zero THEN said := said || '/';
            WHEN check_violation THEN said := said || 'c';
        END;
        BEGIN
            INSERT INTO part VALUES (i + k, i + k);
            said := said || 'i';
        EXCEPTION WHEN unique_violation THEN said := said || 'd';
            WHEN foreign_key_violation THEN said := said || 'f';
        END;
    END LOOP;
    UPDATE item SET note = said WHERE id = i;
    RETURN said;
END $$;
CREATE FUNCTION early(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r record; s int := 0;
BEGIN
    FOR r IN SELECT id, n FROM item WHERE id >= i ORDER BY id LOOP
        UPDATE item SET n = n + 1 WHERE id = r.id;
        s := s + (SELECT p.n FROM part p WHERE p.id = r.id);
        IF r.id >= i + 2 THEN RETURN s; END IF;
    END LOOP;
    RETURN s;
END $$;
CREATE FUNCTION nested(i int, depth int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    UPDATE item SET n = n + depth WHERE id = i;
    IF depth > 0 THEN
        BEGIN
            PERFORM nested(i + 1, depth - 1);
            IF depth % 2 = 0 THEN RAISE EXCEPTION 'back'; END IF;
        EXCEPTION WHEN raise_exception THEN UPDATE item SET note = 'back' WHERE id = i;
        END;
    END IF;
    RETURN (SELECT n FROM item WHERE id = i);
END $$;
CREATE FUNCTION emptied(i int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO part VALUES (i + 1000, i);
    TRUNCATE part;
    INSERT INTO part VALUES (i, i), (i + 1, i + 1);
END $$;
CREATE FUNCTION following(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    found_id int;
BEGIN
    SELECT id INTO found_id FROM item WHERE id > i ORDER BY id LIMIT 1 OFFSET 1;
    IF (SELECT EXISTS (SELECT FROM part WHERE id = i)) THEN
        UPDATE item SET n = n + found_id WHERE id = i;
    END IF;
    RETURN found_id;
END $$;
SELECT * FROM test.deploy('ATTACH TABLE public.item, public.part, public.odd, public.own, public.shaped');

-- Runs the transactions in one block with states kept, and without, and undoes both; what differs is shown.
CREATE FUNCTION test.once(keep text, txs bytea[]) RETURNS TABLE (hash bytea, outcome text[]) LANGUAGE plpgsql AS $$
DECLARE
    p record;
    r record;
BEGIN
    PERFORM set_config('chainify.keep_states', keep, true);
    SELECT * INTO p FROM chainify_node.position();
    BEGIN
        SELECT * INTO r FROM chainify_node.execute_block(p.number + 1, 1, 1700000000000000, p.hash, test.buffer(txs));
        hash := r.hash;
        outcome := ARRAY(SELECT concat_ws(' ', r.rows[i], r.sqlstates[i], r.messages[i]) FROM generate_series(1, cardinality(txs)) i);
        RAISE EXCEPTION 'undo';
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
    RETURN NEXT;
END
$$;
CREATE FUNCTION test.same(txs bytea[]) RETURNS TABLE (failed bigint, differs text) LANGUAGE plpgsql AS $$
DECLARE
    a record;
    b record;
BEGIN
    SELECT * INTO a FROM test.once('on', txs);
    SELECT * INTO b FROM test.once('off', txs);
    failed := (SELECT count(*) FROM unnest(b.outcome) o WHERE o ~ '^0 [0-9A-Z]{5}');
    differs := (SELECT string_agg(format('%s: %s, anew %s', i, a.outcome[i], b.outcome[i]), '; ') FROM generate_subscripts(txs, 1) i WHERE a.outcome[i] IS DISTINCT FROM b.outcome[i]);
    IF a.hash IS DISTINCT FROM b.hash THEN
        differs := concat_ws('; ', 'LedgerBlockHash', differs);
    END IF;
    RETURN NEXT;
END
$$;
-- Each statement with {i} as 1, 2, ..., one after the other.
CREATE FUNCTION test.each(count int, role text, VARIADIC s text[]) RETURNS bytea[] LANGUAGE sql AS $$
    SELECT array_agg(test.tx(replace(s[k], '{i}', i::text), role) ORDER BY i, k) FROM generate_series(1, count) i, generate_subscripts(s, 1) k
$$;

-- statements of functions and of clients: changes, joins, locks, subqueries, foreign keys
SELECT * FROM test.same(test.each(30, 'alice', 'SELECT add({i}, 5)', 'SELECT total({i})', 'SELECT locked({i})', 'SELECT early({i})', 'SELECT nested({i}, 5)'));
SELECT * FROM test.same(test.each(30, 'alice', 'UPDATE item SET n = n + 1 WHERE id = {i}', 'INSERT INTO part VALUES ({i} + 100, {i})', 'DELETE FROM part WHERE id = {i}',
    'DELETE FROM item WHERE id = {i} + 20', 'SELECT n FROM item WHERE id = {i} FOR UPDATE', 'UPDATE part SET item = {i} + 1 WHERE id = {i} + 100'));
SELECT * FROM test.same(test.each(30, 'alice', 'SELECT following({i})', 'SELECT id FROM item WHERE id > {i} ORDER BY id LIMIT 1', 'DELETE FROM part WHERE id = {i} * 2', 'INSERT INTO item VALUES ({i} * 2 + 50, 1)'));
-- the same without indexes
DISCARD PLANS;
SET seq_page_cost = 0;
SET random_page_cost = 1000;
SELECT * FROM test.same(test.each(30, 'alice', 'SELECT following({i})', 'SELECT early({i})', 'SELECT nested({i}, 5)', 'SELECT locked({i})', 'SELECT tried({i}, 3)', 'DELETE FROM part WHERE item = {i} * 2', 'INSERT INTO part VALUES ({i} * 2, {i})',
    'UPDATE part SET n = n + 1 WHERE item < {i}', 'DELETE FROM item WHERE n = {i}'));
DISCARD PLANS;
SET seq_page_cost = 1000;
RESET random_page_cost;
-- what fails in the middle, caught or not, and what finds nothing
SELECT * FROM test.same(test.each(40, 'alice', 'SELECT tried({i}, 3)', 'SELECT add({i}, -20)', 'SELECT locked({i} + 30)', 'SELECT add({i}, 1)', 'UPDATE item SET n = 1 / (n - {i} - 1) WHERE id = {i}',
    'INSERT INTO part VALUES ({i}, 5000)', 'INSERT INTO part VALUES ({i} + 38, {i})'));
-- conditions and indexes that call functions of users, rows and tables that are not for everybody
SELECT * FROM test.same(test.each(12, 'alice', 'INSERT INTO odd VALUES ({i}, 95 + {i})', 'UPDATE odd SET n = n + 1 WHERE id = {i}', 'INSERT INTO shaped VALUES ({i}, {i} * 250)', 'UPDATE shaped SET n = n + 1 WHERE id = {i}'));
SELECT * FROM test.same(test.each(20, 'alice', 'UPDATE own SET n = n + 1 WHERE id = {i}') || test.each(20, 'bob', 'UPDATE own SET n = n + 1 WHERE id = {i}')
    || test.tx('DETACH TABLE public.own', 'admin', 3) || test.each(5, 'bob', 'UPDATE own SET n = n + 1 WHERE id = {i}') || test.tx('ATTACH TABLE public.own', 'admin', 3) || test.each(5, 'bob', 'UPDATE own SET n = n + 1 WHERE id = {i}'));
SELECT * FROM test.same((SELECT array_agg(t) FROM generate_series(1, 20) i, unnest(test.each(1, CASE i % 2 WHEN 0 THEN 'alice' ELSE 'bob' END, 'SELECT add(3, 1)', 'SELECT add_as_owner(4, 1)', 'UPDATE own SET n = n + 1 WHERE id = ' || i)) t));
-- definitions that change inside the block, and tables that nothing may use while they do
SELECT * FROM test.same(test.each(10, 'alice', 'SELECT add({i}, 1)', 'SELECT locked({i})', 'SELECT emptied({i})', 'SELECT total({i})', 'TRUNCATE part', 'INSERT INTO part VALUES ({i}, {i})'));
SELECT * FROM test.same(test.each(10, 'alice', 'SELECT add({i}, 1)', 'SELECT locked({i})') || test.tx('ALTER TABLE item ADD COLUMN more int DEFAULT 7', 'admin', 3)
    || test.each(10, 'alice', 'SELECT add({i}, 1)', 'SELECT locked({i})', 'UPDATE item SET more = more + 1 WHERE id = {i}') || test.tx('CREATE INDEX ON item (more)', 'admin', 3)
    || test.each(10, 'alice', 'SELECT add({i}, 1)', 'UPDATE item SET more = more + 1 WHERE id = {i}') || test.tx('ALTER TABLE item DROP CONSTRAINT item_n_check', 'admin', 3)
    || test.each(10, 'alice', 'SELECT add({i}, -100)', 'SELECT locked({i})') || test.tx('REVOKE UPDATE ON item FROM alice', 'admin', 3) || test.each(5, 'alice', 'SELECT add({i}, 1)', 'SELECT add_as_owner({i}, 1)'));
-- and between blocks
SELECT count(*), sum(ok::int) FROM test.block(VARIADIC test.each(20, 'alice', 'SELECT add({i}, 1)', 'SELECT tried({i}, 3)'));
SELECT ok, message FROM test.deploy('CREATE INDEX ON item (n)');
ANALYZE item;
SELECT count(*), sum(ok::int) FROM test.block(VARIADIC test.each(20, 'alice', 'SELECT add({i}, 1)', 'SELECT tried({i}, 3)', 'SELECT locked({i})'));
SELECT ok, message FROM test.deploy('ALTER TABLE item ADD COLUMN more int DEFAULT 7');
SELECT count(*), sum(ok::int) FROM test.block(VARIADIC test.each(20, 'alice', 'SELECT add({i}, 1)', 'SELECT tried({i}, 3)', 'SELECT locked({i})'));
SELECT count(*), sum(n), sum(more), md5(string_agg(i::text, ',' ORDER BY id)) FROM item i;
SELECT test.states_hold();
SELECT * FROM chainify.verify_ledger() WHERE what <> 'certificate missing';
-- nothing is left to a session that goes on after the block
BEGIN;
SELECT count(*) FROM test.block(VARIADIC test.each(20, 'alice', 'SELECT add({i}, 1)', 'SELECT total({i})'));
SELECT count(*) FROM pg_backend_memory_contexts WHERE name LIKE 'chainify kept%';
ROLLBACK;
-- scans put back and begun anew: keys that are constants, arrays, several, none; scans left off in the middle
CREATE TABLE line (place int, number int, n int NOT NULL, PRIMARY KEY (place, number));
GRANT ALL ON line TO alice;
INSERT INTO line SELECT p, l, p * l FROM generate_series(1, 10) p, generate_series(1, 20) l;
VACUUM ANALYZE line;
CREATE FUNCTION fixed() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    UPDATE line SET n = n + 1 WHERE place = 3 AND number = 4;
    RETURN (SELECT n FROM line WHERE place = 3 AND number = 4);
END $$;
CREATE FUNCTION listed(p int, numbers int[]) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    UPDATE line SET n = n + 1 WHERE place = p AND number = ANY (numbers);
    DELETE FROM line WHERE place = p AND number IN (numbers[1] + 10, numbers[2] + 10);
    RETURN (SELECT number FROM line WHERE place = p AND number = ANY (numbers) ORDER BY place, number LIMIT 1 OFFSET 1);
END $$;
CREATE FUNCTION bounded(p int, l int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    least int;
BEGIN
    UPDATE line SET n = n + 1 WHERE place = p AND number > l AND number <= l + 2;
    UPDATE line SET number = number + 100 WHERE place = p AND number = l + 3;
    SELECT number INTO least FROM line WHERE place = p AND number >= l ORDER BY place, number LIMIT 1;
    INSERT INTO line SELECT p, 1000 * l + least, n FROM line WHERE place = p AND number = least;
    RETURN least;
END $$;
SELECT ok FROM test.deploy('ATTACH TABLE public.line');
SELECT * FROM test.same(test.each(9, 'alice', 'SELECT fixed()', 'SELECT listed({i}, ARRAY[{i}, {i} + 1, {i} + 2])', 'SELECT bounded({i}, 2)', 'SELECT bounded({i}, {i})', 'SELECT fixed()', 'DELETE FROM line WHERE place = {i} AND number = 1'));
-- queries inside a statement that changes rows, and inside its triggers: each row has its own ones all the same
CREATE FUNCTION looked_up(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    found_n int;
BEGIN
    SELECT n INTO found_n FROM item WHERE id = i;
    RETURN found_n;
END $$;
SELECT * FROM test.same(test.each(5, 'alice', 'INSERT INTO part SELECT {i} * 10 + g + 1000, g, looked_up(g) FROM generate_series(1, 9) g'));
-- Declared access is watched by a note on each plan of a function, and compared before each execution: states are kept all the same, and
-- one that accesses more than is declared is found out when its state was kept (S6).
\set same :abs_srcdir /sql/same.psql
\pset format unaligned
\set quarantined {}
\set parts -1
CREATE FUNCTION add_line(p int, other int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE line SET n = n + (SELECT n FROM line WHERE place = other AND number = 7) WHERE place = p AND number = 7;
END $$;
SET ROLE admin;
SELECT chainify.declare_access('add_line', 'line', key => 'p');
RESET ROLE;
SELECT chainify_node.kept_executions() AS before \gset
SELECT * FROM test.same(test.each(30, 'alice', 'SELECT add({i}, 1)', 'SELECT add_line(1 + {i} % 8, 1 + {i} % 8)'));
SELECT chainify_node.kept_executions() - :before AS kept;
SELECT test.buffer(test.each(32, 'alice', 'SELECT add_line(1 + {i} % 8, 1 + {i} % 8)')) AS buffer \gset
\i :same
-- the last one reads what another changes
SELECT test.buffer(test.each(32, 'alice', 'SELECT add_line(1 + {i} % 8, 1 + {i} % 8 + {i} / 32)')) AS buffer \gset
\i :same
