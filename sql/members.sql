-- What no member can do alone (spec/agreement.md): act as a role that is for others, change whose roles are whose, and, where deploys are agreed, deploy.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
GRANT CREATE ON SCHEMA public TO admin;
-- Keys and signatures as crates/ledger/examples/agreement.rs makes them.
\set gateways '[{"from_block":0,"organisation":"acme","public_key":"75bb1db8209aeda3cefce642203a99c7737c5062cf4abee7c301d87f802c1e7a"},{"from_block":0,"organisation":"bolt","public_key":"484435958e68ebc2682af14cc835d84c72572ecdcab33863162c621bf80f92b7"},{"from_block":0,"organisation":"cargo","public_key":"7232312e6383fafb808cb29699ebbdbc988dd7f6ea554bae0e214a4600f2eeca"},{"from_block":0,"organisation":"delta","public_key":"be15b24db8ea3311749cb26ab31012729d4a09bbee4b33c42f72402141d3e0dd"}]'
SELECT chainify_node.set_registry(jsonb_build_object('organisations', jsonb_agg(jsonb_build_object('name', g ->> 'organisation',
    'gateway_key', g -> 'public_key', 'ordering_only', false, 'from_block', g -> 'from_block', 'until_block', NULL))))
FROM jsonb_array_elements(:'gateways') g;
-- A transaction that a client of this organisation submitted.
CREATE FUNCTION test.tx_of(organisation text, sql text, role text DEFAULT 'alice', kind int DEFAULT 1, nonce bigint DEFAULT NULL) RETURNS bytea LANGUAGE sql AS $$
    SELECT test.field(1, test.field(1, test.field(1, test.utf8('testchain')) ||
        test.field(2, test.field(1, test.utf8(organisation)) || test.field(2, test.utf8(role))) ||
        test.number(3, coalesce(nonce, nextval('test.nonce'))) || test.number(4, 1000) || test.number(5, kind) || test.field(6, test.utf8(sql))))
$$;
CREATE FUNCTION test.inside(field bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT substr(field, 2 + (SELECT min(i) FROM generate_series(1, 5) i WHERE get_byte(field, i) < 128))
$$;
CREATE FUNCTION test.id_of(tx bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT sha256('chainify/tx/1' || test.inside(test.inside(tx))) $$;
CREATE TABLE test.signed (nonce bigint, organisation text, signature bytea);
INSERT INTO test.signed VALUES
    (201, 'bolt', '\xa5c84039994bd875eb025903ec3dda6187f0222ab0e14a3374a752ee345292a5bedc5dac9734d67dafd6cd2a1693e66f6d414c583262296e21a0b51ae69c5306'),
    (201, 'cargo', '\x043bfc90d5f645e6cff46790b753cc33c25985dfbf6185ad6281ab4dc782d6000ac0d65c5b551c2ef326be1bfa95e32a6e906517310ee3ce7cbea23215fcbc03'),
    (202, 'bolt', '\xcab8fab4ab9ff796dc819f29a37b533eef62b2462e577c2bcb5f2c99bfbfe8ab80df8486260b18be5bfe34e3513a89e5fdd42832861227d0812b54f7232f990e'),
    (202, 'cargo', '\xd5fd37cd5377a6b8a321d1fc6017f0e15c887aa9c87ddadc8f0e579bae0dcda45f6d06bbe0e6828cac74a4e2b866947b167bab5e8636aac120e21e21421c160c'),
    (203, 'bolt', '\x9e3aa35000e3948913166e6bbe479624791e1cc0cd95a5c823b68fdd612834c0ecb34eea5507311afa94a859d7a6281de35d7f224dfef95212b8b67a47c87c0c'),
    (203, 'cargo', '\x58127ca59d1d7a717d89b3c7f18c43396eae2bb467e70f03cfeeea54d3f978319aa0a31de607f7b4aa030a59a97705591d5fa2c6aaad000930e80e8d33f42904'),
    (204, 'bolt', '\x58d438edda380727d42ae3195dd7f30c18a720fb1ad202cba7419a1130d2d7795d5253c2137e58d07ceb6803fb5f348c6b1ffaa3b39fb20fa7c082a7aa0e7206'),
    (204, 'cargo', '\x92d8cfc730a8bca9292dbc8a4ca7177d3540bb4d22e228b7a1d61daa427d47fe502b30a3a3ad1b4b3346f1d42cf0952e7868dac13b80cba490c9fc8c46f03f0b'),
    (205, 'bolt', '\xe5fb7d10d169319bb3efd929980ef69e78573dbc83af475dbc18d2be9e9ce5cd990d19671720c28f0565eeb340f51d28a17b7ef36ad09080340cc434fabe1603'),
    (205, 'cargo', '\xe89a8e175b18fcefbf258cdcd78a1c67a45c4c93fc53eff84f8527feee63c253f588bd9918572d71331d33979fdb4c4c98485fb2e0e2824cf030f66d859a940a'),
    (206, 'bolt', '\xf09a30f8e502823b6ce7753de3eb482756dc8728eddc07279d3a644ec15b0cfaab524b503c5f330f88bae53a886a697c86bc5b58fe2ae358217fe394f11e4302'),
    (206, 'cargo', '\x4ecfe49d003ac8fb7f2a6c2075670871a44e31ca05471d13a70d71a32233cbc2a683e2577085690e903f6cd0e0beabbc016a16aa972d9534524a38a0cff86a09');
-- The same by acme's admin, with the agreement of bolt and cargo.
CREATE FUNCTION test.agreed(nonce bigint, sql text) RETURNS bytea LANGUAGE sql AS $$
    SELECT tx || string_agg(test.field(2, test.field(1, test.utf8(s.organisation)) || test.field(2, test.id_of(tx)) || test.number(3, 1) || test.field(4, s.signature)),
                            ''::bytea ORDER BY s.organisation)
    FROM (SELECT test.tx_of('acme', sql, 'admin', 3, nonce)) t (tx), test.signed s WHERE s.nonce = $1 GROUP BY tx
$$;
SELECT * FROM test.deploy('CREATE TABLE t (id int PRIMARY KEY); GRANT ALL ON t TO alice');

-- Without a row, clients of every organisation act as a role.
SELECT ok, message FROM test.block(test.tx_of('delta', 'INSERT INTO t VALUES (1)'), test.tx_of('delta', 'CREATE TABLE u (id int PRIMARY KEY)', 'admin', 3));
TABLE chainify.role_organisations;
-- What is none.
SELECT ok, sqlstate, message FROM test.block(
    test.tx_of('acme', 'SET ORGANISATIONS OF ROLE alice TO eve', 'admin', 3),
    test.tx_of('acme', 'SET ORGANISATIONS OF ROLE nobody TO acme', 'admin', 3),
    test.tx_of('acme', 'SET ORGANISATIONS OF ROLE alice', 'admin', 3),
    test.tx_of('acme', 'DROP ORGANISATIONS OF ROLE alice', 'admin', 3),
    test.tx_of('acme', 'SET ORGANISATIONS OF ROLE alice TO acme', 'alice', 3),
    test.tx_of('acme', 'INSERT INTO chainify_ledger.role_organisation VALUES (''alice'', ''delta'')'));
TABLE chainify.role_organisations;
-- One organisation alone changes nothing of it.
SELECT ok, sqlstate, message FROM test.block(test.tx_of('delta', 'SET ORGANISATIONS OF ROLE alice TO delta', 'admin', 3));
-- With more than two thirds it holds from its place in the order on, in the same block too, for statements and for changes of definitions.
SELECT ok, sqlstate, message FROM test.block(
    test.tx_of('delta', 'INSERT INTO t VALUES (2)'),
    test.agreed(201, 'SET ORGANISATIONS OF ROLE alice TO bolt, "acme", bolt'),
    test.tx_of('delta', 'INSERT INTO t VALUES (3)'),
    test.tx_of('acme', 'INSERT INTO t VALUES (4)'),
    test.tx_of('bolt', 'INSERT INTO t VALUES (5)'),
    test.agreed(202, 'SET ORGANISATIONS OF ROLE admin TO acme'),
    test.tx_of('delta', 'CREATE TABLE v (id int PRIMARY KEY)', 'admin', 3),
    test.tx_of('delta', 'DROP ORGANISATIONS OF ROLE admin', 'admin', 3),
    test.tx_of('acme', 'SET ORGANISATIONS OF ROLE alice TO delta', 'admin', 3),
    test.tx_of('acme', 'DROP ORGANISATIONS OF ROLE alice', 'admin', 3));
TABLE t;
TABLE chainify.role_organisations;
SELECT sqlstate, message FROM chainify_node.rehearse(test.tx_of('delta', 'INSERT INTO t VALUES (6)'), 1700000000000000);
SELECT ok, sqlstate, message FROM test.block(test.agreed(203, 'DROP ORGANISATIONS OF ROLE alice'), test.tx_of('delta', 'INSERT INTO t VALUES (7)'));
TABLE chainify.role_organisations;
-- Others are asked for their agreement to such a change, and to no other DEPLOY while no table has a policy.
SELECT wanted, refusal FROM (VALUES ('SET ORGANISATIONS OF ROLE alice TO acme'), ('DROP ORGANISATIONS OF ROLE admin'), ('CREATE TABLE w (id int)')) c (sql),
    chainify_node.rehearse(test.tx_of('acme', sql, 'admin', 3), 1700000000000000);
SELECT test.all_well();
-- Where deploys are agreed, every DEPLOY takes more than two thirds; so does changing that, both ways.
SELECT ok, sqlstate, message FROM test.block(test.tx_of('acme', 'SET DEPLOYS agreed', 'admin', 3), test.tx_of('acme', 'SET DEPLOYS maybe', 'admin', 3));
SELECT ok, sqlstate, message FROM test.block(
    test.agreed(204, 'SET DEPLOYS agreed'),
    test.tx_of('acme', 'CREATE TABLE v (id int PRIMARY KEY)', 'admin', 3),
    test.tx_of('acme', 'DETACH TABLE public.t', 'admin', 3),
    test.tx_of('acme', 'SET DETERMINISM detect', 'admin', 3),
    test.tx_of('acme', 'SET DEPLOYS free', 'admin', 3),
    test.agreed(205, 'CREATE TABLE v (id int PRIMARY KEY)'));
SELECT count(*) FROM v;
SELECT name, attached_at IS NOT NULL AS attached FROM chainify.tables ORDER BY name;
TABLE chainify.settings;
SELECT wanted, refusal FROM chainify_node.rehearse(test.tx_of('acme', 'CREATE TABLE w (id int)', 'admin', 3), 1700000000000000);
SELECT ok, sqlstate, message FROM test.block(test.agreed(206, 'SET DEPLOYS free'), test.tx_of('acme', 'CREATE TABLE w (id int PRIMARY KEY)', 'admin', 3));
SELECT test.all_well();
-- Changed behind the ledger it deviates.
SELECT test.found('UPDATE chainify_ledger.role_organisation SET organisations = ''delta''', 'UPDATE chainify_ledger.role_organisation SET organisations = ''acme''');
