-- What statements may read and write (spec/scheduling.md, entry/access.rs).
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE parent (id int PRIMARY KEY, code text COLLATE "C" UNIQUE, note text);
CREATE TABLE child (id bigint PRIMARY KEY, parent int REFERENCES parent, line smallint, amount numeric(10,2), day date, UNIQUE (parent, line));
CREATE TABLE leaf (id uuid PRIMARY KEY, child bigint REFERENCES child ON DELETE CASCADE, word varchar(5) UNIQUE, pad char(4), local text UNIQUE);
CREATE TABLE plain (a int, b int);
CREATE VIEW lines AS SELECT c.id AS line_id, c.amount, p.code FROM child c JOIN parent p ON p.id = c.parent WHERE c.amount > 0;
CREATE VIEW sums AS SELECT parent, sum(amount) AS total, count(*) AS n FROM child GROUP BY parent;
CREATE VIEW every AS SELECT id::bigint, note FROM parent UNION ALL SELECT id, day::text FROM child;
GRANT ALL ON ALL TABLES IN SCHEMA public TO alice;

CREATE FUNCTION test.access(sql text) RETURNS TABLE (access text, target text, place text) LANGUAGE sql AS $$
    SELECT access, CASE target WHEN 'rows' THEN relation ELSE relation || ' ' || target END, place FROM chainify.access(sql)
$$;
\pset format unaligned
\pset fieldsep ' | '
\pset tuples_only on
\set ECHO queries
-- Conditions.
SELECT * FROM test.access('SELECT * FROM parent');
SELECT * FROM test.access('SELECT * FROM parent WHERE id = $1');
SELECT * FROM test.access('SELECT * FROM parent WHERE 7 = id');
SELECT * FROM test.access('SELECT * FROM child WHERE id = $1::int');
SELECT * FROM test.access('SELECT * FROM child WHERE id = 1.5');
SELECT * FROM test.access('SELECT * FROM child WHERE id > 5 AND id <= $1');
SELECT * FROM test.access('SELECT * FROM child WHERE id BETWEEN 5 AND 10');
SELECT * FROM test.access('SELECT * FROM child WHERE id IN (1, 2, $1)');
SELECT * FROM test.access('SELECT * FROM child WHERE id = ANY ($1)');
SELECT * FROM test.access('SELECT * FROM child WHERE id <> 5');
SELECT * FROM test.access('SELECT * FROM child WHERE id + 1 = 5');
SELECT * FROM test.access('SELECT * FROM child WHERE id = 1 OR id = 2');
SELECT * FROM test.access('SELECT * FROM child WHERE id = 1 OR line = 2');
SELECT * FROM test.access('SELECT * FROM child WHERE parent = 3');
SELECT * FROM test.access('SELECT * FROM child WHERE parent = 3 AND line > 2');
SELECT * FROM test.access('SELECT * FROM child WHERE (parent, line) = (3, 2)');
SELECT * FROM test.access('SELECT * FROM child WHERE (parent, line) IN ((3, 2), (4, 1))');
SELECT * FROM test.access('SELECT * FROM child WHERE parent IS NULL');
SELECT * FROM test.access('SELECT * FROM child WHERE NOT id = 1');
-- A range of texts needs byte order; equality does not.
SELECT * FROM test.access($$SELECT * FROM parent WHERE code >= 'a' AND code < 'b'$$);
SELECT * FROM test.access($$SELECT * FROM leaf WHERE local >= 'a'$$);
SELECT * FROM test.access($$SELECT * FROM leaf WHERE local = 'a'$$);
SELECT * FROM test.access($$SELECT * FROM leaf WHERE word = 'a'$$);
-- Joins pass equality on, outer ones to one side.
SELECT * FROM test.access('SELECT * FROM child c JOIN parent p ON p.id = c.parent WHERE c.parent = $1');
SELECT * FROM test.access('SELECT * FROM child c, parent p WHERE p.id = c.parent AND p.id = $1');
SELECT * FROM test.access('SELECT * FROM parent p LEFT JOIN child c ON c.parent = p.id WHERE p.id = $1');
SELECT * FROM test.access('SELECT * FROM parent p LEFT JOIN child c ON c.parent = p.id AND p.id = $1');
SELECT * FROM test.access('SELECT * FROM parent p LEFT JOIN child c ON c.parent = p.id WHERE c.id IS NULL');
SELECT * FROM test.access('SELECT * FROM parent p FULL JOIN child c ON c.parent = p.id AND p.id = 1');
SELECT * FROM test.access('SELECT * FROM parent WHERE id = $1 AND EXISTS (SELECT FROM child WHERE child.parent = parent.id)');
SELECT * FROM test.access('SELECT (SELECT sum(amount) FROM child WHERE parent = p.id) FROM parent p WHERE id = $1');
SELECT * FROM test.access('WITH w AS (SELECT * FROM child WHERE id = 1) SELECT * FROM w');
-- Views and subqueries.
SELECT * FROM test.access('SELECT * FROM lines WHERE line_id = $1');
SELECT * FROM test.access('SELECT * FROM sums WHERE parent = $1');
SELECT * FROM test.access('SELECT * FROM sums WHERE total = 1');
SELECT * FROM test.access('SELECT * FROM every WHERE id = $1');
SELECT * FROM test.access('SELECT * FROM (SELECT * FROM child ORDER BY id LIMIT 3) c WHERE id = $1');
-- Changes.
SELECT * FROM test.access($$INSERT INTO parent VALUES ($1, 'x')$$);
SELECT * FROM test.access('INSERT INTO child (id, parent) VALUES (1, 2), (3, $1)');
SELECT * FROM test.access($$INSERT INTO leaf VALUES ($1, 7, 'word', 'p', 'l')$$);
SELECT * FROM test.access('INSERT INTO child SELECT id, 5 FROM parent WHERE id = 4');
SELECT * FROM test.access('INSERT INTO plain VALUES (1, 2)');
SELECT * FROM test.access('UPDATE child SET amount = amount + 1 WHERE id = $1');
SELECT * FROM test.access('UPDATE child SET line = 2 WHERE id = $1');
SELECT * FROM test.access('UPDATE child SET parent = $2 WHERE parent = $1');
SELECT * FROM test.access('UPDATE parent SET id = 5 WHERE id = 4');
SELECT * FROM test.access('UPDATE child SET amount = 0 FROM parent p WHERE p.id = child.parent AND child.parent = $1');
SELECT * FROM test.access('DELETE FROM parent WHERE id = $1');
SELECT * FROM test.access('DELETE FROM child WHERE id = $1');
SELECT * FROM test.access('DELETE FROM plain WHERE a = 1');
SELECT * FROM test.access($$INSERT INTO parent VALUES ($1, 'x') ON CONFLICT (id) DO UPDATE SET note = 'y'$$);
SELECT * FROM test.access($$INSERT INTO parent VALUES ($1, 'x') ON CONFLICT DO NOTHING$$);
SELECT * FROM test.access('MERGE INTO child c USING (SELECT $1::bigint AS id, 3 AS parent) s ON c.id = s.id
    WHEN MATCHED THEN UPDATE SET amount = 1 WHEN NOT MATCHED THEN INSERT (id, parent) VALUES (s.id, s.parent)');
SELECT * FROM test.access('SELECT * FROM parent WHERE id = $1 FOR UPDATE');
SELECT * FROM test.access('SELECT * FROM parent WHERE id = $1 FOR NO KEY UPDATE');
SELECT * FROM test.access('SELECT * FROM parent WHERE id = $1 FOR SHARE');
SELECT * FROM test.access('TRUNCATE plain');

-- Sequences by name, drawn from by whatever means.
CREATE TABLE drawn (id bigserial PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY, v int);
CREATE FUNCTION draws(what int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO drawn (v) VALUES (what); END $$;
SELECT * FROM test.access('INSERT INTO drawn (v) VALUES (1)');
SELECT * FROM test.access('INSERT INTO drawn VALUES ($1, DEFAULT, 1)');
SELECT * FROM test.access($$SELECT nextval('drawn_id_seq'), currval('drawn_n_seq')$$);
SELECT * FROM test.access('SELECT draws(1)');
SELECT * FROM test.access('SELECT nextval($1)');
SELECT * FROM test.access('SELECT lastval()');
DROP TABLE drawn;

-- What is everything.
SELECT * FROM test.access('SELECT test.varint(1)');
CREATE FUNCTION changes(i int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT i';
SELECT * FROM test.access('SELECT changes(id) FROM parent');
SELECT * FROM test.access('SELECT lower(note) FROM parent WHERE id = 1');

-- The graph of a block. The second and the fourth transaction touch what the first one does, the third one only reads its parent's key; what
-- fails before it runs, as it always will, is in nobody's way, and what nothing is known of is in everybody's.
\set ECHO none
DO $$ BEGIN PERFORM test.deploy('ATTACH TABLE public.parent, public.child'); END $$;
DO $$ BEGIN PERFORM test.run($s$INSERT INTO parent VALUES (1, 'a'), (2, 'b')$s$, 'INSERT INTO child VALUES (10, 1, 1, 5)', 'INSERT INTO child VALUES (20, 2, 1, 5)'); END $$;
DO $$ BEGIN PERFORM test.run($s$UPDATE parent SET note = 'x' WHERE id = 1$s$, $s$UPDATE parent SET note = note || 'y' WHERE id = 1$s$, 'INSERT INTO child VALUES (11, 1, 2, 5)',
    'DELETE FROM child WHERE id = 11', 'UPDATE child SET amount = 6 WHERE id = 20', 'nonsense', 'SELECT lastval()'); END $$;
\set ECHO queries
SELECT chainify.explain_block(2);
SELECT chainify.explain_block(3);
SELECT chainify.explain_block(3, 'dot');
SELECT chainify.explain_block(3, 'png');
SELECT chainify.explain_block(99);

-- Functions: from their bodies.
CREATE FUNCTION pay(c bigint, d bigint, v numeric) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE child SET amount = amount - v WHERE id = c AND amount >= v;
    IF FOUND THEN
        UPDATE child SET amount = amount + v WHERE id = d;
    END IF;
    RETURN FOUND;
END
$$;
SELECT * FROM test.access('SELECT pay($1, 20, 5)');
SELECT * FROM test.access('SELECT pay(d => $1, c => 7::smallint, v => 5)');
SELECT * FROM test.access('SELECT pay(id, 3, 5) FROM parent WHERE id = 1');
CREATE FUNCTION twice(a bigint, b bigint DEFAULT 9) RETURNS void LANGUAGE sql AS 'SELECT pay(a, b, 1); DELETE FROM child WHERE id = $2';
SELECT * FROM test.access('SELECT twice($1)');
CREATE FUNCTION body(a int) RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM child WHERE parent = a; END;
SELECT * FROM test.access('SELECT body($1)');
CREATE FUNCTION variables(p int, q int, list int[], INOUT r int) LANGUAGE plpgsql AS $$
DECLARE
    same CONSTANT int := p;
    other int := q;
    total numeric := (SELECT count(*) FROM plain);
    each int;
    one record;
    small varchar(2) := 'abc';
    many CURSOR (x int) FOR SELECT * FROM parent WHERE id = x;
BEGIN
    PERFORM FROM parent WHERE id = same;
    other := other + 1;
    PERFORM FROM parent WHERE id = other;
    FOREACH each IN ARRAY list LOOP
        PERFORM FROM child WHERE parent = each;
    END LOOP;
    FOR i IN 1..3 LOOP
        PERFORM FROM child WHERE id = list[i];
    END LOOP;
    FOR one IN SELECT l.id AS key, l.word FROM leaf l WHERE l.word = 'x' LOOP
        DELETE FROM plain WHERE b = length(one.word);
    END LOOP;
    PERFORM FROM child WHERE id = r;
    PERFORM FROM leaf WHERE word = small;
    OPEN many (4);
    r := 5;
EXCEPTION WHEN unique_violation THEN
    PERFORM FROM leaf WHERE local = sqlerrm;
END
$$;
SELECT * FROM test.access('SELECT variables($1, $2, $3, $4)');
CREATE FUNCTION dynamic() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELECT 1'; END $$;
SELECT * FROM test.access('SELECT dynamic()');
CREATE FUNCTION itself(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN itself(i - 1); END $$;
SELECT * FROM test.access('SELECT itself(1)');
CREATE FUNCTION elsewhere() RETURNS void LANGUAGE sql SET search_path = test AS 'DELETE FROM public.plain';
SELECT * FROM test.access('SELECT elsewhere()');
CREATE FUNCTION owned(i int) RETURNS void LANGUAGE sql SECURITY DEFINER AS 'DELETE FROM parent WHERE id = i';
SELECT * FROM test.access('SELECT owned($1)');
CREATE FUNCTION late() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 FROM missing; END $$;
SELECT * FROM test.access('SELECT late()');
SELECT * FROM test.access('SELECT pay($1, $2, 1)');

-- Partitions count as their root, inheritance as everything.
CREATE TABLE split (id int, p int REFERENCES parent ON DELETE CASCADE, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF split FOR VALUES FROM (0) TO (10);
CREATE TABLE high PARTITION OF split FOR VALUES FROM (10) TO (20);
CREATE TABLE beside (id int PRIMARY KEY, split int REFERENCES split);
SELECT * FROM test.access('SELECT * FROM split WHERE id = 1');
SELECT * FROM test.access('SELECT * FROM low');
SELECT * FROM test.access('INSERT INTO split VALUES (1, 2)');
SELECT * FROM test.access('DELETE FROM low');
SELECT * FROM test.access('INSERT INTO beside VALUES (1, $1)');
SELECT * FROM test.access('DELETE FROM split WHERE id = 1');
SELECT * FROM test.access($$UPDATE parent SET code = 'x' WHERE id = 1$$);
SELECT * FROM test.access('DELETE FROM parent WHERE id = 1');
CREATE TABLE testator (a int);
CREATE TABLE heir () INHERITS (testator);
SELECT * FROM test.access('SELECT * FROM testator');
DROP TABLE heir, testator, beside, split;

-- Tables whose writes may do anything.
CREATE TABLE timed (id int PRIMARY KEY, during int4range, EXCLUDE USING gist (during WITH &&));
SELECT * FROM test.access('DELETE FROM timed WHERE id = 1');
SELECT * FROM test.access('SELECT FROM timed WHERE id = 1');
CREATE TABLE checked (id int PRIMARY KEY CHECK (changes(id) > 0));
SELECT * FROM test.access('INSERT INTO checked VALUES (1)');
CREATE TABLE computed (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED UNIQUE, n int GENERATED ALWAYS AS IDENTITY);
SELECT * FROM test.access('INSERT INTO computed VALUES (1)');
SELECT * FROM test.access('UPDATE computed SET n = DEFAULT WHERE twice = 4 AND id = 2');
CREATE UNIQUE INDEX ON plain (lower(a::text)) WHERE b > 0;
SELECT * FROM test.access('INSERT INTO plain VALUES (1, 2)');
SELECT * FROM test.access('UPDATE plain SET b = 1 WHERE a = 2');
CREATE RULE also AS ON DELETE TO checked DO ALSO DELETE FROM parent WHERE id = old.id;
SELECT * FROM test.access('DELETE FROM checked WHERE id = 5');

-- Row-level security is of the role.
CREATE TABLE secret (id int PRIMARY KEY, owner text COLLATE "C" NOT NULL);
CREATE INDEX ON secret (owner);
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secret USING (owner = 'alice');
GRANT ALL ON secret TO alice;
GRANT USAGE ON SCHEMA test TO alice;
SELECT * FROM test.access('UPDATE secret SET id = id');
SET ROLE alice;
SELECT * FROM test.access('UPDATE secret SET id = id');
RESET ROLE;

-- A function of alice's runs beside another, as its calls are known.
\set ECHO none
DO $$ BEGIN PERFORM test.run('SELECT pay(10, 11, 1)', 'SELECT pay(20, 21, 1)', 'SELECT pay(11, 12, 1)', 'SELECT late()', 'SELECT pay(30, 31, 1)'); END $$;
\set ECHO queries
SELECT chainify.explain_block(4);

-- Values are the same however they are spelled, whether PostgreSQL reads them or not; what nothing depends on is not read.
\set ECHO none
CREATE TABLE spelled (id int PRIMARY KEY, n numeric(6,1) NOT NULL UNIQUE, t text COLLATE "C" NOT NULL UNIQUE, note text);
CREATE TABLE district (w int, d int, PRIMARY KEY (w, d));
CREATE TABLE line (w int, d int, number int, item int NOT NULL, PRIMARY KEY (w, d, number));
CREATE INDEX ON line (item);
GRANT ALL ON spelled, district, line TO alice;
CREATE FUNCTION lines(w int, d int, first int, items int[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    number int := 0;
BEGIN
    FOR i IN 1..cardinality(items) LOOP
        number := number + 1;
        INSERT INTO line VALUES (w, d, first + number, items[i]);
    END LOOP;
END
$$;
DO $$ BEGIN PERFORM test.deploy('ATTACH TABLE public.spelled, public.line'); END $$;
DO $$ BEGIN PERFORM test.block(VARIADIC ARRAY(SELECT test.tx('UPDATE spelled SET note = $2 WHERE id = $1', params => ARRAY['integer', i, 'text', 'x'])
    FROM unnest(ARRAY['7', ' 7', '+7', '007', '8', '-7', '7x', '99999999999']) i)); END $$;
\set ECHO queries
SELECT chainify.explain_block(number) FROM chainify_node.position();
\set ECHO none
-- the length of a type: 1.26 is 1.3, and so is 1.30
DO $$ BEGIN PERFORM test.block(VARIADIC ARRAY(SELECT test.tx('UPDATE spelled SET note = ''x'' WHERE n = $1', params => ARRAY[i[1], i[2]])
    FROM (VALUES (ARRAY['numeric', '1.3']), (ARRAY['numeric(6,1)', '1.26']), (ARRAY['numeric', '1.30']), (ARRAY['numeric', '13e-1']), (ARRAY['numeric', '1.26'])) v (i))); END $$;
\set ECHO queries
SELECT chainify.explain_block(number) FROM chainify_node.position();
\set ECHO none
DO $$ BEGIN PERFORM test.block(VARIADIC ARRAY(SELECT test.tx('UPDATE spelled SET note = ''x'' WHERE id = ANY ($1)', params => ARRAY['integer[]', i])
    FROM unnest(ARRAY['{1,2}', '{ 2, 3 }', '{4}', '[0:0]={4}', '{5,NULL}', '{5}', '{}']) i)); END $$;
\set ECHO queries
SELECT chainify.explain_block(number) FROM chainify_node.position();
\set ECHO none
-- one text with parameters of several types
DO $$ BEGIN PERFORM test.block(VARIADIC ARRAY(SELECT test.tx('UPDATE spelled SET note = t WHERE t = $1', params => i)
    FROM (VALUES (ARRAY['text', 'a']), (ARRAY['character(3)', 'a  ']), (ARRAY['text', 'a  ']), (ARRAY['text', 'b'])) v (i))); END $$;
\set ECHO queries
SELECT chainify.explain_block(number) FROM chainify_node.position();
\set ECHO none

-- Lines of two districts name the same items: the key of the district is the one that tells them apart.
DO $$ BEGIN PERFORM test.block(VARIADIC ARRAY(SELECT test.tx('SELECT lines($1, $2, $3, $4)', params => ARRAY['integer', '1', 'integer', (1 + i % 2)::text, 'integer', (10 * i)::text, 'integer[]', format('{%s,%s}', i, i + 1)])
    FROM generate_series(1, 6) i)); END $$;
\set ECHO queries
SELECT chainify.explain_block(number) FROM chainify_node.position();
\set ECHO none
SELECT test.states_hold();

-- What no statement of a block changes need not be read in order (S8): columns that are not looked at may change, rows may neither come nor go.
\set ECHO none
CREATE VIEW noted AS SELECT s.id, s.t FROM spelled s WHERE s.note IS NOT NULL;
GRANT SELECT ON noted TO alice;
CREATE FUNCTION test.beside(sql text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM test.run('UPDATE spelled SET note = ''y'' WHERE id = 1', sql);
    RETURN CASE WHEN chainify.explain_block((SELECT number FROM chainify_node.position())) ~ 't1 waits for t0' THEN 'waits' ELSE 'beside' END;
END
$$;
\set ECHO queries
SELECT test.beside(sql), sql FROM unnest(ARRAY['SELECT t, n FROM spelled WHERE id > 0 ORDER BY t', 'SELECT count(*) FROM spelled', 'SELECT count(note) FROM spelled', 'SELECT t FROM spelled WHERE note = ''x''',
    'SELECT spelled FROM spelled', 'SELECT id FROM noted', 'SELECT s.t FROM spelled s JOIN district d ON d.w = s.id', 'SELECT j.note FROM (spelled s JOIN district d ON d.w = s.id) j',
    'SELECT v.x FROM (spelled s LEFT JOIN district d ON d.w = s.id) j, LATERAL (SELECT j.note AS x) v', 'SELECT id FROM spelled WHERE id = 1 FOR KEY SHARE', 'SELECT id FROM spelled WHERE id = 1 FOR SHARE',
    'SELECT id FROM spelled WHERE id = 1 FOR UPDATE', 'INSERT INTO spelled VALUES (9, 9, ''nine'') ON CONFLICT DO NOTHING', 'SELECT t FROM spelled; DELETE FROM spelled WHERE id = 77', 'SELECT 1 WHERE EXISTS (SELECT FROM spelled)',
    'UPDATE spelled SET n = n WHERE id = 1', 'UPDATE spelled SET n = n WHERE id = 7']) sql;
