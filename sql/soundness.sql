\i sql/setup.sql
-- The library's functions read arguments of the types that they know, however a superuser declares them. Each of these would read
-- a number or text as an address otherwise.
SET client_min_messages = warning;
CREATE TABLE account (id int PRIMARY KEY, balance int);
INSERT INTO account VALUES (1, 10);
CREATE FUNCTION test.wait(integer, interval) RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS '$libdir/chainify', 'chainify_wait' LANGUAGE c;
CREATE FUNCTION test.wait(bytea, integer) RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS '$libdir/chainify', 'chainify_wait' LANGUAGE c;
CREATE FUNCTION test.submit_batch(integer[]) RETURNS bytea[] AS '$libdir/chainify', 'chainify_submit_batch' LANGUAGE c;
CREATE FUNCTION test.row_hash(integer) RETURNS bytea AS '$libdir/chainify', 'chainify_row_hash' LANGUAGE c;
CREATE FUNCTION test.row_hash(text) RETURNS bytea AS '$libdir/chainify', 'chainify_row_hash' LANGUAGE c;
CREATE FUNCTION test.row_as(anyelement, bigint) RETURNS anyelement AS '$libdir/chainify', 'chainify_row_as' LANGUAGE c;
CREATE FUNCTION test.row_hash_as_number(record) RETURNS integer AS '$libdir/chainify', 'chainify_row_hash' LANGUAGE c;
CREATE FUNCTION test.digest_outside() RETURNS integer AS '$libdir/chainify', 'chainify_digest' LANGUAGE c;
CREATE FUNCTION test.digest_trigger() RETURNS trigger AS '$libdir/chainify', 'chainify_digest' LANGUAGE c;
RESET client_min_messages;
SELECT * FROM test.wait(1, '1 s');
SELECT * FROM test.wait('\x00', 1);
SELECT test.submit_batch(ARRAY[1]);
SELECT test.row_hash(1);
SELECT test.row_hash('a text of more than four bytes');
SELECT test.row_as(a, 1) FROM account a;
SELECT test.digest_outside();
-- A trigger that fires at another time has other rows, or none.
CREATE TRIGGER early BEFORE INSERT ON account FOR EACH ROW EXECUTE FUNCTION test.digest_trigger();
INSERT INTO account VALUES (2, 20);
DROP TRIGGER early ON account;
CREATE TRIGGER once AFTER INSERT ON account FOR EACH STATEMENT EXECUTE FUNCTION test.digest_trigger();
INSERT INTO account VALUES (2, 20);
DROP TRIGGER once ON account;
-- A result is of the type declared, or none.
SELECT ok FROM test.deploy('ATTACH TABLE public.account');
SELECT length(chainify.row_hash(a)) FROM account a;
SELECT test.row_hash_as_number(a) FROM account a;
