-- CALL in ledger transactions, and the policy for what depends on the order of rows.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
CREATE TABLE account (id serial PRIMARY KEY, balance numeric NOT NULL, seen timestamptz);
CREATE TABLE local (a int);
INSERT INTO account (balance) VALUES (10), (20), (30);
GRANT ALL ON account, local TO alice;
GRANT USAGE ON SEQUENCE account_id_seq TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.account');
CREATE PROCEDURE pays(i int, amount numeric DEFAULT 1) LANGUAGE plpgsql AS $$ BEGIN UPDATE account SET balance = balance - amount WHERE id = i; END $$;
CREATE PROCEDURE pays_sql(i int, amount numeric) LANGUAGE sql AS 'UPDATE account SET balance = balance - amount WHERE id = i';
CREATE PROCEDURE tells(i int, INOUT balance numeric DEFAULT NULL) LANGUAGE plpgsql AS $$ BEGIN SELECT a.balance INTO tells.balance FROM account a WHERE id = i; END $$;
CREATE PROCEDURE hands_on(i int) LANGUAGE plpgsql AS $$ DECLARE b numeric; BEGIN CALL tells(i, b); CALL pays(i, b); END $$;
CREATE PROCEDURE keeps(i int) LANGUAGE plpgsql AS $$ BEGIN UPDATE account SET balance = 99 WHERE id = i; COMMIT; END $$;
CREATE PROCEDURE keeps_caught(i int) LANGUAGE plpgsql AS $$ BEGIN UPDATE account SET balance = 99 WHERE id = i; BEGIN ROLLBACK; EXCEPTION WHEN OTHERS THEN NULL; END; END $$;
CREATE PROCEDURE sees(i int, t timestamptz DEFAULT clock_timestamp()) LANGUAGE plpgsql AS $$ BEGIN UPDATE account SET seen = t WHERE id = i; END $$;
CREATE PROCEDURE goes_out() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO local VALUES (1); END $$;
CREATE PROCEDURE foreign_code() LANGUAGE internal AS 'pg_backend_pid';
CREATE PROCEDURE opens(INOUT i bigint) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account (id, balance) VALUES (i, 0); END $$;
SELECT tx, ok, rows, sqlstate, message FROM test.run('CALL pays(1)', 'CALL pays(1, 2)', 'CALL pays(amount => 3, i => 1)', 'CALL pays_sql(2, 5); CALL pays_sql(2, 6)', 'CALL tells(1)', 'CALL tells(1, NULL); CALL pays(1)',
    'CALL hands_on(3)', 'CALL keeps(1)', 'CALL keeps_caught(2)', 'CALL sees(1)', 'CALL sees(1, now())', 'CALL pays(pg_backend_pid())', 'CALL goes_out()', 'CALL foreign_code()', 'CALL opens(nextval(''account_id_seq''))', 'CALL nowhere()', 'CALL pays(''x'')', 'DO $$BEGIN END$$');
SELECT tx, ok, rows, sqlstate FROM test.block(test.tx('CALL pays($1, $2)', params => ARRAY['integer', '2', 'numeric', '0.5']), test.tx('CALL pays($1, $2)', params => ARRAY['', '2', '', '0.5']));
SELECT id, balance, seen IS NOT NULL AS seen FROM account ORDER BY id;
SELECT s, verdict, construct FROM unnest(ARRAY['CALL pays(1)', 'CALL sees(1)', 'CALL pays((random() * 2)::int)', 'CALL opens(nextval(''account_id_seq''))', 'CALL pays(pg_backend_pid())']) s, chainify.analyze(s) ORDER BY s;
SELECT test.states_hold();

-- determinism is strict until a DEPLOY says otherwise, for every organisation at the same place of the order
TABLE chainify.settings;
CREATE FUNCTION test.tries() RETURNS SETOF record LANGUAGE sql AS $$ SELECT tx, ok, sqlstate, message FROM test.run('UPDATE account SET balance = balance + 1 WHERE id IN (SELECT id FROM account LIMIT 1)',
    'SELECT array_agg(id) FROM account', 'UPDATE account SET seen = clock_timestamp()', 'UPDATE account SET balance = (SELECT count(*) FROM local)', 'SELECT gen_random_uuid()', 'SELECT pg_sleep(0)', 'SELECT * FROM account FOR UPDATE SKIP LOCKED',
    'INSERT INTO account (balance) SELECT balance FROM account') $$;
SELECT * FROM test.tries() t (tx int, ok boolean, sqlstate text, message text);
SELECT s, verdict, construct FROM unnest(ARRAY['SELECT id FROM account LIMIT 1', 'SELECT clock_timestamp()']) s, chainify.analyze(s) ORDER BY s;
SELECT tx, ok, sqlstate, message FROM test.block(test.tx('SET DETERMINISM sometimes', 'admin', 3), test.tx('SET DETERMINISM detect', 'alice', 3), test.tx('SET DETERMINISM detect'), test.tx(' set  determinism DETECT;', 'admin', 3),
    test.tx('SELECT array_agg(id) FROM account'), test.tx('SET DETERMINISM strict', 'admin', 3), test.tx('SELECT array_agg(id) FROM account'), test.tx('SET DETERMINISM detect', 'admin', 3));
TABLE chainify.settings;
SELECT * FROM test.tries() t (tx int, ok boolean, sqlstate text, message text);
SELECT s, verdict, construct FROM unnest(ARRAY['SELECT id FROM account LIMIT 1', 'SELECT clock_timestamp()']) s, chainify.analyze(s) ORDER BY s;
-- a policy that is rolled back was never there
BEGIN;
SELECT ok FROM test.deploy('SET DETERMINISM strict');
TABLE chainify.settings;
ROLLBACK;
SELECT ok FROM test.run('SELECT array_agg(id) FROM account');
SELECT ok FROM test.deploy('SET DETERMINISM strict');
SELECT ok, sqlstate FROM test.run('SELECT array_agg(id) FROM account');
SELECT h._block, h._tx, h._op, h.value, t.role FROM chainify_history.chainify_ledger__setting h JOIN chainify.transactions t ON (t.block, t.index) = (h._block, h._tx) ORDER BY 1, 2;
SELECT test.states_hold();
SELECT * FROM chainify.verify_table('chainify_ledger.setting');
SELECT block, what, detail FROM chainify.verify_ledger() WHERE what <> 'certificate missing';
