-- CREATE EXTENSION looks in the schema it is given, public, as a superuser; somebody may have made operators and functions there (X11).
SET LOCAL search_path = pg_catalog, pg_temp;

-- Roles are shared by the whole cluster, so they may be there already from another database. The lock lets one database after the
-- other make them.
LOCK TABLE pg_catalog.pg_authid IN SHARE ROW EXCLUSIVE MODE;
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['chainify_reader', 'chainify_client', 'chainify_admin', 'chainify_node'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', r);
        END IF;
    END LOOP;
END
$$;
-- Clients are no readers: whoever reads the history reads every row of every ledger table, whatever its own rights on them.
GRANT chainify_reader TO chainify_node;
GRANT chainify_client TO chainify_admin;

CREATE SCHEMA chainify;
CREATE SCHEMA chainify_node;
CREATE SCHEMA chainify_ledger;
CREATE SCHEMA chainify_history;
CREATE SCHEMA chainify_checkpoint;
CREATE SCHEMA chainify_initial;
GRANT USAGE ON SCHEMA chainify TO PUBLIC;
GRANT USAGE ON SCHEMA chainify_node TO chainify_node;
GRANT USAGE ON SCHEMA chainify_history, chainify_checkpoint TO chainify_reader;
-- Nobody but the extension's owner names what is in chainify_ledger: many of its functions are executed in place of PostgreSQL's own, or by
-- views, so that everybody may execute them.
