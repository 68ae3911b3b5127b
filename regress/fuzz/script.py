"""Random tables and blocks as one psql script, a function of its seed.

The script runs on databases that hold the same rows in different physical shape (column order, dropped columns, row order,
fill factor), and prints the same everywhere: that is the property tested. Statements are random but independent of physical
order: no LIMIT without a total order, no volatile function beyond those a block pins.
"""

import random
import re

# Type, and values as SQL; the awkward ones of each type among them.
TYPES = {
    "int": ["0", "1", "-1", "2147483647", "-2147483648", "(random() * 9)::int"],
    "bigint": ["0", "9223372036854775807", "-9223372036854775808", "42"],
    "numeric": ["0", "-0.00", "'NaN'", "'Infinity'", "'-Infinity'", "1.10", "1e300", "1e-300", "12345678901234567890.123"],
    "numeric(8,2)": ["0", "1.005", "'NaN'", "-999999.99"],
    "float8": ["0", "'-0'", "'NaN'", "'Infinity'", "0.1", "1e-310", "1.7976931348623157e308"],
    "float4": ["0", "'-0'", "'NaN'", "0.1", "1e-40"],
    "text": ["''", "'a'", "E'\\u00e9\\n''\"'", "'Ünïcödé'", "repeat('x', 3000)", "repeat(md5('s'), 200)", "now()::text"],
    "varchar(20)": ["''", "'b  '", "'ß'"],
    "char(6)": ["''", "'c'", "'c   '"],
    "bytea": ["''", "'\\x00ff'", "decode(repeat('5a00', 2000), 'hex')"],
    "boolean": ["true", "false"],
    "date": ["'infinity'", "'-infinity'", "'2000-02-29'", "'0001-01-01 BC'"],
    "time": ["'00:00'", "'24:00'", "'12:34:56.789012'"],
    "timestamp": ["'infinity'", "'-infinity'", "'1999-12-31 23:59:59.999999'", "'4713-01-01 BC'"],
    "timestamptz": ["'infinity'", "now()", "'2026-03-29 02:30:00+02'"],
    "interval": ["'0'", "'1 month -1 day 00:00:01'", "'30 days'", "'-178000000 years'"],
    "uuid": ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "jsonb": ["'{}'", "'[]'", "'null'", "'{\"b\": 1.10, \"a\": [1e2, {\"\\u00e9\": null}]}'", "'1e400'", "'\"\\ud83d\\ude00\"'"],
    "json": ["'{\"a\":1, \"a\":2}'", "' [1.0 , 1] '"],
    "int[]": ["'{}'", "'{1,NULL,3}'", "'[0:1][2:3]={{1,2},{3,4}}'"],
    "text[]": ["'{}'", "'{\"\",NULL,\"NULL\",\"a,b\"}'"],
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
KEYS = {
    "int": lambda r: str(r.randrange(12)),
    "bigint": lambda r: str(r.choice([0, 1, 2, 3, 9223372036854775807])),
    "text": lambda r: r.choice(["''", "'a'", "'A'", "'é'", "'a.b'", "repeat('k', 900)"]),
    "char(3)": lambda r: r.choice(["'a'", "'a '", "'bc'", "''"]),
    "numeric": lambda r: r.choice(["0", "1.0", "1.00", "-1", "'NaN'"]),
    "float8": lambda r: r.choice(["0", "'-0'", "'NaN'", "1.5"]),
    "date": lambda r: r.choice(["'2020-01-01'", "'infinity'"]),
    "fuzz_few": lambda r: str(r.randrange(1, 10)),
    "int[]": lambda r: r.choice(["'{1,2}'", "'{}'", "'{1,NULL}'"]),
    "jsonb": lambda r: r.choice(["'1.0'", "'1.00'", "'{\"a\": 1}'"]),
}
NAMES = ['"select"', '"Mixed Case"', '"dot.ted"', '"qu""ote"', "\"it's\"", '"ünï"', "_x", "tbl", "new", '"' + "n" * 63 + '"']


class Table:
    def __init__(self, r, number):
        self.name = f'public."f{number}{r.choice(["", ".x", " Y", "é", chr(39)])}"'
        names = r.sample(NAMES, len(NAMES))
        self.keys = [(f"k{i}", r.choice(list(KEYS))) for i in range(r.choice([1, 1, 1, 2, 3]))]
        self.columns = [(names[i], r.choice(list(TYPES))) for i in range(r.randrange(0, 7))]
        self.partitioned = self.keys[0][1] == "int" and r.random() < 0.5
        self.counter = r.random() < 0.7
        if self.counter:
            self.columns.append(("n", "int"))
        self.parent = None

    def create(self, shape, shape_seed):
        """DDL; the shape changes nothing that is hashed. Columns keep their order: it is part of the definition."""
        r = random.Random(shape_seed)
        dropped = shape > 0
        lines = [f"d{i} int" for i in range(r.randrange(1, 4))] if dropped else []
        lines += [f"{name} {kind}" + (" NOT NULL" if name.startswith("k") and kind else "") for name, kind in self.keys]
        for name, kind in self.columns:
            if dropped and r.random() < 0.3:
                lines.append(f"d{len(lines) + 10} text")
            lines.append(f"{name} {kind}")
        if self.counter:
            lines.append("CHECK (n < 1000)")
            lines.append("g int GENERATED ALWAYS AS (n / 7) STORED")
        if self.parent:
            lines.append(f"p {self.parent.keys[0][1]} REFERENCES {self.parent.name} ON DELETE {self.on_delete} ON UPDATE CASCADE")
        lines.append(f"PRIMARY KEY ({', '.join(k for k, _ in self.keys)})")
        out = [f"CREATE TABLE {self.name} ({', '.join(lines)})" + (" PARTITION BY RANGE (k0)" if self.partitioned else "")
               + (f" WITH (fillfactor = {r.choice([20, 50, 90])})" if dropped and not self.partitioned else "")]
        if dropped:
            gone = [line.split()[0] for line in lines if line.startswith("d") and line.split()[0][1:].isdigit()]
            out.append(f"ALTER TABLE {self.name} " + ", ".join(f"DROP COLUMN {d}" for d in gone))
        if self.partitioned:
            for at, (low, high) in enumerate([("MINVALUE", "4"), ("4", "8"), ("8", "MAXVALUE")]):
                part = self.name[:-1] + f'_p{at}"'
                out.append(f"CREATE TABLE {part} PARTITION OF {self.name} FOR VALUES FROM ({low}) TO ({high})")
        out.append(f"GRANT ALL ON {self.name} TO alice")
        return out

    def key(self, r):
        return [KEYS[kind](r) for _, kind in self.keys]

    def row(self, r):
        names = [k for k, _ in self.keys] + [name for name, _ in self.columns]
        values = self.key(r)
        for name, kind in self.columns:
            values.append(str(r.randrange(100)) if name == "n" else f"({r.choice(TYPES[kind] + ['NULL'])})::{kind}")
        if self.parent:
            names.append("p")
            values.append(r.choice(["NULL", self.parent.key(r)[0]]))
        return names, values

    def insert(self, r):
        names, values = self.row(r)
        return f"INSERT INTO {self.name} ({', '.join(names)}) VALUES ({', '.join(values)})"

    def where(self, r):
        kind = r.random()
        if kind < 0.6:
            return " AND ".join(f"{k} = {v}::{t}" for (k, t), v in zip(self.keys, self.key(r)))
        if kind < 0.8 and self.counter:
            return f"n % {r.randrange(2, 5)} = {r.randrange(2)}"
        return "true"

    def update(self, r):
        if self.columns and r.random() < 0.7:
            name, kind = r.choice(self.columns)
            value = f"n + {r.randrange(-5, 90)}" if name == "n" else f"({r.choice(TYPES[kind] + ['NULL'])})::{kind}"
            return f"UPDATE {self.name} SET {name} = {value} WHERE {self.where(r)}"
        k, kind = r.choice(self.keys)
        return f"UPDATE {self.name} SET {k} = {KEYS[kind](r)} WHERE {self.where(r)}"

    def statement(self, r):
        kind = r.random()
        conflict = ", ".join(k for k, _ in self.keys)
        if kind < 0.4:
            return self.insert(r)
        if kind < 0.5:
            change = "n = coalesce(excluded.n, 0) + 1" if self.counter else "k0 = excluded.k0"
            return f"{self.insert(r)} ON CONFLICT ({conflict}) DO UPDATE SET {change}"
        if kind < 0.75:
            return self.update(r)
        if kind < 0.88:
            return f"DELETE FROM {self.name} WHERE {self.where(r)}"
        if kind < 0.92:
            return f"TRUNCATE {self.name} CASCADE"
        if kind < 0.95 and self.counter:
            return f"MERGE INTO {self.name} t USING (VALUES ({self.key(r)[0]}::{self.keys[0][1]})) s (k) ON t.k0 = s.k WHEN MATCHED AND n > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 7"
        if kind < 0.97:
            return f"SELECT 1 / 0 FROM {self.name}"
        return f"WITH w AS (DELETE FROM {self.name} WHERE {self.where(r)} RETURNING 1) SELECT count(*) FROM w"


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def transaction(r, tables):
    sql = "; ".join(r.choice(tables).statement(r) for _ in range(r.choice([1, 1, 1, 2, 4])))
    if r.random() < 0.25:  # parts of it in subtransactions, of which some fail
        parts = ", ".join(literal(r.choice(tables).statement(r)) for _ in range(r.randrange(1, 5)))
        sql = f"SELECT public.fuzz_try(ARRAY[{parts}])"
    return sql


PRELUDE = r"""
\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION chainify;
CREATE SCHEMA test;
\i :helpers
CREATE TYPE fuzz_mood AS ENUM ('sad', 'ok', 'Ök');
CREATE TYPE fuzz_pair AS (a int, b text);
CREATE DOMAIN fuzz_few AS int CHECK (VALUE < 10);
CREATE FUNCTION fuzz_try(parts text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE part text; done int := 0;
BEGIN
    FOREACH part IN ARRAY parts LOOP
        BEGIN EXECUTE part; done := done + 1; EXCEPTION WHEN OTHERS THEN NULL; END;
    END LOOP;
    RETURN done;
END $$;
CREATE FUNCTION test.check(label text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT label || ': states do not hold' WHERE NOT test.states_hold()
    UNION ALL SELECT label || ': ' || v::text FROM chainify.verify_ledger() v WHERE what <> 'certificate missing'
    UNION ALL SELECT label || ': ' || v::text FROM chainify_ledger.ledger_table t, chainify.verify_table(t.relation::regclass) v WHERE t.detached_at IS NULL
$$;
CREATE FUNCTION test.step(VARIADIC txs bytea[]) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s', sqlstate, rows), ', ' ORDER BY tx) FROM test.block(VARIADIC txs) $$;
CREATE FUNCTION test.last() RETURNS text LANGUAGE sql AS $$ SELECT number || ' ' || encode(hash, 'hex') FROM chainify_node.position() $$;
"""


def script(seed, blocks, shape):
    """The psql script; `shape` chooses the physical form and nothing that is printed."""
    r = random.Random(seed)
    tables = [Table(r, i) for i in range(r.randrange(2, 6))]
    for table in tables[1:]:
        parents = [t for t in tables if t is not table and len(t.keys) == 1 and t.parent is None and t.keys[0][1] not in ("jsonb",)]
        if parents and r.random() < 0.5 and not any(t.parent is table for t in tables):
            table.parent, table.on_delete = r.choice(parents), r.choice(["CASCADE", "SET NULL", "NO ACTION"])
    lines = [PRELUDE]
    order = sorted(tables, key=lambda t: t.parent is not None)
    for table in order:
        lines += [line + ";" for line in table.create(shape, seed * 10 + shape)]
    # Outside of a block nothing pins now() and random().
    filling = [re.sub(r"now\(\)|\(random\(\) \* 9\)::int", "NULL", t.insert(r)) + " ON CONFLICT DO NOTHING;" for t in order if not t.parent for _ in range(8)]
    # The first of two rows with one key wins, so the order is kept where it matters: another shape writes and moves rows.
    lines += filling
    if shape:
        for table in order:
            lines.append(f"UPDATE {table.name} SET k0 = k0;")
    names = ", ".join(t.name for t in tables)
    nonce = 0

    def block(*texts):
        nonlocal nonce
        out = []
        for text in texts:
            nonce += 1
            role, kind = ("admin", 3) if text.split()[0] in ("ATTACH", "DETACH") else ("alice", 1)
            out.append(f"test.tx({literal(text)}, '{role}', {kind}, nonce => {nonce})")
        return ", ".join(out)

    lines += [f"SELECT 'attach', test.step({block('ATTACH TABLE ' + names)});", "SELECT test.last();"]
    for at in range(blocks):
        if shape and at % 7 == 3:
            lines.append(f"VACUUM FULL {tables[at % len(tables)].name};")
        body = block(*[transaction(r, tables) for _ in range(r.randrange(1, 9))])
        if r.random() < 0.3:  # executed, rolled back, executed again
            lines += ["BEGIN;", f"SELECT 'tried', test.step({body});", "SELECT test.last();", "ROLLBACK;"]
        lines += [f"SELECT {at}, test.step({body});", "SELECT test.last();", f"SELECT * FROM test.check('block {at}');"]
        if r.random() < 0.15:
            lines += tampering(r, r.choice(tables), at)
        if r.random() < 0.05:
            lines.append(f"SELECT {at}, test.step({block('DETACH TABLE ' + names)}); SELECT {at}, test.step({block('ATTACH TABLE ' + names)}); SELECT test.last();")
    return "\n".join(lines) + "\n"


def tampering(r, table, at):
    """A change behind the ledger's back that must not be left after a repair."""
    kind = r.choice(["delete", "update", "insert", "truncate"])
    if kind == "truncate":
        change = f"TRUNCATE {table.name} CASCADE"
    elif kind == "delete":
        change = f"DELETE FROM {table.name} WHERE {table.where(r)}"
    elif kind == "update":
        change = table.update(r)
    else:
        change = table.insert(r)
    return ["SET session_replication_role = replica; SET chainify.guard = off;",
            f"ALTER TABLE {table.name} DISABLE TRIGGER chainify_digest;",
            f"{change};",
            "RESET session_replication_role; RESET chainify.guard;",
            "SELECT count(*) >= 1 FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, NULL);",
            f"SELECT * FROM test.check('repair {at}');"]
