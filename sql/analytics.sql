\i sql/setup.sql
-- Queries at a block, up to the worker, which is not there: what is mirrored, who may ask, what is refused, and what the worker is asked.
SET client_min_messages = warning;
SET TimeZone = 'UTC';
CREATE TABLE item (id bigint PRIMARY KEY, kind int, small smallint, price numeric(12,2) NOT NULL, rate numeric(6,4), name text COLLATE "C", label varchar(20) COLLATE "C",
    code char(4), sold date, at timestamp, seen timestamptz, ok boolean, ref uuid, raw bytea, open numeric, tags text[], local text COLLATE "en-x-icu");
CREATE TABLE kind (id int PRIMARY KEY, title text NOT NULL, parent int);
CREATE COLLATION ci (PROVIDER = icu, LOCALE = 'und-u-ks-level2', DETERMINISTIC = false);
CREATE TABLE beside (id int PRIMARY KEY);
CREATE TABLE hidden (id int PRIMARY KEY, owner text);
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON hidden USING (owner = current_user);
CREATE VIEW cheap AS SELECT * FROM item WHERE price < 10;
GRANT ALL ON item, kind, beside, hidden, cheap TO alice;
ALTER TABLE kind OWNER TO admin;
GRANT SELECT (id) ON kind TO stranger;
SELECT ok FROM test.deploy('ATTACH TABLE public.item, public.kind, public.beside, public.hidden');
SELECT ok FROM test.run('INSERT INTO kind VALUES (1, ''one'', NULL)');

-- Mirrors are an administrator's, of ledger tables alone.
SET ROLE alice;
SELECT chainify.mirror('item');
SET ROLE admin;
SELECT chainify.mirror('item', 'kind', 'hidden');
SELECT chainify.mirror('item');
SELECT chainify.mirror('pg_class');
SELECT "table", state, error FROM chainify.mirrors ORDER BY 1;
SELECT chainify.unmirror('beside');
SET ROLE chainify_reader;
SELECT name, relation::regclass FROM chainify.mirrored_tables ORDER BY 1;
RESET ROLE;

-- The names beside the oids of what is allowed.
SELECT f.function, f.name FROM chainify_ledger.analytics_functions() f LEFT JOIN pg_proc p ON p.oid = f.function AND p.proname = f.name
    AND p.pronamespace = 'pg_catalog'::regnamespace AND p.provolatile <> 'v' WHERE p.oid IS NULL;
SELECT count(*) > 300 FROM chainify.analytics_functions;

CREATE FUNCTION test.asked(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    said text;
    detail text;
BEGIN
    SELECT regexp_replace(t.sql, 't_\d+', 't', 'g') INTO said FROM chainify.translate_query(query) t;
    RETURN said;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
    RETURN format('%s: %s %s', SQLSTATE, said, detail);
END
$$;
GRANT USAGE ON SCHEMA test TO PUBLIC;
SET ROLE alice;
-- Rights: the whole table, every row.
SELECT test.asked('SELECT id FROM hidden');
SELECT test.asked('SELECT id FROM beside');
SELECT test.asked('SELECT id FROM cheap');
SET ROLE stranger;
SELECT test.asked('SELECT id FROM kind');
SELECT test.asked('SELECT 1 FROM item');
RESET ROLE;
SELECT test.asked('SELECT id FROM hidden');
SET ROLE alice;

-- The queries for the worker.
\pset tuples_only on
\pset format unaligned
\set ECHO none
SELECT query || E'\n    ' || test.asked(query) FROM (VALUES
    ('SELECT id, kind + 1, small * 2, id / 3, kind % 2 FROM item WHERE price > 10.5'),
    ('SELECT price * rate, price + 1, price / 3, -price, abs(rate), round(price, 1), price::numeric(10,1), price::int FROM item'),
    ('SELECT sum(kind), sum(id), sum(price), avg(kind), avg(price), count(*), count(DISTINCT code), min(name), max(price) FROM item'),
    ('SELECT kind, sum(CASE WHEN ok THEN price ELSE 0 END) FROM item GROUP BY kind HAVING count(*) > 1 ORDER BY 2 DESC'),
    ('SELECT coalesce(rate, 0) + 1, coalesce(name, label), nullif(kind, 3), nullif(price, 0) FROM item'),
    ('SELECT i.name, k.title FROM item i LEFT JOIN kind k ON k.id = i.kind WHERE i.name < ''m'' ORDER BY i.name, k.id NULLS FIRST LIMIT 5 OFFSET 2'),
    ('SELECT * FROM (SELECT id, title FROM kind) a JOIN (SELECT kind AS id, count(*) AS n FROM item GROUP BY kind) b USING (id)'),
    ('SELECT id FROM kind FULL JOIN (SELECT kind AS id, price FROM item) i USING (id)'),
    ('SELECT id FROM item WHERE code = ''ab'' AND code <> ''abcdef'' AND code IN (''a'', ''b'') AND code < ''b'''),
    ('SELECT id FROM item WHERE name LIKE ''a%'' OR name NOT LIKE ''%b\%%'' OR label = name || ''x'' OR name IN (''p'', ''it''''s'')'),
    ('SELECT id FROM item WHERE sold BETWEEN ''2024-01-01'' AND date ''2024-01-01'' + interval ''1 month'' AND at > sold AND extract(year FROM at) = 2024'),
    ('SELECT sold + 3, sold - date ''2024-01-01'', sold + interval ''2 months 3 days'', date_trunc(''month'', at), at::date FROM item'),
    ('SELECT date_trunc(''month'', sold), seen::timestamp, at::timestamptz FROM item'),
    ('SELECT at - sold, at - at > interval ''1 month'', extract(epoch FROM seen - seen), seen AT TIME ZONE ''utc'', date_trunc(''day'', seen, ''UTC'') FROM item'),
    ('SELECT upper(name), lower(title), name ILIKE ''A%'', label NOT ILIKE name FROM item, kind'),
    ('SELECT variance(kind), stddev(price), var_pop(price / 3), stddev_pop(id) FROM item'),
    ('SELECT string_agg(name, '', '' ORDER BY price DESC, id), string_agg(DISTINCT label, '''' ORDER BY label) FILTER (WHERE ok) FROM item'),
    ('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price), percentile_disc(0.9) WITHIN GROUP (ORDER BY sold DESC) FROM item'),
    ('SELECT id FROM item WHERE seen > ''2024-01-01 12:00+02'' AND ref = ''00000000-0000-0000-0000-000000000001'' AND raw = ''\x00ff'''),
    ('SELECT id FROM item WHERE seen >= date_trunc(''day'', timestamptz ''2024-05-06 07:08:09+00'')'),
    ('SELECT kind FROM item WHERE kind IN (SELECT id FROM kind WHERE parent = 1) OR NOT EXISTS (SELECT FROM kind k WHERE k.id = item.kind)'),
    ('SELECT id FROM item WHERE kind NOT IN (SELECT parent FROM kind)'),
    ('SELECT id FROM item WHERE id NOT IN (SELECT id FROM kind)'),
    ('SELECT id FROM item WHERE EXISTS (SELECT FROM kind LIMIT 1)'),
    ('SELECT id, (SELECT title FROM kind k WHERE k.id = item.kind) FROM item WHERE price > (SELECT 0.5 * avg(price) FROM item i WHERE i.kind = item.kind)'),
    ('WITH a AS (SELECT kind, sum(price) AS p FROM item GROUP BY kind) SELECT x.kind FROM a x JOIN a y ON x.p > y.p'),
    ('SELECT price FROM item UNION SELECT 1.00 FROM kind EXCEPT SELECT price FROM item WHERE ok ORDER BY 1'),
    ('SELECT price FROM item UNION ALL SELECT rate FROM item'),
    ('SELECT DISTINCT kind, name FROM item ORDER BY name DESC'),
    ('SELECT DISTINCT count(*) OVER (PARTITION BY kind) FROM item ORDER BY 1'),
    ('SELECT id, row_number() OVER (PARTITION BY kind ORDER BY price DESC), sum(price) OVER (ORDER BY id), rank() OVER (ORDER BY kind) FROM item'),
    ('SELECT id, lag(price) OVER (ORDER BY id), lead(name, 2) OVER (PARTITION BY kind ORDER BY id) FROM item'),
    ('SELECT kind IS DISTINCT FROM small, ok IS NOT TRUE, CASE kind WHEN 1 THEN ''a'' ELSE ''b'' END, greatest(kind, 3) FROM item'),
    ('SELECT kind::text, price::text, length(code), substring(name FROM 2 FOR 3), trim(name), position(''a'' IN name) FROM item'),
    ('SELECT count(*) FILTER (WHERE ok), bool_and(ok) FROM item WHERE kind = ANY (ARRAY[1, 2, NULL])'),
    ('SELECT now() > ''2000-01-01'', 7 / 2, 7.0 / 2, ''x'' || ''y'''),
    ('SELECT CASE WHEN false THEN count(*) ELSE 0 END FROM item'),
    ('SELECT id FROM item WHERE CASE WHEN kind <> 0 THEN 10 / kind > 1 ELSE false END'),
    ('SELECT kind, sum(10 / small) FILTER (WHERE small <> 0), bool_or(10 / small > 1) FILTER (WHERE small <> 0), sum(kind) FILTER (WHERE ok) FROM item GROUP BY kind'),
    ('SELECT id, (SELECT DISTINCT count(*) FROM item WHERE item.kind = kind.id ORDER BY 1) FROM kind'),
    ('SELECT avg(price) > 5, round(avg(price), 2), avg(price) * 2 FROM item HAVING avg(price) <> 7')) v (query);

-- Refused queries, and the reasons.
SELECT query || E'\n    ' || test.asked(query) FROM (VALUES
    ('SELECT upper(local) FROM item'),
    ('SELECT id FROM item WHERE local ILIKE ''a'''),
    ('SELECT name FROM item ORDER BY local'),
    ('SELECT max(local) FROM item'),
    ('SELECT id FROM item WHERE local < ''x'''),
    ('SELECT id FROM item WHERE name ~ ''a'''),
    ('SELECT tags FROM item'),
    ('SELECT open FROM item'),
    ('SELECT random() FROM item'),
    ('SELECT item FROM item'),
    ('SELECT ctid FROM item'),
    ('SELECT * FROM item FOR UPDATE'),
    ('SELECT price, rate, sum(1) FROM item GROUP BY GROUPING SETS ((price), (rate))'),
    ('SELECT DISTINCT ON (kind) id FROM item'),
    ('WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT n FROM r'),
    ('SELECT generate_series(1, 3) FROM item'),
    ('SELECT * FROM generate_series(1, 3)'),
    ('SELECT id FROM item, LATERAL (SELECT title FROM kind WHERE kind.id = item.kind) x'),
    ('SELECT string_agg(name, '','') FROM item'),
    ('SELECT string_agg(name, label ORDER BY id) FROM item'),
    ('SELECT count(name ORDER BY id) FROM item'),
    ('SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY name) FROM item'),
    ('SELECT percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY price) FROM item'),
    ('SELECT mode() WITHIN GROUP (ORDER BY kind) FROM item'),
    ('SELECT sum(DISTINCT price) FROM item'),
    ('SELECT price FROM item INTERSECT ALL SELECT 1.00'),
    ('SELECT kind IN (SELECT id FROM kind) FROM item'),
    ('SELECT id FROM item WHERE price > ALL (SELECT parent FROM kind)'),
    ('SELECT k.title FROM kind k GROUP BY k.id'),
    ('SELECT sum(at - at) FROM item'),
    ('SELECT at + (at - at) FROM item'),
    ('SELECT at AT TIME ZONE ''Europe/Berlin'' FROM item'),
    ('SELECT stddev(1.5::float8) FROM item'),
    ('SELECT lag(id, kind) OVER (ORDER BY id) FROM item'),
    ('SELECT lag(id, 1, 0) OVER (ORDER BY id) FROM item'),
    ('SELECT price FROM item LIMIT (SELECT 1)'),
    ('SELECT DISTINCT avg(price) OVER (PARTITION BY kind) FROM item'),
    ('SELECT pg_sleep(1), current_user'),
    ('SELECT current_setting(''server_version'')'),
    ('INSERT INTO item DEFAULT VALUES'),
    ('SELECT FROM item'),
    ('SELECT id FROM kind k WHERE EXISTS (SELECT max(price) FROM item WHERE item.kind = k.id)'),
    ('SELECT id FROM kind k WHERE 0 IN (SELECT count(*) FROM item WHERE item.kind = k.id)'),
    ('WITH w AS (SELECT id FROM item LIMIT 5) SELECT count(*) FROM w a JOIN w b USING (id)'),
    ('SELECT id FROM (SELECT id FROM item ORDER BY price DESC) s LIMIT 10'),
    ('SELECT row_number() OVER () FROM (SELECT id FROM item ORDER BY price DESC) s'),
    ('SELECT DISTINCT name COLLATE ci FROM item'),
    ('SELECT count(*) FROM item GROUP BY name COLLATE ci'),
    ('SELECT count(*) OVER (PARTITION BY name COLLATE ci) FROM item'),
    ('SELECT name COLLATE ci FROM item UNION SELECT title FROM kind'),
    ('SELECT 1; SELECT 2'),
    ('SELECT 1/0'),
    ('SELECT nothing FROM item'),
    ('SELECT id INTO x FROM item'),
    ('SELECT id FROM pg_class'),
    ('SELECT oid FROM pg_class')) v (query);
SET TimeZone = 'America/New_York';
SELECT test.asked('SELECT seen::date FROM item');
SELECT test.asked('SELECT id FROM item WHERE seen > ''2024-01-01 12:00''');
SET TimeZone = 'UTC';
-- Deep and long.
SELECT left(test.asked('SELECT id FROM item WHERE ' || repeat('abs(', 300) || 'kind' || repeat(')', 300) || ' = 1'), 80);
SELECT left(test.asked('SELECT id FROM item WHERE kind IN (' || (SELECT string_agg(n::text, ', ') FROM generate_series(1, 30000) n) || ')'), 80);
SELECT left(test.asked('SELECT coalesce(name, ' || quote_literal(repeat('x', 40000)) || ') FROM item'), 80);
SELECT left(test.asked('SELECT ' || repeat('CASE WHEN ok THEN price ELSE 0 END + ', 300) || '0 FROM item'), 80);
\set ECHO all
\pset format aligned
\pset tuples_only off

-- The eight queries of AnKer over tables of TPC-C (SIGMOD 2018, figure 7).
RESET ROLE;
CREATE SCHEMA tpcc;
CREATE TABLE tpcc.warehouse (w_id int PRIMARY KEY, w_ytd numeric(12,2));
CREATE TABLE tpcc.stock (s_w_id int, s_i_id int, s_quantity int, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id));
CREATE TABLE tpcc.order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_quantity int, ol_amount numeric(6,2), ol_dist_info char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
CREATE TABLE tpcc.orders (o_w_id int, o_d_id int, o_id int, o_entry_d timestamp, o_carrier_id int, PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE TABLE tpcc.new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE tpcc.district (d_w_id int, d_id int, d_tax numeric(4,4), d_ytd numeric(12,2), PRIMARY KEY (d_w_id, d_id));
DO $$ BEGIN PERFORM test.deploy('ATTACH TABLE ' || string_agg('tpcc.' || t, ', ')) FROM unnest('{warehouse,stock,order_line,orders,new_order,district}'::text[]) t; END $$;
SELECT chainify.mirror('tpcc.warehouse', 'tpcc.stock', 'tpcc.order_line', 'tpcc.orders', 'tpcc.new_order', 'tpcc.district');
SET search_path = tpcc;
\pset format unaligned
\pset tuples_only on
SELECT test.asked(query) FROM (VALUES ('SELECT w_id, count(*) FROM warehouse, stock WHERE w_id = s_w_id GROUP BY w_id'), ('SELECT ol_d_id, avg(ol_amount) FROM order_line GROUP BY ol_d_id'),
    ('SELECT ol_w_id, sum(ol_quantity), avg(ol_amount) FROM order_line GROUP BY ol_w_id'), ('SELECT * FROM orders'), ('SELECT * FROM new_order'),
    ('SELECT avg(d_tax), avg(d_ytd) FROM district'), ('SELECT avg(ol_amount) FROM order_line'), ('SELECT avg(s_quantity) FROM stock')) v (query);
\pset format aligned
\pset tuples_only off
RESET search_path;

-- TPC-H.
\i sql/analytics/tpch.sql
DO $$ BEGIN PERFORM test.deploy('ATTACH TABLE ' || string_agg('public.' || t, ', ')) FROM unnest('{region,nation,part,supplier,partsupp,customer,orders,lineitem}'::text[]) t; END $$;
SELECT chainify.mirror('region', 'nation', 'part', 'supplier', 'partsupp', 'customer', 'orders', 'lineitem');
\pset format unaligned
\pset tuples_only on
SELECT number, test.asked(query) FROM test.tpch ORDER BY number;
\pset format aligned
\pset tuples_only off

-- Without a worker: an error that says so.
SELECT * FROM chainify.query_at(NULL, 'SELECT id FROM kind') AS t (id int);
SELECT * FROM chainify.query_at(99, 'SELECT id FROM kind') AS t (id int);
SELECT * FROM chainify.query_at(NULL, 'SELECT id FROM kind') AS t (id text);
SELECT * FROM chainify.query_at(NULL, 'SELECT id, title FROM kind') AS t (id int);
SELECT * FROM chainify.query_at(NULL, 'SELECT id FROM kind WHERE id = $1', 1) AS t (id int);
SELECT * FROM chainify.query_at_json(NULL, 'SELECT id FROM kind');
SELECT chainify.query_at(NULL, NULL);
SELECT chainify.pin_snapshot(1, 'it''s');
SELECT chainify.pin_snapshot(77, 'future');
SELECT chainify.pin_snapshot(1, 'first');
SELECT chainify.unpin_snapshot('first');
SELECT * FROM chainify.snapshots;
-- The worker reads rows and changes, of whole blocks, and the parts of the state root. A row ends with the ordinals of its minus zeros.
RESET ROLE;
CREATE TABLE told (id int PRIMARY KEY, f real, d double precision, n numeric(6,2), j jsonb);
GRANT ALL ON told TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.told');
SELECT ok FROM test.run($$INSERT INTO told VALUES (1, '-0', 0, 1.50, '{"b":1}'), (2, 0, '-0', NULL, NULL), (3, 'NaN', 'Infinity', 7, '[]')$$);
SELECT ok FROM test.run('UPDATE told SET n = 2 WHERE id = 2');
SELECT ok FROM test.run('DELETE FROM told WHERE id = 3');
SELECT chainify.mirror('told');
SELECT table_id AS told, attached_at AS since FROM chainify.mirrored_tables WHERE name = 'public.told' \gset
CREATE FUNCTION rows_in(piece bytea) RETURNS SETOF bytea LANGUAGE plpgsql AS $$
DECLARE
    size int;
BEGIN
    WHILE length(piece) > 0 LOOP
        size := ('x' || encode(substr(piece, 1, 4), 'hex'))::bit(32)::int;
        RETURN NEXT substr(piece, 5, size);
        piece := substr(piece, 5 + size);
    END LOOP;
END $$;
SET ROLE chainify_reader;
SELECT ordinal, attnum, of_key, type::regtype, modifier FROM chainify.mirrored_columns WHERE table_id = :told ORDER BY 1;
SELECT r FROM chainify.mirror_rows(:told, :since + 1) p, rows_in(p) r ORDER BY 1;
SELECT r FROM chainify.mirror_rows(:told, :since + 3) p, rows_in(p) r ORDER BY 1;
SELECT encode(substr(c, 1, 1), 'escape') AS op, substr(c, 2) AS "row" FROM chainify.mirror_changes(:told, :since, :since + 3) p, rows_in(p) c;
SELECT encode(substr(c, 1, 1), 'escape') AS op, substr(c, 2) AS "row" FROM chainify.mirror_changes(:told, :since + 1, :since + 2) p, rows_in(p) c;
SELECT name FROM chainify.state_parts WHERE name IN ('public.told', 'definitions') ORDER BY 1;
SELECT p.name FROM chainify.state_parts p JOIN chainify.state_parts_at(:since + 3) a USING (name, state) WHERE p.name = 'public.told';
SELECT count(DISTINCT a.state) FROM generate_series(:since, :since + 3) b, chainify.state_parts_at(b) a WHERE a.name = 'public.told';
-- It reads every row of the history, so it may ask for all mirrored tables, and for no other ones. Plain SQL needs its rights as ever.
SELECT regexp_replace(sql, 't_[0-9]+', 't') FROM chainify.translate_query('SELECT id FROM public.told');
SELECT sql FROM chainify.translate_query('SELECT rolpassword FROM pg_catalog.pg_authid');
SET chainify.analytics = on;
SELECT id FROM public.told;
RESET chainify.analytics;
SELECT * FROM chainify.mirror_rows(99999, 1);
SELECT * FROM chainify.mirror_rows(:told, 99999);
SELECT * FROM chainify.mirror_changes(NULL, 1, 2);
SET ROLE alice;
SELECT * FROM chainify.mirror_rows(:told, 1);
SELECT * FROM chainify.state_parts;
RESET ROLE;
-- Rows come in pieces, of the last block from the table and of earlier ones from base and history.
SELECT ok FROM test.run($$INSERT INTO told (id, j) SELECT g, to_jsonb(repeat('x', 300)) FROM generate_series(11, 2010) g$$);
SELECT ok FROM test.run('DELETE FROM told WHERE id = 1');
SET ROLE chainify_reader;
SELECT b - :since AS block, count(DISTINCT p) > 1 AS pieces, max(length(p)) < 300000 AS bounded, count(*), count(DISTINCT r)
FROM generate_series(:since + 4, :since + 5) b, chainify.mirror_rows(:told, b) p, rows_in(p) r GROUP BY b ORDER BY b;
SELECT count(r) FROM (SELECT chainify.mirror_rows(:told, :since + 5) p) s, rows_in(p) r;
SELECT chainify.mirror_rows(:told, :since + 5) IS NULL AS no_row LIMIT 1;
SELECT count(*) AS left_open FROM pg_cursors;
-- The query behind the pieces ends with the one around it, and is no cursor of the session. COMMIT holds it or ends it.
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT length(chainify.mirror_rows(:told, :since + 5)) > 0 AS piece;
DECLARE taken CURSOR FOR SELECT length(chainify.mirror_rows(:told, :since + 4)) > 0 AS piece;
FETCH held;
SAVEPOINT first;
FETCH taken;
ROLLBACK TO first;
FETCH taken;
SELECT count(*) AS cursors FROM pg_cursors;
COMMIT;
FETCH ALL held;
CLOSE ALL;
SELECT set_config('test.told', :'told', false) <> '' AS told, set_config('test.block', (:since + 5)::text, false) <> '' AS block;
DO $$
DECLARE
    pieces int := 0;
    piece bytea;
BEGIN
    FOR piece IN SELECT chainify.mirror_rows(current_setting('test.told')::int, current_setting('test.block')::bigint) LOOP
        pieces := pieces + 1;
        COMMIT;
    END LOOP;
    PERFORM set_config('test.pieces', pieces::text, false);
END $$;
SELECT current_setting('test.pieces')::int > 1 AS pieces, count(*) AS left_open FROM pg_cursors;
SELECT chainify.mirror_rows(:told, NULL);
SELECT chainify.mirror_changes(:told, 1, NULL);
SELECT count(DISTINCT p) > 1 AS pieces, count(*) FROM chainify.mirror_changes(:told, :since, :since + 5) p, rows_in(p) r;
-- Earlier blocks are for readers.
SET ROLE alice;
SELECT * FROM chainify.query_at(1, 'SELECT id FROM kind') AS t (id int);
RESET ROLE;
-- A function of constants runs while the query is translated, and takes no other role.
CREATE FUNCTION public.climb() RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN set_config('role', 'none', false); END $$;
SET ROLE alice;
SELECT test.asked('SELECT id, climb() FROM kind');
SELECT current_user;
RESET ROLE;
DROP FUNCTION public.climb();
-- A mirror follows its table by name, and ends with it.
SELECT ok FROM test.deploy('ALTER TABLE kind ADD COLUMN note text');
SELECT name, table_id = (SELECT max(id) FROM chainify_ledger.ledger_table WHERE name = 'public.kind') AS newest FROM chainify.mirrored_tables WHERE name = 'public.kind';
SELECT ok FROM test.deploy('DETACH TABLE public.kind');
SELECT test.asked('SELECT id FROM kind');
SELECT "table", state FROM chainify.mirrors WHERE "table" = 'public.kind';
SELECT chainify.unmirror('kind');
