-- Agreement policies (agreement/agreement_policies.rs, agreement/agreements.rs; spec/agreement.md).

-- A ledger table of the ledger's own. Set by DEPLOY transactions.
CREATE TABLE chainify_ledger.policy (
    name   text PRIMARY KEY,                 -- of the table: schema.name, unquoted
    policy text NOT NULL
);

-- Things that DEPLOY transactions change only with the agreement of the organisations: policies, and the tables that they are of.
CREATE FUNCTION chainify_ledger.governed() RETURNS TABLE (name text, policy text, relation oid, version integer, schema_hash bytea)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.name, p.policy, t.relation, t.id, t.schema_hash
    FROM chainify_ledger.policy p LEFT JOIN chainify_ledger.ledger_table t ON t.name = p.name AND t.detached_at IS NULL
    ORDER BY p.name COLLATE "C"
$$;

-- Columns that can name an organisation: texts and enums.
CREATE FUNCTION chainify_ledger.naming_columns(relation oid) RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.attname::text FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND t.typcategory IN ('S', 'E')
$$;

-- NULL takes the policy away.
CREATE FUNCTION chainify.set_policy("table" text, policy text)
    RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS 'MODULE_PATHNAME', 'chainify_set_policy' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;

CREATE VIEW chainify.policies AS
SELECT name AS "table", policy FROM chainify_ledger.policy;
GRANT SELECT ON chainify.policies TO chainify_reader, chainify_client;

REVOKE ALL ON FUNCTION chainify_ledger.governed, chainify_ledger.naming_columns FROM PUBLIC;

-- From here on, this organisation's own matter: how it decides when it is asked to agree (entry/rehearsal.rs).

CREATE TABLE chainify_ledger.agreement_check (
    name     text PRIMARY KEY,               -- of the table
    function oid NOT NULL,                   -- of this database
    called   text NOT NULL DEFAULT ''        -- the function's name, by which a dump or pg_upgrade finds it again
);

-- Functions go by number, and by name where their numbers change: pg_upgrade takes no column of type regprocedure.
CREATE FUNCTION chainify_ledger.function_called(of oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (pg_identify_object('pg_proc'::regclass, oid, 0)).identity FROM pg_proc WHERE oid = of
$$;
CREATE FUNCTION chainify_ledger.name_functions() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A restored row has the name already, and a number of another database.
    IF NEW.called = '' THEN
        NEW.called := chainify_ledger.function_called(NEW.function);
    END IF;
    RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION chainify_ledger.function_called, chainify_ledger.name_functions FROM PUBLIC;
CREATE TRIGGER name_functions BEFORE INSERT ON chainify_ledger.agreement_check
    FOR EACH ROW EXECUTE FUNCTION chainify_ledger.name_functions();

-- Texts of DEPLOY transactions that an admin approved.
CREATE TABLE chainify_ledger.approved (
    statements  text NOT NULL,
    approved_by text NOT NULL,
    approved_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX approved_statements ON chainify_ledger.approved USING hash (statements);

CREATE FUNCTION chainify.set_agreement_check("table" text, function text) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_set_agreement_check' LANGUAGE C VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION chainify.approve_deploy(statements text, approve boolean DEFAULT true) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_approve_deploy' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Runs the transaction, undoes it, and says what agreement to it takes.
CREATE FUNCTION chainify_node.rehearse(transaction bytea, block_time bigint, OUT wanted text[], OUT refusal text, OUT sqlstate text, OUT message text)
    AS 'MODULE_PATHNAME', 'chainify_rehearse' LANGUAGE C VOLATILE PARALLEL UNSAFE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chainify_node.has_policies() RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN RETURN EXISTS (SELECT FROM chainify_ledger.policy); END $$; -- keeps its plan

REVOKE ALL ON FUNCTION chainify.set_agreement_check, chainify.approve_deploy,
    chainify_node.rehearse, chainify_node.has_policies FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.set_agreement_check, chainify.approve_deploy TO chainify_admin;
GRANT EXECUTE ON FUNCTION chainify_node.rehearse, chainify_node.has_policies TO chainify_node;
