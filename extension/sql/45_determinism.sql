-- Rules of determinism (rules/determinism.rs, entry/analyze.rs).

-- The next UUID of the transaction: the same in every organisation.
CREATE FUNCTION chainify.uuid() RETURNS uuid
    AS 'MODULE_PATHNAME', 'chainify_uuid' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Runs nothing: it analyses the statements as the caller, under the settings of a block.
CREATE FUNCTION chainify.analyze(sql text)
    RETURNS TABLE (statement integer, verdict text, construct text, reason text, rewrite text, normalised text, access text)
    AS 'MODULE_PATHNAME', 'chainify_analyze' LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION chainify.analyze FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.analyze TO chainify_client;
