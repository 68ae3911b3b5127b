-- Foreign keys whose actions would meet on one row are refused: their order is that of object numbers and of stored rows.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE q (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE);
CREATE FUNCTION test.pair(one text, other text, referred text DEFAULT 'p') RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
    EXECUTE format('CREATE TABLE c (id int PRIMARY KEY, a int CONSTRAINT x REFERENCES p %s, b int CONSTRAINT y REFERENCES %s %s)', one, referred, other);
    SELECT coalesce(message, 'fine') INTO answer FROM test.deploy('ATTACH TABLE public.p, public.q, public.c');
    IF answer = 'fine' THEN
        PERFORM test.deploy('DETACH TABLE public.p, public.q, public.c');
    END IF;
    DROP TABLE c;
    RETURN answer;
END $$;
-- of one table
SELECT one, other, test.pair(one, other) FROM unnest(ARRAY['', 'ON DELETE RESTRICT', 'ON DELETE CASCADE', 'ON DELETE SET NULL', 'ON DELETE SET DEFAULT', 'ON UPDATE CASCADE']) one,
    unnest(ARRAY['', 'ON DELETE CASCADE', 'ON DELETE SET NULL', 'ON UPDATE CASCADE']) other ORDER BY one COLLATE "C", other COLLATE "C";
-- of tables that one DELETE reaches, and that none does
SELECT test.pair('ON DELETE SET NULL', 'ON DELETE CASCADE', 'q'), test.pair('ON DELETE CASCADE', 'ON DELETE CASCADE', 'q'), test.pair('ON UPDATE CASCADE', 'ON UPDATE CASCADE', 'q');
ALTER TABLE q DROP CONSTRAINT q_p_fkey;
SELECT test.pair('ON DELETE SET NULL', 'ON DELETE CASCADE', 'q');
-- an update of one table is one of another's only where what changes is referred to
ALTER TABLE q ADD UNIQUE (p), ADD CONSTRAINT q_p_fkey FOREIGN KEY (p) REFERENCES p ON UPDATE CASCADE;
SELECT test.pair('ON UPDATE CASCADE', 'ON UPDATE CASCADE', 'q'), test.pair('ON UPDATE CASCADE', 'ON UPDATE CASCADE', 'q (p)');
ALTER TABLE q DROP CONSTRAINT q_p_fkey, DROP CONSTRAINT q_p_key;
-- through the table itself, and through one that refers to the table asked about
CREATE TABLE tree (id int PRIMARY KEY, up int CONSTRAINT up REFERENCES tree ON DELETE SET NULL, p int CONSTRAINT root REFERENCES p ON DELETE CASCADE);
SELECT ok, message FROM test.deploy('ATTACH TABLE public.p, public.tree');
ALTER TABLE tree DROP CONSTRAINT up;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.p, public.tree');
