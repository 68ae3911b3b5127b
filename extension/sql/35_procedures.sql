-- Procedures on a ledger of several engines (spec/engines.md, "Procedures"; ledger/procedures.rs). Each organisation's administrator makes them.

CREATE FUNCTION chainify_ledger.procedures_hash() RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_procedures_hash' LANGUAGE C STABLE PARALLEL UNSAFE;

-- The SHA-256 of PostgreSQL's words for what has a name in schema public: one procedure, unless others came beside it. NULL: there is none.
CREATE FUNCTION chainify_ledger.procedure_digest(procedure text) RETURNS bytea
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
    SELECT sha256(convert_to(string_agg(CASE p.prokind WHEN 'a' THEN 'aggregate' ELSE pg_get_functiondef(p.oid) END, ''
                                        ORDER BY p.oid::regprocedure::text COLLATE "C"), 'UTF8'))
    FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND 'public.' || p.proname = procedure_digest.procedure
$$;

-- The logical name of a parameter's type (spec/engines.md, "Procedures"), or PostgreSQL's own where there is none.
CREATE FUNCTION chainify_ledger.parameter_type(type oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT t.logical FROM (VALUES ('int2', 'smallint'), ('int4', 'integer'), ('int8', 'bigint'), ('numeric', 'numeric'), ('float8', 'double'),
            ('bool', 'boolean'), ('text', 'text'), ('bytea', 'bytea'), ('date', 'date'), ('time', 'time'), ('timestamp', 'timestamp'),
            ('timestamptz', 'timestamptz'), ('uuid', 'uuid'), ('jsonb', 'json')) t (name, logical)
        JOIN pg_type y ON y.typname = t.name AND y.typnamespace = 'pg_catalog'::regnamespace WHERE y.oid = parameter_type.type), format_type(parameter_type.type, NULL))
$$;

-- Why what has a name in schema public cannot be on the ledger with parameters of these types; NULL when it can.
CREATE FUNCTION chainify_ledger.procedure_obstacle(name text, types text[]) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN count(*) = 0 THEN 'It does not exist.'
        WHEN count(*) > 1 THEN 'Several have its name.'
        WHEN EXISTS (SELECT FROM pg_proc b WHERE b.pronamespace = 'pg_catalog'::regnamespace AND b.proname = procedure_obstacle.name)
            THEN 'A function of PostgreSQL''s own has its name.'
        ELSE max((SELECT o.why FROM (VALUES
            (1, p.prokind <> 'p', 'It is not a procedure.'),
            (2, p.prosecdef, 'It is SECURITY DEFINER.'),
            (3, p.proargmodes IS NOT NULL, 'It has parameters other than IN.'),
            (4, p.pronargdefaults > 0, 'It has a parameter with a default.'),
            (5, p.lang NOT IN ('sql', 'plpgsql'), format('Its language is %s, want sql or plpgsql.', p.lang)),
            (6, p.prosqlbody IS NOT NULL, 'Its body is no text: other versions word it otherwise.'),
            (7, p.proconfig IS NOT NULL, 'It has a SET clause.'),
            (8, p.types <> procedure_obstacle.types, format('Its parameters are (%s).', array_to_string(p.types, ', ')))) o (place, found, why)
            WHERE o.found ORDER BY o.place LIMIT 1)) END
    FROM (SELECT f.*, l.lanname AS lang,
                 ARRAY(SELECT chainify_ledger.parameter_type(a.type) FROM unnest(f.proargtypes) WITH ORDINALITY a (type, place) ORDER BY a.place) AS types
          FROM pg_proc f JOIN pg_language l ON l.oid = f.prolang
          WHERE f.pronamespace = 'public'::regnamespace AND f.proname = procedure_obstacle.name) p
$$;

CREATE FUNCTION chainify_ledger.refuse_procedure(name text, why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'procedure "%" cannot be put on the ledger', name USING ERRCODE = 'CH005', DETAIL = why;
END
$$;

-- The hash of the procedures that are on the ledger.
CREATE FUNCTION chainify_ledger.refresh_procedures() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO chainify_ledger.procedures (hash) VALUES (chainify_ledger.procedures_hash())
    ON CONFLICT (only_row) DO UPDATE SET hash = excluded.hash
$$;

--   name: in schema public; types: logical ones; mariadb, postgresql: digests of the engines' words, NULL where the transaction has none
CREATE FUNCTION chainify_ledger.attach_procedure(name text, types text[], mariadb bytea, postgresql bytea, at_block bigint, at_tx integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    full_name text := 'public.' || attach_procedure.name;
    listed text := format('(%s)', array_to_string(types, ', '));
    found bytea;
    obstacle text;
BEGIN
    -- Blocks of before are executed again, also by organisations that join: a name has one wording for good.
    SELECT CASE WHEN p.detached_at IS NULL THEN 'It is on the ledger already.'
                ELSE 'It was on the ledger in other words: those of a name stay for good.' END INTO obstacle
    FROM chainify_ledger.procedure p
    WHERE p.name = full_name AND (p.detached_at IS NULL OR (p.signature, p.mariadb, p.postgresql)
        IS DISTINCT FROM (listed, attach_procedure.mariadb, attach_procedure.postgresql))
    ORDER BY p.detached_at NULLS FIRST LIMIT 1;
    obstacle := coalesce(obstacle, chainify_ledger.procedure_obstacle(attach_procedure.name, types));
    IF obstacle IS NULL THEN
        found := chainify_ledger.procedure_digest(full_name);
        obstacle := CASE WHEN postgresql IS NULL THEN 'The transaction has no digest for PostgreSQL.'
                         WHEN found <> postgresql THEN format('Its digest is %s here.', encode(found, 'hex')) END;
    END IF;
    IF obstacle IS NOT NULL THEN
        PERFORM chainify_ledger.refuse_procedure(full_name, obstacle);
    END IF;
    INSERT INTO chainify_ledger.procedure (name, signature, mariadb, postgresql, attached_at, attached_tx)
    VALUES (full_name, listed, attach_procedure.mariadb, attach_procedure.postgresql, at_block, at_tx);
    PERFORM chainify_ledger.refresh_procedures();
END
$$;

CREATE FUNCTION chainify_ledger.detach_procedure(name text, at_block bigint, at_tx integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE chainify_ledger.procedure p SET detached_at = at_block, detached_tx = at_tx
    WHERE p.name = 'public.' || detach_procedure.name AND p.detached_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'procedure "public.%" is not on the ledger', detach_procedure.name USING ERRCODE = '42883';
    END IF;
    PERFORM chainify_ledger.refresh_procedures();
END
$$;

-- The digest of a procedure's words in this database, for the text that puts it on the ledger.
CREATE FUNCTION chainify.procedure_digest(procedure regprocedure) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(chainify_ledger.procedure_digest(n.nspname || '.' || p.proname), 'hex')
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = procedure_digest.procedure
$$;

CREATE VIEW chainify.procedures AS
    SELECT p.name, p.signature, encode(p.mariadb, 'hex') AS mariadb, encode(p.postgresql, 'hex') AS postgresql, p.attached_at
    FROM chainify_ledger.procedure p WHERE p.detached_at IS NULL;

REVOKE ALL ON FUNCTION chainify_ledger.procedures_hash, chainify_ledger.procedure_digest, chainify_ledger.parameter_type, chainify_ledger.procedure_obstacle,
    chainify_ledger.refuse_procedure, chainify_ledger.refresh_procedures, chainify_ledger.attach_procedure, chainify_ledger.detach_procedure,
    chainify.procedure_digest FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.procedure_digest TO chainify_reader, chainify_admin;
GRANT SELECT ON chainify.procedures TO chainify_reader, chainify_client;
