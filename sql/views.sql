\i sql/setup.sql
-- What readers see of the ledger.
SET client_min_messages = warning;
CREATE TABLE account (id int PRIMARY KEY, balance int);
GRANT ALL ON account TO alice;
RESET client_min_messages;
SET ROLE chainify_reader;
SELECT organisation, chain_id, last_block, state, error FROM chainify.status;
RESET ROLE;
SELECT ok FROM test.deploy('ATTACH TABLE public.account');
SELECT ok FROM test.block(test.tx('INSERT INTO account VALUES ($1, $2)', params => ARRAY['integer', '1', '', NULL]), test.tx('SELECT 1/0'));
SET ROLE chainify_reader;
SELECT number, order_height, block_time AT TIME ZONE 'UTC' AS block_time, length(hash) AS hash, tx_count, succeeded, effects_count, certified FROM chainify.ledger ORDER BY number;
SELECT block, index, length(id) AS id, organisation, role, kind, sql, parameters, outcome, rows, sqlstate, error FROM chainify.transactions ORDER BY block, index;
SELECT name, attached_at, rows, length(state) AS state FROM chainify.tables;
SELECT * FROM chainify.deviations;
SELECT last_block, last_hash = (SELECT hash FROM chainify.ledger WHERE number = 2) AS last_hash, state FROM chainify.status;
SELECT id, balance, _block, _tx, _op FROM chainify_history.account;
SELECT * FROM chainify_ledger.block;
RESET ROLE;
-- Bytes that are no transaction do not hide the others.
UPDATE chainify_ledger.transaction SET body = '\xff' WHERE block = 2 AND index = 0;
SELECT block, index, organisation, sql, outcome FROM chainify.transactions ORDER BY block, index;
SELECT chainify_ledger.table_state_hash('t', '\x00', 1, '\x00');
-- A ledger transaction cannot submit another.
SELECT ok, sqlstate, message FROM test.run($$SELECT chainify.submit('SELECT 1')$$);
SET ROLE stranger;
SELECT * FROM chainify.ledger;
SELECT * FROM chainify.wait('\x00');
RESET ROLE;
-- A client is no reader: history and other clients' statements hold rows it may have no right to see.
SET ROLE alice;
SELECT count(*) FROM chainify.ledger;
SELECT count(*) FROM chainify_history.account;
SELECT count(*) FROM chainify.transactions;
SELECT count(*) FROM chainify.verify_ledger();
RESET ROLE;
