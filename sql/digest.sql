-- What the digest records, and what it must not.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE parent (id int PRIMARY KEY, v text);
CREATE TABLE kid_cascade (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE kid_null (id int PRIMARY KEY, p int REFERENCES parent ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE gen (a int, b int, s int GENERATED ALWAYS AS (a + b) STORED, PRIMARY KEY (b, a));
GRANT ALL ON parent, kid_cascade, kid_null, gen TO alice;
SELECT * FROM test.deploy('ATTACH TABLE public.parent, public.kid_cascade, public.kid_null, public.gen');
CREATE VIEW log AS
    SELECT 'parent' AS tbl, id::text AS key, v AS val, _block, _tx, _serial, _op FROM chainify_history.parent
    UNION ALL SELECT 'kid_cascade', id::text, p::text, _block, _tx, _serial, _op FROM chainify_history.kid_cascade
    UNION ALL SELECT 'kid_null', id::text, p::text, _block, _tx, _serial, _op FROM chainify_history.kid_null
    UNION ALL SELECT 'gen', b || ',' || a, s::text, _block, _tx, _serial, _op FROM chainify_history.gen
    ORDER BY 4, 1, 2, 6;
SELECT * FROM test.run('INSERT INTO parent VALUES (1, ''a''), (2, ''b''), (3, ''c'')', 'INSERT INTO kid_cascade VALUES (10, 1), (20, 2), (30, 3)', 'INSERT INTO kid_null VALUES (10, 1), (20, 2), (30, 3)',
    'INSERT INTO gen VALUES (1, 2), (3, 4)');
-- cascades: delete, key update, set null
SELECT * FROM test.run('DELETE FROM parent WHERE id = 1', 'UPDATE parent SET id = 22 WHERE id = 2');
SELECT * FROM log WHERE _block = 3;
-- keys that change, swap, and come back; generated columns
SELECT * FROM test.run('UPDATE gen SET a = a + 10 WHERE a = 1 AND b = 2; UPDATE gen SET a = a + 10 WHERE a = 3 AND b = 4', 'UPDATE gen SET a = a - 10 WHERE a = 11 AND b = 2; UPDATE gen SET a = a - 10 WHERE a = 13 AND b = 4', 'UPDATE gen SET s = DEFAULT WHERE a = 1', 'UPDATE parent SET id = id', 'DELETE FROM gen WHERE a = 1; INSERT INTO gen VALUES (1, 2)');
SELECT * FROM log WHERE _block = 4;
SELECT test.states_hold();
-- a row that is as before leaves the state as before
SELECT state_root = lag(state_root) OVER (ORDER BY number) AS same_state FROM chainify_ledger.block ORDER BY number DESC LIMIT 1;

-- what an EXCEPTION block undoes is not recorded; what comes before and after is
CREATE FUNCTION tries() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO parent VALUES (100, 'kept');
    BEGIN
        INSERT INTO parent VALUES (101, 'undone');
        BEGIN
            INSERT INTO parent VALUES (102, 'undone with its parent');
        EXCEPTION WHEN OTHERS THEN NULL;
        END;
        PERFORM 1/0;
    EXCEPTION WHEN division_by_zero THEN
        INSERT INTO parent VALUES (103, 'handler');
    END;
    BEGIN
        INSERT INTO parent VALUES (104, 'inner, kept');
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    INSERT INTO parent VALUES (105, 'kept');
END $$;
SELECT * FROM test.run('SELECT tries()', 'INSERT INTO parent VALUES (101, ''later'')', 'INSERT INTO parent VALUES (106, ''x''); SELECT 1/0');
SELECT * FROM log WHERE _block = 5;
SELECT test.states_hold();

-- TRUNCATE is a delete of every row, with CASCADE of every row of the others too
SELECT * FROM test.run('TRUNCATE parent', 'TRUNCATE gen', 'INSERT INTO parent VALUES (200, ''fresh'')', 'TRUNCATE parent CASCADE');
SELECT tbl, _tx, _op, count(*) FROM log WHERE _block = 6 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT test.states_hold();
SELECT name, row_count FROM chainify_ledger.ledger_table JOIN chainify_ledger.table_state ON table_id = id ORDER BY name;
-- TRUNCATE undone by an exception
CREATE FUNCTION truncates() RETURNS void LANGUAGE plpgsql AS $$ BEGIN BEGIN TRUNCATE parent CASCADE; PERFORM 1/0; EXCEPTION WHEN division_by_zero THEN NULL; END; END $$;
ALTER FUNCTION truncates() OWNER TO alice;
SELECT * FROM test.run('INSERT INTO parent VALUES (300, ''stays'')', 'SELECT truncates()');
SELECT * FROM log WHERE _block = 7;
SELECT test.states_hold();

-- partitions: rows are found by name, wherever they are
CREATE TABLE part (id int, k text, note text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE part_a PARTITION OF part FOR VALUES IN ('a');
CREATE TABLE part_b (junk int, note text, k text NOT NULL, id int NOT NULL);
ALTER TABLE part_b DROP COLUMN junk;
ALTER TABLE part ATTACH PARTITION part_b FOR VALUES IN ('b');
CREATE TABLE part_c PARTITION OF part FOR VALUES IN ('c', 'd') PARTITION BY LIST (k);
CREATE TABLE part_c1 PARTITION OF part_c DEFAULT;
INSERT INTO part VALUES (1, 'a', 'old'), (2, 'b', 'old');
GRANT ALL ON part TO alice;
SELECT * FROM test.deploy('ATTACH TABLE public.part');
SELECT * FROM test.run('INSERT INTO part VALUES (3, ''c'', ''new''), (4, ''b'', ''new'')', 'UPDATE part SET note = ''changed''', 'UPDATE part SET k = ''b'' WHERE k = ''a''', 'INSERT INTO part VALUES (9, ''z'', ''nowhere'')');
SELECT id, k, note, _block, _tx, _serial, _op FROM chainify_history.part ORDER BY id, k, _block, _serial;
SELECT test.states_hold();
SELECT * FROM test.run('TRUNCATE part');
SELECT id, k, note, _tx, _serial, _op FROM chainify_history.part WHERE _block = 10 ORDER BY id, k;
SELECT test.states_hold();
INSERT INTO part_b VALUES ('x', 'b', 1);
TRUNCATE part_b;

-- values out of line, before and after, changed and not
CREATE TABLE wide (id int PRIMARY KEY, n int, body text, raw bytea);
GRANT ALL ON wide TO alice;
ALTER TABLE wide ALTER body SET STORAGE EXTERNAL, ALTER raw SET STORAGE EXTERNAL;
SELECT * FROM test.deploy('ATTACH TABLE public.wide');
SELECT * FROM test.run('INSERT INTO wide VALUES (1, 0, repeat(''x'', 3000), decode(repeat(''ab'', 9000), ''hex'')), (2, 0, repeat(''y'', 100000), NULL)', 'UPDATE wide SET n = n + 1', 'UPDATE wide SET body = body || ''z'' WHERE id = 2', 'DELETE FROM wide WHERE id = 1');
SELECT id, n, length(body), length(raw), _tx, _serial, _op FROM chainify_history.wide ORDER BY id, _serial;
SELECT test.states_hold();
SELECT * FROM test.run('DELETE FROM wide; INSERT INTO wide VALUES (5, 5, repeat(''w'', 50000), NULL)', 'TRUNCATE wide');
SELECT id, n, length(body), md5(body) = md5(repeat('w', 50000)) AS w, _tx, _serial, _op FROM chainify_history.wide WHERE _block = 13 ORDER BY id, _serial;
SELECT test.states_hold();
