\i sql/setup.sql
-- What the views of how the ledger does say, and that one row that was tampered with does not hide the others.
SET client_min_messages = warning;
CREATE TABLE account (id int PRIMARY KEY, balance numeric CHECK (balance >= 0));
CREATE TABLE entry (account int, day date, note text, PRIMARY KEY (day, account)) PARTITION BY RANGE (day);
CREATE TABLE entry_2026 PARTITION OF entry FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
INSERT INTO account SELECT i, 100 FROM generate_series(1, 20) i;
GRANT ALL ON account, entry TO alice;
GRANT ALL ON SCHEMA public TO admin;
ALTER TABLE account OWNER TO admin;
SET timezone = 'UTC';
CREATE FUNCTION test.certify(number bigint, VARIADIC organisations text[]) RETURNS void LANGUAGE sql AS $$
    SELECT chainify_node.store_certificate(b.number, 0, b.hash, (SELECT jsonb_agg(jsonb_build_object(
        'organisation', o, 'validator', 'aa', 'height', 12, 'round', 0, 'extension', '01', 'signature', '02')) FROM unnest(organisations) o))
    FROM chainify_ledger.block b WHERE b.number = certify.number $$;
RESET client_min_messages;
-- Nothing yet.
SELECT * FROM chainify.stat_blocks;
SELECT * FROM chainify.stat_organisations;
SELECT * FROM chainify.stat_tables;
SELECT * FROM chainify.stat_scrubber;

SELECT ok FROM test.deploy('ATTACH TABLE public.account, public.entry');
SELECT ok FROM test.run('UPDATE account SET balance = balance - id', 'SELECT 1/0', $$INSERT INTO entry VALUES (1, '2026-02-03', 'x')$$);
SELECT ok FROM test.run('UPDATE account SET balance = -1');
SELECT chainify_node.set_registry('{"consents": [{"from_block": 2, "consent": 2}], "validators": [], "organisations": [
    {"name": "acme", "gateway_key": "01", "ordering_only": false, "from_block": 1, "until_block": 3},
    {"name": "acme", "gateway_key": "02", "ordering_only": false, "from_block": 3},
    {"name": "bolt", "gateway_key": "03", "ordering_only": false, "from_block": 2},
    {"name": "gone", "gateway_key": "04", "ordering_only": false, "from_block": 1, "until_block": 3},
    {"name": "last", "gateway_key": "06", "ordering_only": false, "from_block": 1, "until_block": 4},
    {"name": "watch", "gateway_key": "05", "ordering_only": true, "from_block": 1}]}');
SELECT test.certify(1, 'acme', 'gone');
SELECT test.certify(2, 'acme', 'bolt');
SELECT test.certify(3, 'acme');
SELECT * FROM chainify.stat_blocks ORDER BY block;
SELECT block, effect_round, organisation, validator, order_height FROM chainify.votes ORDER BY block, organisation;
-- An organisation that the next block no longer knows took part in the last one.
SELECT * FROM chainify.stat_organisations ORDER BY name;
SELECT name, attached_at, rows, table_bytes > 0 AS stored, history_bytes > 0 AS history, checkpoint_bytes > 0 AS base, base_block, checkpoints
FROM chainify.stat_tables ORDER BY name;
SELECT name, block, due_at = now() AS due FROM chainify.stat_scrubber ORDER BY name;
DO $$ BEGIN PERFORM chainify_node.scrub('account'); PERFORM chainify_node.audit(); END $$;
SELECT name, block, rows, findings, clean_block, read_at <= now() + interval '1 min' AS read, took > interval '0' AS took, due_at - read_at AS in
FROM chainify.stat_scrubber ORDER BY name;
-- Versions of a table.
SELECT ok FROM test.deploy('ALTER TABLE public.account ADD COLUMN note text DEFAULT ''n''');
SELECT ok FROM test.deploy('DETACH TABLE public.entry');
SELECT * FROM chainify.histories ORDER BY name, since_block;
SELECT name FROM chainify.stat_tables;

-- Who may look.
SET ROLE alice;
SELECT FROM chainify.votes;
SELECT FROM chainify.stat_organisations;
RESET ROLE;
SET ROLE chainify_reader;
SELECT count(*) FROM chainify.stat_blocks, chainify.stat_organisations, chainify.stat_tables, chainify.stat_scrubber, chainify.votes, chainify.histories;
RESET ROLE;

-- What is kept was changed.
SET chainify.guard = off;
UPDATE chainify_ledger.certificate SET votes = '{}' WHERE number = 1;
UPDATE chainify_ledger.certificate SET votes = '[7, "x", {"organisation": 7}]' WHERE number = 2;
DROP TABLE chainify_history.account CASCADE;
SELECT block, votes FROM chainify.stat_blocks ORDER BY block;
SELECT name, votes, last_vote FROM chainify.stat_organisations ORDER BY name;
SELECT name, history_bytes FROM chainify.stat_tables;
SELECT name, history::text ~ '^\d+$' AS gone FROM chainify.histories ORDER BY name, since_block;
