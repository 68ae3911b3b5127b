-- Functions for the node (entry/execute_block.rs) and the triggers on ledger tables (entry/digest_trigger.rs).
--
-- The functions run as the extension's owner, under any login of the node; only chainify_node may call them.

-- Raises 55000 in a database whose ledger was restored from a dump and is not adopted (block/restored.rs).
CREATE FUNCTION chainify_ledger.refuse_restored() RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_refuse_restored' LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION chainify_ledger.refuse_restored FROM PUBLIC;

-- Raises 22023 when one is not a name that the order knows by this spelling.
CREATE FUNCTION chainify_ledger.check_names(chain_id text, organisation text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF chain_id !~ '^[a-z][a-z0-9_-]{0,49}$' OR organisation !~ '^[a-z][a-z0-9_-]{0,62}$' THEN
        RAISE EXCEPTION 'chain id or organisation is malformed' USING ERRCODE = '22023',
            DETAIL = 'Both match [a-z][a-z0-9_-]*; a chain id has at most 50 bytes, an organisation at most 63.';
    END IF;
END
$$;
REVOKE ALL ON FUNCTION chainify_ledger.check_names FROM PUBLIC;

CREATE FUNCTION chainify_node.init(chain_id text, organisation text, validators jsonb DEFAULT NULL, consent integer DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known chainify_ledger.chain;
BEGIN
    IF getdatabaseencoding() <> 'UTF8' THEN
        RAISE EXCEPTION 'database encoding is %, want UTF8', getdatabaseencoding()
            USING ERRCODE = '55000', DETAIL = 'Text is hashed as UTF-8, the same in every organisation.';
    END IF;
    IF init.chain_id IS NULL OR init.organisation IS NULL THEN
        RAISE EXCEPTION 'chain_id and organisation must not be null' USING ERRCODE = '22004';
    END IF;
    PERFORM chainify_ledger.check_names(init.chain_id, init.organisation);
    PERFORM chainify_ledger.refuse_restored();
    IF EXISTS (SELECT FROM chainify_ledger.fence f WHERE f.superseded_by IS NOT NULL) THEN
        RAISE EXCEPTION 'this server was superseded: the node followed another primary since' USING ERRCODE = '55000',
            HINT = 'docs/operator/failover.md says how it becomes a standby of that one.';
    END IF;
    LOCK TABLE chainify_ledger.chain IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO known FROM chainify_ledger.chain c;
    IF NOT FOUND THEN
        INSERT INTO chainify_ledger.chain (chain_id, organisation, letters) VALUES (init.chain_id, init.organisation, coalesce(chainify_ledger.letters(), ''));
    ELSIF (known.chain_id, known.organisation) <> (init.chain_id, init.organisation) THEN
        RAISE EXCEPTION 'this database belongs to organisation "%" of chain "%"', known.organisation, known.chain_id
            USING ERRCODE = '55000', HINT = 'Use another database for another chain.';
    END IF;
    PERFORM chainify_ledger.refuse_other_letters();
    PERFORM chainify_ledger.note_environment();
    UPDATE chainify_ledger.chain c SET consent = init.consent WHERE c.consent IS DISTINCT FROM init.consent;
    DELETE FROM chainify_ledger.validator WHERE init.validators IS NOT NULL;
    INSERT INTO chainify_ledger.validator (address, public_key, organisation)
    SELECT decode(v ->> 'address', 'hex'), decode(v ->> 'public_key', 'hex'), v ->> 'organisation'
    FROM jsonb_array_elements(init.validators) v;
    -- A node that ended between a block and the record of what cured it knows that no more; that the block is there shows that it was cured.
    UPDATE chainify_ledger.deviation d SET cured_by = 'unrecorded', took = clock_timestamp() - d.started_at
    WHERE d.cured_by IS NULL AND d.found_by = 'block' AND d.block <= (SELECT max(b.number) FROM chainify_ledger.block b)
      AND NOT EXISTS (SELECT FROM chainify_ledger.started_over);
    -- A database that joined or was restored has rows of sealed columns, and no views of them yet.
    IF EXISTS (SELECT FROM chainify_ledger.sealed s WHERE to_regclass(format('chainify_open.%I', s.opened)) IS NULL) THEN
        PERFORM chainify_ledger.open_tables();
    END IF;
    PERFORM chainify_ledger.maintain();
END
$$;

-- The identity of this server among the organisation's, on standbys too. The timeline is the present one; that of the row may be older.
CREATE FUNCTION chainify_node.server(OUT epoch bigint, OUT mark bytea, OUT superseded_by bigint, OUT system_identifier bigint, OUT timeline integer,
                                     OUT standby boolean, OUT last_block bigint)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT f.epoch, f.mark, f.superseded_by, s.system_identifier,
           -- A promoted standby writes to its new timeline before a checkpoint says so.
           CASE WHEN r.standby THEN c.timeline_id ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer END,
           r.standby, (SELECT coalesce(max(b.number), 0) FROM chainify_ledger.block b)
    FROM pg_control_system() s, pg_control_checkpoint() c, (SELECT pg_is_in_recovery()) r (standby) LEFT JOIN chainify_ledger.fence f ON true
$$;

-- The node goes over to this server, under a later epoch than it and this database know. Raises 55000 for a database of another organisation
-- or chain, and when the epoch is none that follows.
CREATE FUNCTION chainify_node.take_server(chain_id text, organisation text, epoch bigint, mark bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known chainify_ledger.chain;
    server record;
BEGIN
    SELECT * INTO known FROM chainify_ledger.chain c;
    IF (known.chain_id, known.organisation) <> (take_server.chain_id, take_server.organisation) THEN
        RAISE EXCEPTION 'this database belongs to organisation "%" of chain "%"', known.organisation, known.chain_id
            USING ERRCODE = '55000', HINT = 'Use another database for another chain.';
    END IF;
    SELECT * INTO server FROM chainify_node.server();
    IF take_server.epoch <= coalesce(greatest(server.epoch, server.superseded_by), 0) THEN
        RAISE EXCEPTION 'epoch % does not follow epoch %', take_server.epoch, coalesce(greatest(server.epoch, server.superseded_by), 0) USING ERRCODE = '55000';
    END IF;
    IF octet_length(take_server.mark) <> 16 THEN
        RAISE EXCEPTION 'mark is % bytes, want 16', octet_length(take_server.mark) USING ERRCODE = '22023';
    END IF;
    DELETE FROM chainify_ledger.fence;
    INSERT INTO chainify_ledger.fence (epoch, mark, system_identifier, timeline)
    VALUES (take_server.epoch, take_server.mark, server.system_identifier, server.timeline);
    PERFORM chainify_ledger.announce_tables();
END
$$;

-- Tells a primary that was left behind of the epoch of the server that the node follows; false when it knows or is none such. From then on no
-- session submits there, and its rows count as stale.
CREATE FUNCTION chainify_node.supersede(epoch bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE chainify_ledger.fence f SET superseded_by = supersede.epoch WHERE f.epoch < supersede.epoch AND f.superseded_by IS NULL;
    IF FOUND THEN
        PERFORM chainify_ledger.announce_tables();
    END IF;
    RETURN FOUND;
END
$$;

CREATE FUNCTION chainify_node.set_registry(registry jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM chainify_ledger.chain) THEN
        RAISE EXCEPTION 'this database belongs to no chain yet'
            USING ERRCODE = '55000', HINT = 'Call chainify_node.init first.';
    END IF;
    LOCK TABLE chainify_ledger.consent, chainify_ledger.organisation, chainify_ledger.validator IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM chainify_ledger.consent;
    INSERT INTO chainify_ledger.consent (from_block, consent)
    SELECT c.from_block, c.consent FROM jsonb_to_recordset(registry -> 'consents') c (from_block bigint, consent integer);
    DELETE FROM chainify_ledger.organisation;
    INSERT INTO chainify_ledger.organisation (name, gateway_key, ordering_only, from_block, until_block)
    SELECT o.name, decode(o.gateway_key, 'hex'), o.ordering_only, o.from_block, o.until_block
    FROM jsonb_to_recordset(registry -> 'organisations')
        o (name text, gateway_key text, ordering_only boolean, from_block bigint, until_block bigint);
    DELETE FROM chainify_ledger.validator;
    INSERT INTO chainify_ledger.validator (address, public_key, organisation, from_block, until_block)
    SELECT decode(v.address, 'hex'), decode(v.public_key, 'hex'), v.organisation, v.from_block, v.until_block
    FROM jsonb_to_recordset(registry -> 'validators')
        v (address text, public_key text, organisation text, from_block bigint, until_block bigint);
END
$$;

CREATE FUNCTION chainify_node.position(OUT number bigint, OUT hash bytea, OUT certified bigint, OUT deviates boolean,
                                       OUT false_blocks bigint[], OUT anew_until bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(b.number, 0), coalesce(b.hash, decode(repeat('00', 32), 'hex')),
           -- Of a database that joined by rows of others the block that it begins with is certified, without a certificate here.
           greatest((SELECT max(c.number) FROM chainify_ledger.certificate c), (SELECT a.dropped FROM chainify_ledger.archived a), 0),
           -- While blocks are executed from the first one again, that is what cures it.
           s.until_block IS NULL AND EXISTS (SELECT FROM chainify_ledger.deviation d WHERE d.cured_by IS NULL AND d.found_by = 'scrubber'
                                                AND (d.due <= clock_timestamp()) IS NOT FALSE),
           ARRAY(SELECT f.number FROM chainify_ledger.false_block f ORDER BY f.number LIMIT 64), coalesce(s.until_block, 0)
    FROM (VALUES (1)) one LEFT JOIN
         (SELECT l.number, l.hash FROM chainify_ledger.block l ORDER BY l.number DESC LIMIT 1) b ON true
         LEFT JOIN chainify_ledger.started_over s ON true
$$;

CREATE FUNCTION chainify_node.execute_block(
        number bigint, order_height bigint, block_time bigint, previous_hash bytea, transactions bytea,
        quarantined integer[] DEFAULT '{}', quarantine_all boolean DEFAULT false, effect_hashes boolean DEFAULT false,
        certified_hash bytea DEFAULT NULL,
        refused integer[] DEFAULT NULL, refused_sqlstates text[] DEFAULT NULL, refused_messages text[] DEFAULT NULL,
        OUT hash bytea, OUT header bytea, OUT outcomes bytea, OUT rows bigint[], OUT sqlstates text[], OUT messages text[],
        OUT transaction_effects bytea[])
    AS 'MODULE_PATHNAME', 'chainify_execute_block' LANGUAGE C VOLATILE PARALLEL UNSAFE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

-- By these the node judges the transactions of the next block (spec/engines.md): how the ledger stands to other engines ('shared', 'open',
-- 'own'), its tables with their schema texts 2, and its procedures with their signatures.
CREATE FUNCTION chainify_node.shared_tables(OUT standing text, OUT names text[], OUT texts text[], OUT procedures text[], OUT signatures text[])
    LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN EXISTS (SELECT FROM chainify_ledger.ledger_table WHERE shared_text IS NOT NULL) THEN 'shared'
                WHEN EXISTS (SELECT FROM chainify_ledger.ledger_table WHERE detached_at IS NULL)
                     OR EXISTS (SELECT FROM chainify_ledger.definitions) THEN 'own'
                ELSE 'open' END,
           coalesce(array_agg(t.name ORDER BY t.id), '{}'), coalesce(array_agg(t.shared_text ORDER BY t.id), '{}'),
           ARRAY(SELECT p.name FROM chainify_ledger.procedure p WHERE p.detached_at IS NULL ORDER BY p.id),
           ARRAY(SELECT p.signature FROM chainify_ledger.procedure p WHERE p.detached_at IS NULL ORDER BY p.id)
    FROM chainify_ledger.ledger_table t WHERE t.detached_at IS NULL AND t.shared_text IS NOT NULL
$$;

CREATE FUNCTION chainify_node.kept_executions() RETURNS bigint
    AS 'MODULE_PATHNAME', 'chainify_kept_executions' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

REVOKE ALL ON FUNCTION chainify_node.init, chainify_node.server, chainify_node.take_server, chainify_node.supersede, chainify_node.set_registry, chainify_node.position, chainify_node.execute_block, chainify_node.shared_tables, chainify_node.kept_executions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_node.init, chainify_node.server, chainify_node.take_server, chainify_node.supersede, chainify_node.set_registry, chainify_node.position, chainify_node.execute_block, chainify_node.shared_tables, chainify_node.kept_executions TO chainify_node;

-- The last block, which stays the last one that the calling transaction sees (block/read_block.rs).
CREATE FUNCTION chainify.read_block() RETURNS bigint
    AS 'MODULE_PATHNAME', 'chainify_read_block' LANGUAGE C VOLATILE PARALLEL UNSAFE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
REVOKE ALL ON FUNCTION chainify.read_block FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.read_block TO chainify_reader;

CREATE FUNCTION chainify_ledger.digest() RETURNS trigger
    AS 'MODULE_PATHNAME', 'chainify_digest' LANGUAGE C;
-- Stores values in the form that the ledger has for them (ledger/stored_values.rs), and what is asked about it.
CREATE FUNCTION chainify_ledger.store() RETURNS trigger
    AS 'MODULE_PATHNAME', 'chainify_store' LANGUAGE C;
CREATE FUNCTION chainify_ledger.has_many_forms(type oid, modifier integer) RETURNS boolean
    AS 'MODULE_PATHNAME', 'chainify_has_many_forms' LANGUAGE C STABLE STRICT;
CREATE FUNCTION chainify_ledger.in_stored_form("row" record) RETURNS boolean
    AS 'MODULE_PATHNAME', 'chainify_in_stored_form' LANGUAGE C STABLE STRICT;
-- The columns of a table whose equal values may have several forms, quoted and separated by commas; NULL: there are none. Computed columns
-- follow from the others.
CREATE FUNCTION chainify_ledger.columns_of_many_forms(tbl regclass) RETURNS text
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
    SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
    WHERE a.attrelid = tbl AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND chainify_ledger.has_many_forms(a.atttypid, a.atttypmod)
$$;
REVOKE ALL ON FUNCTION chainify_ledger.has_many_forms, chainify_ledger.columns_of_many_forms, chainify_ledger.in_stored_form FROM PUBLIC;

-- Row count and lanes of a full scan of the relations that hold a table's rows.
CREATE FUNCTION chainify_ledger.scan_state(relations oid[], name text, columns text[], ordinals smallint[],
                                           OUT row_count bigint, OUT lanes bytea)
    AS 'MODULE_PATHNAME', 'chainify_scan_state' LANGUAGE C VOLATILE STRICT;

-- The text of an expression as PostgreSQL words it once it has read its own words again, as pg_restore does.
CREATE FUNCTION chainify_ledger.settled(definition text) RETURNS text
    AS 'MODULE_PATHNAME', 'chainify_settled' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
-- The query of a view, worded as PostgreSQL 15 does in every major (pg/describe/view_text.rs).
CREATE FUNCTION chainify_ledger.view_text(view oid) RETURNS text
    AS 'MODULE_PATHNAME', 'chainify_view_text' LANGUAGE C STABLE STRICT PARALLEL SAFE;
REVOKE ALL ON FUNCTION chainify_ledger.view_text FROM PUBLIC;

CREATE FUNCTION chainify_ledger.schema_hash(schema_text text) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_schema_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- Schema text 2 of a version of a table, from PostgreSQL's catalogues (ledger/shared_schema.rs). Raises 0A000 for a table that it cannot describe.
CREATE FUNCTION chainify_ledger.shared_schema_text(version integer) RETURNS text
    AS 'MODULE_PATHNAME', 'chainify_shared_schema_text' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION chainify_ledger.shared_schema_text FROM PUBLIC;

CREATE FUNCTION chainify_ledger.shared_schema_hash(shared_text text) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_shared_schema_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The list of ledger tables changed: sessions read it anew.
CREATE FUNCTION chainify_ledger.announce_tables() RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_announce_tables' LANGUAGE C VOLATILE;

REVOKE ALL ON FUNCTION chainify_ledger.digest, chainify_ledger.scan_state, chainify_ledger.announce_tables FROM PUBLIC;
-- PostgreSQL copies a partitioned table's triggers to a partition with the rights of who makes it.
GRANT EXECUTE ON FUNCTION chainify_ledger.digest TO chainify_admin;
