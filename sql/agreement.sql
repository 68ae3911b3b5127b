-- Agreement policies: who has to agree, who does, and what a change without it comes to.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
GRANT CREATE ON SCHEMA public TO admin;
-- Keys and signatures as crates/ledger/examples/agreement.rs makes them.
\set gateways '[{"from_block":0,"organisation":"acme","public_key":"75bb1db8209aeda3cefce642203a99c7737c5062cf4abee7c301d87f802c1e7a"},{"from_block":0,"organisation":"bolt","public_key":"484435958e68ebc2682af14cc835d84c72572ecdcab33863162c621bf80f92b7"},{"from_block":0,"organisation":"cargo","public_key":"7232312e6383fafb808cb29699ebbdbc988dd7f6ea554bae0e214a4600f2eeca"},{"from_block":0,"organisation":"delta","public_key":"be15b24db8ea3311749cb26ab31012729d4a09bbee4b33c42f72402141d3e0dd"}]'
-- Organisations, each until a block or on and on.
CREATE FUNCTION test.tell(gateways jsonb, until jsonb DEFAULT '{}') RETURNS void LANGUAGE sql AS $$
    SELECT chainify_node.set_registry(jsonb_build_object('organisations', jsonb_agg(jsonb_build_object('name', g ->> 'organisation',
        'gateway_key', g -> 'public_key', 'ordering_only', false, 'from_block', g -> 'from_block', 'until_block', until -> (g ->> 'organisation')))))
    FROM jsonb_array_elements(gateways) g $$;
SELECT test.tell(:'gateways');
CREATE TABLE test.signed (nonce bigint, organisation text, signature bytea);
INSERT INTO test.signed VALUES
    (101, 'bolt', '\x80064a75bca673c0d3a69d18b456e75982555818fead3204b8d83fc09be6a9a902330e2ef870baa0686ee0cb72953b96dafe76db77b26b92c2ab6d99e79e7c07'),
    (101, 'cargo', '\xf6170a90d20941b137cb34d55b96ece75a0ef4fb4865f2b94fb21ae0a41bdcfb62feaaec99cb795b480d65abdb03718ac2ca4d628258eec7abd5fafaecbb1d06'),
    (102, 'bolt', '\x2b5435c8145e3a21ebda4756257f038be000cdeccc5f6e0aaeb11e734ffd1fabd676eebb95eaf1be5cc3d770ce99f6a23fc974cde37f201267a91ba1fc4f850a'),
    (102, 'cargo', '\xfd14b1903c3a7bede7cf973bc98827f9f188c2751731e9048ec4ee5195bce37ab7f69b412638507f3c475ed8dd59d950e91ef8ac5fc2265d7b4454e76873b704'),
    (103, 'cargo', '\x760b8c2c02a95fb001f18c09845c3dc5769d78a527d4577dc90d6bb90337cdc3f109933a2e5ef3aa0c7707fde8e8ef5eff82aa318e9649c4fc749bec2e6df10a'),
    (104, 'bolt', '\xa90b1ab5c94b7142e2f56c2d051e1c75b30a626fcbf62f34e91823907c217178d8b74dfa2921877c394f732cf3e0125141d8c241522fa321ac27b87590fea40b'),
    (104, 'cargo', '\x2d9062ca3b16eedd4ca7e7d8558e132e17cd5524dea371683007f682e40f2fb3677f61b21f645bc1479616f1f6306e4d067eecdd9bd6407c96060d6ddf686908'),
    (105, 'bolt', '\xbe93839fd8f1814546ae9d16c86970b21df2df59dd5a267adad0b1bc5e671a68239301f5aa0babaf15e32076b6cff73632860e3d7652af6db464daa8bd263e0d'),
    (105, 'cargo', '\x2780af6a44fc39661016766b4174b49ae7c2afe8c29ca3b8be1a5b0a122c96287640eed986b0b8179fd4c912da37ea80062c85519962aa555c1d6de715b78b05'),
    (106, 'bolt', '\x1f5aad9b3062ff774b4fa0c00af67929876977a0902f0fd6ad680e6b42279f7820d76fff40cfa68d1fbf80811d1f8e3ffa207bd0ba203270c9caa11557690e03'),
    (106, 'cargo', '\x8ebf2141fb3a2ba944b2a81ed684d03c14c5165a0581d414f2717d4c4bda0a16c7abea34c13a597fe6cdf70c174bbc8fbe947b7fe5e02734fb8c082892af2800'),
    (107, 'bolt', '\x7a16757a96d075da7eabc96346c31b372b04ceae3ac5227bb660c97ef942440b05c6b8b7ae2e442b7e52051f8011d95ac72b52bfb93bd9867746b6ea56835201'),
    (108, 'bolt', '\x820ab9334f7b9110954d9ce871b65608b8f6a7f4f90184428168aa7247ad4da42fcdbcf62e393f6f4f403825401a663f968da62936c2b055f7bba700fc31ac08'),
    (108, 'cargo', '\x98fbd8eadd7dec0c568cd09031c66f2aba43da86876a14fea287dc11f6dcfd54d929d9e94b8955d9d8a91aacd24a3910f42763fcb21c843e943eb62c0782240b');
-- What is in a field.
CREATE FUNCTION test.inside(field bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT substr(field, 2 + (SELECT min(i) FROM generate_series(1, 5) i WHERE get_byte(field, i) < 128))
$$;
CREATE FUNCTION test.agreement(nonce bigint, organisation text, id bytea, yes boolean DEFAULT true) RETURNS bytea LANGUAGE sql AS $$
    SELECT test.field(2, test.field(1, test.utf8($2)) || test.field(2, $3) || test.number(3, $4::int) || test.field(4, s.signature))
    FROM test.signed s WHERE (s.nonce, s.organisation) = ($1, $2)
$$;
-- A transaction with the agreements of these.
CREATE FUNCTION test.agreed(nonce bigint, sql text, VARIADIC organisations text[] DEFAULT '{}') RETURNS bytea LANGUAGE sql AS $$
    SELECT tx || coalesce((SELECT string_agg(test.agreement($1, o, sha256('chainify/tx/1' || test.inside(test.inside(tx)))), ''::bytea ORDER BY o) FROM unnest($3) o), '')
    FROM (SELECT CASE WHEN sql ~ '^(ALTER|DROP|SET|DETACH|GRANT)' THEN test.tx(sql, 'admin', 3, nonce => nonce) ELSE test.tx(sql, nonce => nonce) END) t (tx)
$$;
SELECT * FROM test.deploy('CREATE TABLE trades (id int PRIMARY KEY, seller text, buyer text, price int); GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON trades TO alice');

-- Policies that are none.
SELECT message FROM test.block(
    test.tx('SET AGREEMENT POLICY public.trades TO AND(org(seller), Bolt)', 'admin', 3),
    test.tx('SET AGREEMENT POLICY public.trades TO AND(org(seller), eve)', 'admin', 3),
    test.tx('SET AGREEMENT POLICY public.trades TO org(price)', 'admin', 3),
    test.tx('SET AGREEMENT POLICY public.trades TO org(missing)', 'admin', 3),
    test.tx('SET AGREEMENT POLICY public.missing TO acme', 'admin', 3),
    test.tx('SET AGREEMENT POLICY chainify_ledger.policy TO acme', 'admin', 3),
    test.tx('SET AGREEMENT POLICY trades TO acme', 'admin', 3),
    test.tx('SET AGREEMENT POLICY public.trades acme', 'admin', 3),
    test.tx('DROP AGREEMENT POLICY public.trades', 'admin', 3),
    test.tx('SET AGREEMENT POLICY public.trades TO acme', 'alice', 3));
TABLE chainify.policies;

-- From its block on it holds, in the same block too.
SELECT * FROM test.block(test.tx('SET AGREEMENT POLICY public.trades TO and (org(seller),org( buyer ))', 'admin', 3),
    test.agreed(101, $$INSERT INTO trades VALUES (1, 'acme', 'bolt', 10)$$),
    test.agreed(101, $$INSERT INTO trades VALUES (1, 'acme', 'bolt', 10)$$, 'cargo'),
    test.agreed(101, $$INSERT INTO trades VALUES (1, 'acme', 'bolt', 10)$$, 'bolt', 'cargo'));
TABLE chainify.policies;
-- Agreements that are none: no instead of yes, to another transaction, by another key, and a false one in front of a true one.
SELECT message FROM test.block(
    test.agreed(107, $$INSERT INTO trades VALUES (4, 'acme', 'bolt', 10)$$) || test.agreement(107, 'bolt', sha256('chainify/tx/1' || test.inside(test.inside(test.agreed(107, $$INSERT INTO trades VALUES (4, 'acme', 'bolt', 10)$$)))), false),
    test.agreed(107, $$INSERT INTO trades VALUES (5, 'acme', 'bolt', 10)$$, 'bolt'),
    test.agreed(107, $$INSERT INTO trades VALUES (4, 'acme', 'bolt', 10)$$) || test.agreement(101, 'bolt', sha256('chainify/tx/1' || test.inside(test.inside(test.agreed(107, $$INSERT INTO trades VALUES (4, 'acme', 'bolt', 10)$$))))),
    test.agreed(107, $$INSERT INTO trades VALUES (4, 'acme', 'bolt', 10)$$) || test.agreement(101, 'bolt', sha256('x')) || substr(test.agreed(107, $$INSERT INTO trades VALUES (4, 'acme', 'bolt', 10)$$, 'bolt'), 1 + length(test.agreed(107, $$INSERT INTO trades VALUES (4, 'acme', 'bolt', 10)$$))));
-- The row before counts as well as the row after; a row that names nobody, one that names a stranger, all rows at once.
SELECT message FROM test.block(
    test.agreed(102, $$UPDATE trades SET buyer = 'cargo' WHERE id = 1$$, 'cargo'),
    test.agreed(102, $$UPDATE trades SET buyer = 'cargo' WHERE id = 1$$, 'bolt', 'cargo'),
    test.agreed(104, $$INSERT INTO trades VALUES (2, 'acme', 'bolt', 10), (3, 'bolt', 'cargo', 5)$$, 'bolt'),
    test.tx($$INSERT INTO trades VALUES (6, 'acme', NULL, 1)$$),
    test.tx($$INSERT INTO trades VALUES (6, 'acme', 'eve', 1)$$),
    test.tx($$INSERT INTO trades VALUES (6, 'acme', 'acme', 1)$$),
    test.tx('TRUNCATE trades'), test.tx('DELETE FROM trades WHERE id = 1'), test.tx('UPDATE trades SET price = 0'));
TABLE trades ORDER BY id;
-- What was undone within a transaction needs nobody.


SELECT * FROM test.deploy($f$CREATE FUNCTION try() RETURNS void LANGUAGE plpgsql AS $$ BEGIN UPDATE trades SET price = 99; RAISE 'no'; EXCEPTION WHEN raise_exception THEN NULL; END $$;
    GRANT EXECUTE ON FUNCTION try() TO alice$f$);
SELECT * FROM test.run('SELECT try()');
-- A block executed again has the same hash.
BEGIN;
SELECT test.hash_of(test.agreed(103, 'DELETE FROM trades WHERE id = 1', 'cargo'), test.tx('TRUNCATE trades', nonce => 7)) AS first \gset
ROLLBACK;
BEGIN;
SELECT test.hash_of(test.agreed(103, 'DELETE FROM trades WHERE id = 1', 'cargo'), test.tx('TRUNCATE trades', nonce => 7)) = :'first' AS same;
ROLLBACK;
SELECT test.all_well();

-- The policy, and the definition of its table, change with the agreement of more than two thirds; what breaks it, not at all; rights do freely.
SELECT message FROM test.block(
    test.agreed(105, 'ALTER TABLE trades ADD COLUMN note text', 'bolt'),
    test.agreed(105, 'ALTER TABLE trades ADD COLUMN note text', 'bolt', 'cargo'),
    test.agreed(106, 'DROP AGREEMENT POLICY public.trades'),
    test.tx('SET AGREEMENT POLICY public.trades TO acme', 'admin', 3),
    test.tx('ALTER TABLE trades RENAME buyer TO client', 'admin', 3),
    test.tx('ALTER TABLE trades ALTER buyer TYPE int USING 1', 'admin', 3),
    test.tx('ALTER TABLE trades RENAME TO deals', 'admin', 3),
    test.tx('DROP TABLE trades', 'admin', 3),
    test.tx('DETACH TABLE public.trades', 'admin', 3),
    test.tx('GRANT SELECT ON trades TO PUBLIC', 'admin', 3));
SELECT message FROM test.block(test.agreed(108, 'SET AGREEMENT POLICY public.trades TO OR(org(seller), 2 OF (bolt, cargo, delta))', 'bolt', 'cargo'),
    test.tx($$INSERT INTO trades VALUES (7, 'acme', 'nobody', 1)$$), test.tx($$INSERT INTO trades VALUES (8, 'eve', 'nobody', 1)$$));
SELECT test.all_well();
-- An organisation agrees with the key that it has at that block, if it takes part.
SELECT test.tell(:'gateways', jsonb_build_object('bolt', p.number + 1, 'cargo', p.number + 2)) FROM chainify_node.position() p;
SELECT message FROM test.block(test.agreed(106, 'DROP AGREEMENT POLICY public.trades', 'bolt', 'cargo'));
SELECT test.tell(:'gateways');
SELECT message FROM test.block(test.agreed(106, 'DROP AGREEMENT POLICY public.trades', 'bolt', 'cargo'), test.tx('DELETE FROM trades'));
TABLE chainify.policies;
SELECT _block, _op, name, policy FROM chainify_history.chainify_ledger__policy ORDER BY _block, _tx, _serial;
SELECT test.all_well();

-- What agreement takes, by a rehearsal: who is wanted, what this organisation's own check says. Nothing of it stays.
SELECT message FROM test.deploy('SET AGREEMENT POLICY public.trades TO AND(org(seller), org(buyer))');
CREATE FUNCTION test.rehearse(tx bytea) RETURNS TABLE (wanted text[], refusal text, sqlstate text, message text) LANGUAGE sql AS $$
    SELECT * FROM chainify_node.rehearse(tx, 1700000000000000)
$$;
SELECT * FROM test.rehearse(test.tx($$INSERT INTO trades VALUES (1, 'acme', 'bolt', 10), (2, 'delta', 'cargo', 10)$$));
SELECT * FROM test.rehearse(test.agreed(101, $$INSERT INTO trades VALUES (1, 'acme', 'bolt', 10)$$, 'bolt'));
SELECT * FROM test.rehearse(test.tx('SELECT 1/0'));
SELECT * FROM test.rehearse(test.tx('DROP TABLE trades', 'admin', 3));
SELECT * FROM test.rehearse('\x00');
SELECT count(*) FROM trades;
-- A check of its own, as its owner, which sees what the transaction did and cannot write.
CREATE SCHEMA ours; GRANT USAGE ON SCHEMA ours TO admin;
CREATE TABLE ours.seen (price int);
CREATE FUNCTION ours.check(operation text, was trades, now trades) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF now.price = 13 THEN INSERT INTO ours.seen VALUES (13); END IF;
    IF now.price = 14 THEN RAISE EXCEPTION 'fourteen'; END IF;
    RETURN CASE WHEN now.price > 10 THEN format('%s from %s to %s, of %s rows, as %s', operation, was.price, now.price, (SELECT count(*) FROM trades), current_user) END;
END
$$;
CREATE FUNCTION ours.number(operation text, was trades, now trades) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION ours.truth(operation text, was trades, now trades) RETURNS boolean LANGUAGE sql AS 'SELECT now.price < 10';
SELECT chainify.set_agreement_check('trades', 'ours.missing');
SELECT chainify.set_agreement_check('trades', 'ours.number');
SET ROLE alice;
SELECT chainify.set_agreement_check('trades', 'ours.check');
SET ROLE admin;
SELECT chainify.set_agreement_check('public.trades', 'ours.check');
RESET ROLE;
SELECT chainify.set_agreement_check('trades', 'ours.check');
SELECT refusal, sqlstate, message FROM unnest(ARRAY[10, 11, 13, 14]) p, test.rehearse(test.tx(format($$INSERT INTO trades VALUES (1, 'acme', 'acme', 5); UPDATE trades SET price = %s$$, p)));
SELECT refusal FROM test.rehearse(test.tx($$INSERT INTO trades VALUES (2, 'delta', 'cargo', 99)$$));
SELECT chainify.set_agreement_check('trades', 'ours.truth');
SELECT refusal FROM test.rehearse(test.tx($$INSERT INTO trades VALUES (1, 'acme', 'acme', 10)$$));
SELECT chainify.set_agreement_check('trades', NULL);
SELECT refusal FROM test.rehearse(test.tx($$INSERT INTO trades VALUES (1, 'acme', 'acme', 10)$$));
-- Asked by another: it agrees by a check or an approved text alone.
UPDATE chainify_ledger.chain SET organisation = 'bolt';
SELECT refusal FROM test.rehearse(test.tx($$INSERT INTO trades VALUES (1, 'acme', 'bolt', 1)$$));
SELECT refusal FROM test.rehearse(test.tx($$INSERT INTO trades VALUES (1, 'acme', 'cargo', 1)$$));
SELECT chainify.set_agreement_check('trades', 'ours.truth');
SELECT refusal FROM test.rehearse(test.tx($$INSERT INTO trades VALUES (1, 'acme', 'bolt', 1)$$));
SELECT refusal FROM test.rehearse(test.tx('DROP TABLE trades', 'admin', 3));
SELECT chainify.approve_deploy('DROP TABLE trades');
SELECT refusal FROM test.rehearse(test.tx('DROP TABLE trades', 'admin', 3));
SELECT chainify.approve_deploy('DROP TABLE trades', false);
SELECT refusal FROM test.rehearse(test.tx('DROP TABLE trades', 'admin', 3));
UPDATE chainify_ledger.chain SET organisation = 'acme';
SELECT test.all_well();
