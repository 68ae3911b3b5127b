"""Random statements over a schema. None of them should depend on where rows are stored, unless `refused` says so."""

from values import IN_A_BLOCK, KEYS, TYPES, bare, literal


def key_value(r, kind):
    return r.choice(KEYS[kind])


def value(r, name, kind, in_block=True):
    """A value of a column, by its name where the schema gives it a meaning. Outside of a block nothing pins time or session."""
    if name == "n":
        return str(r.choice([13, r.randrange(8), r.randrange(8), r.randrange(18, 26), r.randrange(60)]))
    if name == "g":
        return str(r.randrange(6))
    if name == "own":
        return r.choice(["'alice'", "'bob'", "current_user" if in_block else "'admin'"])
    return f"({r.choice(TYPES[kind] + (IN_A_BLOCK.get(kind, []) if in_block else []) + ['NULL'])})::{kind}"


def key(r, table):
    return [key_value(r, kind) for _, kind in table.keys]


def row(r, table, full=False, in_block=True):
    """Names and values of one row, from which some columns that have defaults are left out."""
    names, values = table.key_names(), key(r, table)
    for name, kind, rest in table.columns:
        if "GENERATED" in rest or (not full and r.random() < 0.25):
            continue
        names.append(name)
        values.append(value(r, name, kind, in_block))
    for ref in table.references:
        given = ["NULL"] * len(ref.columns) if r.random() < 0.25 else key(r, ref.parent)
        names += ref.columns
        values += given
    return names, values


def insert(r, table, rows=1):
    """INSERT of one or several rows that name the same columns."""
    names, values = row(r, table)
    lists = [values]
    for _ in range(rows - 1):
        other = dict(zip(*row(r, table, full=True)))
        lists.append([other.get(name, "NULL") for name in names])
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {', '.join('(' + ', '.join(v) + ')' for v in lists)}"


def fill(r, table):
    """A row from before the ledger."""
    names, values = row(r, table, full=True, in_block=False)
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join(values)})"


def at_key(r, table, alias=""):
    return " AND ".join(f"{alias}{k} = {key_value(r, kind)}::{bare(kind)}" for k, kind in table.keys)


def where(r, table):
    """A condition; the conjuncts cannot fail, because which of them runs first is the planner's choice."""
    first, kind = table.keys[0]
    return r.choice([
        lambda: at_key(r, table), lambda: at_key(r, table), lambda: at_key(r, table),
        lambda: f"{first} = {key_value(r, kind)}::{bare(kind)}",
        lambda: f"{first} IN ({key_value(r, kind)}, {key_value(r, kind)})",
        lambda: f"n % {r.randrange(2, 5)} = {r.randrange(2)}",
        lambda: f"n BETWEEN {r.randrange(30)} AND {r.randrange(60)} OR g = {r.randrange(6)}",
        lambda: f"g = {r.randrange(6)} AND n IS NOT NULL",
        lambda: f"n > (SELECT avg(n) FROM {table.name})",
        lambda: "true",
    ])()


def small_change(r, table):
    """SET that several rows can take: no column of a unique key unless it is one value for one row."""
    name, kind, rest = r.choice(table.columns)
    if "GENERATED" in rest:
        name, kind = "n", "int"
    if name in ("n", "g") and r.random() < 0.6:
        return f"{name} = {name} + {r.randrange(1, 4)}"
    return f"{name} = {value(r, name, kind)}"


def update(r, table):
    return f"UPDATE {table.name} SET {small_change(r, table)} WHERE {where(r, table)}"


def update_key(r, table):
    name, kind = r.choice(table.keys)
    return f"UPDATE {table.name} SET {name} = {key_value(r, kind)}, n = coalesce(n, 0) + 1 WHERE {at_key(r, table)}"


def update_reference(r, table):
    ref = r.choice(table.references)
    return (f"UPDATE {table.name} SET ({', '.join(ref.columns)}) = ROW({', '.join(key(r, ref.parent))})"
            f" WHERE {at_key(r, table)}")


def update_from(r, table, other):
    """A join that the primary key of the other table makes unambiguous."""
    return (f"UPDATE {table.name} t SET n = coalesce(s.n, 0) % 50 FROM {other.name} s"
            f" WHERE {at_key(r, other, 's.')} AND t.g = s.g")


def upsert(r, table):
    change = r.choice(["n = coalesce(excluded.n, 0) + 1", "g = 1", "n = t.n + 1"])
    target = f"({', '.join(table.key_names())})"
    if table.uniques and r.random() < 0.3:
        target = table.uniques[0][1]
    action = r.choice(["NOTHING", f"UPDATE SET {change}", f"UPDATE SET {change} WHERE t.g < 4"])
    text = insert(r, table, r.choice([1, 1, 2, 3])).replace(f"INTO {table.name} (", f"INTO {table.name} AS t (", 1)
    return f"{text} ON CONFLICT {target} DO {action}"


def insert_select(r, table, other):
    """Rows of another table under keys made from its counter, when the first key takes a number; else its aggregate."""
    names, values = row(r, table, full=True)
    values[names.index("n")] = r.choice(["max(s.n)", "count(*)::int % 60", "sum(s.g)::int"])
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {', '.join(values)} FROM {other.name} s WHERE s.g > {r.randrange(4)}"


def delete(r, table):
    return f"DELETE FROM {table.name} WHERE {where(r, table)}"


def delete_using(r, table, other):
    return f"DELETE FROM {table.name} t USING {other.name} s WHERE t.n = s.n AND s.g = {r.randrange(6)}"


def merge(r, table, other):
    names, values = row(r, table, full=True)
    source = f"(SELECT {key_value(r, table.keys[0][1])}::{bare(table.keys[0][1])} AS k, {r.randrange(40)} AS n)"
    on = "t.k0 = s.k" if len(table.keys) == 1 else f"t.k0 = s.k AND {at_key(r, table, 't.')}"
    matched = r.choice(["DELETE", "UPDATE SET n = s.n", "UPDATE SET g = 2", "DO NOTHING"])
    second = f" WHEN MATCHED AND t.n > 30 THEN {r.choice(['DELETE', 'DO NOTHING'])}" if r.random() < 0.5 else ""
    return (f"MERGE INTO {table.name} t USING {source} s ON {on}{second} WHEN MATCHED THEN {matched}"
            f" WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})")


def with_changes(r, table, other):
    return (f"WITH gone AS (DELETE FROM {table.name} WHERE {where(r, table)} RETURNING n, g),"
            f" sums AS (SELECT count(*) AS c, coalesce(max(n), 0) AS m FROM gone)"
            f" UPDATE {other.name} SET n = (SELECT (c + m) % 90 FROM sums) WHERE {at_key(r, other)}") if table is not other else delete(r, table)


def select(r, table, other):
    by = ", ".join(table.key_names())
    return r.choice([
        f"SELECT t.g, count(*), sum(n), max(n) FROM {table.name} t GROUP BY t.g ORDER BY 1",
        f"SELECT * FROM {table.name} t JOIN {other.name} s USING (g) WHERE t.n > s.n",
        f"SELECT n, rank() OVER (PARTITION BY g ORDER BY n) FROM {table.name}",
        f"SELECT n, row_number() OVER (ORDER BY {by}) FROM {table.name}" if "text" not in [k for _, k in table.keys] else f"SELECT n FROM {table.name}",
        f"SELECT * FROM {table.name} WHERE EXISTS (SELECT FROM {other.name} s WHERE s.g = {r.randrange(5)}) FOR UPDATE",
        f"SELECT n FROM {table.name} UNION SELECT n FROM {other.name} EXCEPT SELECT 3",
    ])


def failing(r, table):
    """Fails, if it fails, whatever row comes first."""
    name = table.name
    return r.choice([
        "SELECT 1 / 0", "SELECT 'x'::int", "SELECT * FROM no_such_table", "SELEC 1", f"SELECT no_such_column FROM {name}",
        "SELECT 2147483647 + 1", "SELECT fuzz_raise('22012')", "SELECT fuzz_raise('P0001')",
        f"{insert(r, table)}; SELECT 1 / 0", f"DELETE FROM {name}; SELECT fuzz_raise('ZZ001')",
        f"TRUNCATE {name} CASCADE; SELECT 'now'::int", f"UPDATE {name} SET g = g + 1; INSERT INTO no_such_table VALUES (1)",
        f"UPDATE {name} SET n = 5000 WHERE {at_key(r, table)}", f"UPDATE {name} SET g = NULL WHERE {at_key(r, table)}",
        f"UPDATE {name} SET g = 40000 WHERE {at_key(r, table)}",
        f"{insert(r, table)}; {insert(r, table)}; SELECT fuzz_add(2147483647, 1)",
        "CREATE TABLE x (a int)", "COMMIT", "SET search_path = x", "LOCK TABLE " + name, f"COPY {name} TO STDOUT",
        "SELECT * FROM chainify_ledger.block", "SELECT count(*) FROM pg_class",
    ])


def refused(r, table):
    """What the determinism checker refuses, whatever the rows are."""
    name = table.name
    return r.choice([
        f"UPDATE {name} SET n = n + 1 WHERE {table.keys[0][0]} = (SELECT {table.keys[0][0]} FROM {name} LIMIT 1)",
        f"SELECT array_agg(n) FROM {name}", f"SELECT *, row_number() OVER (ORDER BY g) FROM {name}", f"SELECT ctid FROM {name}",
        "SELECT clock_timestamp()", "SELECT gen_random_uuid()", "SELECT pg_backend_pid()", f"SELECT DISTINCT ON (g) n FROM {name}",
        f"UPDATE {name} SET n = random() * 10", f"SELECT * FROM {name} TABLESAMPLE BERNOULLI (50)", "SELECT nextval('test.nonce')",
        f"SELECT sum(n::float8) FROM {name}", "SELECT current_setting('work_mem')", f"SELECT * FROM {name} FOR UPDATE SKIP LOCKED",
    ])


def view(r, name, table):
    names, values = row(r, table, full=True)
    return r.choice([
        f"INSERT INTO {name} ({', '.join(names)}) VALUES ({', '.join(values)})", f"UPDATE {name} SET g = 1 WHERE {at_key(r, table)}",
        f"DELETE FROM {name} WHERE g = {r.randrange(6)}", f"SELECT count(*), min(n) FROM {name}", f"UPDATE {name} SET n = 600 WHERE {at_key(r, table)}",
    ])


def statement(r, schema):
    """One statement."""
    table, other = r.choice(schema.tables), r.choice(schema.tables)
    at = r.random()
    if at < 0.22:
        return insert(r, table, r.choice([1, 1, 1, 2, 3]))
    if at < 0.32:
        return upsert(r, table)
    if at < 0.48:
        return update(r, table)
    if at < 0.54:
        return update_key(r, table)
    if at < 0.58 and table.references:
        return update_reference(r, table)
    if at < 0.67:
        return delete(r, table)
    if at < 0.78:
        return r.choice([update_from, insert_select, delete_using, merge, merge, with_changes])(r, table, other)
    if at < 0.82:
        return select(r, table, other)
    if at < 0.87 and schema.functions:
        name = r.choice(schema.functions)
        return r.choice([f"SELECT {name}({r.randrange(4)})", f"SELECT {name}({r.randrange(4)})", f"CALL {name}_call({r.randrange(4)}, 1)"])
    if at < 0.91 and schema.views:
        return view(r, *r.choice(schema.views))
    if at < 0.93:
        return f"TRUNCATE {table.name} CASCADE"
    return failing(r, table) if at < 0.97 else refused(r, table)


def definition(r, schema, number):
    """DDL as a DEPLOY transaction has it, of one or two statements; what earlier ones did may make it fail."""
    table, fresh = r.choice(schema.tables), f"fresh_{r.randrange(3)}"
    one = [
        f"ALTER TABLE {table.name} ADD COLUMN x{number} {r.choice(['int', 'int DEFAULT 5', 'text', 'boolean NOT NULL DEFAULT true', 'numeric DEFAULT 1.50'])}",
        f"ALTER TABLE {table.name} ADD CONSTRAINT c{number} CHECK (g < {r.randrange(4, 40)})", f"ALTER TABLE {table.name} DROP COLUMN gen",
        f"ALTER TABLE {table.name} ALTER COLUMN n SET DEFAULT {r.randrange(9)}", f"ALTER TABLE {table.name} ALTER COLUMN g TYPE int",
        f"ALTER TABLE {table.name} ALTER COLUMN n TYPE bigint", f"CREATE INDEX ON {table.name} (n, g)", f"CREATE UNIQUE INDEX ON {table.name} (n, {', '.join(table.key_names())})",
        f"CREATE TABLE {fresh} (k int PRIMARY KEY, v text)", f"DROP TABLE {fresh}", f"GRANT SELECT ON {table.name} TO bob",
        f"CREATE FUNCTION fuzz_new{number}() RETURNS int LANGUAGE sql AS 'SELECT {number}'", f"COMMENT ON TABLE {table.name} IS 'x'",
        f"ALTER TABLE {table.name} RENAME CONSTRAINT c1 TO c2", f"CREATE VIEW fuzz_view{number} AS SELECT n, g FROM {table.name}",
        "ALTER TYPE fuzz_mood ADD VALUE 'great'", "CREATE TEMP TABLE x (a int)", "SELECT 1",
    ]
    return "; ".join(r.sample(one, r.choice([1, 1, 2])))


def parts(r, schema):
    """Statements run in subtransactions of a function, of which some fail."""
    texts = ", ".join(literal(statement(r, schema)) for _ in range(r.randrange(1, 5)))
    return f"SELECT public.fuzz_try(ARRAY[{texts}])"
