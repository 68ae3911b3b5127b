-- From 0.1.0 to this version. scripts/install-extension puts extension/sql in the place of the line that names it: functions and views
-- there replace those of 0.1.0, and what 0.1.0 had already stays.
--
-- Nothing is dropped with what depends on it: an object of a user that is in the way fails the update, which then changes nothing.
SET LOCAL search_path = pg_catalog, pg_temp;

-- DEPLOY transactions of before, for organisations that join. It reads the whole ledger, and comes first: no lock is held yet.
CREATE TABLE chainify_ledger.deployed (
    block bigint NOT NULL,
    index integer NOT NULL,
    body  bytea NOT NULL,
    path  bytea NOT NULL,
    PRIMARY KEY (block, index)
);
CREATE FUNCTION chainify_ledger.keep_deployed() RETURNS bigint
    AS 'MODULE_PATHNAME', 'chainify_keep_deployed' LANGUAGE C VOLATILE PARALLEL UNSAFE;
SELECT chainify_ledger.keep_deployed();
DROP FUNCTION chainify_ledger.keep_deployed();

-- The ledger's own tables. From here on they are locked: new sessions wait for the end, which is a matter of milliseconds for each table.
ALTER TABLE chainify_ledger.ledger_table ADD COLUMN shared_text text, ADD COLUMN wording bytea, ADD COLUMN beside text,
    ADD CHECK ((shared_text IS NULL) = (wording IS NULL));
-- By name: in a ledger that was restored the numbers are not right yet. Histories have the types too, until the end of this script. Where the
-- history of another table was of that name: none.
ALTER TABLE chainify_ledger.ledger_column ADD COLUMN type regtype;
UPDATE chainify_ledger.ledger_column c SET type = coalesce(
    (SELECT a.atttypid FROM pg_attribute a WHERE t.detached_at IS NULL AND a.attrelid = t.relation AND a.attname = c.name::name AND NOT a.attisdropped),
    (SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = t.history AND a.attname = c.name::name AND NOT a.attisdropped), 0)
FROM chainify_ledger.ledger_table t WHERE t.id = c.table_id;
ALTER TABLE chainify_ledger.ledger_column ALTER COLUMN type SET NOT NULL;
ALTER TABLE chainify_ledger.deviation ADD COLUMN again integer NOT NULL DEFAULT 0, ADD COLUMN due timestamptz;
ALTER TABLE chainify_ledger.chain ADD COLUMN letters text;
ALTER TABLE chainify_ledger.scrubbed ADD COLUMN clean_at timestamptz;
UPDATE chainify_ledger.scrubbed SET clean_at = at WHERE findings = 0 AND at > '-infinity';

-- Functions go by number, and by name where their numbers change.
ALTER TABLE chainify_ledger.agreement_check ALTER COLUMN function TYPE oid, ADD COLUMN called text NOT NULL DEFAULT '';
DELETE FROM chainify_ledger.agreement_check WHERE NOT EXISTS (SELECT FROM pg_proc WHERE oid = function);
UPDATE chainify_ledger.agreement_check SET called = (pg_identify_object('pg_proc'::regclass, function, 0)).identity;
-- For as long as the table changes the view is another, since views of users may depend on it.
CREATE OR REPLACE VIEW chainify.declared_access AS
SELECT p.oid::regprocedure AS function, NULL::regclass AS ledger_table, p.oid::regprocedure AS rows, p.proargnames AS key
FROM pg_proc p;
DROP VIEW chainify_ledger.declarations;
ALTER TABLE chainify_ledger.declared_access ALTER COLUMN function TYPE oid, ALTER COLUMN rows TYPE oid,
    ADD COLUMN called text NOT NULL DEFAULT '', ADD COLUMN rows_called text;
ALTER TABLE chainify_ledger.declared_access ALTER COLUMN called DROP DEFAULT;
DELETE FROM chainify_ledger.declared_access WHERE NOT EXISTS (SELECT FROM pg_proc WHERE oid = function)
    OR rows IS NOT NULL AND NOT EXISTS (SELECT FROM pg_proc WHERE oid = rows);
UPDATE chainify_ledger.declared_access SET called = (pg_identify_object('pg_proc'::regclass, function, 0)).identity,
    rows_called = (pg_identify_object('pg_proc'::regclass, rows, 0)).identity;

REVOKE USAGE ON SCHEMA chainify_ledger FROM chainify_reader;

-- Functions that have other arguments or results now, and those that are gone. None is for users.
DROP FUNCTION chainify_ledger.attach_one, chainify_ledger.attach_tables, chainify_ledger.find_check, chainify_ledger.follow, chainify_ledger.follow_table, chainify_ledger.new_columns,
    chainify_node.execute_block;

-- extension/sql

-- The copies of ledger tables, which had the domains and the NOT NULL of the tables. No row is read or written.
DO $$
DECLARE
    copy record;
    part record;
BEGIN
    FOR copy IN
        SELECT r.oid::regclass AS relation, r.relnamespace = 'chainify_history'::regnamespace AS history, r.relname || '_ledger' AS view,
               EXISTS (SELECT FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
                       WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped AND y.typtype = 'd') AS domains,
               live.relation AS live, live.copy AS name
        FROM pg_class r LEFT JOIN LATERAL (
            SELECT t.relation, chainify_ledger.copy_name(n.nspname, k.relname) AS copy FROM chainify_ledger.ledger_table t
            JOIN pg_class k ON k.oid = t.relation JOIN pg_namespace n ON n.oid = k.relnamespace
            WHERE t.history = r.oid AND t.detached_at IS NULL) live ON true
        WHERE r.relnamespace IN ('chainify_history'::regnamespace, 'chainify_checkpoint'::regnamespace, 'chainify_initial'::regnamespace)
          AND r.relkind = 'r' LOOP
        FOR part IN SELECT a.attname FROM pg_attribute a WHERE a.attrelid = copy.relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull
                    AND a.attname NOT IN ('_block', '_tx', '_serial', '_op', '_hash') LOOP
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', copy.relation, part.attname);
        END LOOP;
        CONTINUE WHEN NOT copy.domains;
        IF copy.history THEN
            PERFORM chainify_ledger.drop_ledger_view(copy.view);
        END IF;
        -- To a type with a length PostgreSQL would write all rows anew. Their values have the length already, since the domain has it.
        FOR part IN
            WITH RECURSIVE below (attname, attnum, attcollation, type, typmod) AS (
                SELECT a.attname, a.attnum, a.attcollation, a.atttypid, a.atttypmod FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
                WHERE a.attrelid = copy.relation AND a.attnum > 0 AND NOT a.attisdropped AND y.typtype = 'd'
                UNION ALL
                SELECT b.attname, b.attnum, b.attcollation, y.typbasetype, y.typtypmod FROM below b JOIN pg_type y ON y.oid = b.type WHERE y.typtype = 'd')
            SELECT b.*, (SELECT format(' COLLATE %I.%I', n.nspname, o.collname) FROM pg_collation o JOIN pg_namespace n ON n.oid = o.collnamespace
                         WHERE o.oid = b.attcollation) AS collated
            FROM below b JOIN pg_type y ON y.oid = b.type WHERE y.typtype <> 'd' LOOP
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I TYPE %s%s', copy.relation, part.attname, format_type(part.type, -1), part.collated);
            UPDATE pg_attribute a SET atttypmod = part.typmod WHERE a.attrelid = copy.relation AND a.attnum = part.attnum AND a.atttypmod <> part.typmod;
        END LOOP;
        IF copy.history THEN
            PERFORM chainify_ledger.make_ledger_view(copy.relation);
        END IF;
        IF copy.live IS NOT NULL THEN
            PERFORM chainify_ledger.make_as_of_view(copy.live, copy.name);
        END IF;
    END LOOP;
    -- Objects that a script makes belong to the extension. These belong to the ledger's tables, and a dump has them.
    FOR copy IN SELECT r.oid::regclass AS view FROM pg_class r JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = r.oid
                WHERE r.relnamespace = 'chainify_history'::regnamespace AND r.relkind = 'v' AND d.deptype = 'e' LOOP
        EXECUTE format('ALTER EXTENSION chainify DROP VIEW %s', copy.view);
    END LOOP;
END
$$;
-- Values of tables have the form in which the ledger stores them. The triggers that refuse changes from outside stay away meanwhile.
DO $$
DECLARE
    tbl regclass;
BEGIN
    FOR tbl IN SELECT t.relation FROM chainify_ledger.ledger_table t
               WHERE t.detached_at IS NULL AND chainify_ledger.columns_of_many_forms(t.relation) IS NOT NULL ORDER BY t.name COLLATE "C" LOOP
        PERFORM chainify_ledger.drop_triggers(tbl);
        PERFORM chainify_ledger.follow_store_trigger(tbl);
        PERFORM chainify_ledger.settle_rows(tbl);
        PERFORM chainify_ledger.restore_triggers(tbl);
    END LOOP;
END
$$;
SELECT chainify_ledger.keep_schema_parts();
SELECT chainify_ledger.announce_tables();
