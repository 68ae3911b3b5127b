-- Rows that a block's transactions ask to lock, by FOR UPDATE or by a foreign key, are read without a lock in the row: nobody else changes them.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE parent (id int PRIMARY KEY, v int);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent);
INSERT INTO parent VALUES (1, 0), (2, 0);
GRANT ALL ON parent, child TO alice;
CREATE FUNCTION held(i int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN SELECT v INTO STRICT n FROM parent WHERE id = i FOR UPDATE; RETURN n; END $$;
SELECT * FROM test.deploy('ATTACH TABLE public.parent, public.child');
CREATE FUNCTION locked() RETURNS TABLE (id int, locked boolean) LANGUAGE sql AS 'SELECT id, xmax <> 0 FROM parent ORDER BY id';

SELECT ok, sqlstate FROM test.run('SELECT held(1)');
SELECT ok, sqlstate FROM test.run('SELECT v FROM parent WHERE id = 1 FOR UPDATE');
SELECT ok, sqlstate FROM test.run('INSERT INTO child VALUES (1, 2)');
SELECT * FROM locked();

-- what locks ask for is still asked for: a parent that is there, and the privilege
SELECT ok, sqlstate FROM test.run('INSERT INTO child VALUES (2, 3)');
REVOKE UPDATE ON parent FROM alice;
SELECT ok, sqlstate FROM test.run('SELECT held(1)');
GRANT UPDATE ON parent TO alice;

-- many changes of a row, each by who has locked it
SELECT count(*) FILTER (WHERE ok) AS succeeded FROM test.run(VARIADIC ARRAY(SELECT 'SELECT held(1); UPDATE parent SET v = v + 1 WHERE id = 1' FROM generate_series(1, 100)));
SELECT * FROM locked();
SELECT v FROM parent WHERE id = 1;
SELECT test.all_well();
-- outside of blocks, and of a table that is not on the ledger, rows are locked as asked: others may change them
CREATE TABLE own (id int PRIMARY KEY);
INSERT INTO own VALUES (1);
SELECT * FROM own FOR UPDATE;
SELECT id, xmax <> 0 AS locked FROM own;
