//! Checks, at deployment, the statements that an object will run: those of views, functions,
//! defaults, constraints, indexes, policies. Dynamic SQL and statements on objects that do not
//! exist yet are checked when they run (invariant X6).
use chainify_rules::deploy as rules;
use chainify_rules::deploy::Body;
use chainify_rules::determinism::frozen_time;
use chainify_rules::functions::{execution_finding, named};
use chainify_rules::immutable;
use chainify_sqltext::{called_names, may_read_clock, strings};
use pgrx::pg_sys::Oid;

use crate::ledger::outcome::is_of_the_machine;
use crate::pg::access::plpgsql::statements::{plpgsql_statements, Found};
use crate::pg::base::catalog;
use crate::pg::base::clock::without_clock;
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Cell};
use crate::pg::base::role::Role;
use crate::pg::base::spi::query;
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::ddl::deploy_statements::Definition;
use crate::pg::ddl::inspect::{inspect_parsed_function, inspect_shown, inspect_sql_function};
use crate::pg::ddl::targets::Address;
use crate::pg::describe::function_facts::facts;
use crate::pg::describe::query_level::Level;
use crate::pg::run::step::{enter, Step};
use crate::rules::determinism::{refuse, Finding};

/// Before the statement runs: the conversions of its ALTER COLUMN TYPE, and names of constraints
/// that are there in some majors alone. Errors: CH006, 42704.
pub fn before(role: Role, definition: &Definition, targets: &[Address]) -> Result<(), PgError> {
    for name in definition.constraints() {
        for target in targets {
            refuse_not_null(*target, &name)?;
        }
    }
    refuse_levels(&role.run(|| definition.conversions())?, false)
}

/// A definition would keep the time that a literal in it read, that of this block. PostgreSQL alone
/// can tell where such a literal stands and of what type it is. So a statement in which one may
/// stand is tried where there is no clock, and undone. Errors: CH006.
pub fn without_frozen_time(role: Role, definition: &Definition) -> Result<(), PgError> {
    if !strings(definition.text).iter().any(|s| may_read_clock(s)) {
        return Ok(());
    }
    const UNDONE: &[u8; 5] = b"CH000";
    let tried = subtransaction(|| {
        without_clock(|| enter(Step::Deploy { role }, || definition.run()))?;
        Err::<(), _>(PgError::new(UNDONE, "tried"))
    });
    match tried {
        Err(error) if error.sqlstate.as_str() == "22008" => {
            let literal = format!("a literal in {} that reads the clock", definition.command);
            Err(frozen_time(&literal).refusal().into())
        }
        Err(error) if is_of_the_machine(&error) => Err(error),
        _ => Ok(()),
    }
}

/// NOT NULL is a constraint with a name in later majors than 15: of domains since 17, of tables
/// since 18. Where it is none, no constraint has the name.
fn refuse_not_null(of: Address, name: &str) -> Result<(), PgError> {
    let column = match of.class {
        catalog::RELATIONS => "conrelid",
        catalog::TYPES => "contypid",
        _ => return Ok(()),
    };
    let sql = format!(
        "SELECT FROM pg_catalog.pg_constraint
         WHERE {column} = $1 AND conname = $2::text::name AND contype = 'n'"
    );
    let mut found = false;
    query(&sql, &[cell(of.object), cell(name)], |_| found = true);
    match found {
        true => Err(
            PgError::new(b"42704", format!("constraint \"{name}\" does not exist"))
                .detail("NOT NULL has a name in some majors of PostgreSQL alone.")
                .hint("Use ALTER ... SET NOT NULL and DROP NOT NULL."),
        ),
        false => Ok(()),
    }
}

/// The highest column number of a table, before a statement adds more.
pub fn columns_of(targets: &[Address]) -> Vec<i16> {
    let sql = "SELECT max(attnum) FROM pg_catalog.pg_attribute WHERE attrelid = $1";
    let count = |target: &Address| {
        let mut last = None;
        query(sql, &[cell(target.object)], |row| last = row.get::<i16>(1));
        last.unwrap_or_default()
    };
    targets.iter().map(count).collect()
}

/// After the statement ran: what it made, and what it altered with the columns that this had
/// before. Errors: CH006, CH004.
///
/// They are read as `role`, whose statement it was: to read a literal of a row or array runs the
/// conditions of domains in it.
pub fn after(
    role: Role,
    made: &[Address],
    altered: &[Address],
    columns: &[i16],
) -> Result<(), PgError> {
    let altered = altered.iter().zip(columns);
    let all = made.iter().map(|m| (m, i16::MAX));
    let all: Vec<(&Address, i16)> = all.chain(altered.map(|(a, had)| (a, *had))).collect();
    let of_relations = all.iter().filter(|(o, _)| o.class == catalog::RELATIONS);
    let (tables, had) = of_relations.map(|(o, had)| (o.object, *had)).unzip();
    relations(role, tables, had)?;
    for (object, _) in all {
        match object.class {
            catalog::FUNCTIONS => function(role, object.object)?,
            catalog::TYPES => check_queries(role, OF_DOMAIN, &[cell(object.object)], |_| true)?,
            _ => {}
        }
    }
    Ok(())
}

/// Objects of temporary schemas among these, what belongs to them, and what they refer to: the
/// catalogs tell, whatever a statement called them. A database without such a schema has none.
///
/// OFFSET 0 has each object looked up by the indexes of pg_depend. The planner knows no number of
/// objects and would read all of pg_depend, once for each step of the recursion.
const TEMPORARY: &str = "
    WITH RECURSIVE part (class, object) AS (
        SELECT u.class, u.object FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) u (class, object)
        WHERE EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname LIKE 'pg\\_temp%' OR n.nspname LIKE 'pg\\_toast\\_temp%')
        UNION
        SELECT d.classid, d.objid FROM part p, LATERAL (
            SELECT classid, objid FROM pg_catalog.pg_depend
            WHERE refclassid = p.class AND refobjid = p.object AND deptype IN ('a', 'i', 'P', 'S') OFFSET 0) d)
    SELECT i.type, i.identity
    FROM (SELECT p.class, p.object FROM part p
          UNION SELECT d.refclassid, d.refobjid FROM part p, LATERAL (
              SELECT refclassid, refobjid FROM pg_catalog.pg_depend WHERE classid = p.class AND objid = p.object OFFSET 0) d) o,
         pg_catalog.pg_identify_object(o.class, o.object, 0) i
    WHERE i.schema LIKE 'pg\\_temp%' OR i.schema LIKE 'pg\\_toast\\_temp%' OR i.type = 'schema' AND i.identity LIKE 'pg\\_temp%'
    ORDER BY i.type = 'schema', 1, 2 LIMIT 1";

/// Of what a statement made or altered, or of a table that comes under the ledger: refuses what is
/// temporary, or refers to what is. Errors: CH004.
pub fn temporary(objects: &[Address]) -> Result<(), PgError> {
    let classes: Vec<Oid> = objects.iter().map(|o| o.class).collect();
    let oids: Vec<Oid> = objects.iter().map(|o| o.object).collect();
    let mut found = None;
    query(TEMPORARY, &[cell(classes), cell(oids)], |row| {
        found = Some((row.must::<String>(1), row.must::<String>(2)))
    });
    match found {
        None => Ok(()),
        Some((kind, name)) => Err(rules::temporary(&kind, &name).into()),
    }
}

/// The relations `$1` that the queries below are about, with the last columns `$2` that they had
/// before.
const RELATION: &str = "
    WITH r AS (SELECT u.place, u.had, c.oid, c.relkind, pg_catalog.format('%I.%I', n.nspname, c.relname) AS name
               FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) WITH ORDINALITY u (oid, had, place)
               JOIN pg_catalog.pg_class c ON c.oid = u.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace)";

/// Queries with the expressions that no statement on rows shows. These are checks, generated
/// columns, expressions of unique keys, keys by a collation that takes different texts as equal,
/// and bounds of partitions.
const UNSEEN: &str = "
    SELECT r.place, pg_catalog.format('SELECT (%s) FROM %s', pg_catalog.pg_get_expr(k.conbin, k.conrelid), r.name)
    FROM r JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid AND k.contype = 'c'
    UNION ALL
    SELECT r.place, pg_catalog.format('SELECT (%s) FROM %s', pg_catalog.pg_get_expr(d.adbin, d.adrelid), r.name)
    FROM r JOIN pg_catalog.pg_attrdef d ON d.adrelid = r.oid
    JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum AND a.attgenerated <> ''
    UNION ALL
    SELECT r.place, pg_catalog.format('SELECT ROW(%s) FROM %s', e, r.name)
    FROM r JOIN pg_catalog.pg_index i ON i.indrelid = r.oid AND (i.indisunique OR i.indisexclusion),
         LATERAL (VALUES (pg_catalog.pg_get_expr(i.indexprs, i.indrelid)), (pg_catalog.pg_get_expr(i.indpred, i.indrelid))) x (e)
    WHERE e IS NOT NULL
    UNION ALL
    SELECT r.place, pg_catalog.format('SELECT (%1$s) COLLATE %2$s = (%1$s) FROM %3$s', pg_catalog.pg_get_indexdef(i.indexrelid, k.n::int, false),
                             c.oid::pg_catalog.regcollation, r.name)
    FROM r JOIN pg_catalog.pg_index i ON i.indrelid = r.oid AND (i.indisunique OR i.indisexclusion),
         LATERAL pg_catalog.unnest(i.indcollation::oid[]) WITH ORDINALITY k (by, n)
    JOIN pg_catalog.pg_collation c ON c.oid = k.by AND NOT c.collisdeterministic
    UNION ALL
    SELECT r.place, pg_catalog.format('SELECT %1$I COLLATE %2$s < %1$I FROM %3$s', a.attname, c.oid::pg_catalog.regcollation, r.name)
    FROM r JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = r.oid AND p.partstrat = 'r'
    CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(p.partattrs::int2[]), pg_catalog.unnest(p.partcollation::oid[])) k (n, by)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = k.n
    JOIN pg_catalog.pg_collation c ON c.oid = k.by
    UNION ALL
    SELECT r.place, pg_catalog.format('SELECT ROW(%s) FROM %s', pg_catalog.pg_get_expr(p.partexprs, p.partrelid), r.name)
    FROM r JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = r.oid AND p.partexprs IS NOT NULL";

/// A query for each other expression that rows are computed or found with; for a view, itself. A
/// default is computed for one row, but for all when its column was added (`had` is the last column
/// there was before).
const OTHERS: &str = "
    SELECT r.place, 'SELECT * FROM ' || r.name FROM r WHERE r.relkind = 'v'
    UNION ALL
    SELECT r.place, pg_catalog.format('SELECT (%s)', pg_catalog.pg_get_expr(d.adbin, d.adrelid)) || CASE WHEN a.attnum > r.had THEN ' FROM ' || r.name ELSE '' END
    FROM r JOIN pg_catalog.pg_attrdef d ON d.adrelid = r.oid
    JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum AND a.attgenerated = ''
    UNION ALL
    SELECT r.place, pg_catalog.format('SELECT ROW(%s) FROM %s', e, r.name)
    FROM r JOIN pg_catalog.pg_index i ON i.indrelid = r.oid AND NOT i.indisunique AND NOT i.indisexclusion,
         LATERAL (VALUES (pg_catalog.pg_get_expr(i.indexprs, i.indrelid)), (pg_catalog.pg_get_expr(i.indpred, i.indrelid))) x (e)
    WHERE e IS NOT NULL
    UNION ALL
    SELECT r.place, pg_catalog.format('SELECT (%s) FROM %s', e, r.name)
    FROM r JOIN pg_catalog.pg_policy p ON p.polrelid = r.oid,
         LATERAL (VALUES (pg_catalog.pg_get_expr(p.polqual, p.polrelid)), (pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid))) x (e)
    WHERE e IS NOT NULL";

/// The same for a domain.
const OF_DOMAIN: &str = "
    SELECT 1, 'SELECT ' || pg_catalog.pg_get_expr(t.typdefaultbin, 0) FROM pg_catalog.pg_type t WHERE t.oid = $1 AND t.typtype = 'd' AND t.typdefaultbin IS NOT NULL
    UNION ALL
    SELECT 1, pg_catalog.format('SELECT (%s) FROM (SELECT NULL::%s) v (value)', pg_catalog.pg_get_expr(k.conbin, 0),
                             pg_catalog.format_type(t.typbasetype, t.typtypmod)
                             || CASE WHEN t.typcollation <> 0 THEN ' COLLATE ' || t.typcollation::pg_catalog.regcollation ELSE '' END)
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_constraint k ON k.contypid = t.oid AND k.contype = 'c' WHERE t.oid = $1 AND t.typtype = 'd'";

/// Refuses tables whose rows are put into partitions by functions that give another hash in
/// another database: of an enumeration, and of arrays and rows that may hold one. Errors: CH006.
fn partitioned_by_hash(tables: &[Oid]) -> Result<(), PgError> {
    let sql = "SELECT DISTINCT p.amproc::oid
        FROM pg_catalog.pg_partitioned_table t, LATERAL pg_catalog.unnest(t.partclass::oid[]) k (class)
        JOIN pg_catalog.pg_opclass c ON c.oid = k.class
        JOIN pg_catalog.pg_amproc p ON p.amprocfamily = c.opcfamily AND p.amproclefttype = c.opcintype
            AND p.amprocrighttype = c.opcintype AND p.amprocnum = 2
        WHERE t.partrelid = ANY ($1) AND t.partstrat = 'h' ORDER BY 1";
    let mut hashes: Vec<Oid> = Vec::new();
    query(sql, &[cell(tables.to_vec())], |row| {
        hashes.push(row.must(1))
    });
    let mut findings = hashes
        .into_iter()
        .filter_map(|f| execution_finding(&facts(f)));
    findings.next().map_or(Ok(()), |f| Err(f.refusal().into()))
}

fn relations(role: Role, tables: Vec<Oid>, had: Vec<i16>) -> Result<(), PgError> {
    if tables.is_empty() {
        return Ok(());
    }
    partitioned_by_hash(&tables)?;
    let all = format!("{RELATION} {UNSEEN} UNION ALL {OTHERS}");
    check_queries(role, &all, &[cell(tables), cell(had)], |_| true)
}

/// Of a table that comes under the ledger as it is: collations, and values of the session or of one
/// database, that no statement on its rows would show. Functions that its checks call run when a
/// row comes, which fails then. Errors: CH006.
pub fn attached(table: Oid) -> Result<(), PgError> {
    temporary(&[Address {
        class: catalog::RELATIONS,
        object: table,
    }])?;
    let counts = |f: &Finding| f.by_collation || f.silent;
    partitioned_by_hash(&[table])?;
    let owner = Role::owner_of(table);
    check_queries(
        owner,
        &format!("{RELATION} {UNSEEN}"),
        &[cell(vec![table]), cell(vec![i16::MAX])],
        counts,
    )?;
    let mut domains: Vec<Oid> = Vec::new();
    let sql = "SELECT DISTINCT a.atttypid FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid AND t.typtype = 'd'
        WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1";
    query(sql, &[cell(table)], |row| domains.push(row.must(1)));
    let mut domains = domains.into_iter();
    domains.try_for_each(|domain| check_queries(owner, OF_DOMAIN, &[cell(domain)], counts))
}

/// Refuses what `counts` of the findings on the queries that `of` gives.
fn check_queries(
    role: Role,
    of: &str,
    arguments: &[Cell],
    counts: fn(&Finding) -> bool,
) -> Result<(), PgError> {
    let mut queries: Vec<String> = Vec::new();
    let sql = format!("SELECT q FROM ({of}) x (place, q) ORDER BY place, q");
    query(&sql, arguments, |row| queries.push(row.must(1)));
    for text in queries {
        for statement in role.run(|| inspect_shown(&text))? {
            refuse(&statement.found?.levels, false, counts)?;
        }
    }
    Ok(())
}

fn function(role: Role, oid: Oid) -> Result<(), PgError> {
    let mut found = None;
    // Not of functions whose arguments get their types, or whose names their meaning, when they are
    // called; no transaction can call a trigger's.
    let sql = "SELECT l.lanname::text, p.prosrc, p.prosqlbody IS NOT NULL, p.proconfig IS NULL, p.provolatile = 'i'
        FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
        WHERE p.oid = $1 AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
          AND NOT EXISTS (SELECT FROM pg_catalog.unnest(p.proargtypes::oid[]) a JOIN pg_catalog.pg_type t ON t.oid = a
                          WHERE t.typtype = 'p')";
    query(sql, &[cell(oid)], |row| {
        found = Some((
            row.must::<String>(1),
            row.must::<String>(2),
            row.must::<bool>(3),
            row.must::<bool>(4),
            row.must::<bool>(5),
        ))
    });
    let at = |place: String| {
        let name = catalog::description(catalog::FUNCTIONS, oid, 0);
        move |mut error: PgError| {
            error.message = format!("{name} {place}: {}", error.message);
            error
        }
    };
    let Some((language, body, parsed, plain, immutable)) = found else {
        return Ok(()); // checked when it runs
    };
    let refuse_levels = |levels: &[Level]| {
        refuse_levels(levels, true)?;
        match immutable.then(|| immutable::finding(levels)).flatten() {
            Some(finding) => Err(finding.refusal().into()),
            None => Ok(()),
        }
    };
    match rules::body(&language, parsed, !plain) {
        Body::Parsed => {
            for (levels, number) in role.run(|| inspect_parsed_function(oid))?.iter().zip(1..) {
                refuse_levels(levels).map_err(at(format!("statement {number}")))?;
            }
            Ok(())
        }
        Body::Sql => {
            for (levels, number) in role
                .run(|| inspect_sql_function(oid, &body))?
                .into_iter()
                .zip(1..)
            {
                let checked = levels.and_then(|levels| refuse_levels(&levels));
                checked.map_err(at(format!("statement {number}")))?;
            }
            Ok(())
        }
        Body::Statements => {
            for statement in role.run(|| plpgsql_statements(oid))? {
                let checked = match statement.found {
                    Found::Queries(levels) => refuse_levels(&levels),
                    Found::Refused(error) => Err(error),
                    Found::Unknown(error) if is_of_the_machine(&error) => return Err(error),
                    Found::Unknown(_) => Ok(()), // checked when it runs
                };
                checked.map_err(at(format!("line {}", statement.line)))?;
            }
            called_by_name(&body)
        }
        Body::Names => called_by_name(&body),
    }
}

/// The findings in a text that could not be analysed: the built-in functions that the text names
/// and that nothing makes deterministic.
fn called_by_name(body: &str) -> Result<(), PgError> {
    for name in called_names(body) {
        let mut overloads = Vec::new();
        let sql = "SELECT oid FROM pg_catalog.pg_proc WHERE proname = $1::text::name AND pronamespace = 'pg_catalog'::regnamespace ORDER BY oid";
        query(sql, &[cell(name)], |row| overloads.push(row.must::<Oid>(1)));
        let overloads: Vec<_> = overloads.into_iter().map(facts).collect();
        if let Some(finding) = named(&overloads) {
            return Err(finding.refusal().into());
        }
    }
    Ok(())
}

fn refuse_levels(levels: &[Level], in_function: bool) -> Result<(), PgError> {
    refuse(levels, in_function, |_| true)
}
