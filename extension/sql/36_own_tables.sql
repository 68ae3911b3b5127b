-- Ledger tables of the ledger's own: further things that all organisations have the same, beside clients' rows.

-- The first row puts the table on the ledger, empty, and there it stays: as if before the transaction, whose changes come after.
CREATE FUNCTION chainify_ledger.attach_own(own text, at_block bigint, at_tx integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tbl regclass := ('chainify_ledger.' || own)::regclass;
BEGIN
    IF NOT EXISTS (SELECT FROM chainify_ledger.ledger_table WHERE relation = tbl AND detached_at IS NULL) THEN
        PERFORM chainify_ledger.attach_one(tbl, 'chainify_ledger', own, at_block, at_tx - 1);
        PERFORM chainify_ledger.keep_schema_parts();
        PERFORM chainify_ledger.announce_tables();
    END IF;
END
$$;
REVOKE ALL ON FUNCTION chainify_ledger.attach_own FROM PUBLIC;

-- Set by DEPLOY transactions (rules/agreed_settings.rs); without a row the default of chainify.settings.
CREATE TABLE chainify_ledger.setting (
    name  text PRIMARY KEY,
    value text NOT NULL
);

CREATE VIEW chainify.settings AS
SELECT d.name, coalesce(s.value, d.value) AS value
FROM (VALUES ('determinism', 'strict'), ('deploys', 'free')) d (name, value) LEFT JOIN chainify_ledger.setting s ON s.name = d.name;
GRANT SELECT ON chainify.settings TO chainify_reader, chainify_client;

-- The organisations that may act as a role; without a row, every organisation (agreement/role_organisations.rs). Set by DEPLOY transactions.
CREATE TABLE chainify_ledger.role_organisation (
    role          text PRIMARY KEY,
    organisations text NOT NULL              -- by name, with ", " between
);

-- NULL lets every organisation act as the role again.
CREATE FUNCTION chainify.set_role_organisations(role text, organisations text[])
    RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS 'MODULE_PATHNAME', 'chainify_set_role_organisations' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;

CREATE VIEW chainify.role_organisations AS
SELECT role, string_to_array(organisations, ', ') AS organisations FROM chainify_ledger.role_organisation;
GRANT SELECT ON chainify.role_organisations TO chainify_reader, chainify_client;
