-- Sequences of the ledger (sequences/mod.rs): a ledger table of the ledger's own keeps the position of each. Blocks agree on it, it is
-- undone with the transaction that drew from it, and history, verification and repair know it. The sequences of the database only follow.

CREATE TABLE chainify_ledger.sequence (
    name       text PRIMARY KEY,             -- schema.name, unquoted
    last_value bigint NOT NULL,
    called     boolean NOT NULL,             -- whether last_value was given
    increment  bigint NOT NULL,
    minimum    bigint NOT NULL,
    maximum    bigint NOT NULL,
    cycle      boolean NOT NULL
);

-- Which sequences of this database those are. Local: object numbers differ between organisations.
CREATE TABLE chainify_ledger.sequence_here (
    name     text PRIMARY KEY,
    relation regclass NOT NULL UNIQUE
);

-- Sequences that columns of ledger tables own or take their values from, and those that a DEPLOY transaction made for themselves.
CREATE FUNCTION chainify_ledger.sequences_used() RETURNS SETOF oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH holders (relation) AS (
        SELECT relation FROM chainify_ledger.ledger_table WHERE detached_at IS NULL
        UNION
        SELECT p.relid FROM chainify_ledger.ledger_table t, pg_partition_tree(t.relation) p WHERE t.detached_at IS NULL
    )
    SELECT s.oid FROM pg_class s WHERE s.relkind = 'S' AND (
        EXISTS (SELECT FROM pg_depend d JOIN holders h ON h.relation = d.refobjid
                WHERE d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i'))
        OR EXISTS (SELECT FROM pg_depend d JOIN pg_attrdef a ON a.oid = d.objid JOIN holders h ON h.relation = a.adrelid
                   WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = s.oid)
        OR EXISTS (SELECT FROM chainify_ledger.definition k WHERE k.class = 'pg_class'::regclass AND k.object = s.oid)
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = s.oid
                           AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')))
$$;

-- The definitions of sequences that are not on the ledger yet and should be, by name.
CREATE FUNCTION chainify_ledger.sequences_new()
    RETURNS TABLE (relation oid, name text, last_value bigint, called boolean, increment bigint, minimum bigint, maximum bigint, cycle boolean)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR relation, name, increment, minimum, maximum, cycle IN
        SELECT c.oid, n.nspname || '.' || c.relname, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle
        FROM chainify_ledger.sequences_used() u JOIN pg_class c ON c.oid = u JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_sequence s ON s.seqrelid = c.oid
        WHERE NOT EXISTS (SELECT FROM chainify_ledger.sequence_here h WHERE h.relation = c.oid) ORDER BY n.nspname, c.relname LOOP
        EXECUTE format('SELECT last_value, is_called FROM %s', relation::regclass) INTO last_value, called;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Those that nothing on the ledger uses any more, or not by that name, with the database's own, if it is still there.
CREATE FUNCTION chainify_ledger.sequences_old() RETURNS TABLE (name text, relation oid)
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT h.name, c.oid FROM chainify_ledger.sequence_here h
    LEFT JOIN pg_class c ON c.oid = h.relation LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid IS NULL OR h.name <> n.nspname || '.' || c.relname OR c.oid NOT IN (SELECT chainify_ledger.sequences_used()) ORDER BY h.name COLLATE "C"
$$;

-- The ledger's sequences among relations, and those that columns of tables among them own.
CREATE FUNCTION chainify_ledger.sequences_of(relations oid[]) RETURNS SETOF chainify_ledger.sequence_here
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT h.* FROM chainify_ledger.sequence_here h JOIN pg_class c ON c.oid = h.relation
    WHERE h.relation = ANY (relations)
       OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = h.relation
                  AND d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY (relations) AND d.deptype IN ('a', 'i'))
    ORDER BY h.name COLLATE "C"
$$;

-- Makes the database's sequences what the ledger says, before a statement changes their definitions: PostgreSQL goes by what it finds there.
-- ALTER SEQUENCE locks each against sessions that draw, and gives it new storage, so that ROLLBACK undoes this as well.
CREATE FUNCTION chainify_ledger.show_sequences(relations oid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
BEGIN
    FOR s IN SELECT h.relation, q.* FROM chainify_ledger.sequences_of(relations) h JOIN chainify_ledger.sequence q ON q.name = h.name LOOP
        EXECUTE format('ALTER SEQUENCE %s INCREMENT %s MINVALUE %s MAXVALUE %s %s RESTART %s', s.relation::regclass,
                       s.increment, s.minimum, s.maximum, CASE WHEN s.cycle THEN 'CYCLE' ELSE 'NO CYCLE' END, s.last_value);
        PERFORM setval(s.relation::regclass, s.last_value, s.called);
    END LOOP;
END
$$;

-- Their state after such a statement, as far as it differs from the ledger.
CREATE FUNCTION chainify_ledger.sequences_changed(relations oid[])
    RETURNS TABLE (name text, last_value bigint, called boolean, increment bigint, minimum bigint, maximum bigint, cycle boolean)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here regclass;
BEGIN
    FOR here, name, increment, minimum, maximum, cycle IN
        SELECT h.relation, h.name, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle
        FROM chainify_ledger.sequences_of(relations) h JOIN pg_sequence s ON s.seqrelid = h.relation LOOP
        EXECUTE format('SELECT last_value, is_called FROM %s', here) INTO last_value, called;
        IF NOT EXISTS (SELECT FROM chainify_ledger.sequence q WHERE (q.name, q.last_value, q.called, q.increment, q.minimum, q.maximum, q.cycle)
                       = (sequences_changed.name, sequences_changed.last_value, sequences_changed.called, sequences_changed.increment,
                          sequences_changed.minimum, sequences_changed.maximum, sequences_changed.cycle)) THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- In place of PostgreSQL's functions of these names in statements of the ledger. Outside of a block they do what those do.
CREATE FUNCTION chainify_ledger.nextval(regclass) RETURNS bigint
    AS 'MODULE_PATHNAME', 'chainify_nextval' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE FUNCTION chainify_ledger.next_identity(regclass) RETURNS bigint
    AS 'MODULE_PATHNAME', 'chainify_next_identity' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE FUNCTION chainify_ledger.currval(regclass) RETURNS bigint
    AS 'MODULE_PATHNAME', 'chainify_currval' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE FUNCTION chainify_ledger.lastval() RETURNS bigint
    AS 'MODULE_PATHNAME', 'chainify_lastval' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE FUNCTION chainify_ledger.setval(regclass, bigint) RETURNS bigint
    AS 'MODULE_PATHNAME', 'chainify_setval' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE FUNCTION chainify_ledger.setval(regclass, bigint, boolean) RETURNS bigint
    AS 'MODULE_PATHNAME', 'chainify_setval' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

REVOKE ALL ON FUNCTION chainify_ledger.sequences_used, chainify_ledger.sequences_new, chainify_ledger.sequences_old, chainify_ledger.sequences_of,
    chainify_ledger.show_sequences, chainify_ledger.sequences_changed FROM PUBLIC;

CREATE VIEW chainify.sequences AS
SELECT name, last_value, called, increment, minimum, maximum, cycle FROM chainify_ledger.sequence;
GRANT SELECT ON chainify.sequences TO chainify_reader, chainify_client;
