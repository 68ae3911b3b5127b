-- What each transaction of a block did, for organisations that differ about a block: told when asked for, and only then.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE t (id bigint PRIMARY KEY, v int);
CREATE TABLE u (id bigint PRIMARY KEY, v int);
GRANT ALL ON t, u TO alice;
CREATE FUNCTION fee(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v + 1';
SELECT ok FROM test.deploy('ATTACH TABLE public.t');
SELECT ok FROM test.deploy('ATTACH TABLE public.u');

-- The fields of the vote: hash, and effects of transactions, of the block as this organisation executes it.
CREATE FUNCTION test.effects(quarantined int[] DEFAULT '{}', asked boolean DEFAULT true) RETURNS SETOF bytea LANGUAGE plpgsql AS $$
DECLARE
    r record;
    p record;
BEGIN
    SELECT * INTO p FROM chainify_node.position();
    SELECT * INTO r FROM chainify_node.execute_block(p.number + 1, 20, 1700000000000000, p.hash, test.buffer(ARRAY[
        test.tx('INSERT INTO t VALUES (1, 1), (2, 2)', nonce => 1),
        test.tx('INSERT INTO u VALUES (1, fee(2))', nonce => 2),
        test.tx('INSERT INTO t VALUES (1, 5)', nonce => 3),
        test.tx('UPDATE t SET v = v + 1 WHERE id = 2', nonce => 4),
        test.tx('SELECT 1', nonce => 5)]), quarantined, effect_hashes => asked);
    RETURN NEXT r.hash;
    RETURN QUERY SELECT unnest(r.transaction_effects);
END $$;

BEGIN; SELECT count(*) AS only_the_hash FROM test.effects(asked => false); ROLLBACK;
BEGIN; SELECT array_agg(e) AS mine FROM test.effects() e \gset
ROLLBACK;
BEGIN; SELECT :'mine'::bytea[] = array_agg(e) AS again FROM test.effects() e; ROLLBACK;
SELECT cardinality(:'mine'::bytea[]) AS hash_and_transactions, length((:'mine'::bytea[])[2]) AS bytes;

-- Failed and without changes: index and outcome alone.
SELECT (:'mine'::bytea[])[4] = sha256('chainify/tx-effects/1'::bytea || int4send(2) || '\x00'::bytea || sha256('')) AS failed,
       (:'mine'::bytea[])[6] = sha256('chainify/tx-effects/1'::bytea || int4send(4) || '\x01'::bytea || sha256('')) AS no_changes;

-- Another definition of a function: the block's hash and that of the one transaction that calls it differ.
CREATE OR REPLACE FUNCTION fee(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v + 2';
BEGIN; SELECT array_agg(e) AS other FROM test.effects() e \gset
ROLLBACK;
SELECT i - 1 AS place, (:'mine'::bytea[])[i] = (:'other'::bytea[])[i] AS same FROM generate_series(1, 6) i;

-- Without it all agree again.
BEGIN; SELECT array_agg(e) AS other FROM test.effects('{1}') e \gset
ROLLBACK;
CREATE OR REPLACE FUNCTION fee(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v + 1';
BEGIN; SELECT :'other'::bytea[] = array_agg(e) AS same FROM test.effects('{1}') e; ROLLBACK;
