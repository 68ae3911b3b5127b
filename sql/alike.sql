-- Costs, statistics, sizes and indexes of an organisation, and the age of its constraints, decide nothing (invariant X12): one block gives one hash.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
GRANT CREATE ON SCHEMA public TO admin;
CREATE TABLE t (k int PRIMARY KEY, b int, own int);
CREATE TABLE s (k int PRIMARY KEY, f int);
CREATE TABLE r (id int PRIMARY KEY, v text);
CREATE TABLE u (id int PRIMARY KEY, a int, b int, CONSTRAINT ua UNIQUE (a), CONSTRAINT ub UNIQUE (b));
CREATE TABLE parts (id int, a int, b int, UNIQUE (id, a), UNIQUE (id, b), PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (10) TO (20);
CREATE UNIQUE INDEX high_a ON parts_high (a);
CREATE UNIQUE INDEX high_b ON parts_high (b);
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE c (id int PRIMARY KEY, x int CONSTRAINT cx REFERENCES p, y int CONSTRAINT cy REFERENCES p ON DELETE RESTRICT);
CREATE TABLE g (id int PRIMARY KEY, p int CONSTRAINT gp REFERENCES p ON DELETE CASCADE);
CREATE TABLE h (id int PRIMARY KEY, g int CONSTRAINT hg REFERENCES g);
CREATE TABLE e (id int PRIMARY KEY, one int CONSTRAINT one REFERENCES p, two int CONSTRAINT two REFERENCES p);
INSERT INTO t SELECT i, CASE WHEN i = 1 THEN 0 ELSE 1 END, i % 500 FROM generate_series(1, 2000) i;
INSERT INTO s VALUES (2, 0);
INSERT INTO u VALUES (1, 1, 1), (3, 3, 3);
INSERT INTO parts VALUES (11, 1, 1);
INSERT INTO p SELECT generate_series(1, 9);
INSERT INTO c VALUES (1, 1, 1), (2, NULL, 3);
INSERT INTO g VALUES (1, 1), (2, 3), (3, 4);
INSERT INTO h VALUES (1, 1), (2, 2), (3, 3);
GRANT ALL ON t, s, r, u, parts, p, c, g, h, e TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.t, public.s, public.r, public.u, public.parts, public.p, public.c, public.g, public.h, public.e');
-- functions that catch errors of several rows show which one came first: strict rules would refuse them
SELECT ok FROM test.deploy('SET DETERMINISM detect');
-- what a statement fails with is kept
SELECT ok, message FROM test.block(test.tx($$
    CREATE FUNCTION told(id int, sql text) RETURNS void LANGUAGE plpgsql AS
    'DECLARE n text; BEGIN EXECUTE sql; EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS n = CONSTRAINT_NAME; INSERT INTO r VALUES (id, SQLSTATE || '' '' || n); END';
    CREATE FUNCTION joined() RETURNS text LANGUAGE plpgsql AS
    'BEGIN RETURN (SELECT count(*) FROM s JOIN t ON t.k = s.k WHERE 10 / t.b > 0)::text; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END';
    CREATE FUNCTION joined_so() RETURNS text LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS 'BEGIN RETURN joined(); END'
$$, 'admin', 3));
\c -
-- The hash of the next block, which is undone, in the session as it is.
CREATE TABLE test.block (number bigint, previous bytea, buffer bytea);
INSERT INTO test.block SELECT p.number + 1, p.hash, test.buffer(ARRAY(SELECT test.tx(x, nonce => 5000 + i) FROM unnest(ARRAY[
    'UPDATE s SET f = 1 FROM t WHERE t.k = s.k AND 10 / t.b > 0',
    'SELECT told(1, ''UPDATE s SET f = 1 FROM t WHERE t.k = s.k AND 10 / t.b > 0'')',
    'UPDATE t SET b = 5 WHERE 10 / b > 0 AND own = ANY (ARRAY[7, 8, 9, 10, 11, 12])',
    'UPDATE t SET b = 5 WHERE own = 7',
    'SELECT told(14, ''UPDATE s SET f = (SELECT max(b) FROM t WHERE 10 / b > 0 AND own = ANY (ARRAY[7, 8, 9, 10, 11, 12]))'')',
    'SELECT told(2, ''UPDATE s SET f = 2 WHERE EXISTS (SELECT FROM t WHERE 10 / b = 10 AND own = ANY (ARRAY[7, 8, 9, 10, 11, 12]) AND t.k > s.k)'')',
    'INSERT INTO r VALUES (3, joined()), (4, joined_so())',
    'SELECT told(5, ''INSERT INTO u VALUES (2, 1, 1)'')',
    'SELECT told(6, ''INSERT INTO u VALUES (1, 1, 1)'')',
    'SELECT told(13, ''UPDATE u SET id = 1, a = 1, b = 1 WHERE id = 3'')',
    'SELECT told(7, ''INSERT INTO parts VALUES (12, 1, 1)'')',
    'SELECT told(8, ''DELETE FROM p WHERE id = 1'')',
    'SELECT told(9, ''DELETE FROM p WHERE id = 3'')',
    'SELECT told(10, ''DELETE FROM p WHERE id IN (4, 9)'')',
    'SELECT told(11, ''INSERT INTO e VALUES (1, 77, 77)'')',
    'SELECT told(12, ''UPDATE c SET x = 77, y = 77 WHERE id = 2'')'
    ]) WITH ORDINALITY l (x, i) ORDER BY i)) FROM chainify_node.position() p;
SELECT number, previous, buffer FROM test.block \gset
\set block 'SELECT left(encode(hash, ''hex''), 8) AS hash, sqlstates FROM chainify_node.execute_block(:number, :number * 10, 1700086400000000, :''previous'', :''buffer'');'
\set run 'BEGIN; :block ROLLBACK;'
BEGIN;
:block
SELECT * FROM r ORDER BY id;
ROLLBACK;
-- again in the same session, with statistics, and in another one
:run
ANALYZE;
:run
\c -
:run
-- other costs, also those of a table space
\c -
SET random_page_cost = 0.0001; SET seq_page_cost = 1000; SET cpu_tuple_cost = 100; SET cpu_operator_cost = 0; SET effective_cache_size = '1TB'; SET work_mem = '64kB'; SET hash_mem_multiplier = 1;
:run
\c -
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; SET jit = on; SET jit_above_cost = 0; SET geqo = on; SET geqo_threshold = 2; SET join_collapse_limit = 1;
ALTER TABLESPACE pg_default SET (seq_page_cost = 10000, random_page_cost = 0.01);
:run
ALTER TABLESPACE pg_default RESET (seq_page_cost, random_page_cost);
-- a function that the session called, after a block and with plans of its own
\c -
BEGIN;
SELECT sqlstates FROM chainify_node.execute_block(:number, :number * 10, 1700086400000000, :'previous', test.buffer(ARRAY[test.tx('SELECT 1 FROM s')]));
ROLLBACK;
SET enable_hashjoin = off; SET enable_mergejoin = off; SELECT joined(); RESET enable_hashjoin; RESET enable_mergejoin;
:run
-- indexes of one's own, and statistics on expressions
\c -
SET chainify.guard = off;
CREATE INDEX ON t (own);
CREATE INDEX ON t (k, b, own) WHERE b > 0;
CREATE STATISTICS test.of_b ON (10 / nullif(b, 0)), own FROM t;
RESET chainify.guard;
ANALYZE;
:run
-- they serve queries whose conditions cannot fail
BEGIN;
SELECT sqlstates FROM chainify_node.execute_block(:number, :number * 10, 1700086400000000, :'previous', test.buffer(ARRAY[test.tx('SELECT b FROM t WHERE own = 7 AND k > 3'), test.tx('UPDATE t SET b = b + 1 WHERE own = 8'),
    test.tx('INSERT INTO r SELECT k, b FROM t WHERE own = 7 AND b > 0 ORDER BY k OFFSET (SELECT count(*) - 1 FROM t WHERE own = 7) / 2 LIMIT 1')]));
SELECT pg_stat_get_xact_numscans('t_own_idx'::regclass) >= 4 AS used;
ROLLBACK;
-- constraints made anew, in another order
\c -
SET chainify.guard = off;
ALTER TABLE u DROP CONSTRAINT ua, DROP CONSTRAINT u_pkey;
ALTER TABLE u ADD CONSTRAINT ua UNIQUE (a);
ALTER TABLE u ADD CONSTRAINT u_pkey PRIMARY KEY (id);
DROP INDEX high_a;
CREATE UNIQUE INDEX high_a ON parts_high (a);
ALTER TABLE c DROP CONSTRAINT cx, DROP CONSTRAINT cy;
ALTER TABLE c ADD CONSTRAINT cy FOREIGN KEY (y) REFERENCES p ON DELETE RESTRICT;
ALTER TABLE c ADD CONSTRAINT cx FOREIGN KEY (x) REFERENCES p;
ALTER TABLE e DROP CONSTRAINT one, ADD CONSTRAINT one FOREIGN KEY (one) REFERENCES p;
SELECT array_agg(indexrelid::regclass ORDER BY indexrelid) FROM pg_index WHERE indrelid = 'u'::regclass;
RESET chainify.guard;
:run
SET chainify.guard = off;
ALTER TABLE g DROP CONSTRAINT gp, ADD CONSTRAINT gp FOREIGN KEY (p) REFERENCES p ON DELETE CASCADE;
RESET chainify.guard;
:run
-- the order of an ordinary session is PostgreSQL's
SELECT array_agg(indexrelid::regclass ORDER BY indexrelid) FROM pg_index WHERE indrelid = 'u'::regclass;
SELECT count(*) FROM chainify_ledger.definition_defects();
-- of two indexes the one with more columns of a search serves it; an organisation's own does not where the order of rows decides an error
\c -
CREATE TABLE n (a int, b int, c int, name text COLLATE "C", PRIMARY KEY (a, b, c));
CREATE INDEX n_own ON n (a, b, name, c);
INSERT INTO n SELECT 1, 1, i, 'name' || i % 9 FROM generate_series(1, 90) i;
GRANT ALL ON n TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.n');
BEGIN;
SELECT sqlstate FROM test.block(test.tx('SELECT c FROM n WHERE a = 1 AND b = 1 AND name = ''name5'''),
    test.tx('SELECT c FROM n WHERE a = 1 AND b = 1 AND name = ''name5'' ORDER BY c OFFSET ((SELECT count(*) FROM n WHERE a = 1 AND b = 1 AND name = ''name5'') - 1) / 2 LIMIT 1'));
SELECT pg_stat_get_xact_numscans('n_own'::regclass) AS own, pg_stat_get_xact_numscans('n_pkey'::regclass) AS key;
SELECT sqlstate FROM test.block(test.tx('SELECT 10 / c FROM n WHERE a = 1 AND b = 1 AND name = ''name5'''),
    test.tx('SELECT c FROM n ORDER BY c LIMIT (SELECT sum(10 / c) FROM n WHERE a = 1 AND b = 1 AND name = ''name5'')'));
SELECT pg_stat_get_xact_numscans('n_own'::regclass) AS own, pg_stat_get_xact_numscans('n_pkey'::regclass) AS key;
ROLLBACK;
