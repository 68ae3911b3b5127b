-- Parts that an organisation has alone beside the agreed definition never show: they are refused, or found and dropped before they decide.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE kind (i int, v varchar(100), long varchar(1000), t text, n numeric(20, 2), any_n numeric, u uuid, m mood, d date, a int[], j jsonb, net inet, s name, b bit(8), r int4range);
-- Which indexes can refuse a row that the table takes.
CREATE FUNCTION test.refusing(VARIADIC definitions text[]) RETURNS TABLE (definition text, may_refuse boolean) LANGUAGE plpgsql AS $$
BEGIN
    FOREACH definition IN ARRAY definitions LOOP
        EXECUTE 'CREATE INDEX tried ON kind ' || definition;
        may_refuse := chainify_ledger.may_refuse('tried'::regclass);
        DROP INDEX tried;
        RETURN NEXT;
    END LOOP;
END
$$;
SELECT * FROM test.refusing('(i, u, d)', '(v)', '(long)', '(v) INCLUDE (i)', '(i) INCLUDE (t)', '(t)', '(n)', '(any_n)', '(m)', '(a)', '(j)', '(net)', '(s)', '(b)', '(r)', '((1 / i))', '(i) WHERE 1 / i > 0',
    'USING hash (t)', 'USING hash (any_n)', 'USING hash (a)', 'USING brin (i, d)', 'USING brin (t)', 'USING brin (i int4_bloom_ops)', 'USING gin (a)', 'USING gist (net inet_ops)');

CREATE TABLE t (id int PRIMARY KEY, note text, v int);
CREATE TABLE p (id int, note text, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
CREATE TABLE child (id int PRIMARY KEY, parent int);
INSERT INTO t SELECT i, 'a', 1 FROM generate_series(1, 3) i;
INSERT INTO p SELECT i, 'a', 1 FROM generate_series(1, 3) i;
CREATE INDEX t_v ON t (v);
GRANT ALL ON t, p TO alice;
GRANT CREATE ON SCHEMA public TO admin;
ALTER TABLE t OWNER TO admin;
ALTER TABLE p OWNER TO admin;
ALTER TABLE p1 OWNER TO admin;
CREATE FUNCTION test.noise(length int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT left(string_agg(translate(encode(sha256(i::text::bytea), 'base64'), E'\n', ''), '' ORDER BY i), length) FROM generate_series(1, 200) i $$;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.t, public.p');
-- Statements behind the guard, then the outcome of transactions that only they would refuse, and what is told of it.
CREATE TABLE test.writes (place int, body text);
INSERT INTO test.writes VALUES (1, format('INSERT INTO t VALUES (10, %L, 0)', test.noise(4000))), (2, 'UPDATE t SET v = -v WHERE id = 1'), (3, 'INSERT INTO t VALUES (11, NULL, NULL)'), (4, 'DELETE FROM t WHERE id = 2'),
    (5, format('INSERT INTO p VALUES (10, %L, 0)', test.noise(4000))), (6, 'UPDATE p SET v = -v WHERE id = 1'), (7, 'INSERT INTO p VALUES (11, NULL, NULL)'), (8, 'DELETE FROM p WHERE id = 2');
CREATE FUNCTION test.alone(VARIADIC statements text[]) RETURNS TABLE (told text) LANGUAGE plpgsql AS $$
DECLARE
    statement text;
    failed text;
    last int := (SELECT coalesce(max(id), 0) FROM chainify.deviations);
    lines text[];
BEGIN
    BEGIN
        SET LOCAL chainify.guard = off;
        FOREACH statement IN ARRAY statements LOOP
            EXECUTE statement;
        END LOOP;
        SET LOCAL chainify.guard = on;
        SELECT string_agg(r.tx || ' ' || r.sqlstate || ' ' || r.message, '; ') INTO failed FROM test.run(VARIADIC ARRAY(SELECT body FROM test.writes ORDER BY place)) r WHERE NOT r.ok;
        lines := ARRAY[coalesce(failed, 'all succeed')] || ARRAY(
            SELECT concat_ws(' | ', d.tbl, d.key ->> 'object', 'expected ' || d.expected::text, 'found ' || d.found::text, d.cured_by) FROM chainify.deviations d WHERE d.id > last ORDER BY 1);
        lines := lines || nullif(test.all_well(), 'all well');
        RAISE EXCEPTION USING ERRCODE = 'P0099';
    EXCEPTION WHEN SQLSTATE 'P0099' THEN
        RETURN QUERY SELECT unnest(lines);
    END;
END
$$;
SELECT * FROM test.alone('SELECT');
-- Those that decide nothing stay.
SELECT * FROM test.alone('CREATE INDEX ON t (v)', 'CREATE INDEX ON t USING hash (note)', 'COMMENT ON TABLE t IS $c$mine$c$');
-- Indexes.
SELECT * FROM test.alone('CREATE INDEX own ON t (note)');
SELECT * FROM test.alone('CREATE INDEX ON t ((1 / v))');
SELECT * FROM test.alone('CREATE INDEX ON t (id) WHERE 1 / v > 0');
SELECT * FROM test.alone('CREATE INDEX ON t USING gin (string_to_array(note, $c$,$c$))', 'CREATE UNIQUE INDEX ON t (v, id)');
SELECT * FROM test.alone('CREATE INDEX ON p (note)', 'CREATE INDEX ON p1 ((1 / v))', 'CREATE UNIQUE INDEX ON p1 (v, id)');
SELECT * FROM test.alone('CREATE INDEX ON t (note) WITH (fillfactor = 50)', 'CREATE INDEX ON t (left(note, 10))');
-- Constraints of all kinds.
SELECT * FROM test.alone('ALTER TABLE t ADD CHECK (v > -1)');
SELECT * FROM test.alone('ALTER TABLE t ADD CHECK (v > 100) NOT VALID');
SELECT * FROM test.alone('ALTER TABLE t ALTER note SET NOT NULL');
SELECT * FROM test.alone('ALTER TABLE t ADD EXCLUDE USING btree (v WITH =) WHERE (id > 5)');
SELECT * FROM test.alone('INSERT INTO child VALUES (1, 2)', 'ALTER TABLE child ADD FOREIGN KEY (parent) REFERENCES t');
SELECT * FROM test.alone('ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES child NOT VALID');
SELECT * FROM test.alone('ALTER TABLE p1 ADD CHECK (v > -1)', 'ALTER TABLE p1 ALTER note SET NOT NULL');
SELECT * FROM test.alone('ALTER TABLE p ADD CHECK (v > -1)');
-- Triggers, rules, policies.
CREATE FUNCTION test.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'mine'; END $$;
SELECT * FROM test.alone('CREATE TRIGGER mine BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION test.refuse()', 'CREATE TRIGGER mine BEFORE INSERT ON p1 FOR EACH ROW EXECUTE FUNCTION test.refuse()');
SELECT * FROM test.alone('CREATE RULE mine AS ON DELETE TO t DO INSTEAD NOTHING');
SELECT * FROM test.alone('CREATE POLICY mine ON t USING (false)', 'ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY');
SELECT * FROM test.alone('ALTER TABLE p1 ENABLE ROW LEVEL SECURITY');
-- How values are stored.
SELECT * FROM test.alone('ALTER TABLE t ALTER note SET STORAGE plain');
SELECT * FROM test.alone('ALTER TABLE t ALTER note SET COMPRESSION lz4', 'ALTER TABLE p1 ALTER note SET STORAGE external');
-- Histories and checkpoints.
SELECT * FROM test.alone('CREATE INDEX ON chainify_history.t (note)', 'CREATE UNIQUE INDEX ON chainify_history.t (v)', 'CREATE INDEX ON chainify_checkpoint.t ((1 / v))', 'CREATE INDEX ON chainify_history.t (v)');
SELECT * FROM test.alone('ALTER TABLE chainify_history.t ADD CHECK (v > -1)', 'CREATE TRIGGER mine BEFORE INSERT ON chainify_history.t FOR EACH ROW EXECUTE FUNCTION test.refuse()');
SELECT * FROM test.alone('ALTER TABLE chainify_history.t ALTER note SET STORAGE plain', 'ALTER TABLE chainify_history.p ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY');

-- Recovery is stopped by none of it: rows that an index of one's own would refuse come back.
SELECT ok FROM test.run(format('INSERT INTO t VALUES (20, %L, 5)', test.noise(4000)));
CREATE FUNCTION test.lost(VARIADIC statements text[]) RETURNS TABLE (told text) LANGUAGE plpgsql AS $$
DECLARE
    statement text;
    step text;
    lines text[] := '{}';
BEGIN
    FOREACH step IN ARRAY ARRAY['rows', 'replay', 'reindex', 'definitions'] LOOP
        BEGIN
            SET LOCAL chainify.guard = off;
            SET LOCAL session_replication_role = replica;
            DELETE FROM t WHERE id = 20;
            SET LOCAL session_replication_role = origin;
            FOREACH statement IN ARRAY statements LOOP
                EXECUTE statement;
            END LOOP;
            SET LOCAL chainify.guard = on;
            lines := lines || ARRAY(SELECT concat_ws(' | ', step, r.tbl, r.key::text, 'found ' || r.found::text) FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, NULL, step) r ORDER BY 1);
            RAISE EXCEPTION USING ERRCODE = 'P0099';
        EXCEPTION WHEN SQLSTATE 'P0099' THEN
        END;
    END LOOP;
    RETURN QUERY SELECT unnest(lines);
END
$$;
SELECT * FROM test.lost('ALTER TABLE t ADD CHECK (length(note) < 9) NOT VALID', 'CREATE INDEX ON t (v) WHERE v > 5', 'CREATE INDEX ON chainify_history.t (v) WHERE v > 5');
SELECT test.all_well();

-- Agreed parts stay, and are made again: indexes of a DEPLOY transaction.
SELECT ok, message FROM test.deploy('CREATE INDEX t_note ON t (md5(note)); CREATE INDEX p_note ON p (md5(note)); ALTER TABLE p1 ADD CONSTRAINT small CHECK (v < 1000)');
SELECT * FROM test.alone('SELECT');
SELECT * FROM test.alone('DROP INDEX t_note', 'DROP INDEX p_note');
SELECT * FROM test.alone('DROP INDEX t_note', 'CREATE INDEX t_note ON t (left(note, 9))');
-- A definition that differs in more is left to recovery.
SELECT * FROM test.alone('ALTER TABLE t ADD CHECK (v > -1)', 'ALTER TABLE t ADD x int');

-- ATTACH agrees on indexes that may refuse a row, and on no others: the hash of a definition has a line for each.
CREATE TABLE bare (id int PRIMARY KEY, note text, v int);
CREATE TABLE indexed (id int PRIMARY KEY, note text, v int);
CREATE INDEX indexed_note ON indexed (note) WITH (fillfactor = 70);
CREATE INDEX ON indexed (v);
-- It settles how values are stored, of the table and of its history: a key that lz4 makes short enough is too long for pglz.
ALTER TABLE indexed ALTER note SET COMPRESSION lz4;
ALTER TABLE bare ALTER note SET STORAGE external;
GRANT ALL ON bare, indexed TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.bare, public.indexed');
SELECT name, beside FROM chainify_ledger.ledger_table WHERE name IN ('public.bare', 'public.indexed') ORDER BY name;
SELECT chainify_ledger.schema_text('indexed');
SELECT attrelid::regclass, attname, attstorage, attcompression FROM pg_attribute WHERE attname = 'note' AND attrelid IN ('bare'::regclass, 'indexed'::regclass, 'chainify_history.bare'::regclass, 'chainify_checkpoint.indexed'::regclass) ORDER BY 1;
SELECT tx, sqlstate FROM test.run(format('INSERT INTO indexed VALUES (1, %L || repeat($$x$$, 5000), 0)', test.noise(2600)), format('INSERT INTO indexed VALUES (2, %L, 0)', test.noise(2600)));
SELECT * FROM test.alone('DROP INDEX indexed_note');
SELECT test.all_well();
-- With the guard on it is refused when it is made.
CREATE INDEX ON t (note);
ALTER TABLE t ADD CHECK (v > 0);
ALTER TABLE t ALTER note SET STORAGE plain;
ALTER TABLE p1 ALTER note SET COMPRESSION lz4;
CREATE INDEX ON chainify_history.t (note);
