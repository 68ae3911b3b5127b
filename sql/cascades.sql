-- Foreign keys whose actions would meet on one row are refused: their order is that of object numbers and of stored rows.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE q (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE);
CREATE TABLE test.pair (n serial, one text, other text, referred text DEFAULT 'p', answer text);
-- Asks of each pair that has no answer. Each step is committed, so that other sessions execute the blocks too.
CREATE PROCEDURE test.ask() LANGUAGE plpgsql AS $$
DECLARE
    asked test.pair;
    said text;
BEGIN
    FOR asked IN SELECT * FROM test.pair WHERE answer IS NULL ORDER BY n LOOP
        EXECUTE format('CREATE TABLE c (id int PRIMARY KEY, a int CONSTRAINT x REFERENCES p %s, b int CONSTRAINT y REFERENCES %s %s)', asked.one, asked.referred, asked.other);
        COMMIT;
        SELECT coalesce(message, 'fine') INTO said FROM test.deploy('ATTACH TABLE public.p, public.q, public.c');
        COMMIT;
        IF said = 'fine' THEN
            PERFORM test.deploy('DETACH TABLE public.p, public.q, public.c');
            COMMIT;
        END IF;
        DROP TABLE c;
        UPDATE test.pair SET answer = said WHERE n = asked.n;
        COMMIT;
    END LOOP;
END $$;
-- of one table
INSERT INTO test.pair (one, other) SELECT one, other FROM unnest(ARRAY['', 'ON DELETE RESTRICT', 'ON DELETE CASCADE', 'ON DELETE SET NULL', 'ON DELETE SET DEFAULT', 'ON UPDATE CASCADE']) one,
    unnest(ARRAY['', 'ON DELETE CASCADE', 'ON DELETE SET NULL', 'ON UPDATE CASCADE']) other ORDER BY one COLLATE "C", other COLLATE "C";
CALL test.ask();
SELECT one, other, answer FROM test.pair ORDER BY n;
-- of tables that one DELETE reaches, and that none does
INSERT INTO test.pair (one, other, referred) VALUES ('ON DELETE SET NULL', 'ON DELETE CASCADE', 'q'), ('ON DELETE CASCADE', 'ON DELETE CASCADE', 'q'), ('ON UPDATE CASCADE', 'ON UPDATE CASCADE', 'q');
CALL test.ask();
ALTER TABLE q DROP CONSTRAINT q_p_fkey;
INSERT INTO test.pair (one, other, referred) VALUES ('ON DELETE SET NULL', 'ON DELETE CASCADE', 'q');
CALL test.ask();
-- an update of one table is one of another's only where what changes is referred to
ALTER TABLE q ADD UNIQUE (p), ADD CONSTRAINT q_p_fkey FOREIGN KEY (p) REFERENCES p ON UPDATE CASCADE;
INSERT INTO test.pair (one, other, referred) VALUES ('ON UPDATE CASCADE', 'ON UPDATE CASCADE', 'q'), ('ON UPDATE CASCADE', 'ON UPDATE CASCADE', 'q (p)');
CALL test.ask();
SELECT one, other, referred, answer FROM test.pair WHERE referred <> 'p' ORDER BY n;
ALTER TABLE q DROP CONSTRAINT q_p_fkey, DROP CONSTRAINT q_p_key;
-- through the table itself, and through one that refers to the table asked about
CREATE TABLE tree (id int PRIMARY KEY, up int CONSTRAINT up REFERENCES tree ON DELETE SET NULL, p int CONSTRAINT root REFERENCES p ON DELETE CASCADE);
SELECT ok, message FROM test.deploy('ATTACH TABLE public.p, public.tree');
ALTER TABLE tree DROP CONSTRAINT up;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.p, public.tree');
