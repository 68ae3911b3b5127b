-- Verification, row hashes, repair, the scrubber and folding give the same in every session, whatever its settings.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE t (id int PRIMARY KEY, at point DEFAULT '(0.1,2)', bytes bytea DEFAULT '\x00', note text DEFAULT 'a\b', seen timestamptz DEFAULT '2020-01-01 00:00+00',
    took interval DEFAULT '1 day 2 hours', box box, CHECK (note <> '\'));
GRANT ALL ON t TO alice;
INSERT INTO t VALUES (1);
SELECT ok, sqlstate FROM test.deploy('ATTACH TABLE public.t');
SELECT ok, sqlstate FROM test.run('INSERT INTO t VALUES (2, DEFAULT, ''\x5c'')', 'UPDATE t SET box = ''(0.1,0.2),(0.3,1e-7)''');
-- a block to fold: the oldest of the checkpoints kept is behind it
DO $$ BEGIN
    FOR i IN 1..current_setting('chainify.checkpoints_kept')::int LOOP
        PERFORM chainify_node.checkpoint();
        PERFORM test.run('UPDATE t SET note = note');
    END LOOP;
END $$;
SET quote_all_identifiers = on;
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SET TimeZone = 'Asia/Kathmandu';
SET DateStyle = 'German, YMD';
SET IntervalStyle = 'iso_8601';
SET extra_float_digits = -15;
SET bytea_output = 'escape';
SET search_path = 'test';
SELECT changes FROM chainify_node.fold_history();
SELECT * FROM chainify.verify_ledger() WHERE what <> 'certificate missing';
SELECT * FROM chainify.verify_table('public.t');
SELECT h.id, h._hash = chainify.row_hash(h) AS history, h._hash = chainify.row_hash(t) AS live
FROM chainify_history.t h JOIN public.t USING (id) WHERE h._op = 'U' ORDER BY 1;
SELECT count(*) FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, NULL);
SELECT findings FROM chainify_node.scrub('public.t');
RESET ALL;
SELECT * FROM chainify.verify_ledger() WHERE what <> 'certificate missing';
SELECT * FROM chainify.verify_table('t');
