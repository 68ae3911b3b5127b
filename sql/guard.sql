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
GRANT CREATE ON SCHEMA public TO admin;
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
-- rows that would come without a trigger's doing, and tables that would lose theirs in a crash
BEGIN;
COPY t FROM '/dev/null' (FREEZE);
ROLLBACK;
BEGIN;
COPY p1 FROM '/dev/null' (FREEZE);
ROLLBACK;
ALTER TABLE t SET UNLOGGED;
ALTER TABLE p1 SET UNLOGGED;
ALTER TABLE t CLUSTER ON t_pkey;
ALTER TABLE t REPLICA IDENTITY FULL;
ALTER TABLE t SET ACCESS METHOD heap;
ALTER TABLE t SET (fillfactor = 50);
ALTER INDEX t_pkey SET (fillfactor = 50);
-- a partition is the table, whoever names it
CREATE TRIGGER mine BEFORE INSERT ON p1 FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE TRIGGER mine AFTER DELETE ON p1 REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION nothing();
CREATE RULE r AS ON INSERT TO p1 DO INSTEAD NOTHING;
CREATE RULE r AS ON UPDATE TO p1 DO ALSO NOTHING;
ALTER TABLE p1 DISABLE TRIGGER ALL;
ALTER TABLE p1 ENABLE REPLICA TRIGGER chainify_digest;
DROP TRIGGER chainify_digest ON p1;
CREATE POLICY y ON p1;
ALTER TABLE p1 ENABLE ROW LEVEL SECURITY;
CREATE INDEX ON p1 (k);
ALTER TABLE p1 ALTER k SET DEFAULT 5;
ALTER TABLE p1 OWNER TO alice;
-- all that a role owns, and all that it may
CREATE ROLE owner_of_nothing;
SELECT ok FROM test.deploy('CREATE TABLE made (id int PRIMARY KEY); CREATE VIEW over_made AS SELECT id FROM made; CREATE FUNCTION of_made() RETURNS int LANGUAGE sql AS ''SELECT 1''; CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9);
    GRANT SELECT ON made TO owner_of_nothing; GRANT EXECUTE ON FUNCTION of_made() TO alice');
DROP OWNED BY admin;
DROP OWNED BY admin CASCADE;
DROP OWNED BY alice;
REASSIGN OWNED BY admin TO owner_of_nothing;
REASSIGN OWNED BY alice TO owner_of_nothing;
DROP OWNED BY alice, owner_of_nothing CASCADE;
BEGIN;
DROP OWNED BY owner_of_nothing;
ROLLBACK;
ALTER ROLE owner_of_nothing RENAME TO owner_of_something;
CREATE ROLE of_no_ledger;
ALTER ROLE of_no_ledger RENAME TO of_none;
DROP ROLE of_none;
-- what a role may that a policy is for, from the first or later on, is agreed as well
CREATE ROLE reader_of_made;
CREATE ROLE later_reader;
SELECT ok FROM test.deploy('CREATE POLICY shown ON made TO reader_of_made');
GRANT SELECT ON made TO reader_of_made;
SELECT ok FROM test.deploy('ALTER POLICY shown ON made TO later_reader');
GRANT SELECT ON made TO later_reader;
REVOKE ALL ON made FROM owner_of_nothing;
GRANT INSERT ON part TO owner_of_nothing;
DROP ROLE owner_of_nothing;
SELECT test.all_well();
\set VERBOSITY default
ALTER TABLE t ADD COLUMN x int;
-- what is not on the ledger is free
INSERT INTO free VALUES (1, 1);
ALTER TABLE free ADD COLUMN x int;
CREATE VIEW v AS SELECT * FROM t;
VACUUM FULL t;
CLUSTER t USING t_pkey;
REINDEX TABLE t;
ANALYZE t;
SELECT test.all_well();
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
-- behind the guard: rows that were loaded frozen are found as others are
BEGIN;
SET LOCAL chainify.guard = off;
TRUNCATE t;
COPY t FROM PROGRAM 'printf "5\t5\n"' (FREEZE);
TABLE t;
SELECT test.states_hold();
SELECT DISTINCT what FROM chainify.verify_table('t') ORDER BY what;
ROLLBACK;
SELECT test.all_well();
-- types that no table has values of
SELECT ok FROM test.deploy('CREATE TYPE shade AS ENUM (''dark''); CREATE DOMAIN part_of_day AS int; CREATE TYPE lamp AS (watts int, tint shade)');
ALTER TYPE shade ADD VALUE 'light';
ALTER DOMAIN part_of_day SET NOT NULL;
DROP DOMAIN part_of_day;
ALTER TYPE lamp ADD ATTRIBUTE lumen int;
ALTER TYPE lamp RENAME ATTRIBUTE watts TO power;
ALTER TYPE lamp DROP ATTRIBUTE tint;
DROP TYPE lamp;
SELECT test.all_well();
-- what start-over keeps is the ledger's own
ALTER SCHEMA chainify_initial RENAME TO initial;
CREATE TABLE chainify_initial.extra ();
-- the role goes with what was made for it
SELECT ok FROM test.deploy('DROP VIEW over_made; DROP TABLE made, parts; DROP FUNCTION of_made()');
DROP ROLE owner_of_nothing, reader_of_made, later_reader;
