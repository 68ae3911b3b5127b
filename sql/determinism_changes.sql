-- Changes whose outcome would depend on which row moves first are refused: rows are checked against unique indexes one by one.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE seat (id int PRIMARY KEY, line int NOT NULL, place int NOT NULL, name text, gone boolean NOT NULL DEFAULT false,
    label text GENERATED ALWAYS AS (line || '/' || place) STORED, weight int);
CREATE UNIQUE INDEX ON seat (line, place);
CREATE UNIQUE INDEX ON seat (name) WHERE NOT gone;
CREATE UNIQUE INDEX ON seat (label);
CREATE UNIQUE INDEX ON seat (abs(weight));
CREATE TABLE visit (id int PRIMARY KEY, day int, seat int REFERENCES seat ON UPDATE CASCADE ON DELETE SET NULL);
CREATE UNIQUE INDEX ON visit (seat, day);
CREATE TABLE account (id int PRIMARY KEY, n int);
CREATE VIEW first_line AS SELECT * FROM seat WHERE line = 1;
INSERT INTO seat (id, line, place, name, weight) SELECT i, 1, i, 'n' || i, i FROM generate_series(1, 4) i;
INSERT INTO visit SELECT i, i, i FROM generate_series(1, 4) i;
GRANT ALL ON seat, visit, account, first_line TO alice;
SELECT ok, sqlstate FROM test.deploy('ATTACH TABLE public.seat, public.visit, public.account');
CREATE FUNCTION test.verdicts(VARIADIC sqls text[]) RETURNS TABLE (sql text, refused_for text) LANGUAGE sql AS $$
    SELECT s, string_agg(a.construct, '; ' ORDER BY a.statement, a.construct) FROM unnest(sqls) WITH ORDINALITY u (s, i), chainify.analyze(s) a GROUP BY i, s ORDER BY i
$$;

-- keys, expressions, conditions and generated columns of unique indexes
SELECT * FROM test.verdicts('UPDATE seat SET id = id + 1', 'UPDATE seat SET id = id + 1 WHERE id = 4', 'UPDATE seat SET place = place + 1 WHERE line = 1',
    'UPDATE seat SET place = place + 1 WHERE line = 1 AND place = 4', 'UPDATE first_line SET place = place - 1', 'UPDATE seat SET name = upper(name)', 'UPDATE seat SET name = upper(name) WHERE id = 1',
    'UPDATE seat SET weight = 3', 'UPDATE seat SET weight = 3 WHERE id = 3', 'UPDATE seat SET gone = true', 'UPDATE seat SET gone = place > 2', 'UPDATE seat SET line = 7', 'UPDATE seat SET name = $1 WHERE id > 2',
    'UPDATE seat SET (name, gone) = (SELECT s.name, true FROM seat s WHERE s.id = seat.id - 1)', 'UPDATE visit SET day = 5', 'UPDATE visit SET day = id', 'UPDATE visit SET day = v FROM (VALUES (1, 5)) x (i, v) WHERE id = i',
    'UPDATE visit SET seat = s.id + 1 FROM seat s WHERE s.id = visit.seat', 'UPDATE visit SET day = s.place FROM seat s WHERE s.id = visit.seat AND visit.id = 1');
-- inserts that update, and MERGE
SELECT * FROM test.verdicts('INSERT INTO visit VALUES (1, 1, 1), (2, 2, 2) ON CONFLICT (id) DO UPDATE SET day = visit.day + 1', 'INSERT INTO visit SELECT id, place, id FROM seat ON CONFLICT (id) DO UPDATE SET day = 9',
    'INSERT INTO visit SELECT id, place, id FROM seat ORDER BY id ON CONFLICT (id) DO UPDATE SET day = 9', 'INSERT INTO visit SELECT id, place, id FROM seat',
    'MERGE INTO visit v USING seat s ON s.id = v.seat WHEN MATCHED THEN UPDATE SET day = v.day + 1', 'MERGE INTO visit v USING seat s ON s.id = v.seat AND s.id = 1 AND v.id = 1 WHEN MATCHED THEN UPDATE SET day = v.day + 1',
    'MERGE INTO visit v USING seat s ON s.id = v.seat WHEN MATCHED THEN UPDATE SET day = 3', 'MERGE INTO visit v USING seat s ON s.id = v.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.place)',
    'MERGE INTO account v USING seat s ON s.id = v.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.place)', 'MERGE INTO visit v USING (VALUES (1, 2)) s (id, place) ON s.id = v.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.place)');
-- one table changed in two places
SELECT * FROM test.verdicts('WITH w AS (UPDATE seat SET gone = true RETURNING id) DELETE FROM seat WHERE id = 1', 'WITH w AS (UPDATE seat SET gone = true WHERE id = 1 RETURNING id) DELETE FROM seat', 'WITH w AS (DELETE FROM visit RETURNING id) UPDATE seat SET gone = true',
    'WITH w AS (INSERT INTO visit VALUES (8, 8) RETURNING id) INSERT INTO visit SELECT id + 1, 9 FROM w', 'WITH w AS (INSERT INTO visit VALUES (8, 8) ON CONFLICT DO NOTHING RETURNING id) INSERT INTO visit SELECT id + 1, 9 FROM w',
    'WITH w AS (UPDATE seat SET gone = false WHERE id = 1 RETURNING id) INSERT INTO seat SELECT 9, 9, 9 WHERE NOT EXISTS (SELECT FROM w)', 'WITH w AS (UPDATE visit SET id = 3 WHERE id = 2) INSERT INTO visit VALUES (2)', 'WITH w AS (UPDATE account SET n = 1 WHERE id = 1) INSERT INTO account VALUES (2)',
    'WITH w AS (DELETE FROM visit RETURNING *) INSERT INTO visit SELECT id + 1, day FROM w', 'WITH a AS (UPDATE seat SET weight = 3 WHERE id = 1), b AS (UPDATE seat SET weight = 4 WHERE id = 2) SELECT 1', 'WITH a AS (UPDATE seat SET weight = 3 WHERE id = 1), b AS (UPDATE seat SET weight = 4 WHERE weight = 2) SELECT 1');

-- at run; cascades of a foreign key are no statements of the client
SELECT ok, rows, sqlstate, message FROM test.run('UPDATE visit SET day = day + 1', 'UPDATE visit SET day = day + 1 WHERE id = 1', 'UPDATE seat SET id = 9 WHERE id = 1', 'DELETE FROM seat WHERE id > 2', 'UPDATE seat SET gone = true',
    'DO $$BEGIN NULL; END$$');
CREATE FUNCTION shift() RETURNS void LANGUAGE plpgsql AS $$ BEGIN UPDATE visit SET day = day + 1; END $$;
CREATE FUNCTION shift_in_order() RETURNS void LANGUAGE plpgsql AS $$ DECLARE v int; BEGIN FOR v IN SELECT id FROM visit ORDER BY id DESC LOOP UPDATE visit SET day = day + 1 WHERE id = v; END LOOP; END $$;
SELECT ok, sqlstate, message FROM test.run('SELECT shift()', 'SELECT shift_in_order()');
SELECT * FROM visit ORDER BY id;
