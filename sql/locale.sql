-- Databases of C, of C.UTF-8 and of others know other letters: they do not agree on tables.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set database :DBNAME
SET client_min_messages = warning;
CREATE DATABASE letters_c TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8';
CREATE DATABASE letters_mixed TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8' ENCODING 'UTF8';
CREATE DATABASE letters_icu TEMPLATE template0 LOCALE 'C.UTF-8' LOCALE_PROVIDER icu ICU_LOCALE 'en' ENCODING 'UTF8';
SELECT coalesce(chainify_ledger.letters(), 'no line');
SELECT name FROM chainify.environment() WHERE name NOT LIKE 'collation version%' ORDER BY name;
SELECT letters FROM chainify_ledger.chain;
CREATE TABLE t (id int PRIMARY KEY, s text);
SELECT ok FROM test.deploy('ATTACH TABLE public.t');
SELECT chainify_ledger.schema_text('t');
\c letters_mixed
CREATE EXTENSION chainify;
SELECT coalesce(chainify_ledger.letters(), 'no line');
\c letters_icu
CREATE EXTENSION chainify;
SELECT chainify_ledger.letters();
\c letters_c
\i :setup
SET client_min_messages = warning;
SELECT chainify_ledger.letters();
CREATE TABLE t (id int PRIMARY KEY, s text);
GRANT CREATE ON SCHEMA public TO admin;
SELECT ok FROM test.deploy('ATTACH TABLE public.t');
SELECT ok FROM test.deploy('CREATE TABLE made (id int PRIMARY KEY)');
SELECT ok FROM test.deploy('ALTER TABLE made DROP COLUMN id, ADD COLUMN key int PRIMARY KEY');
SELECT name, beside FROM chainify_ledger.ledger_table ORDER BY id;
SELECT test.all_well();
-- A ledger goes on in a database of its own locale alone.
SELECT chainify_node.init('testchain', 'acme', '[]');
UPDATE chainify_ledger.chain SET letters = '';
\set VERBOSITY default
SELECT chainify_node.init('testchain', 'acme', '[]');
\set VERBOSITY default
\c :database
DROP DATABASE letters_c WITH (FORCE);
DROP DATABASE letters_mixed WITH (FORCE);
DROP DATABASE letters_icu WITH (FORCE);
