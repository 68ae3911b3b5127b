-- Two databases with one ledger: what one of them has alone, its object numbers, the order of its rows and of its constraints, shows in no effect.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\set two :abs_srcdir /sql/two_databases.psql
\set helpers 'SET client_min_messages = warning; GRANT CREATE ON SCHEMA public TO admin; CREATE FUNCTION test.answer(sql text) RETURNS text LANGUAGE plpgsql AS $f$ DECLARE p record; answer text; BEGIN SELECT * INTO p FROM chainify_node.position(); BEGIN SELECT concat_ws('' '', encode(r.hash, ''hex''), r.outcomes) INTO answer FROM test.execute_block(p.number + 1, p.number + 10, 1700086400000000, p.hash, test.buffer(ARRAY[test.tx(sql)])) r; RAISE EXCEPTION USING ERRCODE = ''TEST0''; EXCEPTION WHEN SQLSTATE ''TEST0'' THEN RETURN answer; END; END $f$; CREATE FUNCTION test.attach(tables text) RETURNS void LANGUAGE plpgsql AS $f$ BEGIN EXECUTE ''GRANT ALL ON '' || tables || '' TO alice''; PERFORM test.deploy(''ATTACH TABLE '' || tables); END $f$;'
\set here ''
\set there ''
\set first :DBNAME
\set second chainify_regress_other
\i :setup
:helpers
DROP DATABASE IF EXISTS chainify_regress_other WITH (FORCE);
CREATE DATABASE chainify_regress_other TEMPLATE template0;
\c :second
\i :setup
:helpers
-- numbers of objects differ from here on
SET client_min_messages = warning;
CREATE TYPE test.one AS ENUM ('a');
CREATE TYPE test.two AS ENUM ('b');

-- sums of intervals that overflow on the way
\set make 'CREATE TABLE iv (id int PRIMARY KEY, d interval); CREATE TABLE r (id int PRIMARY KEY, s text); INSERT INTO iv VALUES (3, ''-5 days''), (1, ''2147483647 days''), (2, ''1 day''); SELECT test.attach(''public.iv, public.r'');'
\set there 'CLUSTER iv USING iv_pkey;'
\set block 'INSERT INTO r SELECT 1, sum(d)::text FROM iv'
\i :two
\set make ''
\set block 'INSERT INTO r SELECT 1, avg(d)::text FROM iv'
\i :two
-- the first of several rows that fail
\set make 'CREATE TABLE words (id int PRIMARY KEY, d text); INSERT INTO words VALUES (3, ''z''), (1, ''999999999999''), (2, ''1''); SELECT test.attach(''public.words''); SELECT test.deploy(''CREATE FUNCTION first_error() RETURNS void LANGUAGE plpgsql AS $f$ DECLARE x int; BEGIN SELECT sum(d::int) INTO x FROM words; EXCEPTION WHEN OTHERS THEN INSERT INTO r VALUES (1, SQLSTATE || SQLERRM); END $f$'');'
\set there 'CLUSTER words USING words_pkey;'
\set block 'SELECT first_error()'
\i :two
-- statistics decide which rows come to a division
\set make 'CREATE TABLE many (k int PRIMARY KEY, b int); CREATE TABLE few (k int PRIMARY KEY, f int); INSERT INTO many SELECT i, (i <> 1)::int FROM generate_series(1, 1000) i; INSERT INTO few VALUES (2, 0); SELECT test.attach(''public.many, public.few'');'
\set here 'ANALYZE many; ANALYZE few;'
\set block 'UPDATE few SET f = 1 FROM many WHERE many.k = few.k AND 10 / many.b > 0'
\i :two
-- the first of two unique keys that are violated, of two foreign keys that act, made in another order
\set make 'CREATE TABLE keys (id int PRIMARY KEY, a int, b int); INSERT INTO keys VALUES (1, 1, 1);'
\set here 'ALTER TABLE keys ADD CONSTRAINT ua UNIQUE (a), ADD CONSTRAINT ub UNIQUE (b); SELECT test.attach(''public.keys'');'
\set there 'ALTER TABLE keys ADD CONSTRAINT ub UNIQUE (b); ALTER TABLE keys ADD CONSTRAINT ua UNIQUE (a); SELECT test.attach(''public.keys'');'
\set block 'SELECT 1'
\i :two
\set make 'SELECT test.deploy(''CREATE FUNCTION which_key() RETURNS void LANGUAGE plpgsql AS $f$ DECLARE n text; BEGIN INSERT INTO keys VALUES (2, 1, 1); EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS n = CONSTRAINT_NAME; INSERT INTO r VALUES (1, n); END $f$'');'
\set block 'SELECT which_key()'
\i :two
\set make 'CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child1 (id int PRIMARY KEY, p int); CREATE TABLE child2 (id int PRIMARY KEY, p int); INSERT INTO parent VALUES (1); INSERT INTO child1 VALUES (1, 1); INSERT INTO child2 VALUES (1, 1);'
\set here 'ALTER TABLE child1 ADD CONSTRAINT f1 FOREIGN KEY (p) REFERENCES parent; ALTER TABLE child2 ADD CONSTRAINT f2 FOREIGN KEY (p) REFERENCES parent; SELECT test.attach(''public.parent, public.child1, public.child2'');'
\set there 'ALTER TABLE child2 ADD CONSTRAINT f2 FOREIGN KEY (p) REFERENCES parent; ALTER TABLE child1 ADD CONSTRAINT f1 FOREIGN KEY (p) REFERENCES parent; SELECT test.attach(''public.parent, public.child1, public.child2'');'
\set block 'SELECT 1'
\i :two
\set make 'SELECT test.deploy(''CREATE FUNCTION which_child() RETURNS void LANGUAGE plpgsql AS $f$ DECLARE n text; BEGIN DELETE FROM parent; EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS n = CONSTRAINT_NAME; INSERT INTO r VALUES (1, n); END $f$'');'
\set block 'SELECT which_child()'
\i :two
-- object numbers as text and as bytes
\set make 'CREATE TYPE colour AS ENUM (''red'', ''blue''); CREATE TABLE paint (id int PRIMARY KEY, s text, c colour); INSERT INTO paint VALUES (1, ''a'', ''red''), (2, ''b'', ''blue''); SELECT test.attach(''public.paint'');'
\set block 'UPDATE paint SET s = hashenum(c)::text'
\i :two
\set make ''
\set block 'UPDATE paint SET s = hash_array(ARRAY[c])::text'
\i :two
\set block 'UPDATE paint SET s = hash_record(ROW(c))::text'
\i :two
\set block 'UPDATE paint SET s = array_send(ARRAY[c])::text'
\i :two
\set block 'UPDATE paint SET s = record_send(ROW(1, c))::text'
\i :two
SELECT format('UPDATE paint SET s = concat(%s::oid::regclass)', 'paint'::regclass::oid) AS block \gset
\i :two
SELECT format('UPDATE paint SET s = to_json(%s::oid::regclass)', 'paint'::regclass::oid) AS block \gset
\i :two
SELECT format('UPDATE paint SET s = array_to_string(ARRAY[%s::oid::regclass], '','')', 'paint'::regclass::oid) AS block \gset
\i :two
-- indexes of one's own, behind the guard, that refuse rows which the other database takes
\set make 'CREATE TABLE noted (id int PRIMARY KEY, note text, v int); INSERT INTO noted VALUES (1, ''a'', 1); SELECT test.attach(''public.noted'');'
\set there 'SET chainify.guard = off; CREATE INDEX ON noted (note); CREATE INDEX ON noted ((1 / v)); RESET chainify.guard;'
\set block 'INSERT INTO noted SELECT 2, string_agg(md5(g::text), $$$$ ORDER BY g), 1 FROM generate_series(1, 200) g'
\i :two
\set make ''
\set block 'UPDATE noted SET v = 0'
\i :two
-- a key that one compression makes short enough for its index, and the other does not
\set here 'CREATE TABLE pressed (id text PRIMARY KEY, v int); SELECT test.attach(''public.pressed'');'
\set there 'CREATE TABLE pressed (id text COMPRESSION lz4 PRIMARY KEY, v int); SELECT test.attach(''public.pressed'');'
SELECT format('INSERT INTO pressed VALUES (%L || repeat($$x$$, 5000), 1)', left(string_agg(translate(encode(sha256(i::text::bytea), 'base64'), E'\n', ''), '' ORDER BY i), 2600)) AS block FROM generate_series(1, 100) i \gset
\i :two
-- equal values in other forms, in rows that were there before
\set make 'CREATE TABLE amounts (id int PRIMARY KEY, n numeric, f float8, j json, t text);'
\set here 'INSERT INTO amounts VALUES (1, 1.0, 0, ''{"a":1}''); SELECT test.attach(''public.amounts'');'
\set there 'INSERT INTO amounts VALUES (1, 1.00, ''-0'', ''{"a" : 1}''); SELECT test.attach(''public.amounts'');'
\set block 'UPDATE amounts SET t = concat(n, f, j)'
\i :two
-- names of tables and sequences of one's own, which a handler may look for
\set make 'SELECT test.deploy(''CREATE FUNCTION state_of(q text) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN EXECUTE q; RETURN ''''none''''; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $f$'');'
\set here 'CREATE SCHEMA two_own; CREATE TABLE two_own.x (k int); CREATE SEQUENCE two_own.numbers; GRANT USAGE ON SCHEMA two_own TO PUBLIC; GRANT ALL ON two_own.x TO PUBLIC; GRANT ALL ON SEQUENCE two_own.numbers TO PUBLIC; CREATE SCHEMA two_closed; CREATE TABLE two_closed.x (k int);'
\set block 'INSERT INTO r SELECT 1, state_of(''SELECT * FROM two_own.x'')'
\i :two
\set make ''
\set block 'INSERT INTO r SELECT 1, state_of(''SELECT count(*) FROM two_own.x'')'
\i :two
\set block 'INSERT INTO r SELECT 1, state_of(''SELECT nothing FROM two_own.x'')'
\i :two
\set block 'INSERT INTO r SELECT 1, state_of(''SELECT clock_timestamp() FROM two_own.x'')'
\i :two
\set block 'INSERT INTO r SELECT 1, state_of(''INSERT INTO two_own.x VALUES (1)'')'
\i :two
\set block 'INSERT INTO r SELECT 1, state_of(''TRUNCATE two_own.x'')'
\i :two
\set block 'INSERT INTO r SELECT 1, state_of(''SELECT count(*) FROM two_closed.x'')'
\i :two
\set block 'INSERT INTO r SELECT 1, state_of(''SELECT nextval($$two_own.numbers$$)'')'
\i :two
\set block 'INSERT INTO r SELECT 1, state_of(''SELECT pg_temp_3.x()'')'
\i :two
\set block 'SELECT * FROM two_own.x'
\i :two
SELECT test.all_well();
\c :second
SELECT test.all_well();
\c :first
DROP DATABASE chainify_regress_other WITH (FORCE);
