\i sql/setup.sql
-- Statements and functions newer than PostgreSQL 15 are refused in every organisation: those with 15 do not know them, the others name them.
SET client_min_messages = error;
GRANT CREATE ON SCHEMA public TO admin;
SELECT ok, message FROM test.deploy('CREATE TABLE item (id int PRIMARY KEY, n int CONSTRAINT positive CHECK (n > 0)); GRANT SELECT, INSERT, UPDATE, DELETE ON item TO alice');
SELECT ok, message FROM test.run('INSERT INTO item VALUES (1, 10), (2, 20)');
-- Made here alone, where the server knows it.
DO $$ BEGIN EXECUTE $x$CREATE TABLE computed (id int PRIMARY KEY, n int GENERATED ALWAYS AS (id + 1) VIRTUAL)$x$; EXCEPTION WHEN OTHERS THEN END $$;
DO $$ BEGIN EXECUTE $x$CREATE TABLE unchecked (id int PRIMARY KEY, n int CHECK (n > 0) NOT ENFORCED)$x$; EXCEPTION WHEN OTHERS THEN END $$;
DO $$ BEGIN EXECUTE $x$CREATE TABLE timed (id int4range PRIMARY KEY, during int4range, UNIQUE (id, during WITHOUT OVERLAPS))$x$; EXCEPTION WHEN OTHERS THEN END $$;
DO $$ BEGIN EXECUTE $x$CREATE TABLE half (id int PRIMARY KEY, n int); ALTER TABLE half ADD CONSTRAINT known NOT NULL n NOT VALID$x$; EXCEPTION WHEN OTHERS THEN END $$;
CREATE FUNCTION test.later() RETURNS TABLE (command text, ok boolean, sqlstate text, message text) LANGUAGE sql AS $$
    SELECT c.command, b.ok, b.sqlstate, b.message FROM unnest(ARRAY[
        'CREATE TABLE t (id int PRIMARY KEY, n int GENERATED ALWAYS AS (id + 1) VIRTUAL)',
        'CREATE TABLE t (id int PRIMARY KEY, n int GENERATED ALWAYS AS (id + 1))',
        'ALTER TABLE item ADD COLUMN twice int GENERATED ALWAYS AS (n * 2)',
        'CREATE TABLE t (id int PRIMARY KEY, n int CHECK (n > 0) NOT ENFORCED)',
        'CREATE TABLE t (id int PRIMARY KEY, n int REFERENCES item NOT ENFORCED)',
        'ALTER TABLE item ADD CONSTRAINT k CHECK (n < 100) NOT ENFORCED',
        'ALTER TABLE item ALTER CONSTRAINT positive NOT ENFORCED',
        'CREATE TABLE t (id int4range, d int4range, PRIMARY KEY (id, d WITHOUT OVERLAPS))',
        'CREATE TABLE t (id int, d int4range PRIMARY KEY, FOREIGN KEY (id, PERIOD d) REFERENCES timed (id, PERIOD during))',
        'CREATE TABLE t (id int PRIMARY KEY, n int, NOT NULL n)',
        'CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL NO INHERIT)',
        'ALTER TABLE item ADD CONSTRAINT k NOT NULL n',
        'ALTER TABLE item ADD CONSTRAINT k NOT NULL n NOT VALID',
        'CREATE VIEW v AS SELECT uuidv7()',
        'CREATE VIEW v AS SELECT array_sort(ARRAY[2, 1])',
        'ATTACH TABLE public.computed', 'ATTACH TABLE public.unchecked', 'ATTACH TABLE public.timed', 'ATTACH TABLE public.half']) WITH ORDINALITY c (command, i), test.deploy(c.command) b
    UNION ALL
    SELECT c.command, b.ok, b.sqlstate, b.message FROM unnest(ARRAY[
        'UPDATE item SET n = n + 1 WHERE id = 1 RETURNING old.n',
        'INSERT INTO item VALUES (3, 30) RETURNING new.n',
        'INSERT INTO item VALUES (3, reverse(''\x01''::bytea)::int)',
        'INSERT INTO item SELECT 3, length(uuidv7()::text)',
        'INSERT INTO item SELECT 3, (array_sort(ARRAY[2, 1]))[1]',
        'UPDATE item SET n = crc32(''\x01'') % 10 + 1',
        'MERGE INTO item i USING (VALUES (1)) v (id) ON i.id = v.id WHEN NOT MATCHED BY SOURCE THEN DELETE',
        'INSERT INTO item VALUES (3, random(1, 6))']) WITH ORDINALITY c (command, i), test.run(c.command) b $$;
SELECT command FROM test.later() WHERE ok;
SELECT current_setting('server_version_num')::int >= 180000 AS named \gset
\if :named
SELECT * FROM test.later();
\endif
SELECT * FROM item ORDER BY id;
SELECT test.all_well();
