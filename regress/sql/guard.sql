-- Writes and DDL outside of blocks are refused.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE p (id int PRIMARY KEY, k int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE free (id int PRIMARY KEY, t int);
INSERT INTO t VALUES (1, 1);
GRANT ALL ON t TO alice;
ALTER TABLE t OWNER TO alice;
SELECT * FROM test.deploy('ATTACH TABLE public.t, public.p');
\set SHOW_CONTEXT never
SET ROLE alice;
\set VERBOSITY default
INSERT INTO t VALUES (2, 2);
\set VERBOSITY sqlstate
UPDATE t SET v = 0;
UPDATE t SET v = 0 WHERE false;
DELETE FROM t;
TRUNCATE t;
MERGE INTO t USING (VALUES (1)) s (i) ON id = i WHEN MATCHED THEN DELETE;
SELECT * FROM t FOR UPDATE;
WITH w AS (INSERT INTO t VALUES (3, 3) RETURNING 1) SELECT * FROM w;
ALTER TABLE t ADD COLUMN x int;
ALTER TABLE t DISABLE TRIGGER ALL;
DROP TRIGGER chainify_digest ON t;
DROP TABLE t;
CREATE INDEX ON t (v);
CREATE UNIQUE INDEX ON t (v);
CREATE POLICY y ON t;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE RULE r AS ON INSERT TO t DO INSTEAD NOTHING;
CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t);
CREATE TABLE heir () INHERITS (t);
RESET ROLE;
-- a superuser is refused too
INSERT INTO t VALUES (2, 2);
INSERT INTO p1 VALUES (2, 2);
COPY t FROM '/dev/null';
TRUNCATE p1;
DROP TABLE p1;
DROP TABLE t CASCADE;
ALTER TABLE p DETACH PARTITION p1;
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200);
ALTER TABLE free ADD FOREIGN KEY (t) REFERENCES t;
CREATE TABLE p3 (LIKE p INCLUDING ALL);
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (300) TO (400);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER mine BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION nothing();
ALTER TABLE t SET SCHEMA test;
ALTER TABLE t RENAME TO t2;
ALTER TABLE t RENAME COLUMN v TO w;
ALTER TABLE t OWNER TO postgres;
SET session_replication_role = replica;
INSERT INTO t VALUES (2, 2);
RESET session_replication_role;
ALTER TABLE chainify_history.t ADD COLUMN x int;
DROP TABLE chainify_checkpoint.t;
CREATE TABLE chainify_ledger.extra ();
DROP SCHEMA chainify_history CASCADE;
DROP EXTENSION chainify CASCADE;
\set VERBOSITY default
ALTER TABLE t ADD COLUMN x int;
-- what is not on the ledger is free
INSERT INTO free VALUES (1, 1);
ALTER TABLE free ADD COLUMN x int;
CREATE VIEW v AS SELECT * FROM t;
VACUUM FULL t;
ANALYZE t;
DROP TABLE child, heir, p2;
SELECT * FROM v;
-- only a superuser may switch it off
SET ROLE alice;
SET chainify.guard = off;
RESET ROLE;
BEGIN;
SET LOCAL chainify.guard = off;
UPDATE t SET v = 7;
ALTER TABLE t ADD COLUMN x int;
SELECT test.states_hold();
ROLLBACK;
SELECT test.states_hold();
SELECT count(*) FROM chainify_history.t;
