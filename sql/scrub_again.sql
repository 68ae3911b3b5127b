\i sql/setup.sql
-- What a repair does not end is repaired again after pauses that double, and told.
SET client_min_messages = error;
CREATE TABLE a (id int PRIMARY KEY, n int);
CREATE TABLE b (id int PRIMARY KEY, n int);
INSERT INTO a SELECT i, i FROM generate_series(1, 3) i;
INSERT INTO b SELECT i, i FROM generate_series(1, 3) i;
SELECT ok FROM test.deploy('ATTACH TABLE public.a, public.b');
CREATE FUNCTION test.repair() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, NULL) $$;
CREATE FUNCTION test.tamper(t text, id int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL chainify.guard = off;
    SET LOCAL session_replication_role = replica;
    EXECUTE format('UPDATE %I SET n = 1000 WHERE id = %s', t, id);
END $$;
CREATE VIEW test.open AS
    SELECT DISTINCT again, round(extract(epoch FROM due - started_at)) AS pause, cured_by FROM chainify.deviations;
CREATE FUNCTION test.deviates() RETURNS boolean LANGUAGE sql AS 'SELECT deviates FROM chainify_node.position()';

SELECT findings FROM chainify_node.scrub('a');
SELECT test.tamper('a', 1);
SELECT findings FROM chainify_node.scrub('a');
SELECT test.deviates(), test.repair(), test.deviates();
SELECT * FROM test.open ORDER BY again;
-- The same again, no pass having been clean in between: a minute later.
SELECT test.tamper('a', 1);
SET client_min_messages = warning;
SELECT findings FROM chainify_node.scrub('a');
SELECT test.deviates();
SELECT * FROM test.open ORDER BY again;
-- Further passes record nothing more.
SELECT findings FROM chainify_node.scrub('a');
SELECT count(DISTINCT id) FROM chainify.deviations;
-- What is new does not wait for it.
SELECT test.tamper('b', 2);
SELECT findings FROM chainify_node.scrub('b');
SELECT test.deviates(), test.repair() > 0, test.deviates();
-- Twice as long each time, an hour at most.
DO $$ BEGIN
    FOR i IN 1 .. 8 LOOP
        PERFORM test.tamper('a', 1);
        PERFORM chainify_node.scrub('a');
        IF test.deviates() THEN RAISE EXCEPTION 'repaired at once'; END IF;
        UPDATE chainify_ledger.deviation SET due = clock_timestamp() WHERE due > clock_timestamp() AND i < 8;
        IF i < 8 AND NOT test.deviates() THEN RAISE EXCEPTION 'not repaired when it is time'; END IF;
        IF i < 8 THEN PERFORM test.repair(); END IF;
    END LOOP;
END $$;
SELECT again, pause FROM test.open WHERE cured_by IS NULL;
-- A clean pass, and it is as new.
SELECT test.repair() > 0;
SELECT findings FROM chainify_node.scrub('a');
SELECT test.tamper('a', 1);
SELECT findings FROM chainify_node.scrub('a');
SELECT test.deviates(), test.repair();
SELECT findings FROM chainify_node.scrub('a');
SELECT test.all_well();
