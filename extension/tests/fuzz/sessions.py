"""Random statements whose effects could show what a session did before, or what a database has alone: kept plans and types, open
cursors, texts of errors that a handler stores, times as literals, object numbers, and what the order of rows or the plan decides.

Each stores a number made of the text that came out, so that any table can take it.
"""

import statements
from values import literal


def definitions(tables):
    """Functions that the statements call."""
    texts = [FUNCTIONS]
    for i, t in enumerate(tables):
        by = ", ".join(t.key_names())
        texts.append(f"""
CREATE FUNCTION fuzz_column_type{i}(a bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE v {t.name}.g%TYPE; w {t.name}.n%TYPE; BEGIN v := a; w := a * 100000; RETURN concat(v, ' ', w, ' ', pg_typeof(v) = 'smallint'::regtype); EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
CREATE FUNCTION fuzz_row_type{i}(a bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE x {t.name}%ROWTYPE; BEGIN SELECT * INTO x FROM {t.name} ORDER BY {by} LIMIT 1; x.g := a; RETURN md5(x::text); EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
CREATE FUNCTION fuzz_now{i}(a int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE at timestamptz := 'now'; BEGIN UPDATE {t.name} SET n = fuzz_mark(concat(at, timestamp 'now', CASE WHEN 'now'::timestamp > 'yesterday' THEN date 'today' END)) WHERE g = a; END $$;
CREATE FUNCTION fuzz_now_sql{i}(a int) RETURNS void LANGUAGE sql AS $$ UPDATE {t.name} SET n = fuzz_mark((timestamp 'now')::text) WHERE g = a $$;""")
    return texts


FUNCTIONS = r"""
CREATE FUNCTION fuzz_mark(x text) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT ('x' || left(md5(x), 3))::bit(12)::int % 900 $$;
CREATE FUNCTION fuzz_record(q text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE x record; v text; w text;
BEGIN EXECUTE q INTO x; v := x.a; SELECT x.a INTO w; RETURN concat(v, '!', w, pg_typeof(x.a) = 'text'::regtype); END $$;
CREATE FUNCTION fuzz_loop(q text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE x record; v text := ''; BEGIN FOR x IN EXECUTE q LOOP v := v || x.a || ','; END LOOP; RETURN v; END $$;
CREATE FUNCTION fuzz_portal(leave boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE c refcursor; v int; BEGIN OPEN c FOR VALUES (5), (6); FETCH c INTO v; IF NOT leave THEN CLOSE c; END IF; RETURN concat(c, v); END $$;
CREATE FUNCTION fuzz_open() RETURNS text LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'mine'; BEGIN OPEN c FOR VALUES (5), (6); RETURN c; END $$;
CREATE FUNCTION fuzz_fetch() RETURNS text LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'mine'; v int; BEGIN FETCH c INTO v; RETURN v; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
CREATE FUNCTION fuzz_caught(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE v text; m text; c text; t text; d text;
BEGIN EXECUTE q; RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v = RETURNED_SQLSTATE, m = MESSAGE_TEXT, c = CONSTRAINT_NAME, t = TABLE_NAME, d = COLUMN_NAME;
    RETURN concat_ws(' ', v, m, c, t, d);
END $$;
CREATE FUNCTION fuzz_seen(q text) RETURNS text LANGUAGE plpgsql STABLE AS $$ DECLARE v int; BEGIN EXECUTE q INTO v; RETURN v; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || SQLERRM; END $$;
CREATE FUNCTION fuzz_state(q text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN EXECUTE q; RETURN ''; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
CREATE FUNCTION fuzz_context() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE x text; y text; BEGIN GET DIAGNOSTICS x = PG_CONTEXT; PERFORM 1 / 0; EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS y = PG_EXCEPTION_CONTEXT; RETURN concat(x, y); END $$;
"""

QUERIES = ["SELECT 1 AS a", "SELECT 'q'::text AS a", "SELECT 1.5 AS a", "SELECT now() AS a", "SELECT ARRAY[1, 2] AS a", "SELECT 3::int2 AS a UNION ALL SELECT 4"]
TIMES = ["timestamp 'now'", "timestamptz 'now'", "'now'::timestamp", "date 'today'", "timestamp 'tomorrow'", "'{now}'::timestamp[]", "'[today,tomorrow)'::daterange",
         "time 'now'", "(now() > 'now'::timestamptz)", "(localtimestamp >= 'now')"]
NUMBERS = ["concat({t}::regclass)", "format('%s', {t}::regclass::oid)", "concat({t}::regclass::oid::oid)", "to_json({t}::regclass)", "array_to_string(ARRAY[{t}::regclass::oid], ',')",
           "hashenum('sad'::fuzz_mood)", "hash_array(ARRAY['ok'::fuzz_mood])", "hash_record(ROW('ok'::fuzz_mood))", "record_send(ROW(1, 'sad'::fuzz_mood))",
           "array_send(ARRAY['sad'::fuzz_mood])", "current_schemas(true)", "current_schemas(false)", "concat(16400::oid::regclass)", "concat('fuzz_mood'::regtype::oid)",
           "pg_walfile_name('0/1000001')", "pg_my_temp_schema()", "concat(to_regclass({t})::oid)"]


def mark(table, at, expression):
    """Stores what came out at one row."""
    return f"UPDATE {table.name} SET n = fuzz_mark(({expression})::text) WHERE {at}"


def types(r, table, _other, number, at):
    return mark(table, at, f"fuzz_{r.choice(['column', 'row'])}_type{number}({r.choice([3, 40000, 70000])})")


def records(r, table, _other, _number, at):
    return mark(table, at, f"fuzz_{r.choice(['record', 'loop'])}({literal(r.choice(QUERIES))})")


def cursors(r, table, _other, _number, at):
    return r.choice(["SELECT fuzz_open()", mark(table, at, "fuzz_fetch()"), mark(table, at, f"fuzz_portal({r.choice(['true', 'false'])})")])


def times(r, table, _other, number, at):
    return r.choice([mark(table, at, r.choice(TIMES)), f"SELECT fuzz_now{number}({r.randrange(6)})", f"SELECT fuzz_now_sql{number}({r.randrange(6)})"])


def errors(r, table, other, _number, at):
    failing = r.choice([statements.insert(r, other, r.choice([1, 1, 3])), statements.update_key(r, other), f"DELETE FROM {other.name} WHERE g = {r.randrange(6)}",
                        statements.failing(r, other), f"UPDATE {other.name} SET n = n + 1, g = 2"])
    return mark(table, at, f"{r.choice(['fuzz_caught', 'fuzz_state'])}({literal(failing)})")


def row_errors(r, table, other, _number, at):
    """One of several rows fails first."""
    return mark(table, at, f"fuzz_seen({literal(f'SELECT sum(CASE g WHEN 0 THEN 1 / g WHEN 1 THEN (n::text || chr(120))::int ELSE 40000::int2 END) FROM {other.name}')})")


def plans(r, table, other, _number, _at):
    join = f"t.g = s.g AND {r.choice([10, 7])} / {r.choice(['s.n', '(s.n - 13)', '(s.g - 3)'])} > 0"
    return r.choice([f"UPDATE {table.name} t SET g = 1 FROM {other.name} s WHERE {join} AND s.n < {r.randrange(60)}",
                     f"SELECT count(*) FROM {table.name} t JOIN {other.name} s ON {join}", f"DELETE FROM {table.name} t WHERE t.g = 5 AND 10 / (t.n - 20) > 0"])


def orders(r, table, other, _number, at):
    days = "make_interval(days => (n % 53) * CASE g % 2 WHEN 0 THEN 40000000 ELSE -40000000 END)"
    return mark(table, at, f"SELECT {r.choice(['sum', 'avg'])}({days}) FROM {other.name}")


def numbers(r, table, _other, _number, at):
    return mark(table, at, r.choice(NUMBERS).format(t=literal(table.name)))


def contexts(_r, table, _other, _number, at):
    return mark(table, at, "fuzz_context()")


KINDS = {"types": types, "records": records, "cursors": cursors, "times": times, "errors": errors, "row errors": row_errors, "plans": plans, "orders": orders,
         "numbers": numbers, "contexts": contexts}


def statement(r, schema):
    """One of the kinds of the schema."""
    number = r.randrange(len(schema.tables))
    table, other, kind = schema.tables[number], r.choice(schema.tables), r.choice(schema.kinds)
    # A function that has effects is refused for several rows.
    at = statements.at_key(r, table) if kind in ("errors", "cursors") or r.random() < 0.2 else f"g = {r.randrange(6)}"
    return KINDS[kind](r, table, other, number, at)
