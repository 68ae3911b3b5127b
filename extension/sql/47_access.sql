-- What statements may read and write (api/access.rs): what the schedule of a block follows from, not what they may do.

-- Runs nothing: it analyses the statements as the caller, under the settings of a block.
CREATE FUNCTION chainify.access(sql text)
    RETURNS TABLE (statement integer, access text, relation text, target text, place text)
    AS 'MODULE_PATHNAME', 'chainify_access' LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION chainify.access FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.access TO chainify_client;

-- Shows nothing of what the transactions say but the names of relations; their texts are read as their clients would be.
CREATE FUNCTION chainify.explain_block(block bigint, format text DEFAULT 'text') RETURNS text
    AS 'MODULE_PATHNAME', 'chainify_explain_block' LANGUAGE C VOLATILE PARALLEL UNSAFE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
REVOKE ALL ON FUNCTION chainify.explain_block FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.explain_block TO chainify_reader;
