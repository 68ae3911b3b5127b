"""Types of columns and their values as SQL, the awkward ones of each type among them."""

# Types of ordinary columns.
TYPES = {
    "int2": ["0", "32767", "-32768"],
    "int": ["0", "1", "-1", "2147483647", "-2147483648"],
    "bigint": ["0", "9223372036854775807", "-9223372036854775808", "42"],
    "numeric": ["0", "-0.00", "'NaN'", "'Infinity'", "'-Infinity'", "1.10", "1e300", "1e-300", "12345678901234567890.123"],
    "numeric(8,2)": ["0", "1.005", "'NaN'", "-999999.99"],
    "float8": ["0", "'-0'", "'NaN'", "'Infinity'", "0.1", "1e-310", "1.7976931348623157e308"],
    "float4": ["0", "'-0'", "'NaN'", "0.1", "1e-40"],
    "text": ["''", "'a'", "E'\\u00e9\\n''\"'", "'Ünïcödé'", "repeat('x', 3000)", "repeat(md5('s'), 200)", "'2020-01-01'::timestamptz::text"],
    "varchar(20)": ["''", "'b  '", "'ß'"],
    "char(6)": ["''", "'c'", "'c   '"],
    "bytea": ["''", "'\\x00ff'", "decode(repeat('5a00', 2000), 'hex')"],
    "boolean": ["true", "false"],
    "date": ["'infinity'", "'-infinity'", "'2000-02-29'", "'0001-01-01 BC'"],
    "time": ["'00:00'", "'24:00'", "'12:34:56.789012'"],
    "timestamp": ["'infinity'", "'-infinity'", "'1999-12-31 23:59:59.999999'", "'4713-01-01 BC'"],
    "timestamptz": ["'infinity'", "'2026-03-29 02:30:00'", "'2026-03-29 02:30:00+02'"],
    "interval": ["'0'", "'1 month -1 day 00:00:01'", "'30 days'", "'-178000000 years'"],
    "uuid": ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "jsonb": ["'{}'", "'[]'", "'null'", "'{\"b\": 1.10, \"a\": [1e2, {\"\\u00e9\": null}]}'", "'1e400'", "'\"\\ud83d\\ude00\"'"],
    "json": ["'{\"a\":1, \"a\":2}'", "' [1.0 , 1] '"],
    "int[]": ["'{}'", "'{1,NULL,3}'", "'[0:1][2:3]={{1,2},{3,4}}'"],
    "text[]": ["'{}'", "'{\"\",NULL,\"NULL\",\"a,b\"}'", "ARRAY[repeat(md5('t'), 150)]"],
    "fuzz_mood": ["'sad'", "'ok'", "'Ök'"],
    "fuzz_pair": ["NULL", "ROW(1, 'x')", "ROW(NULL, NULL)", "ROW(2, repeat('y', 2500))"],
    "fuzz_pair[]": ["'{}'", "ARRAY[ROW(1, 'x'), NULL]::fuzz_pair[]"],
    "fuzz_few": ["1", "9", "NULL"],
    "fuzz_few[]": ["'{1,NULL}'", "'{}'"],
    "int4range": ["'empty'", "'(,)'", "'[1,5]'", "'(1,5]'", "'[1,)'"],
    "numrange": ["'[1.0,2.00)'", "'empty'", "'(,1e-20]'"],
    "int4multirange": ["'{}'", "'{[1,3),[5,7)}'"],
    "tstzrange": ["'[2020-01-01 00:00+01,infinity]'", "'(,)'"],
    "inet": ["'10.0.0.1/8'", "'::1'"],
    "cidr": ["'10.0.0.0/8'"],
    "bit(5)": ["B'10101'"],
    "tsvector": ["to_tsvector('english', 'The fat rats')"],
    "point": ["'(1,-0)'", "'(NaN,1e300)'"],
}

# Values that have their meaning inside a block alone: its time, and what is drawn from a transaction's id.
IN_A_BLOCK = {
    "int": ["(random() * 9)::int"],
    "text": ["now()::text", "current_user", "current_date::text"],
    "timestamptz": ["now()", "date_trunc('hour', statement_timestamp())"],
    "uuid": ["chainify.uuid()"],
    "float8": ["random()"],
}

# Types of key columns: few values, so that keys collide.
KEYS = {
    "int": [str(i) for i in range(12)],
    "int2": ["0", "1", "2", "-32768"],
    "bigint": ["0", "1", "2", "3", "9223372036854775807"],
    "numeric": ["0", "1.0", "1.00", "-1", "'NaN'", "7.5"],
    "text": ["''", "'a'", "'A'", "'é'", "'a.b'", "repeat('k', 900)"],
    'text COLLATE "C"': ["''", "'b'", "'B'", "'ü'", "'b '"],
    'text COLLATE "POSIX"': ["'p'", "'P'", "'q'"],
    "varchar(8)": ["'v'", "'w'", "'v '"],
    "char(3)": ["'a'", "'a '", "'bc'", "''"],
    "uuid": ["'00000000-0000-0000-0000-00000000000%d'" % i for i in range(6)],
    "date": ["'2020-01-01'", "'infinity'", "'1999-12-31'"],
    "timestamp": ["'2020-01-01 00:00'", "'-infinity'", "'2020-01-01 00:00:00.000001'"],
    "timestamptz": ["'2020-01-01 00:00+00'", "'2020-01-01 01:00+01'", "'infinity'"],
    "bytea": ["''", "'\\x00'", "'\\x0000'", "'\\xff'"],
    "boolean": ["true", "false"],
    "float8": ["0", "'-0'", "'NaN'", "1.5"],
    "fuzz_few": [str(i) for i in range(1, 10)],
    "fuzz_mood": ["'sad'", "'ok'", "'Ök'"],
    "int[]": ["'{1,2}'", "'{}'", "'{1,NULL}'"],
    "jsonb": ["'1.0'", "'1.00'", "'{\"a\": 1}'"],
    "inet": ["'10.0.0.1/8'", "'10.0.0.1'", "'::1'"],
    "int4range": ["'[1,5]'", "'[1,6)'", "'empty'"],
}
# Of these a key is made more often, because statements can do more with them.
COMMON_KEYS = ["int", "int", "int", "bigint", "text", 'text COLLATE "C"', "uuid", "numeric"]

DEFINITIONS = r"""
CREATE TYPE fuzz_mood AS ENUM ('sad', 'ok', 'Ök');
CREATE TYPE fuzz_pair AS (a int, b text);
CREATE DOMAIN fuzz_few AS int CHECK (VALUE < 10);
"""


def literal(text):
    """A string as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def bare(kind):
    """The type without its collation, as a cast takes it."""
    return kind.split(" COLLATE")[0]


# Values of keys that seldom meet.
SPREAD = {
    "int": lambda r: str(r.randrange(2000)),
    "bigint": lambda r: str(r.randrange(2000)),
    "numeric": lambda r: str(r.randrange(2000)),
    "text": lambda r: f"'t{r.randrange(2000)}'",
    'text COLLATE "C"': lambda r: f"'c{r.randrange(2000)}'",
    "uuid": lambda r: f"'00000000-0000-0000-0001-{r.randrange(2000):012}'",
}
