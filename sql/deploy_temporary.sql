\i sql/setup.sql
-- Nothing temporary comes on the ledger: it is of one session, and each organisation calls its schema by another name.
SET client_min_messages = error;
GRANT CREATE ON DATABASE regress TO admin;
GRANT CREATE ON SCHEMA public TO admin;
CREATE FUNCTION test.refused(command text) RETURNS TABLE (ok boolean, sqlstate text, message text) LANGUAGE sql AS $$
    SELECT d.ok, d.sqlstate, regexp_replace(d.message, 'pg_temp_\d+', 'pg_temp_n', 'g') FROM test.deploy(command) d $$;
SELECT ok, message FROM test.deploy($$
    CREATE TABLE t (id int PRIMARY KEY, n int);
    CREATE SEQUENCE s;
    CREATE TYPE e AS ENUM ('a');
    CREATE DOMAIN d AS int;
    CREATE VIEW v AS SELECT id FROM t;
    CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'$$);

-- Made there, by each kind of statement.
SELECT * FROM test.refused($$CREATE FUNCTION pg_temp.mysin(float8) RETURNS float8 LANGUAGE sql AS 'SELECT sin($1)'$$);
SELECT * FROM test.refused($$CREATE PROCEDURE pg_temp.p() LANGUAGE plpgsql AS 'BEGIN END'$$);
SELECT * FROM test.refused($$CREATE TYPE pg_temp.colour AS ENUM ('red')$$);
SELECT * FROM test.refused('CREATE TYPE pg_temp.pair AS (a int, b int)');
SELECT * FROM test.refused('CREATE DOMAIN pg_temp.price AS numeric');
SELECT * FROM test.refused('CREATE VIEW pg_temp.w AS SELECT id FROM t');
SELECT * FROM test.refused('CREATE SEQUENCE pg_temp.q');
SELECT * FROM test.refused('CREATE TABLE pg_temp.u (id int PRIMARY KEY)');
SELECT * FROM test.refused('CREATE TEMP TABLE u (id int PRIMARY KEY)');
SELECT * FROM test.refused('CREATE TEMPORARY VIEW w AS SELECT id FROM t');
SELECT * FROM test.refused('CREATE TEMP SEQUENCE q');
SELECT * FROM test.refused('CREATE SCHEMA pg_temp');
SELECT * FROM test.refused('CREATE SCHEMA pg_temp_99');
-- Made and used in one transaction.
SELECT * FROM test.refused('CREATE DOMAIN pg_temp.price AS numeric; CREATE TABLE u (id int PRIMARY KEY, p pg_temp.price)');
-- Moved there.
SELECT * FROM test.refused('ALTER TABLE t SET SCHEMA pg_temp');
SELECT * FROM test.refused('ALTER VIEW v SET SCHEMA pg_temp');
SELECT * FROM test.refused('ALTER SEQUENCE s SET SCHEMA pg_temp');
SELECT * FROM test.refused('ALTER TYPE e SET SCHEMA pg_temp');
SELECT * FROM test.refused('ALTER DOMAIN d SET SCHEMA pg_temp');
SELECT * FROM test.refused('ALTER FUNCTION f() SET SCHEMA pg_temp');

-- What a session of this organisation has there already, and the role may use.
SET ROLE admin;
CREATE TEMP TABLE own (id int PRIMARY KEY);
CREATE TEMP SEQUENCE own_seq;
CREATE DOMAIN pg_temp.own_domain AS int;
CREATE TYPE pg_temp.own_enum AS ENUM ('x');
CREATE FUNCTION pg_temp.own_function(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
RESET ROLE;
SELECT pg_my_temp_schema()::regnamespace AS temp \gset
SELECT * FROM test.refused('CREATE FUNCTION g(a pg_temp.own_domain) RETURNS int LANGUAGE sql AS ''SELECT 1''');
SELECT * FROM test.refused('CREATE FUNCTION g() RETURNS pg_temp.own_enum LANGUAGE plpgsql AS ''BEGIN RETURN NULL; END''');
SELECT * FROM test.refused('CREATE FUNCTION g() RETURNS SETOF pg_temp.own LANGUAGE plpgsql AS ''BEGIN END''');
SELECT * FROM test.refused('CREATE FUNCTION g(a int DEFAULT pg_temp.own_function(1)) RETURNS int LANGUAGE sql AS ''SELECT 1''');
SELECT * FROM test.refused('CREATE FUNCTION g() RETURNS int LANGUAGE sql RETURN pg_temp.own_function(1)');
SELECT * FROM test.refused('CREATE TABLE u (id int PRIMARY KEY, a pg_temp.own_domain)');
SELECT * FROM test.refused('CREATE TABLE u (id int PRIMARY KEY, a pg_temp.own_enum[])');
SELECT * FROM test.refused('CREATE TABLE u (id int PRIMARY KEY, a int DEFAULT nextval(''pg_temp.own_seq''))');
SELECT * FROM test.refused('CREATE TABLE u (id int PRIMARY KEY, a int CHECK (pg_temp.own_function(a) > 0))');
SELECT * FROM test.refused('CREATE TABLE u (id int PRIMARY KEY, a int GENERATED ALWAYS AS (pg_temp.own_function(id)) STORED)');
SELECT * FROM test.refused('CREATE INDEX ON t (pg_temp.own_function(n))');
SELECT * FROM test.refused('CREATE POLICY p ON t USING (pg_temp.own_function(n) > 0)');
SELECT * FROM test.refused('CREATE VIEW w AS SELECT id FROM own');
SELECT * FROM test.refused('CREATE VIEW w AS SELECT pg_temp.own_function(id) FROM t');
SELECT * FROM test.refused('CREATE DOMAIN dd AS pg_temp.own_domain');
SELECT * FROM test.refused('CREATE DOMAIN dd AS int CHECK (pg_temp.own_function(VALUE) > 0)');
SELECT * FROM test.refused('CREATE TYPE pair AS (a pg_temp.own_domain)');
SELECT * FROM test.refused('ALTER TABLE t ADD c pg_temp.own_domain');
SELECT * FROM test.refused('ALTER TABLE t ALTER n SET DEFAULT pg_temp.own_function(1)');
SELECT * FROM test.refused('ALTER TABLE t ALTER n TYPE pg_temp.own_domain');
SELECT * FROM test.refused('ALTER TABLE t ADD CHECK (pg_temp.own_function(n) > 0)');
SELECT * FROM test.refused('ALTER DOMAIN d SET DEFAULT pg_temp.own_function(1)');
SELECT * FROM test.refused(format('CREATE FUNCTION %s.g() RETURNS int LANGUAGE sql AS ''SELECT 1''', :'temp'));
-- Named by statements that make nothing.
SELECT * FROM test.refused('ALTER TABLE own ADD n int');
SELECT * FROM test.refused('DROP TABLE own');
SELECT * FROM test.refused('DROP FUNCTION pg_temp.own_function(int)');
SELECT * FROM test.refused('CREATE INDEX ON own (id)');
SELECT * FROM test.refused('COMMENT ON FUNCTION pg_temp.own_function(int) IS ''x''');
SELECT * FROM test.refused('COMMENT ON TABLE own IS ''x''');
SELECT * FROM test.refused('GRANT SELECT ON own TO alice');
SELECT * FROM test.refused('GRANT EXECUTE ON FUNCTION pg_temp.own_function(int) TO alice');
SELECT * FROM test.refused(format('GRANT USAGE ON SCHEMA %s TO alice', :'temp'));
SELECT * FROM test.refused('ALTER SEQUENCE own_seq OWNER TO admin');
-- A table of such a type that the organisation made by itself.
CREATE TABLE local (id int PRIMARY KEY, a pg_temp.own_domain);
SELECT * FROM test.refused('ATTACH TABLE public.local');
SELECT * FROM test.refused('ATTACH TABLE pg_temp.own');

-- The name alone is nothing: no object of such a schema is there to be found.
SELECT * FROM test.refused('CREATE FUNCTION g() RETURNS int LANGUAGE sql SET search_path = pg_temp AS ''SELECT 1''');
SELECT kind, identity FROM chainify.definitions ORDER BY 1, 2;
SELECT test.all_well();
