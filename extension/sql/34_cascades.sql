-- Foreign keys whose actions would come in an order that is not the same in every organisation.

-- PostgreSQL runs the actions of foreign keys row by row of what is deleted, and on one row in the order of the constraints' object numbers.
-- Neither is the same everywhere. It shows only when two foreign keys act on one row of the table that has both, by one statement.
-- A row that one of them deletes may have been changed or found in the way by the other one before. A row that both change passes through
-- a state that depends on which comes first. NULL when nothing of the kind can happen to `tbl` or to a table that refers to it.
CREATE FUNCTION chainify_ledger.crossing_actions(tbl regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE keys AS (
        SELECT oid, conname, conrelid, confrelid, conkey, confkey, confdeltype, confupdtype FROM pg_constraint WHERE contype = 'f' AND conparentid = 0
    ), below (rel) AS (
        SELECT tbl::oid UNION SELECT k.conrelid FROM below JOIN keys k ON k.confrelid = rel
    ), deletes (top, rel) AS (
        SELECT confrelid, confrelid FROM keys
        UNION SELECT d.top, k.conrelid FROM deletes d JOIN keys k ON k.confrelid = d.rel AND k.confdeltype = 'c'
    ), updates (top, rel) AS (
        SELECT confrelid, confrelid FROM keys
        UNION SELECT u.top, k.conrelid FROM updates u JOIN keys k ON k.confrelid = u.rel AND k.confupdtype IN ('c', 'n', 'd')
        WHERE EXISTS (SELECT FROM keys further WHERE further.confrelid = k.conrelid AND further.confkey && k.conkey)
    )
    SELECT format('Foreign keys "%s" and "%s" of table "%s" may both act on one row by one statement, in an order that differs between organisations. '
                  'ON DELETE CASCADE goes with the same, NO ACTION and RESTRICT go with each other; ON UPDATE, one of the two may act.', a.conname, b.conname, a.conrelid::regclass)
    FROM keys a JOIN keys b ON b.conrelid = a.conrelid AND (b.conname, b.oid) > (a.conname, a.oid)
    WHERE a.conrelid IN (SELECT rel FROM below)
      AND ((a.confdeltype = 'c') <> (b.confdeltype = 'c') OR a.confdeltype IN ('n', 'd') AND b.confdeltype IN ('n', 'd'))
      AND EXISTS (SELECT FROM deletes x JOIN deletes y USING (top) WHERE x.rel = a.confrelid AND y.rel = b.confrelid)
       OR a.conrelid IN (SELECT rel FROM below)
      AND a.confupdtype IN ('c', 'n', 'd') AND b.confupdtype IN ('c', 'n', 'd')
      AND EXISTS (SELECT FROM updates x JOIN updates y USING (top) WHERE x.rel = a.confrelid AND y.rel = b.confrelid)
    ORDER BY a.conrelid::regclass::text, a.conname, b.conname LIMIT 1
$$;
REVOKE ALL ON FUNCTION chainify_ledger.crossing_actions FROM PUBLIC;
