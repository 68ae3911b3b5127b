-- The worker that folds and scrubs: a second one waits for the first to end, so that a node that comes back at once is not left without.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
-- This session is the node, and what is left of an earlier worker.
CREATE FUNCTION test.until(what text, condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    holds boolean;
BEGIN
    FOR i IN 1 .. 6000 LOOP
        PERFORM pg_stat_clear_snapshot();
        EXECUTE 'SELECT ' || condition INTO holds;
        IF holds THEN
            RETURN what;
        END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
    RETURN 'in vain: ' || what;
END
$$;
-- The one that init started saw no node.
SELECT test.until('none is there', $$NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'chainify maintenance')$$);
SELECT pg_advisory_lock(x'63686679'::int, 1), pg_advisory_lock(x'63686679'::int, 2);
SELECT chainify_ledger.maintain() AS started;
SELECT test.until('one waits', $$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'chainify maintenance' AND wait_event_type = 'Extension')$$);
SELECT pg_advisory_unlock(x'63686679'::int, 2);
SELECT test.until('it works', $$EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.classid = x'63686679'::int::oid AND l.objid = 2 AND a.backend_type = 'chainify maintenance')$$);
-- A further one ends.
SELECT chainify_ledger.maintain() AS started;
SELECT test.until('two are there', $$(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'chainify maintenance') = 2$$);
SELECT test.until('one is there', $$(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'chainify maintenance') = 1$$);
SELECT pg_advisory_unlock(x'63686679'::int, 1);
SELECT test.until('none is there', $$NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'chainify maintenance')$$);
