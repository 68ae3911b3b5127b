#!/usr/bin/env python3
"""Writes calls of the dialect with the answers of PostgreSQL 15, for `cargo test`.

Usage: record.py CONNECTION: the arguments of psql for a database that the script may change.
The calls are random, but from a fixed seed.
"""
import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
DIALECT = HERE.parents[2] / "extension/tests/analytics/dialect.sql"
HELPERS = r"""
CREATE FUNCTION dialect.test_date(n bigint) RETURNS date LANGUAGE sql AS $$ SELECT CASE n
    WHEN 2147483647 THEN 'infinity' WHEN -2147483648 THEN '-infinity' ELSE date '1970-01-01' + n::int END $$;
CREATE FUNCTION dialect.test_timestamp(n bigint) RETURNS timestamp LANGUAGE sql AS $$ SELECT CASE n
    WHEN 9223372036854775807 THEN 'infinity' WHEN '-9223372036854775808'::bigint THEN '-infinity'
    ELSE timestamp '1970-01-01' + (n / 86400000000)::int * interval '1 day' + n % 86400000000 * interval '1 microsecond' END $$;
CREATE FUNCTION dialect.test_timestamptz(n bigint) RETURNS timestamptz LANGUAGE sql AS $$ SELECT dialect.test_timestamp(n) AT TIME ZONE 'UTC' $$;
CREATE FUNCTION dialect.test_time(n bigint) RETURNS time LANGUAGE sql AS $$ SELECT
    CASE n WHEN 86400000000 THEN '24:00:00' ELSE time '00:00' + n * interval '1 microsecond' END $$;
-- A date that no timestamp holds has fields, although date_part refuses it.
CREATE OR REPLACE FUNCTION dialect.pg_extract(text, date) RETURNS numeric LANGUAGE sql AS 'SELECT "extract"($1, $2)';
CREATE FUNCTION dialect.answer(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE 'SELECT CASE WHEN x IS NULL THEN ''NULL'' ELSE format(''=%s'', x) END FROM (SELECT ' || call || ') s (x)' INTO answer;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN
    RETURN 'ERROR ' || SQLSTATE || ' ' || SQLERRM;
END
$$;
"""
R = random.Random(15)
INTEGERS = {"SMALLINT": 16, "INT": 32, "BIGINT": 64}


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def digits(count):
    kind = R.random()
    if kind < 0.15:
        return "9" * count
    if kind < 0.3:
        return R.choice("123456789") + "0" * (count - 1) if count else ""
    return "".join(R.choice("0123456789") for _ in range(count))


def number(whole, behind):
    text = digits(R.randint(0, whole)).lstrip("0") or "0"
    scale = R.randint(0, behind)
    if scale:
        text += "." + (digits(scale) if R.random() < 0.8 else "0" * scale)
    return ("-" if R.random() < 0.4 and text.strip("0.") else "") + text


def exact():
    return quoted(R.choice([number(4, 3), number(12, 6), number(40, 20), number(3, 60), number(0, 12)]))


def decimal(whole=18, behind=10):
    text = R.choice([number(3, 2), number(whole, behind)])
    scale = len(text.partition(".")[2])
    precision = max(sum(c.isdigit() for c in text), 1)
    return f"CAST('{text}' AS DECIMAL({precision},{scale}))"


def integer(kind):
    bits = INTEGERS[kind] - 1
    edge = R.choice([0, 1, -1, 2, -3, 7, 2**bits - 1, -(2**bits), -(2**bits) + 1, R.randint(-1000, 1000), R.randint(-(2**bits), 2**bits - 1)])
    return f"CAST('{edge}' AS {kind})"


def float_text():
    return R.choice([
        "0", "-0", "1", "-1", "0.1", "1e300", "-1e300", "1e-300", "1e38", "1e-38", "3e-40", "NaN", "Infinity", "-Infinity", "2.5", "-2.5", "3.5", "0.5",
        "1e15", "1e14", "123456", "1234567", "999999", "1e-4", "1e-5", "0.00012345", "9007199254740993", "8589934592", "2147483647.5", "9223372036854775807",
        f"{R.uniform(-1000, 1000)!r}", f"{R.uniform(-1, 1) * 10 ** R.randint(-45, 38)!r}", str(R.randint(-10**6, 10**6)), str(2 ** R.randint(0, 120)),
    ])


def real(kind):
    text = float_text()
    if kind == "REAL" and abs(float(text)) > 3e38 and "I" not in text:
        text = "1e37"
    if kind == "REAL" and 0 < abs(float(text)) < 1e-44:
        text = "1e-37"
    return f"CAST('{text}' AS {kind})"


def text(longest=8):
    pool = R.choice(["ab", "abc ", "aä€😀", "%_\\ab", "Aaxy"])
    return "".join(R.choice(pool) for _ in range(R.randint(0, longest)))


def small():
    return f"CAST({R.choice([0, 1, 2, 3, 5, 9, -1, -2, -7, 2147483647, -2147483647, R.randint(-10, 10)])} AS INT)"


def day():
    return R.choice([0, -1, 2147483647, -2147483648, 2145042905, -2440588, 106762939, 106762940, -719162, -719163, -719528, R.randint(-2440588, 2145042905),
                     R.randint(-800000, -600000), R.randint(-30000, 60000), R.randint(-30000, 60000), R.randint(-30000, 60000)])


def moment():
    time = R.choice([0, 1, 999999, 500000, 1000, 43200000000, 86399999999, R.randint(0, 86399999999)])
    return R.choice([9223372036854775807, -9223372036854775808, -2440588 * 86400000000, day_in_range() * 86400000000 + time, R.randint(0, 1900000000) * 1000000 + time])


def day_in_range():
    return R.choice([R.randint(-2440588, 106741000), R.randint(-800000, -600000), R.randint(-30000, 60000)])


def date():
    return f"test_date({day()})"


def timestamp(kind=None):
    return f"test_{kind or R.choice(['timestamp', 'timestamptz'])}({moment()})"


def numbers():
    for name in ["add", "sub", "mul", "div", "mod"]:
        for kind in INTEGERS:
            for _ in range(25):
                yield f"pg_{name}({integer(kind)}, {integer(kind)})"
        for kind in [] if name == "mod" else ["REAL", "DOUBLE"]:
            for _ in range(40):
                yield f"pg_{name}({real(kind)}, {real(kind)})"
        for _ in range(60):
            yield f"pg_{name}({decimal()}, {decimal()})"
            yield f"pg_num_{name}({exact()}, {exact()})"
        for _ in range(10):
            yield f"pg_{name}({decimal(28, 8)}, {decimal(28, 8)})"
    for name in ["neg", "abs"]:
        for kind in INTEGERS:
            for _ in range(8):
                yield f"pg_{name}({integer(kind)})"
        for _ in range(10):
            yield f"pg_{name}({real('REAL')})"
            yield f"pg_{name}({real('DOUBLE')})"
            yield f"pg_{name}({decimal()})"
            yield f"pg_num_{name}({exact()})"
    for _ in range(60):
        yield f"pg_num({decimal()})"
        yield f"pg_num_cmp({exact()}, {exact()})"
        same = number(6, 4)
        yield f"pg_num_cmp('{same}', '{same}{'.000' if '.' not in same else '00'}')"
        yield f"pg_num_round({exact()}, CAST({R.randint(-5, 12)} AS INT))"
        yield f"pg_num_trunc({exact()}, CAST({R.randint(-5, 12)} AS INT))"
    for zeros in range(4):
        yield f"pg_num(CAST('-1.{'50' + '0' * zeros}' AS DECIMAL(9,{2 + zeros})), CAST({R.randint(1, 2 + zeros)} AS INT))"


def casts():
    for name, kind in [("pg_int2", "SMALLINT"), ("pg_int4", "INT"), ("pg_int8", "BIGINT")]:
        bits = INTEGERS[kind] - 1
        for _ in range(25):
            yield f"{name}({decimal()})"
            yield f"{name}({real('DOUBLE')})"
            yield f"{name}({integer('BIGINT')})"
            yield f"{name}({exact()})"
        for edge in [2**bits - 1, -(2**bits)]:
            for tail in ["", ".4", ".5", ".6"]:
                text = f"{edge}{tail}"
                yield f"{name}(CAST('{text}' AS DECIMAL(25,{max(len(tail) - 1, 0)})))"
                yield f"{name}(CAST('{text}' AS DOUBLE))"
    for _ in range(60):
        yield f"pg_float8({decimal()})"
        yield f"pg_float8({exact()})"
        precision = R.randint(1, 38)
        yield f"pg_dec({decimal()}, {precision}, {R.randint(0, min(precision, 12))})"
        yield f"pg_dec({exact()}, {precision}, {R.randint(0, min(precision, 12))})"
        yield f"pg_round({decimal()}, {R.randint(-3, 12)})"
        yield f"pg_trunc({decimal()}, {R.randint(-3, 12)})"
        yield f"pg_ceil({decimal()})"
        yield f"pg_floor({decimal()})"
    yield f"pg_float8('1{'0' * 400}')"
    yield f"pg_float8('0.{'0' * 400}1')"
    for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
        for _ in range(25):
            yield f"pg_float_{name}({real('DOUBLE')}, {real('DOUBLE')})"


def texts():
    for _ in range(60):
        yield f"pg_bpchar_key({quoted(text())})"
        yield f"pg_length({quoted(text())})"
        yield f"pg_octet_length({quoted(text())})"
        yield f"pg_substring({quoted(text())}, {small()})"
        yield f"pg_substring({quoted(text())}, {small()}, {small()})"
        yield f"pg_left({quoted(text())}, {small()})"
        yield f"pg_right({quoted(text())}, {small()})"
        yield f"pg_position({quoted(text())}, {quoted(text(2))})"
        yield f"pg_replace({quoted(text())}, {quoted(text(2))}, {quoted(text(3))})"
        yield f"pg_starts_with({quoted(text())}, {quoted(text(2))})"
        for side in "blr":
            yield f"pg_{side}trim({quoted(text())}, {quoted(text(3))})"
    yield "pg_right('abc', CAST('-2147483648' AS INT))"
    yield "pg_left('abc', CAST('-2147483648' AS INT))"
    for _ in range(400):
        pattern = "".join(R.choice("ab%_\\%ä" if R.random() < 0.6 else "ab%") for _ in range(R.randint(0, 6)))
        sought = "".join(R.choice("abä\\%") for _ in range(R.randint(0, 7)))
        yield f"pg_like({quoted(sought)}, {quoted(pattern)})"
    for kind in INTEGERS:
        for _ in range(8):
            yield f"pg_text({integer(kind)})"
    yield "pg_text(TRUE)"
    yield "pg_text(FALSE)"
    yield "pg_text(pg_uuid('00112233-4455-6677-8899-aabbccddeeff'))"
    yield "pg_uuid('00112233-4455-6677-8899-aabbccddeeff')"
    yield "pg_bytea('00ff10')"
    yield "pg_bytea('')"
    for name in ["pg_length(CAST(NULL AS VARCHAR))", "pg_add(CAST(NULL AS INT), CAST(1 AS INT))", "pg_num_add(CAST(NULL AS VARCHAR), '1')"]:
        yield name


FIELDS = "year month day quarter decade century millennium week dow isodow doy isoyear".split()
UNITS = "microseconds milliseconds second minute hour day week month quarter year decade century millennium".split()


def dates():
    for _ in range(120):
        yield date()
        yield timestamp()
        yield f"pg_timestamp({date()})"
        yield f"pg_date({timestamp()})"
        yield f"pg_date_add({date()}, {small()})"
        yield f"pg_date_sub({date()}, {date()})"
        months = R.choice([0, 1, -1, 12, 13, -25, 1200, 2147483647, -2147483647, R.randint(-50, 50)])
        days = R.choice([0, 0, 1, -1, 400, 2147483647, -2147483647, R.randint(-50, 50)])
        time = R.choice([0, 0, 1, -1, 86400000000, -9223372036854775807, R.randint(-10**13, 10**13)])
        of = R.choice([date(), timestamp("timestamp")])
        yield f"pg_interval_add({of}, CAST({months} AS INT), CAST({days} AS INT), CAST({time} AS BIGINT))"
    for _ in range(15):
        yield f"test_time({R.choice([0, 86400000000, 1, 500000, R.randint(0, 86399999999)])})"
    for field in FIELDS:
        for _ in range(25):
            yield f"pg_extract('{field}', {R.choice([date, timestamp])()})"
    for field in ["hour", "minute"]:
        for _ in range(8):
            yield f"pg_extract('{field}', {timestamp()})"
    for unit in UNITS:
        for _ in range(20):
            yield f"pg_date_trunc('{unit}', {timestamp()})"
    for last in ["2024-02-29", "2023-01-31", "2023-12-31", "2000-02-29"]:
        for months in [1, 12, -1, 1200]:
            yield f"pg_interval_add(CAST('{last}' AS DATE), CAST({months} AS INT), CAST(0 AS INT), CAST(0 AS BIGINT))"


    for moment_ in [0, -1, 1, 86400000000, -62135596800000000, 9223372036854775807, -9223372036854775808]:
        yield f"pg_timestamp(test_timestamptz({moment_}))"
        yield f"pg_timestamptz(test_timestamp({moment_}))"
    for day_ in [0, -1, 19782, -719163, -2440588, 106751982, 106751983, 2145042905, 2147483647, -2147483648]:
        yield f"pg_timestamptz(test_date({day_}))"


def floats():
    for kind in ["REAL", "DOUBLE"]:
        for _ in range(250):
            yield real(kind)
    for power in range(-30, 120):
        yield f"CAST('{2.0 ** power!r}' AS REAL)"
        yield f"CAST('{2.0 ** (power * 5)!r}' AS DOUBLE)"
    for power in range(52, 75):
        for add in [0, 2, 6]:
            yield f"CAST('{2**power + add * 2 ** (power - 52)}' AS DOUBLE)"
    for _ in range(200):
        yield f"CAST('{R.randint(1, 10**R.randint(1, 6)) * 10 ** R.randint(0, 22)}' AS DOUBLE)"
        yield f"CAST('{R.randint(1, 10**R.randint(1, 4)) * 10 ** R.randint(0, 12)}' AS REAL)"


def aggregate(name, value, rows):
    values = ", ".join(f"({value() if R.random() < 0.9 else 'NULL'})" for _ in range(rows - 1))
    return f"{name}(x) FROM (VALUES ({value()}){', ' if values else ''}{values}) AS v (x)"


def aggregates():
    for _ in range(12):
        rows = R.choice([1, 2, 3, 8])
        for kind in INTEGERS:
            yield aggregate("pg_sum", lambda: integer(kind), rows)
            yield aggregate("pg_avg", lambda: integer(kind), rows)
        scale = R.randint(0, 6)
        of = lambda: f"CAST('{number(10, 0)}{'.' + digits(scale) if scale else ''}' AS DECIMAL(20,{scale}))"
        yield aggregate("pg_sum", of, rows)
        yield aggregate("pg_avg", of, rows)
        for name in ["sum", "avg", "min", "max"]:
            yield aggregate(f"pg_num_{name}", exact, rows)
        yield aggregate("pg_single", lambda: integer("INT"), R.choice([1, 1, 2]))
        yield aggregate("pg_single", lambda: quoted(text()), R.choice([1, 1, 2]))


def letters():
    for case in ["upper", "lower"]:
        for _ in range(30):
            yield f"pg_{case}_ascii({quoted(text())})"
            yield f"pg_{case}({quoted(text())})"
        # All letters that the worker knows.
        for first, last in [(0x20, 0x7e), (0xa0, 0x12f), (0x132, 0x148), (0x14a, 0x17e), (0x391, 0x3a1), (0x3a3, 0x3c9), (0x400, 0x45f), (0x5d0, 0x5ea), (0x2010, 0x2027),
                            (0x20a0, 0x20bf), (0x3041, 0x3096), (0x4e00, 0x4e40), (0xac00, 0xac40), (0x1f300, 0x1f9ff)]:
            for start in range(first, last + 1, 40):
                yield f"pg_{case}({quoted(''.join(chr(n) for n in range(start, min(start + 40, last + 1))))})"


def between():
    for _ in range(80):
        kind = R.choice(["timestamp", "timestamptz"])
        of = R.choice([f"pg_timestamp_sub({timestamp(kind)}, {timestamp(kind)})", f"pg_interval(CAST({R.choice([0, 1, -1, 86400000000, -86400000001, R.randint(-10**13, 10**13)])} AS BIGINT))"])
        yield of
        yield f"pg_second({R.choice([of, timestamp()])})"
        yield f"pg_epoch({R.choice([of, timestamp(), date()])})"
        yield f"pg_epoch_float({R.choice([of, timestamp(), date()])})"
        yield f"pg_extract('{R.choice(['day', 'hour', 'minute'])}', {of})"


def percentile(kind, value, rows):
    part, way = R.choice(["0", "0.1", "0.3", "0.5", "0.75", "1"]), R.choice(["TRUE", "FALSE"])
    return aggregate(f"pg_percentile_{kind}", value, rows).replace("(x) FROM", f"(x, CAST('{part}' AS DOUBLE), {way}) FROM")


def spreads():
    for _ in range(12):
        rows, scale = R.choice([1, 2, 3, 8]), R.randint(0, 6)
        of = lambda: f"CAST('{number(10, 0)}{'.' + digits(scale) if scale else ''}' AS DECIMAL(20,{scale}))"
        for name in ["var_samp", "var_pop", "stddev_samp", "stddev_pop"]:
            for value in [of, exact, lambda: integer("BIGINT"), lambda: f"CAST({R.randint(0, 3)} AS INT)", lambda: f"CAST('{number(6, 0)}.5' AS DECIMAL(12,1))"]:
                yield aggregate(f"pg_{name}", value, rows)
        for value in [lambda: f"CAST({R.randint(-5, 5)} AS INT)", lambda: f"CAST({R.randint(-50, 50)}.25 AS DECIMAL(6,2))", date, lambda: timestamp("timestamp"), lambda: real("DOUBLE")]:
            yield percentile("disc", value, rows)
        yield percentile("cont", lambda: real("DOUBLE"), rows)


def written(call):
    """The call as PostgreSQL writes it."""
    return call.replace(" AS DOUBLE)", " AS DOUBLE PRECISION)").replace(" AS VARCHAR)", " AS TEXT)")


def main(connection):
    def psql(sql):
        done = subprocess.run(["psql", *connection, "-qAtX", "-v", "ON_ERROR_STOP=1"], input=sql, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        return done.stdout.splitlines()

    psql("DROP SCHEMA IF EXISTS dialect CASCADE; SET client_min_messages = error;" + DIALECT.read_text().split("\n-- Tables of the worker")[0] + HELPERS)
    for name, calls in [("numbers", numbers), ("casts", casts), ("texts", texts), ("dates", dates), ("floats", floats), ("aggregates", aggregates),
                        ("letters", letters), ("between", between), ("spreads", spreads)]:
        calls = list(dict.fromkeys(calls()))
        asked = "".join(f"SELECT dialect.answer({quoted(written(call))});\n" for call in calls)
        answers = psql("SET search_path = dialect, pg_catalog; SET TimeZone = 'UTC'; SET extra_float_digits = 1;\n" + asked)
        assert len(answers) == len(calls), (name, len(answers), len(calls))
        lines = [f"{call}\t{answer}\n" for call, answer in zip(calls, answers)]
        (HERE / f"{name}.txt").write_text("".join(lines))
        print(name, len(lines), sum("\tERROR" in line for line in lines))


main(sys.argv[1:])
