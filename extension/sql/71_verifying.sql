-- Progress of verifications (verify/progress.rs): those that run now in this database, as pg_stat_progress_… of PostgreSQL.
CREATE FUNCTION chainify_ledger.verifying() RETURNS TABLE (pid integer, relation oid, phase text, done bigint, total bigint)
    AS 'MODULE_PATHNAME', 'chainify_verifying' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
REVOKE ALL ON FUNCTION chainify_ledger.verifying FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_ledger.verifying TO chainify_reader;

CREATE VIEW chainify.stat_verify AS
SELECT v.pid, a.usename AS role, a.query_start AS started_at,
       (SELECT t.name FROM chainify_ledger.ledger_table t WHERE t.relation = v.relation AND t.detached_at IS NULL) AS ledger_table,
       v.phase, v.done, nullif(v.total, 0) AS total
FROM chainify_ledger.verifying() v LEFT JOIN pg_stat_activity a ON a.pid = v.pid;

GRANT SELECT ON chainify.stat_verify TO chainify_reader;
