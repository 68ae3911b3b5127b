-- Private values: circles, sealed columns, and what this organisation holds of them (agreement/circles.rs, entry/private.rs; spec/private.md).

CREATE SCHEMA chainify_private;
CREATE SCHEMA chainify_open;
-- Rights are those on the tables: a private table is its owner's until he grants it, and an opened view takes the rights of its reader.
GRANT USAGE ON SCHEMA chainify_private, chainify_open TO PUBLIC;

-- In the column of a ledger table, the commitment of a value.
CREATE DOMAIN chainify.sealed AS bytea CHECK (octet_length(VALUE) = 32);

-- Ledger tables of the ledger's own. Set by DEPLOY transactions.
CREATE TABLE chainify_ledger.circle (
    name          text PRIMARY KEY,
    organisations text NOT NULL              -- by name, with ", " between
);
CREATE TABLE chainify_ledger.sealed_column (
    table_name  text,                        -- schema.name, unquoted
    column_name text,
    circle      text NOT NULL,
    type        text NOT NULL,               -- as format_type has it
    PRIMARY KEY (table_name, column_name)
);

-- The logical type that a text names, as format_type has it. No part of the text is executed but numbers; types of users are none of these.
CREATE FUNCTION chainify_ledger.sealed_type(asked text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text := regexp_replace(lower(asked) COLLATE "C", '\([^()]*\)', ' ');
    modifiers text := replace(substring(asked COLLATE "C", '\(([^()]*)\)'), ' ', '');
    of regtype;
    reader regproc;
    modifier integer := -1;
BEGIN
    IF name ~ '^[a-z][a-z0-9 ]*$' AND coalesce(modifiers ~ '^[0-9]{1,9}(,[0-9]{1,9})?$', true) THEN
        of := to_regtype(name);
    END IF;
    IF of IS NULL OR of <> ALL (ARRAY['boolean', 'smallint', 'integer', 'bigint', 'numeric', 'real', 'double precision', 'text', 'varchar', 'bytea', 'date',
            'time', 'timestamp', 'timestamptz', 'uuid', 'json', 'jsonb', 'interval', 'inet', 'cidr', 'macaddr', 'macaddr8']::regtype[]) THEN
        RAISE EXCEPTION 'values of type % cannot be sealed', asked USING ERRCODE = '0A000',
            HINT = 'Use one of the types of PostgreSQL''s own that spec/private.md lists, such as numeric(12,2) or text.';
    END IF;
    IF modifiers IS NOT NULL THEN
        SELECT t.typmodin INTO reader FROM pg_type t WHERE t.oid = of AND t.typmodin <> 0;
        IF reader IS NULL THEN
            RAISE EXCEPTION 'type modifier is not allowed for type %', of USING ERRCODE = '42601';
        END IF;
        EXECUTE format('SELECT %s(%L::cstring[])', reader, '{' || modifiers || '}') INTO modifier;
    END IF;
    RETURN format_type(of, modifier);
END
$$;

-- The sealed columns with their tables here, and whether this organisation may hold their values. `private`: its table in chainify_private.
CREATE VIEW chainify_ledger.sealed AS
SELECT s.table_name, s.column_name, s.circle, s.type, t.relation, chainify_ledger.copy_name(n.nspname, r.relname) AS opened,
       chainify_ledger.copy_name(n.nspname, r.relname) || '_' || s.column_name AS private,
       coalesce(h.organisation = ANY (string_to_array(c.organisations, ', ')), false) AS own
FROM chainify_ledger.sealed_column s
JOIN chainify_ledger.circle c ON c.name = s.circle
JOIN chainify_ledger.ledger_table t ON t.name = s.table_name AND t.detached_at IS NULL
JOIN pg_class r ON r.oid = t.relation JOIN pg_namespace n ON n.oid = r.relnamespace
LEFT JOIN chainify_ledger.chain h ON true;

-- Raises where the column cannot be sealed. All organisations have the same answer.
CREATE FUNCTION chainify_ledger.check_to_seal(tbl regclass, column_name text) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    a pg_attribute;
    name text := (SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tbl);
    opened_name text := (SELECT chainify_ledger.copy_name(n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tbl);
    private_name text := opened_name || '_' || check_to_seal.column_name;
    filled boolean;
BEGIN
    SELECT * INTO a FROM pg_attribute p WHERE p.attrelid = tbl AND p.attname = check_to_seal.column_name AND p.attnum > 0 AND NOT p.attisdropped;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'column "%" of table "%" does not exist', check_to_seal.column_name, name USING ERRCODE = '42703';
    ELSIF a.atttypid <> 'chainify.sealed'::regtype THEN
        RAISE EXCEPTION 'column "%" of table "%" is not of type chainify.sealed', a.attname, name USING ERRCODE = '42804';
    ELSIF a.attgenerated <> '' OR a.atthasdef OR chainify_ledger.key_part(tbl, a.attnum) IS NOT NULL THEN
        RAISE EXCEPTION 'column "%" of table "%" is computed, has a default or is of the primary key', a.attname, name USING ERRCODE = '0A000';
    ELSIF octet_length(private_name) > 63 THEN
        RAISE EXCEPTION 'the name of the private table "%" is longer than 63 bytes', private_name USING ERRCODE = '42622';
    ELSIF EXISTS (SELECT FROM chainify_ledger.sealed s WHERE s.private = private_name OR s.opened = opened_name AND s.relation <> tbl) THEN
        RAISE EXCEPTION 'another sealed column has the names of "%"', private_name USING ERRCODE = '42P07';
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %s t WHERE t.%I IS NOT NULL)', tbl, a.attname) INTO filled;
    IF filled THEN
        RAISE EXCEPTION 'column "%" of table "%" has values already', a.attname, name USING ERRCODE = '55000',
            HINT = 'Seal a new column, and write the values through the opened view.';
    END IF;
END
$$;

-- A sealed column that a DEPLOY transaction took away or changed; NULL: none.
CREATE FUNCTION chainify_ledger.lost_sealed() RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('column "%s" of table "%s"', s.column_name, s.table_name) FROM chainify_ledger.sealed_column s
    WHERE NOT EXISTS (SELECT FROM chainify_ledger.ledger_table t JOIN pg_attribute a ON a.attrelid = t.relation
                      WHERE t.name = s.table_name AND t.detached_at IS NULL AND a.attname = s.column_name AND NOT a.attisdropped
                        AND a.atttypid = 'chainify.sealed'::regtype)
    ORDER BY s.table_name COLLATE "C", s.column_name COLLATE "C" LIMIT 1
$$;

-- From here on, this organisation's own matter.

-- Makes the private tables that are not there. They stay when an organisation leaves the circle.
CREATE FUNCTION chainify_ledger.make_private_tables() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s chainify_ledger.sealed;
BEGIN
    FOR s IN SELECT * FROM chainify_ledger.sealed WHERE own AND to_regclass(format('chainify_private.%I', private)) IS NULL LOOP
        EXECUTE format('CREATE TABLE chainify_private.%I (commitment bytea PRIMARY KEY CHECK (octet_length(commitment) = 32), value %s NOT NULL,
            salt bytea NOT NULL CHECK (octet_length(salt) = 32)) USING heap', s.private, s.type);
    END LOOP;
END
$$;

-- The operator by which the primary key compares its part: a type of a user's may have others of the name.
CREATE FUNCTION chainify_ledger.key_operator(tbl regclass, part integer) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('OPERATOR(%I.%s)', n.nspname, p.oprname)
    FROM pg_index i JOIN pg_opclass c ON c.oid = i.indclass[part - 1]
    JOIN pg_amop o ON o.amopfamily = c.opcfamily AND o.amoplefttype = c.opcintype AND o.amoprighttype = c.opcintype AND o.amopstrategy = 3
    JOIN pg_operator p ON p.oid = o.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace
    WHERE i.indrelid = tbl AND i.indisprimary
$$;

-- Makes the opened view of a table, with the trigger by which writes through it seal. Both run with the rights of who uses them.
CREATE FUNCTION chainify_ledger.open_table(tbl regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    view text;
    shown text; joined text;
    named text; given text; back text; made text;
    changed text; key text; same text; same_values text;
    identity text;
    a record;
BEGIN
    SELECT min(s.opened), string_agg(format(' LEFT JOIN chainify_private.%I p%s ON p%2$s.commitment OPERATOR(pg_catalog.=) t.%I::pg_catalog.bytea', s.private, c.attnum, c.attname), ''
                                     ORDER BY c.attnum) FILTER (WHERE s.own)
    INTO view, joined FROM chainify_ledger.sealed s JOIN pg_attribute c ON c.attrelid = tbl AND c.attname = s.column_name AND NOT c.attisdropped WHERE s.relation = tbl;
    SELECT string_agg(CASE WHEN NOT c.is_sealed THEN format('t.%I', c.attname) WHEN c.own THEN format('p%s.value AS %I', c.attnum, c.attname)
                           ELSE format('NULL::%s AS %I', c.type, c.attname) END, ', ' ORDER BY c.attnum),
           string_agg(quote_ident(c.attname), ', ' ORDER BY c.attnum) FILTER (WHERE c.is_written),
           string_agg(c.given, ', ' ORDER BY c.attnum) FILTER (WHERE c.is_written),
           string_agg(format('t.%I', c.attname), ', ' ORDER BY c.attnum) FILTER (WHERE c.is_made),
           string_agg(format('NEW.%I', c.attname), ', ' ORDER BY c.attnum) FILTER (WHERE c.is_made),
           min(c.attname) FILTER (WHERE c.attidentity <> ''),
           string_agg(CASE WHEN c.is_sealed THEN format('%I = CASE WHEN pg_catalog.record_image_eq(ROW(NEW.%1$I), ROW(OLD.%1$I)) THEN t.%1$I ELSE %s END', c.attname, c.given)
                           ELSE format('%I = %s', c.attname, c.given) END, ', ' ORDER BY c.attnum) FILTER (WHERE c.is_written AND c.attidentity <> 'a'),
           string_agg(format('t.%I %s OLD.%1$I', c.attname, chainify_ledger.key_operator(tbl, c.part)), ' AND ' ORDER BY c.part) FILTER (WHERE c.part IS NOT NULL),
           string_agg(format(' AND pg_catalog.record_image_eq(ROW(t.%I), ROW(OLD.%1$I))', c.attname), '' ORDER BY c.attnum) FILTER (WHERE NOT c.is_sealed),
           string_agg(format(' AND pg_catalog.record_image_eq(ROW((SELECT p.value FROM chainify_private.%I p WHERE p.commitment OPERATOR(pg_catalog.=) t.%I::pg_catalog.bytea)), ROW(OLD.%2$I))',
                             c.private, c.attname), '' ORDER BY c.attnum) FILTER (WHERE c.is_sealed AND c.own)
    INTO shown, named, given, back, made, identity, changed, key, same, same_values
    FROM (SELECT p.attnum, p.attname, p.attidentity, s.type, s.private, coalesce(s.own, false) AS own, s.column_name IS NOT NULL AS is_sealed,
                 p.attgenerated = '' AS is_written, p.attgenerated <> '' OR p.attidentity <> '' AS is_made, chainify_ledger.key_part(tbl, p.attnum) AS part,
                 CASE WHEN s.column_name IS NULL THEN format('NEW.%I', p.attname)
                      ELSE format('chainify.seal(%L, %L, NEW.%I)', s.table_name, s.column_name, p.attname) END AS given
          FROM pg_attribute p LEFT JOIN chainify_ledger.sealed s ON s.relation = tbl AND s.column_name = p.attname
          WHERE p.attrelid = tbl AND p.attnum > 0 AND NOT p.attisdropped) c;
    EXECUTE format('CREATE OR REPLACE VIEW chainify_open.%I WITH (security_invoker = true) AS SELECT %s FROM %s t%s', view, shown, tbl, joined);
    FOR a IN SELECT p.attname, pg_get_expr(d.adbin, d.adrelid) AS made FROM pg_attribute p JOIN pg_attrdef d ON d.adrelid = p.attrelid AND d.adnum = p.attnum
             WHERE p.attrelid = tbl AND p.attgenerated = '' LOOP
        EXECUTE format('ALTER VIEW chainify_open.%I ALTER COLUMN %I SET DEFAULT %s', view, a.attname, a.made);
    END LOOP;
    back := CASE WHEN back IS NULL THEN '' ELSE format(' RETURNING %s INTO %s', back, made) END;
    given := format('INSERT INTO %s AS t (%s) VALUES (%s)%s;', tbl, named, given, back);
    IF identity IS NOT NULL THEN
        -- An identity column that is not given is not named.
        SELECT format('IF NEW.%I IS NULL THEN INSERT INTO %s AS t (%s) VALUES (%s)%s; ELSE %s END IF;', identity, tbl,
                      string_agg(quote_ident(p.attname), ', ' ORDER BY p.attnum),
                      string_agg(CASE WHEN s.column_name IS NULL THEN format('NEW.%I', p.attname)
                                      ELSE format('chainify.seal(%L, %L, NEW.%I)', s.table_name, s.column_name, p.attname) END, ', ' ORDER BY p.attnum), back, given)
        INTO given FROM pg_attribute p LEFT JOIN chainify_ledger.sealed s ON s.relation = tbl AND s.column_name = p.attname
        WHERE p.attrelid = tbl AND p.attnum > 0 AND NOT p.attisdropped AND p.attgenerated = '' AND p.attidentity = '';
    END IF;
    key := format('WHERE %s%s%s', key, same, same_values);
    EXECUTE format($f$CREATE OR REPLACE FUNCTION chainify_open.%I() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS %L$f$, view, format($f$
#variable_conflict use_column
BEGIN
    IF TG_OP = 'INSERT' THEN
        %s
        RETURN NEW;
    ELSIF TG_OP = 'UPDATE' THEN
        UPDATE %s AS t SET %s %s%s;
    ELSE
        DELETE FROM %2$s AS t %4$s;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'row of table %% has changed since the statement read it', %6$L USING ERRCODE = '40001', HINT = 'Run the transaction again.';
    END IF;
    RETURN CASE TG_OP WHEN 'UPDATE' THEN NEW ELSE OLD END;
END
$f$, given, tbl, changed, key, back, tbl));
    EXECUTE format('CREATE OR REPLACE TRIGGER chainify_seal INSTEAD OF INSERT OR UPDATE OR DELETE ON chainify_open.%I FOR EACH ROW EXECUTE FUNCTION chainify_open.%1$I()', view);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON chainify_open.%I TO PUBLIC', view);
END
$$;

-- Drops the opened views, which would keep columns of their tables from being changed. What this organisation made of them goes, too: a
-- view of its own must not keep it from a change that all agree on.
CREATE FUNCTION chainify_ledger.close_tables() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
    view text;
BEGIN
    FOR view IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'chainify_open'::regnamespace AND c.relkind = 'v' LOOP
        EXECUTE format('DROP VIEW chainify_open.%I CASCADE', view);
        EXECUTE format('DROP FUNCTION IF EXISTS chainify_open.%I() CASCADE', view);
    END LOOP;
END
$$;

-- Makes private tables and opened views of all tables. What goes wrong here is this organisation's alone, and fails no transaction.
CREATE FUNCTION chainify_ledger.open_tables() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tbl oid;
BEGIN
    FOR tbl IN SELECT DISTINCT s.relation FROM chainify_ledger.sealed s LOOP
        BEGIN
            PERFORM chainify_ledger.make_private_tables();
            PERFORM chainify_ledger.open_table(tbl);
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'the opened view of table % was not made: %', tbl::regclass, SQLERRM USING ERRCODE = SQLSTATE;
        END;
    END LOOP;
END
$$;

CREATE FUNCTION chainify_ledger.commitment(name text, column_name text, type text, salt bytea, value bytea) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_commitment' LANGUAGE C STABLE PARALLEL UNSAFE;
-- A value in encoding 1; and the text of one, which its type's input function reads.
CREATE FUNCTION chainify_ledger.encoded_value(value "any") RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_encoded_value' LANGUAGE C STABLE PARALLEL UNSAFE;
CREATE FUNCTION chainify_ledger.value_text(encoded bytea) RETURNS text
    AS 'MODULE_PATHNAME', 'chainify_value_text' LANGUAGE C STABLE PARALLEL UNSAFE;

-- Seals a value in the session's own transaction, which hands it to the node when it commits. NULL stays NULL.
CREATE FUNCTION chainify.seal("table" text, "column" text, value "any") RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_seal' LANGUAGE C VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex';

-- Inserts values whose text their type reads, and that come out as the bytes that were committed to.
CREATE FUNCTION chainify_ledger.hold_column(private text, type text, commitments bytea[], salts bytea[], vals bytea[]) RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' AS $$
DECLARE
    held integer;
BEGIN
    EXECUTE format('INSERT INTO chainify_private.%I (commitment, value, salt)
        SELECT u.commitment, u.value, u.salt FROM (SELECT e.commitment, e.salt, e.encoded, CAST(chainify_ledger.value_text(e.encoded) AS %s) AS value
            FROM unnest($1, $2, $3) e (commitment, salt, encoded) OFFSET 0) u WHERE chainify_ledger.encoded_value(u.value) = u.encoded
        ON CONFLICT (commitment) DO NOTHING', private, type) USING commitments, salts, vals;
    GET DIAGNOSTICS held = ROW_COUNT;
    RETURN held;
EXCEPTION WHEN data_exception OR program_limit_exceeded OR integrity_constraint_violation THEN
    IF cardinality(commitments) = 1 THEN
        RETURN 0;
    END IF;
    SELECT sum(chainify_ledger.hold_column(private, type, ARRAY[u.c], ARRAY[u.s], ARRAY[u.v])) INTO held FROM unnest(commitments, salts, vals) u (c, s, v);
    RETURN held;
END
$$;

CREATE FUNCTION chainify_node.hold_many(relation text[], column_name text[], commitment bytea[], salt bytea[], value bytea[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record;
    held integer := 0;
BEGIN
    IF (SELECT count(DISTINCT n) FROM unnest(ARRAY[cardinality(relation), cardinality(column_name), cardinality(commitment), cardinality(salt), cardinality(value)]) n) <> 1 THEN
        RAISE EXCEPTION 'the arrays differ in length' USING ERRCODE = '22023';
    END IF;
    PERFORM chainify_ledger.make_private_tables();
    FOR c IN SELECT s.table_name, s.column_name, s.private, s.type, array_agg(u.commitment) AS commitments, array_agg(u.salt) AS salts, array_agg(u.value) AS vals,
                    bool_and(u.commitment IS NOT DISTINCT FROM chainify_ledger.commitment(s.table_name, s.column_name, s.type, u.salt, u.value)) AS fit
             FROM unnest(relation, column_name, commitment, salt, value) u (relation, column_name, commitment, salt, value)
             JOIN chainify_ledger.sealed s ON s.own AND s.table_name = u.relation AND s.column_name = u.column_name
             GROUP BY s.table_name, s.column_name, s.private, s.type LOOP
        IF NOT c.fit THEN
            RAISE EXCEPTION 'a private value of column "%" of table "%" does not fit its commitment', c.column_name, c.table_name USING ERRCODE = '22023';
        END IF;
        held := held + chainify_ledger.hold_column(c.private, c.type, c.commitments, c.salts, c.vals);
    END LOOP;
    RETURN held;
END
$$;

CREATE FUNCTION chainify_node.hold(relation text, column_name text, commitment bytea, salt bytea, value bytea) RETURNS boolean
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT chainify_node.hold_many(ARRAY[relation], ARRAY[column_name], ARRAY[commitment], ARRAY[salt], ARRAY[value]) > 0
$$;

CREATE FUNCTION chainify_node.circles() RETURNS TABLE (circle text, organisation text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.name, o.organisation FROM chainify_ledger.circle c, unnest(string_to_array(c.organisations, ', ')) o (organisation) ORDER BY 1, 2
$$;
CREATE FUNCTION chainify_node.sealed_columns() RETURNS TABLE (relation text, column_name text, circle text, type text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.table_name, s.column_name, s.circle, s.type FROM chainify_ledger.sealed_column s ORDER BY 1, 2
$$;

-- Commitments in columns of own circles whose values are not here: a random part of them where there are more. So commitments whose value nobody has do not
-- keep others from being looked for. Cost: a scan of these tables, and a sort of what is missing.
CREATE FUNCTION chainify_ledger.missing_private(most integer) RETURNS TABLE (relation text, column_name text, commitment bytea)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s chainify_ledger.sealed;
    found bigint;
    wanted bigint := least(greatest(most, 0), 10000);
BEGIN
    FOR s IN SELECT * FROM chainify_ledger.sealed e WHERE e.own ORDER BY random() LOOP
        RETURN QUERY EXECUTE format('SELECT %L::text, %L::text, m.c FROM (SELECT DISTINCT t.%2$I::bytea AS c FROM %3$s t WHERE t.%2$I IS NOT NULL%4$s) m ORDER BY random() LIMIT $1', s.table_name, s.column_name, s.relation::regclass,
            CASE WHEN to_regclass(format('chainify_private.%I', s.private)) IS NOT NULL THEN
                format(' AND NOT EXISTS (SELECT FROM chainify_private.%I p WHERE p.commitment = t.%I::bytea)', s.private, s.column_name) END) USING wanted;
        GET DIAGNOSTICS found = ROW_COUNT;
        wanted := wanted - found;
        EXIT WHEN wanted = 0;
    END LOOP;
END
$$;
CREATE FUNCTION chainify_node.missing_private(most integer) RETURNS TABLE (relation text, column_name text, commitment bytea)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT * FROM chainify_ledger.missing_private(most) $$;

-- Those of the named values that are here, in encoding 1, for other members of their circles. Cost: a look-up for each.
CREATE FUNCTION chainify_node.held_private(relations text[], column_names text[], commitments bytea[])
    RETURNS TABLE (relation text, column_name text, type text, commitment bytea, salt bytea, value bytea)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' AS $$
#variable_conflict use_column
DECLARE
    c record;
BEGIN
    FOR c IN SELECT s.table_name, s.column_name, s.private, s.type, array_agg(DISTINCT u.commitment) AS commitments
             FROM unnest(relations, column_names, held_private.commitments) u (relation, column_name, commitment)
             JOIN chainify_ledger.sealed s ON s.own AND s.table_name = u.relation AND s.column_name = u.column_name
             WHERE to_regclass(format('chainify_private.%I', s.private)) IS NOT NULL
             GROUP BY s.table_name, s.column_name, s.private, s.type LOOP
        RETURN QUERY EXECUTE format('SELECT $1, $2, $3, p.commitment, p.salt, chainify_ledger.encoded_value(p.value) FROM chainify_private.%I p WHERE p.commitment = ANY ($4)', c.private)
            USING c.table_name, c.column_name, c.type, c.commitments;
    END LOOP;
END
$$;

-- The private table of a sealed column, and a value of it with what its commitment is made of; NULL where that value is not here.
CREATE FUNCTION chainify_ledger.disclosed(name text, column_name text, commitment bytea, OUT relation oid, OUT told jsonb)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' AS $$
DECLARE
    s chainify_ledger.sealed;
BEGIN
    SELECT * INTO s FROM chainify_ledger.sealed e WHERE e.table_name IN (disclosed.name, 'public.' || disclosed.name) AND e.column_name = disclosed.column_name
    ORDER BY e.table_name <> disclosed.name LIMIT 1;
    relation := to_regclass('chainify_private.' || quote_ident(s.private));
    IF relation IS NULL THEN
        RAISE EXCEPTION 'no values of column "%" of table "%" are held here', disclosed.column_name, disclosed.name USING ERRCODE = '42704';
    END IF;
    EXECUTE format('SELECT jsonb_build_object(''chain_id'', c.chain_id, ''table'', %L::text, ''column'', %L::text, ''type'', %L::text, ''text'', p.value::text,
            ''value'', encode(chainify_ledger.encoded_value(p.value), ''hex''), ''salt'', encode(p.salt, ''hex''), ''commitment'', encode(p.commitment, ''hex''))
        FROM chainify_private.%I p, chainify_ledger.chain c WHERE p.commitment = $1', s.table_name, s.column_name, s.type, s.private)
        INTO told USING disclosed.commitment;
END
$$;
-- A private value for somebody outside of the circle, who can compare it with the commitment in a receipt (audit/audit.py).
CREATE FUNCTION chainify.disclose("table" text, "column" text, commitment bytea) RETURNS jsonb
    AS 'MODULE_PATHNAME', 'chainify_disclose' LANGUAGE C STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;

-- Values held here that do not fit their commitments. Cost: a scan of each private table.
CREATE FUNCTION chainify.verify_private() RETURNS TABLE ("table" text, "column" text, commitment bytea)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s chainify_ledger.sealed;
BEGIN
    FOR s IN SELECT * FROM chainify_ledger.sealed e WHERE to_regclass(format('chainify_private.%I', e.private)) IS NOT NULL ORDER BY e.table_name COLLATE "C", e.column_name COLLATE "C" LOOP
        RETURN QUERY EXECUTE format('SELECT %L::text, %L::text, p.commitment FROM chainify_private.%I p
            WHERE p.commitment IS DISTINCT FROM chainify_ledger.commitment(%1$L, %2$L, %4$L, p.salt, chainify_ledger.encoded_value(p.value))',
            s.table_name, s.column_name, s.private, s.type);
    END LOOP;
END
$$;

-- Tells of a commitment: open (the value is here), missing (it has to come), closed (not for this organisation). NULL: there is no value.
CREATE FUNCTION chainify.is_sealed("table" text, "column" text, commitment bytea) RETURNS text
    LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s chainify_ledger.sealed;
    here boolean := false;
BEGIN
    SELECT * INTO s FROM chainify_ledger.sealed e WHERE e.table_name IN ("table", 'public.' || "table") AND e.column_name = "column" ORDER BY e.table_name <> "table" LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'column "%" of table "%" is not sealed', "column", "table" USING ERRCODE = '42704';
    ELSIF s.own AND to_regclass(format('chainify_private.%I', s.private)) IS NOT NULL THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM chainify_private.%I p WHERE p.commitment = $1)', s.private) INTO here USING commitment;
    END IF;
    RETURN CASE WHEN here THEN 'open' WHEN s.own THEN 'missing' ELSE 'closed' END;
END
$$;

CREATE VIEW chainify.circles AS
SELECT c.name AS circle, string_to_array(c.organisations, ', ') AS organisations FROM chainify_ledger.circle c;
CREATE VIEW chainify.sealed_columns AS
SELECT s.table_name AS "table", s.column_name AS "column", s.circle, s.type, s.own AS "here" FROM chainify_ledger.sealed s;
CREATE VIEW chainify.private_missing AS
SELECT m.relation AS "table", m.column_name AS "column", m.commitment FROM chainify_ledger.missing_private(1000) m;
GRANT SELECT ON chainify.circles, chainify.sealed_columns TO chainify_reader, chainify_client;
GRANT SELECT ON chainify.private_missing TO chainify_reader;

REVOKE ALL ON FUNCTION chainify_ledger.sealed_type, chainify_ledger.check_to_seal, chainify_ledger.lost_sealed, chainify_ledger.make_private_tables,
    chainify_ledger.key_operator, chainify_ledger.open_table, chainify_ledger.close_tables, chainify_ledger.open_tables, chainify_ledger.commitment,
    chainify_ledger.encoded_value, chainify_ledger.value_text, chainify_ledger.hold_column, chainify_ledger.missing_private,
    chainify_node.hold_many, chainify_node.hold, chainify_node.circles, chainify_node.sealed_columns, chainify_node.missing_private, chainify_node.held_private,
    chainify.seal, chainify.is_sealed, chainify.verify_private, chainify.disclose,
    chainify_ledger.disclosed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.seal TO chainify_client;
GRANT EXECUTE ON FUNCTION chainify.is_sealed, chainify.disclose TO chainify_client, chainify_reader;
GRANT EXECUTE ON FUNCTION chainify_ledger.missing_private, chainify.verify_private TO chainify_reader;
GRANT EXECUTE ON FUNCTION chainify_node.hold_many, chainify_node.hold, chainify_node.circles, chainify_node.sealed_columns, chainify_node.missing_private, chainify_node.held_private TO chainify_node;
