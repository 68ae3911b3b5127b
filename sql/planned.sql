-- Planned transactions (spec/transactions.md): on the ledger first, executed by a later block, once, as their planner.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
SELECT chainify_node.set_registry(jsonb_build_object('organisations', jsonb_agg(jsonb_build_object('name', g,
    'gateway_key', repeat('00', 32), 'ordering_only', false, 'from_block', 0, 'until_block', NULL))))
FROM unnest(ARRAY['acme', 'bolt', 'cargo', 'delta']) g;
DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'bob') THEN CREATE ROLE bob LOGIN IN ROLE chainify_client; END IF; END $$;
-- A transaction that a client of an organisation submitted, with the part of kind PLAN.
CREATE FUNCTION test.plan_tx(plan bytea, sql text DEFAULT '', role text DEFAULT 'alice', organisation text DEFAULT 'acme', nonce bigint DEFAULT NULL, params bytea DEFAULT '', kind int DEFAULT 5)
RETURNS bytea LANGUAGE sql AS $$
    SELECT test.field(1, test.field(1, test.field(1, test.utf8('testchain')) ||
        test.field(2, test.field(1, test.utf8(organisation)) || test.field(2, test.utf8(role))) ||
        test.number(3, coalesce(nonce, nextval('test.nonce'))) || test.number(4, 1000) || test.number(5, kind) || test.field(6, test.utf8(sql)) || params || test.field(9, plan)))
$$;
-- That plans. Blocks are a second apart, from 1700000000 on; not_before and expires are seconds after that.
CREATE FUNCTION test.plans(sql text, nonce bigint, not_before bigint DEFAULT 0, approvals text DEFAULT '', expires bigint DEFAULT 0, role text DEFAULT 'alice', organisation text DEFAULT 'acme', params bytea DEFAULT '')
RETURNS bytea LANGUAGE sql AS $$
    SELECT test.plan_tx(test.number(1, 1) || test.number(3, CASE WHEN not_before > 0 THEN (1700000000 + not_before) * 1000000 ELSE 0 END)
        || test.number(4, CASE WHEN expires <> 0 THEN (1700000000 + expires) * 1000000 ELSE 0 END) || test.field(5, test.utf8(approvals)), sql, role, organisation, nonce, params)
$$;
CREATE FUNCTION test.inside(field bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT substr(field, 2 + (SELECT min(i) FROM generate_series(1, 5) i WHERE get_byte(field, i) < 128))
$$;
-- That approves (2), cancels (3) or executes (4) the plan with this nonce.
CREATE TABLE test.plan (nonce bigint PRIMARY KEY, id bytea);
CREATE FUNCTION test.on_plan(action int, nonce bigint, role text DEFAULT 'alice', organisation text DEFAULT 'acme') RETURNS bytea LANGUAGE sql AS $$
    SELECT test.plan_tx(test.number(1, action) || test.field(2, coalesce((SELECT id FROM test.plan p WHERE p.nonce = on_plan.nonce), repeat('x', 32)::bytea)), role => role, organisation => organisation)
$$;
CREATE FUNCTION test.planned(VARIADIC txs bytea[]) RETURNS TABLE (tx int, ok boolean, rows bigint, sqlstate text, message text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT b.tx, b.ok, b.rows, b.sqlstate, b.message FROM test.block(VARIADIC txs) b;
    INSERT INTO test.plan SELECT (regexp_match(p.sql, 'plan (\d+)'))[1]::bigint, p.id FROM chainify_ledger.planned p WHERE p.sql LIKE '%plan %' ON CONFLICT DO NOTHING;
END
$$;
CREATE VIEW test.plans AS SELECT p.nonce, v.organisation, v.role, v.approvals, v.approved_by, v.state, v.block, v.index, v.sqlstate, v.error
FROM chainify.planned v JOIN test.plan p USING (id);
SELECT * FROM test.deploy('CREATE TABLE t (id int PRIMARY KEY, by text DEFAULT current_user); GRANT ALL ON t TO alice; CREATE TABLE seen (id int PRIMARY KEY, v text); GRANT ALL ON seen TO alice');

-- First the plan, then its effects. The second execution fails, and changes nothing.
SELECT * FROM test.planned(test.plans('INSERT INTO t VALUES (1) -- plan 1', 1));
SELECT count(*) FROM t;
SELECT organisation, role, sql, parameters, not_before, expires, approvals, approved_by, state, planned_at FROM chainify.planned;
SELECT * FROM test.planned(test.on_plan(4, 1, 'bob', 'bolt'), test.on_plan(4, 1));
TABLE t;
TABLE test.plans;
SELECT test.all_well();

-- The time that counts is the block's: a second for each block. Too early is no end of it; nobody states a time.
SELECT * FROM test.planned(test.plans('INSERT INTO t VALUES (2) -- plan 2', 2, not_before => 6));
SELECT * FROM test.planned(test.on_plan(4, 2));
SELECT state FROM test.plans WHERE nonce = 2;
SELECT id = (SELECT id FROM test.plan WHERE nonce = 2) AS due, role FROM chainify_node.due_plans(1700000006000000, 10);
SELECT count(*) FROM chainify_node.due_plans(1700000005999999, 10);
SELECT * FROM test.planned(test.tx('SELECT 1'), test.on_plan(4, 2));
SELECT * FROM test.planned(test.on_plan(4, 2));
-- Expired it does not run, and nothing else is done about it.
SELECT * FROM test.planned(test.plans('INSERT INTO t VALUES (3) -- plan 3', 3, expires => 8));
SELECT * FROM test.planned(test.on_plan(4, 3), test.on_plan(2, 3, 'admin'), test.on_plan(3, 3));
SELECT state FROM test.plans WHERE nonce = 3;
-- Times that make no plan.
SELECT * FROM test.planned(test.plans('SELECT 1', 4, expires => 5), test.plans('SELECT 1', 5, 100, expires => 100), test.plans('SELECT 1', 6, 999999999));
-- A plan keeps to the rules of chainify.execute, when it is planned.
CREATE TABLE elsewhere (id int);
GRANT ALL ON elsewhere TO alice;
SELECT tx, ok, sqlstate, left(message, 60) AS message FROM test.planned(test.plans('INSERT INTO nothing VALUES (1)', 10), test.plans('CREATE TABLE u (id int PRIMARY KEY)', 11),
    test.plans('UPDATE t SET id = pg_backend_pid()', 12), test.plans('INSERT INTO elsewhere VALUES (1)', 13), test.plans('INSERT INTO t VALUES ($1)', 14, params => test.field(7, test.field(1, 'integer') || test.field(3, 'x'))),
    test.plans('ATTACH TABLE public.elsewhere', 15), test.plans('SET ROLE admin', 16), test.plans('SELECT', 17, role => 'nobody'), test.plans('SELECT 1', 18, role => 'stranger'), test.plans('BEGIN', 19));
-- A plan with values. Its statement is the planner's, whoever executes it, with its rights then: bob may write nothing himself.
SELECT * FROM test.planned(test.plans('INSERT INTO t (id) VALUES ($1), (4) -- plan 20', 20, params => test.field(7, test.field(1, 'integer') || test.field(3, '40'))),
    test.plans('INSERT INTO t (id) VALUES (5) -- plan 21', 21, role => 'bob', organisation => 'bolt'));
SELECT parameters FROM chainify.planned WHERE sql LIKE '%plan 20';
SELECT * FROM test.planned(test.on_plan(4, 20, 'bob', 'cargo'), test.on_plan(4, 21));
SELECT id, by FROM t ORDER BY id;
SELECT * FROM test.plans WHERE nonce IN (20, 21) ORDER BY nonce;
-- A plan that fails is undone and spent, and its reason is kept beside the block.
SELECT * FROM test.planned(test.plans('INSERT INTO t VALUES (6); INSERT INTO t VALUES (1) -- plan 22', 22), test.plans('SELECT 1/0 -- plan 23', 23));
SELECT * FROM test.planned(test.on_plan(4, 22), test.on_plan(4, 23), test.on_plan(4, 22));
SELECT * FROM test.plans WHERE nonce IN (22, 23) ORDER BY nonce;
SELECT index, kind, left(sql, 30) AS sql, outcome, sqlstate, error FROM chainify.transactions WHERE block = (SELECT max(number) FROM chainify.ledger) ORDER BY index;
SELECT count(*) FROM t WHERE id = 6;
-- A failure that RAISE makes up is the plan's own, whatever SQLSTATE it names (X4).
SELECT * FROM test.deploy($$CREATE FUNCTION make_up(code text) RETURNS void LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''made up'' USING ERRCODE = code; END'; $$);
SELECT * FROM test.planned(test.plans('SELECT make_up(''53100'') -- plan 24', 24), test.plans('SELECT set_config(''search_path'', ''x'', false)', 25));
SELECT * FROM test.planned(test.on_plan(4, 24, 'bob'), test.tx('INSERT INTO t VALUES (7)'));
SELECT * FROM test.plans WHERE nonce = 24;
-- An error of the machine spends nothing, caught or not: the block is tried again (X4).
SELECT * FROM test.deploy($$CREATE FUNCTION catches() RETURNS void LANGUAGE plpgsql AS 'BEGIN PERFORM repeat(''['', 1000000)::jsonb; EXCEPTION WHEN OTHERS THEN NULL; END'$$);
SELECT * FROM test.planned(test.plans('SELECT repeat(''['', 1000000)::jsonb -- plan 60', 60), test.plans('SELECT catches() -- plan 61', 61));
\set VERBOSITY terse
SELECT * FROM test.planned(test.on_plan(4, 60));
SELECT * FROM test.planned(test.on_plan(4, 61));
\set VERBOSITY default
SELECT nonce, state FROM test.plans WHERE nonce IN (60, 61) ORDER BY nonce;
-- No plan submits or plans another.
SELECT ok, sqlstate, left(message, 70) AS message FROM test.planned(test.plans('SELECT chainify.plan(''SELECT 1'')', 26), test.plans('SELECT chainify.execute_planned(''\x'')', 27),
    test.plans('INSERT INTO chainify_ledger.planned_approval VALUES (''\x'', ''bolt'', ''admin'', 1)', 28), test.plans('UPDATE chainify_ledger.planned SET state = ''waiting'' -- plan 29', 29));
SELECT * FROM test.planned(test.on_plan(4, 29));
SELECT ok, sqlstate, left(message, 70) AS message FROM test.run('UPDATE chainify_ledger.planned SET state = ''waiting''', 'DELETE FROM chainify_ledger.planned', 'SELECT count(*) FROM chainify_ledger.planned');

-- The tables are the ledger's own: no deploy takes one off, puts one on, or alters it.
SELECT ok, sqlstate, message FROM test.block(test.tx('DETACH TABLE chainify_ledger.planned', 'admin', 3), test.tx('ATTACH TABLE chainify_ledger.chain', 'admin', 3), test.tx('DROP TABLE chainify_ledger.planned', 'admin', 3), test.tx('SET AGREEMENT POLICY chainify_ledger.planned TO acme', 'admin', 3));
-- Approvals: of admins, each for the organisation that vouches for it, once. What names no organisation is none.
SELECT ok, sqlstate, message FROM test.planned(test.plans('SELECT 1', 30, approvals => 'eve'), test.plans('SELECT 1', 31, approvals => 'org(id)'), test.plans('SELECT 1', 32, approvals => 'AND('));
SELECT * FROM test.planned(test.plans('INSERT INTO t VALUES (33) -- plan 33', 33, approvals => 'AND(acme,2 OF (bolt,cargo,delta))'));
SELECT * FROM test.planned(test.on_plan(4, 33), test.on_plan(2, 33), test.on_plan(2, 33, 'admin', 'acme'), test.on_plan(2, 33, 'admin', 'bolt'), test.on_plan(2, 33, 'admin', 'bolt'), test.on_plan(4, 33));
SELECT approvals, approved_by, state FROM test.plans WHERE nonce = 33;
SELECT count(*) FROM chainify_node.due_plans(1700000100000000, 10);
SELECT * FROM test.planned(test.on_plan(2, 33, 'admin', 'cargo'));
SELECT count(*) FROM chainify_node.due_plans(1700000100000000, 10);
SELECT * FROM test.planned(test.on_plan(4, 33, 'bob', 'delta'), test.on_plan(2, 33, 'admin', 'delta'));
SELECT approvals, approved_by, state FROM test.plans WHERE nonce = 33;

-- A policy counts the planner's organisation and those that approved, not the one that executes.
SELECT * FROM test.deploy('CREATE TABLE trade (id int PRIMARY KEY, buyer text); GRANT ALL ON trade TO alice');
SELECT * FROM test.deploy('SET AGREEMENT POLICY public.trade TO AND(acme, org(buyer))');
SELECT * FROM test.planned(test.plans('INSERT INTO trade VALUES (1, ''bolt'') -- plan 40', 40), test.plans('INSERT INTO trade VALUES (2, ''bolt'') -- plan 41', 41),
    test.plans('INSERT INTO trade VALUES (3, ''acme'') -- plan 42', 42, organisation => 'bolt'));
SELECT * FROM test.planned(test.on_plan(4, 40, organisation => 'bolt'), test.on_plan(2, 41, 'admin', 'bolt'), test.on_plan(4, 41, organisation => 'delta'), test.on_plan(4, 42, organisation => 'acme'));
SELECT nonce, state, sqlstate, error FROM test.plans WHERE nonce BETWEEN 40 AND 42 ORDER BY nonce;
TABLE trade;
SELECT wanted, refusal, sqlstate FROM chainify_node.rehearse(test.plans('INSERT INTO trade VALUES (4, ''bolt'')', 43), 1700000100000000);
SELECT wanted, refusal, sqlstate FROM chainify_node.rehearse(test.plans('INSERT INTO trade VALUES (4, ''bolt'')', 43, organisation => 'bolt'), 1700000100000000);

-- The planner cancels, an admin of its organisation does, nobody else.
SELECT * FROM test.planned(test.plans('INSERT INTO t VALUES (50) -- plan 50', 50), test.plans('INSERT INTO t VALUES (51) -- plan 51', 51));
SELECT * FROM test.planned(test.on_plan(3, 50, 'bob'), test.on_plan(3, 50, 'alice', 'bolt'), test.on_plan(3, 50, 'admin', 'bolt'), test.on_plan(3, 50), test.on_plan(4, 50), test.on_plan(3, 50), test.on_plan(3, 51, 'admin'));
SELECT nonce, state FROM test.plans WHERE nonce IN (50, 51) ORDER BY nonce;
-- The organisation and the role have to be there when it runs.
SELECT * FROM test.planned(test.plans('INSERT INTO t VALUES (52) -- plan 52', 52, role => 'bob', organisation => 'acme'), test.plans('INSERT INTO t VALUES (53) -- plan 53', 53, organisation => 'delta'),
    test.plans('INSERT INTO t VALUES (54) -- plan 54', 54, approvals => 'delta'));
SELECT * FROM test.planned(test.on_plan(2, 54, 'admin', 'delta'));
DROP ROLE bob;
SELECT chainify_node.set_registry(jsonb_build_object('organisations', jsonb_agg(jsonb_build_object('name', g,
    'gateway_key', repeat('00', 32), 'ordering_only', false, 'from_block', 0, 'until_block', CASE WHEN g = 'delta' THEN 20 END))))
FROM unnest(ARRAY['acme', 'bolt', 'cargo', 'delta']) g;
SELECT * FROM test.planned(test.on_plan(4, 52, 'bob', 'acme'), test.on_plan(4, 53), test.on_plan(4, 54));
SELECT nonce, state, sqlstate, error FROM test.plans WHERE nonce BETWEEN 52 AND 54 ORDER BY nonce;
-- A plan that does not exist, and what decodes to none.
SELECT * FROM test.planned(test.on_plan(4, 999), test.on_plan(2, 999, 'admin'), test.on_plan(3, 999));
SELECT * FROM test.block(test.plan_tx(test.number(1, 4) || test.field(2, repeat('x', 31)::bytea)));
SELECT * FROM test.block(test.plan_tx(test.number(1, 5) || test.field(2, repeat('x', 32)::bytea)));
SELECT * FROM test.block(test.plan_tx(test.number(1, 1), 'SELECT 1', kind => 1));
SELECT * FROM test.block(test.plans(repeat('-', 65537), 62));
-- So many at once of one role: 100. One that ends makes room.
SELECT ok, sqlstate, message, count(*) FROM test.block(VARIADIC ARRAY(SELECT test.plans('INSERT INTO t VALUES (6) -- plan ' || n, n) FROM generate_series(100, 205) n)) GROUP BY 1, 2, 3 ORDER BY 4;
INSERT INTO test.plan SELECT (regexp_match(p.sql, 'plan (\d+)'))[1]::bigint, p.id FROM chainify_ledger.planned p WHERE p.sql LIKE '%plan 1__' ON CONFLICT DO NOTHING;
SELECT ok, sqlstate FROM test.planned(test.on_plan(3, 100), test.plans('SELECT 1', 300), test.plans('SELECT 1', 301), test.plans('SELECT 1', 302, organisation => 'bolt'));

-- Each change of a plan is in the history.
SELECT _block, _operation, _organisation, _role, organisation, role, state FROM chainify_history.chainify_ledger__planned_ledger WHERE id = (SELECT id FROM test.plan WHERE nonce = 51) ORDER BY _block;
-- Clients see the plans of their role here; readers and admins see all.
SELECT count(*) > 100 AS all FROM chainify.planned;
SET ROLE alice;
SELECT count(*) FILTER (WHERE organisation <> 'acme' OR role <> 'alice') AS others, count(*) > 50 AS own FROM chainify.planned;
SELECT * FROM chainify_ledger.planned;
SELECT * FROM chainify_node.due_plans(0, 1);
RESET ROLE;
SET ROLE stranger;
SELECT count(*) FROM chainify.planned;
RESET ROLE;
-- Without a node a user's call says so; what cannot be a plan is refused before that.
SET ROLE alice;
SELECT chainify.plan('');
SELECT chainify.plan(repeat('x', 65537));
SELECT chainify.plan('SELECT 1', not_before => 'infinity');
SELECT chainify.cancel_planned('\x00');
SELECT chainify.approve_planned(sha256('x'));
RESET ROLE;
-- Changed behind the ledger it deviates.
SELECT test.found('UPDATE chainify_ledger.planned SET role = ''admin'' WHERE state = ''cancelled'' AND organisation = ''acme''', 'UPDATE chainify_ledger.planned SET role = ''alice'' WHERE role = ''admin''');
SELECT test.all_well();
