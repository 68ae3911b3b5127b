-- Declared access (spec/scheduling.md, parallel/declared_access.rs): where a function's accesses lie when its text does not tell, checked while it runs beside others.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\set same :abs_srcdir /sql/same.psql
\i :setup
CREATE TABLE account (id int PRIMARY KEY, owner text COLLATE "C" NOT NULL, balance int NOT NULL);
CREATE INDEX ON account (owner);
CREATE TABLE movement (account int REFERENCES account, number int, amount int NOT NULL, PRIMARY KEY (account, number));
CREATE TABLE stock (place int, item int, quantity int NOT NULL, PRIMARY KEY (place, item));
CREATE TABLE other (id int PRIMARY KEY);
CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY HASH (id);
GRANT ALL ON account, movement, stock TO alice;
\set ECHO none
DO $$ BEGIN PERFORM test.deploy('ATTACH TABLE public.account, public.movement, public.stock'); END $$;
DO $$ BEGIN PERFORM test.run('INSERT INTO account SELECT g, ''owner '' || g / 2, 100 FROM generate_series(1, 200) g', 'INSERT INTO stock SELECT p, i, 50 FROM generate_series(1, 4) p, generate_series(1, 50) i'); END $$;
-- Changes the first account of an owner by `amount`; the account is found by a query.
CREATE FUNCTION pay(whose text, amount int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    payer int;
    last int;
BEGIN
    SELECT min(id) INTO payer FROM account WHERE owner = whose;
    SELECT count(*) INTO last FROM movement WHERE account = payer;
    UPDATE account SET balance = balance - amount WHERE id = payer;
    INSERT INTO movement VALUES (payer, last + 1, amount);
END
$$;
CREATE FUNCTION payer(whose text, amount int) RETURNS TABLE (id int) LANGUAGE sql STABLE AS 'SELECT min(id) FROM account WHERE owner = whose';
CREATE FUNCTION payers_movements(whose text, amount int) RETURNS TABLE (account int) LANGUAGE sql STABLE AS 'SELECT min(id) FROM account WHERE owner = whose';
-- One item of each place.
CREATE FUNCTION take(places int[], items int[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..cardinality(places) LOOP
        UPDATE stock SET quantity = quantity - 1 WHERE place = places[i] AND item = items[i];
    END LOOP;
END
$$;
CREATE FUNCTION taken(places int[], items int[]) RETURNS SETOF stock LANGUAGE sql STABLE AS 'SELECT p, i, 0 FROM unnest(places, items) u (p, i)';
-- A row's balance follows from another's.
CREATE FUNCTION copy(source int, target int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found int;
BEGIN
    SELECT balance INTO found FROM account WHERE id = source;
    UPDATE account SET balance = found + 1 WHERE id = target;
END
$$;
-- The same, but that it takes no error for an answer.
CREATE FUNCTION copy_anyway(source int, target int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM copy(source, target);
    RETURN 'copied';
EXCEPTION WHEN OTHERS THEN
    RETURN 'given up';
END
$$;
CREATE PROCEDURE deposit(amount int, target int) LANGUAGE plpgsql AS $$
BEGIN
    target := target + 0;
    UPDATE account SET balance = balance + amount WHERE id = target;
END
$$;
CREATE FUNCTION spoil(whose text) RETURNS int LANGUAGE sql AS 'UPDATE account SET balance = 0 WHERE owner = whose RETURNING id';
CREATE FUNCTION spoiler(whose text, amount int) RETURNS TABLE (id int) LANGUAGE plpgsql STABLE AS $$ BEGIN id := spoil(whose); RETURN NEXT; END $$;
CREATE FUNCTION all_stock(places int[], items int[]) RETURNS SETOF stock LANGUAGE sql STABLE AS 'SELECT * FROM stock';
CREATE FUNCTION next_one(whose text, amount int) RETURNS TABLE (id int) LANGUAGE sql STABLE AS 'SELECT 1 + min(id) FROM account WHERE owner = whose';
CREATE FUNCTION nothing(whose text, amount int) RETURNS SETOF account LANGUAGE sql STABLE AS 'SELECT * FROM account WHERE false';
CREATE FUNCTION test.pays(owners int) RETURNS bytea LANGUAGE sql AS $$
    SELECT test.buffer(ARRAY(SELECT test.tx(format('SELECT pay(''owner %s'', %s)', 1 + g % owners, g)) FROM generate_series(0, 31) g))
$$;
CREATE FUNCTION test.copies(f text) RETURNS bytea LANGUAGE sql AS $$
    SELECT test.buffer(ARRAY(SELECT test.tx(format('SELECT %s(%s, %s)', f, g, g + 1)) FROM generate_series(101, 116) g))
$$;
CREATE FUNCTION test.components() RETURNS text LANGUAGE sql AS $$
    SELECT substring(chainify.explain_block(number) FROM 'components: \d+') FROM chainify_node.position()
$$;
CREATE FUNCTION test.access(sql text) RETURNS TABLE (access text, target text, place text) LANGUAGE sql AS $$
    SELECT access, CASE target WHEN 'rows' THEN relation ELSE relation || ' ' || target END, place FROM chainify.access(sql)
$$;
\set quarantined {}
\set parts -1
\pset format unaligned
\pset fieldsep ' | '
\set SHOW_CONTEXT never
\set ECHO all

-- Who may declare what.
SET ROLE alice;
SELECT chainify.declare_access('pay', 'account', rows => 'payer');
SELECT chainify.undeclare_access('pay', 'account');
SET ROLE admin;
SELECT chainify.declare_access('pay', 'account');
SELECT chainify.declare_access('pay', 'account', key => 'whose', rows => 'payer');
SELECT chainify.declare_access('pay', 'account', key => 'nobody');
SELECT chainify.declare_access('pay', 'account', key => 'amount, whose');
SELECT chainify.declare_access('pay', 'account', rows => 'taken');
SELECT chainify.declare_access('pay', 'account', rows => 'pay');
SELECT chainify.declare_access('take', 'account', rows => 'taken');
SELECT chainify.declare_access('pay', 'other', key => 'amount');
SELECT chainify.declare_access('pay', 'parted', key => 'amount');
RESET ROLE;
SELECT * FROM chainify.declared_access;

-- Undeclared, the text of pay() says nothing about which account it is.
SELECT test.pays(8) AS buffer \gset
\i :same
SELECT test.components();

-- Declared, they come apart.
SET ROLE admin;
SELECT chainify.declare_access('pay(text, integer)'::regprocedure, 'account', rows => 'payer');
SELECT chainify.declare_access('pay', 'movement', rows => 'payers_movements');
SELECT chainify.declare_access('deposit', 'account', key => 'target');
SELECT chainify.declare_access('take', 'stock', rows => 'taken');
RESET ROLE;
SELECT * FROM chainify.declared_access ORDER BY 1, 2;
SELECT * FROM test.access('SELECT pay($1, 5)');
SELECT access FROM chainify.analyze('CALL deposit($1, $2)');
SELECT test.pays(8) AS buffer \gset
\i :same
SELECT test.components();
SELECT test.buffer(ARRAY(SELECT test.tx(format('CALL deposit(%s, %s)', g, 1 + g % 5)) FROM generate_series(0, 31) g)) AS buffer \gset
\i :same
SELECT test.components();
-- pairs of places and items, as parameters
SELECT test.buffer(ARRAY(SELECT test.tx('SELECT take($1, $2)', params => ARRAY['integer[]', '{1,2}', 'integer[]', format('{%s,%s}', 1 + g % 8, 2 + g % 8)])
    FROM generate_series(0, 31) g)) AS buffer \gset
\i :same
SELECT test.components();
-- What a look-up calls may become something else.
CREATE OR REPLACE FUNCTION taken(places int[], items int[]) RETURNS SETOF stock LANGUAGE sql STABLE AS 'SELECT p, 1, 0 FROM unnest(places, items) u (p, i)';
SELECT test.components();
CREATE OR REPLACE FUNCTION taken(places int[], items int[]) RETURNS SETOF stock LANGUAGE sql STABLE AS 'SELECT p, i, 0 FROM unnest(places, items) u (p, i)';
SELECT test.components();
-- too many rows to be looked at are none
SELECT chainify.declare_access('take', 'stock', rows => 'all_stock');
\i :same
SELECT chainify.undeclare_access('take', 'stock'), chainify.undeclare_access('take', 'stock');

-- Wrong about what is written: each changes the row behind the one declared, which is another's. The block runs again alone.
SELECT chainify.declare_access('pay', 'account', rows => 'next_one');
SELECT test.pays(8) AS buffer \gset
\i :same
SELECT chainify.declare_access('pay', 'account', rows => 'nothing');
\i :same
-- about what is inserted
SELECT chainify.declare_access('pay', 'account', rows => 'payer'), chainify.declare_access('pay', 'movement', key => 'amount');
\i :same
SELECT chainify.declare_access('pay', 'movement', rows => 'payers_movements');
-- about what is read: nothing that is written meets, yet each result follows from the one before
SELECT chainify.declare_access('copy', 'account', key => 'target'), chainify.declare_access('copy_anyway', 'account', key => 'target');
SELECT test.copies('copy') AS buffer \gset
\i :same
SELECT string_agg(balance::text, ' ' ORDER BY id) FROM account WHERE id BETWEEN 101 AND 117;
-- whether a function catches the error or not (X4)

SELECT test.copies('copy_anyway') AS buffer \gset
\i :same

-- The row looked up is another one by the time of the call.
SELECT test.buffer(test.tx('INSERT INTO account VALUES (-1, ''owner 1'', 7)') || ARRAY(SELECT test.tx(format('SELECT pay(''owner %s'', %s)', 1 + g % 8, g)) FROM generate_series(0, 30) g)) AS buffer \gset
\i :same
SELECT count(*) FROM movement WHERE account = -1;

-- A look-up changes nothing, and one that fails says nothing.
SELECT chainify.declare_access('pay', 'account', rows => 'spoiler');
SELECT test.pays(8) AS buffer \gset
\i :same
SELECT count(*) FROM account WHERE balance = 0;
SELECT chainify.declare_access('pay', 'account', rows => 'payer');
\i :same
-- of its own transaction alone: payments before it and behind it stay apart, and what takes from stock is one component
CREATE FUNCTION unknown(places int[], items int[]) RETURNS SETOF stock LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN QUERY SELECT 1, items[1] / 0, 0; END $$;
SELECT chainify.declare_access('take', 'stock', rows => 'unknown');
SELECT test.buffer(ARRAY(SELECT test.tx(CASE g % 4 WHEN 3 THEN 'SELECT take(''{1}'', ''{1}'')' ELSE format('SELECT pay(''owner %s'', %s)', 1 + g % 8, g) END)
    FROM generate_series(0, 31) g)) AS buffer \gset
\i :same
SELECT test.components();
SELECT chainify.undeclare_access('take', 'stock');
SELECT test.pays(8) AS buffer \gset
-- nor does one that does not end hold up the block for longer than a second
CREATE FUNCTION endless(whose text, amount int) RETURNS TABLE (id int) LANGUAGE plpgsql STABLE AS $$ BEGIN LOOP id := 0; END LOOP; END $$;
SELECT chainify.declare_access('pay', 'account', rows => 'endless');
\i :same
SELECT chainify.declare_access('pay', 'account', rows => 'payer');
DROP FUNCTION payer(text, int);
\i :same
SELECT function, ledger_table FROM chainify.declared_access ORDER BY 1, 2;
DROP FUNCTION copy(int, int);
SELECT function, ledger_table FROM chainify.declared_access ORDER BY 1, 2;
SELECT test.all_well();
