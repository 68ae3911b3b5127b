\i sql/setup.sql
-- The views <table>_as_of: what a table was at the block, or the time, that chainify.as_of says; they follow its definition.
SET client_min_messages = warning;
SET TimeZone = 'UTC';
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE account (id int PRIMARY KEY, balance numeric(8,2), feeling mood, name text COLLATE "C");
CREATE SCHEMA shelf;
CREATE TABLE shelf."Odd one" ("the key" char(4) PRIMARY KEY, "select" varchar(7)[]);
GRANT USAGE ON SCHEMA shelf TO alice;
ALTER TABLE account OWNER TO admin;
GRANT ALL ON account, shelf."Odd one" TO alice;
INSERT INTO account VALUES (1, 10, 'ok', 'a'), (2, 20, NULL, NULL);
SELECT ok FROM test.deploy('ATTACH TABLE public.account, shelf."Odd one"');
SELECT ok FROM test.run('UPDATE account SET balance = 11 WHERE id = 1', 'INSERT INTO shelf."Odd one" VALUES (''k'', ''{x}'')');
SELECT ok FROM test.run('DELETE FROM account WHERE id = 2', 'UPDATE account SET balance = 12 WHERE id = 1');
SET ROLE chainify_reader;
SELECT * FROM chainify_history.account_as_of ORDER BY id;
SET chainify.as_of = 1;
SELECT * FROM chainify_history.account_as_of ORDER BY id;
SET chainify.as_of = '2';
SELECT * FROM chainify_history.account_as_of ORDER BY id;
SELECT "the key" FROM chainify_history."shelf__Odd one_as_of";
-- At a time: blocks have those of 22:13:20, 22:13:21 and 22:13:22. Read in the time zone of the session.
SET chainify.as_of = '2023-11-14 22:13:21.5';
SELECT * FROM chainify_history.account_as_of ORDER BY id;
SET TimeZone = 'America/New_York';
SET chainify.as_of = '2023-11-14 17:13:20';
SELECT * FROM chainify_history.account_as_of ORDER BY id;
SET TimeZone = 'UTC';
-- What there is not.
SET chainify.as_of = '4';
SELECT * FROM chainify_history.account_as_of;
SET chainify.as_of = '2023-11-14 22:13:19';
SELECT * FROM chainify_history.account_as_of;
SET chainify.as_of = 'yesterday''s block';
SELECT * FROM chainify_history.account_as_of;
-- Whom row-level security keeps rows from sees none of it: the views are for readers, who see all rows.
SET chainify.as_of = '';
SET ROLE alice;
SELECT * FROM chainify_history.account_as_of;
SELECT chainify_ledger.rows_as_of('public.account', 1);
RESET ROLE;
-- A definition that changes in place, one that starts another version, another name.
SELECT ok, message FROM test.deploy('ALTER TABLE public.account ADD COLUMN note text');
SELECT * FROM chainify_history.account_as_of;
SET chainify.as_of = 3;
SELECT * FROM chainify_history.account_as_of;
RESET chainify.as_of;
SELECT ok, message FROM test.deploy('ALTER TABLE public.account ALTER COLUMN balance TYPE bigint; ALTER TABLE public.account DROP COLUMN feeling; ALTER TABLE public.account RENAME COLUMN note TO memo; ALTER TABLE public.account RENAME TO konto');
SELECT * FROM chainify_history.konto_as_of;
SELECT * FROM chainify_history.account_as_of;
-- It is in the way of no definition, and goes with its table.
SELECT ok, message FROM test.deploy('ALTER TABLE public.konto DROP COLUMN memo');
SELECT * FROM chainify_history.konto_as_of;
SELECT ok, message FROM test.deploy('DROP TABLE public.konto');
SELECT ok FROM test.deploy('DETACH TABLE shelf."Odd one"');
SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'chainify_history'::regnamespace AND c.relkind = 'v' ORDER BY 1;
-- A history that wants the name, before and after.
CREATE TABLE t (id int PRIMARY KEY);
CREATE TABLE t_as_of (id int PRIMARY KEY);
SELECT ok FROM test.deploy('ATTACH TABLE public.t');
SELECT ok FROM test.deploy('ATTACH TABLE public.t_as_of');
SELECT ok FROM test.deploy('DETACH TABLE public.t');
SELECT ok FROM test.deploy('ATTACH TABLE public.t');
SELECT c.relname, c.relkind FROM pg_class c WHERE c.relnamespace = 'chainify_history'::regnamespace AND c.relname LIKE 't%' AND c.relkind IN ('r', 'v') ORDER BY 1;
SELECT test.all_well();
