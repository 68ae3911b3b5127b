-- Everything about the extension in the catalogues of one database, a line each, without
-- numbers that differ between databases.
WITH member AS (
    SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
    WHERE e.extname = 'chainify' AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'),
relation AS (
    SELECT c.*, c.oid::regclass::text AS called FROM member m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid),
rights (of, part, owner, acl) AS (
    SELECT 'relation ' || called, '', relowner, coalesce(relacl, acldefault('r', relowner)) FROM relation
    UNION ALL SELECT 'relation ' || r.called, a.attname, r.relowner, a.attacl FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid
    UNION ALL SELECT 'function ' || p.oid::regprocedure, '', p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
    FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
    UNION ALL SELECT 'schema ' || n.nspname, '', n.nspowner, coalesce(n.nspacl, acldefault('n', n.nspowner))
    FROM member m JOIN pg_namespace n ON m.classid = 'pg_namespace'::regclass AND n.oid = m.objid
    UNION ALL SELECT 'at first ' || o.identity, i.objsubid::text, e.extowner, i.initprivs
    FROM pg_extension e, pg_init_privs i JOIN member m ON m.classid = i.classoid AND m.objid = i.objoid, pg_identify_object(i.classoid, i.objoid, 0) o
    WHERE e.extname = 'chainify'),
line (text) AS (
    SELECT 'member ' || o.type || ' ' || o.identity FROM member m, pg_identify_object(m.classid, m.objid, 0) o
    UNION ALL
    SELECT format('comment %s %s: %s', o.type, o.identity, d.description) FROM member m
    JOIN pg_description d ON d.classoid = m.classid AND d.objoid = m.objid, pg_identify_object(m.classid, m.objid, d.objsubid) o
    UNION ALL
    SELECT format('%s %s grants %s to %s', r.of, r.part, a.privilege_type, a.grantee::regrole) || CASE WHEN a.is_grantable THEN '*' ELSE '' END
    FROM rights r, aclexplode(r.acl) a WHERE a.grantee <> r.owner
    UNION ALL
    SELECT format('function of %s: %s %s', p.proowner::regrole, pg_get_functiondef(p.oid), p.prorows)
    FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
    UNION ALL
    SELECT format('relation %s of %s: %s %s %s %s', called, relowner::regrole, relkind, relpersistence, reloptions, relreplident) FROM relation
    UNION ALL
    SELECT format('column %s %s: %s %s %s %s %s %s %s', r.called, a.attname,
                  CASE WHEN r.called <> ALL ($1::text[]) THEN a.attnum END, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                  a.attcollation::regcollation, a.attstorage, a.attidentity, pg_get_expr(d.adbin, d.adrelid))
    FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    UNION ALL
    SELECT format('view %s: %s', called, pg_get_viewdef(oid)) FROM relation WHERE relkind = 'v'
    UNION ALL
    SELECT format('constraint %s %s: %s', r.called, k.conname, pg_get_constraintdef(k.oid)) FROM relation r JOIN pg_constraint k ON k.conrelid = r.oid
    UNION ALL
    SELECT 'index ' || pg_get_indexdef(i.indexrelid) FROM relation r JOIN pg_index i ON i.indrelid = r.oid
    UNION ALL
    SELECT 'trigger ' || pg_get_triggerdef(g.oid) FROM relation r JOIN pg_trigger g ON g.tgrelid = r.oid WHERE NOT g.tgisinternal
    UNION ALL
    SELECT format('dumped %s %s', k.oid::regclass, k.condition) FROM pg_extension e, unnest(e.extconfig, e.extcondition) k (oid, condition)
    WHERE e.extname = 'chainify'
    UNION ALL
    SELECT format('extension %s %s %s', extversion, extnamespace::regnamespace, extrelocatable) FROM pg_extension WHERE extname = 'chainify')
SELECT text FROM line ORDER BY text COLLATE "C"
