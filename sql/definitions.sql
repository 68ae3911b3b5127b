\i sql/setup.sql
-- A definition that was changed behind the ledger is put back from what the ledger keeps of it, by a step of recovery of its own.
SET client_min_messages = warning;
CREATE SCHEMA dep;
ALTER SCHEMA dep OWNER TO admin;
CREATE TABLE account (id int PRIMARY KEY, branch int NOT NULL DEFAULT 5, name text, balance numeric CHECK (balance >= 0));
ALTER TABLE account ADD CONSTRAINT name_is_short CHECK (length(name) < 20);
CREATE UNIQUE INDEX account_name ON account (name) WHERE name IS NOT NULL;
CREATE TABLE entry (id int PRIMARY KEY, account int REFERENCES account);
CREATE POLICY own ON account FOR UPDATE TO alice USING (branch = 5) WITH CHECK (true);
CREATE POLICY all_of_it ON account FOR ALL USING (true);
ALTER TABLE account ENABLE ROW LEVEL SECURITY;
INSERT INTO account SELECT i, 5, 'n' || i, i FROM generate_series(1, 20) i;
INSERT INTO entry SELECT i, i FROM generate_series(1, 20) i;
GRANT ALL ON account, entry TO alice;
ALTER TABLE account OWNER TO admin;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.account, public.entry');
SELECT ok, message FROM test.deploy('CREATE FUNCTION dep.fee(n numeric DEFAULT 1) RETURNS numeric LANGUAGE sql IMMUTABLE AS ''SELECT n * 2''');
SELECT ok, message FROM test.deploy('REVOKE ALL ON FUNCTION dep.fee(numeric) FROM public; GRANT EXECUTE ON FUNCTION dep.fee(numeric) TO alice');
SELECT ok, message FROM test.deploy('CREATE TABLE dep.loan (id int PRIMARY KEY, fee numeric CHECK (dep.fee(fee) > 0)); GRANT SELECT, INSERT ON dep.loan TO alice; CREATE VIEW dep.loans AS SELECT id FROM dep.loan');
SELECT ok, message FROM test.deploy('ALTER TABLE account RENAME CONSTRAINT name_is_short TO short_name');
CREATE FUNCTION test.repair(step text) RETURNS TABLE (tbl text, key jsonb, expected jsonb, found jsonb) LANGUAGE sql AS $$
    SELECT r.* FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, NULL, step) r $$;
-- What the step says of damage, and what verification finds afterwards; undone.
CREATE FUNCTION test.put_back(VARIADIC statements text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    statement text;
    lines text[] := '{}';
BEGIN
    BEGIN
        SET LOCAL chainify.guard = off;
        SET LOCAL session_replication_role = replica;
        FOREACH statement IN ARRAY statements LOOP
            EXECUTE statement;
        END LOOP;
        SET LOCAL session_replication_role = origin;
        SELECT array_agg(DISTINCT 'found ' || v) INTO lines FROM (
            SELECT v.tbl || ' ' || v.what FROM chainify_ledger.ledger_table t, chainify.verify_table(t.relation) v WHERE t.detached_at IS NULL
            UNION ALL SELECT v.what || ' ' || split_part(v.detail, ':', 1) FROM chainify.verify_ledger() v WHERE v.what NOT LIKE 'certificate%') v (v);
        BEGIN
            lines := lines || (SELECT array_agg(concat_ws(' ', r.tbl, r.key->>'object', 'not', replace(r.found #>> '{}', E'\n', ' / '), 'but', replace(r.expected #>> '{}', E'\n', ' / '))
                                                ORDER BY r.tbl, r.key, r.expected, r.found) FROM test.repair('definitions') r);
        EXCEPTION WHEN SQLSTATE 'CH002' THEN
            GET STACKED DIAGNOSTICS statement = PG_EXCEPTION_DETAIL;
            lines := lines || statement;
        END;
        lines := lines || test.all_well();
        RAISE EXCEPTION USING ERRCODE = 'P0099';
    EXCEPTION WHEN SQLSTATE 'P0099' THEN
        RETURN QUERY SELECT unnest(lines);
    END;
END
$$;
RESET client_min_messages;
SELECT test.all_well();
SELECT * FROM test.repair('definitions');
-- Tables.
SELECT * FROM test.put_back('ALTER TABLE account DROP CONSTRAINT short_name');
SELECT * FROM test.put_back('ALTER TABLE account DROP CONSTRAINT account_balance_check', 'UPDATE account SET balance = -1 WHERE id = 3');
SELECT * FROM test.put_back('ALTER TABLE account ADD CHECK (id < 1000)');
SELECT * FROM test.put_back('ALTER TABLE entry DROP CONSTRAINT entry_account_fkey', 'ALTER TABLE account DROP CONSTRAINT account_pkey');
SELECT * FROM test.put_back($$UPDATE pg_constraint SET convalidated = false WHERE conname = 'short_name'$$);
SELECT * FROM test.put_back('DROP INDEX account_name');
SELECT * FROM test.put_back($$UPDATE pg_index SET indisunique = false WHERE indexrelid = 'account_name'::regclass$$);
SELECT * FROM test.put_back('CREATE UNIQUE INDEX ON account (balance)');
SELECT * FROM test.put_back('ALTER TABLE account ALTER branch DROP NOT NULL, ALTER branch SET DEFAULT 6', 'ALTER TABLE account ALTER balance SET NOT NULL');
SELECT * FROM test.put_back('DROP POLICY own ON account', 'ALTER TABLE account DISABLE ROW LEVEL SECURITY', 'ALTER TABLE account FORCE ROW LEVEL SECURITY');
SELECT * FROM test.put_back('ALTER POLICY own ON account USING (true)');
SELECT * FROM test.put_back('CREATE RULE no AS ON DELETE TO account DO INSTEAD NOTHING');
SELECT * FROM test.put_back('CREATE FUNCTION test.t() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RETURN new; END $f$', 'CREATE TRIGGER mine BEFORE INSERT ON account FOR EACH ROW EXECUTE FUNCTION test.t()');
SELECT * FROM test.put_back('ALTER TABLE entry DISABLE TRIGGER ALL');
SELECT * FROM test.put_back('DROP TRIGGER chainify_digest ON account');
-- What no statement can put back is left to an operator, named.
SELECT * FROM test.put_back('ALTER TABLE account ALTER name TYPE varchar(20)');
-- What was deployed.
SELECT * FROM test.put_back($$CREATE OR REPLACE FUNCTION dep.fee(n numeric DEFAULT 1) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT n * 3'$$);
SELECT * FROM test.put_back($$UPDATE pg_proc SET prosrc = 'SELECT 1.0' WHERE proname = 'fee'$$, 'ALTER FUNCTION dep.fee SECURITY DEFINER');
SELECT * FROM test.put_back('ALTER FUNCTION dep.fee OWNER TO postgres', 'GRANT EXECUTE ON FUNCTION dep.fee TO public');
SELECT * FROM test.put_back('REVOKE INSERT ON dep.loan FROM alice', 'GRANT DELETE ON dep.loan TO alice WITH GRANT OPTION');
SELECT * FROM test.put_back('ALTER TABLE dep.loan DROP CONSTRAINT loan_fee_check', 'DROP FUNCTION dep.fee');
SELECT * FROM test.put_back('GRANT UPDATE ON dep.loans TO public', 'ALTER VIEW dep.loans OWNER TO postgres');
SELECT * FROM test.put_back('CREATE OR REPLACE VIEW dep.loans AS SELECT id + 0 AS id FROM dep.loan');
-- What is kept is changed as well: then it cannot be shown to be what was agreed.
SELECT * FROM test.put_back('ALTER FUNCTION dep.fee OWNER TO postgres', $$UPDATE chainify_ledger.definition SET definition = replace(definition, 'admin', 'postgres') WHERE identity LIKE 'dep.fee%'$$);
SELECT * FROM test.put_back('ALTER TABLE account DROP CONSTRAINT short_name', 'DELETE FROM chainify_ledger.schema_part');
SELECT * FROM test.put_back('ALTER TABLE account DROP CONSTRAINT short_name', 'UPDATE chainify_ledger.ledger_table SET schema_hash = chainify_ledger.schema_hash(chainify_ledger.schema_text(relation))');

-- The scrubber's record stays open for what the step did not cure. Names are those of before.
SET chainify.guard = off;
SET session_replication_role = replica;
ALTER TABLE account DROP CONSTRAINT short_name;
UPDATE account SET balance = 1000 WHERE id = 4;
RESET session_replication_role;
RESET chainify.guard;
SELECT findings > 0 AS found FROM chainify_node.scrub('account');
SELECT tbl, key, expected FROM test.repair('definitions');
SELECT deviates FROM chainify_node.position();
SELECT tbl, key FROM test.repair('rows');
SELECT deviates FROM chainify_node.position();
SELECT conname FROM pg_constraint WHERE conrelid = 'account'::regclass ORDER BY 1;
SELECT cured_by, tbl, key FROM chainify.deviations ORDER BY id, key;
-- What was put back can be changed through the ledger.
SELECT ok, message FROM test.deploy('ALTER TABLE account DROP CONSTRAINT short_name');
SELECT ok, message FROM test.deploy('CREATE OR REPLACE FUNCTION dep.fee(n numeric DEFAULT 1) RETURNS numeric LANGUAGE sql IMMUTABLE AS ''SELECT n * 4''');
SELECT test.all_well();

-- What users wrote runs as them: a constraint whose function says who calls it.
SELECT ok, message FROM test.deploy('CREATE FUNCTION dep.told(n int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $f$ BEGIN RAISE NOTICE ''called as %'', current_user; RETURN true; END $f$');
SET client_min_messages = warning;
SELECT ok, message FROM test.deploy('ALTER TABLE account ADD CONSTRAINT told CHECK (id > 1 OR dep.told(id))');
SET chainify.guard = off;
ALTER TABLE account DROP CONSTRAINT told;
RESET chainify.guard;
RESET client_min_messages;
SELECT tbl, key, expected FROM test.repair('definitions');
SELECT test.all_well();

-- A constraint whose function names a table-less helper without its schema: it is put back under the path of blocks.
SELECT ok, message FROM test.deploy('CREATE FUNCTION public.limit_of_ids() RETURNS int LANGUAGE sql IMMUTABLE AS ''SELECT 1000000''');
SELECT ok, message FROM test.deploy('CREATE FUNCTION public.few_ids(n int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $f$ BEGIN RETURN n < limit_of_ids(); END $f$');
SELECT ok, message FROM test.deploy('ALTER TABLE account ADD CONSTRAINT few CHECK (public.few_ids(id))');
SELECT * FROM test.put_back('ALTER TABLE account DROP CONSTRAINT few');

-- NOT NULL is a constraint with a name in later majors than 15 alone: no statement may use the name.
SELECT ok, message FROM test.deploy('CREATE DOMAIN dep.kept AS int NOT NULL');
SELECT d.c, b.sqlstate FROM unnest(ARRAY['ALTER TABLE account DROP CONSTRAINT account_branch_not_null', 'ALTER TABLE account VALIDATE CONSTRAINT account_branch_not_null',
    'ALTER TABLE account RENAME CONSTRAINT account_branch_not_null TO named', $$COMMENT ON CONSTRAINT account_branch_not_null ON account IS 'x'$$,
    'ALTER DOMAIN dep.kept DROP CONSTRAINT kept_not_null', 'ALTER DOMAIN dep.kept RENAME CONSTRAINT kept_not_null TO named']) d (c), test.deploy(d.c) b;
SELECT test.all_well();
