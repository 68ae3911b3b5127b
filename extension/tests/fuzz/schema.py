"""Random schemas: tables with keys, constraints, foreign keys, partitions, policies, views and functions.

A schema is a function of its seed. What two organisations may have differently (the physical form) is in shapes.py; it asks
`Table` for the pieces of its definition.
"""

from dataclasses import dataclass, field
from itertools import combinations

import declared
import sessions
from values import COMMON_KEYS, DEFINITIONS, KEYS, TYPES, bare

NAMES = ['"select"', '"Mixed Case"', '"dot.ted"', '"qu""ote"', "\"it's\"", '"ünï"', "_x", "tbl", "new", '"' + "n" * 63 + '"']
ACTIONS = ["NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT"]


@dataclass
class Reference:
    """A foreign key: `columns` of its table to the primary key of `parent`."""

    columns: list
    parent: object
    on_delete: str
    on_update: str

    def sql(self):
        keys = ", ".join(k for k, _ in self.parent.keys)
        return (f"FOREIGN KEY ({', '.join(self.columns)}) REFERENCES {self.parent.name} ({keys})"
                f" ON DELETE {self.on_delete} ON UPDATE {self.on_update}")


@dataclass(eq=False)
class Table:
    """Every table has key columns k0.., a counter n, a small number g that is never NULL, and columns of odd types."""

    name: str
    keys: list
    columns: list
    odd: list
    partition: str = ""
    # Whether the first partition is divided once more, by the last column of the key.
    inner: bool = False
    references: list = field(default_factory=list)
    # (definition after CREATE UNIQUE INDEX ON t, arbiter of ON CONFLICT)
    uniques: list = field(default_factory=list)
    policies: list = field(default_factory=list)
    owner_column: bool = False
    # A column "s" that takes its values from a sequence: its type, with what makes it do so.
    sequence: str = ""

    def key_names(self):
        return [k for k, _ in self.keys]

    def dividing(self):
        """The columns by which a partitioned table and its first partition are divided: every unique key has to hold them."""
        return list(dict.fromkeys(["k0"] + ([self.key_names()[-1]] if self.inner else [])))

    def reference_columns(self):
        """Columns of foreign keys, with their types."""
        return [(c, kind) for ref in self.references for c, (_, kind) in zip(ref.columns, ref.parent.keys)]

    def unique_name(self, number):
        """A handler may store it: the same in all databases, whatever order they make indexes in."""
        return f'"{self.name[8:-1]} unique {number}"'

    def definition(self, extra):
        """Column definitions and constraints in order; `extra` are columns of one shape alone, (position, definition)."""
        lines = [f"{name} {kind} NOT NULL" for name, kind in self.keys]
        lines += [f"{name} {kind}{rest}" for name, kind, rest in self.columns]
        lines += [f"{name} {kind}" for name, kind in self.reference_columns()] + ([f"s {self.sequence}"] if self.sequence else [])
        for position, text in extra:
            lines.insert(min(position, len(lines)), text)
        return lines + [f"PRIMARY KEY ({', '.join(self.key_names())})"]

    def partitions(self):
        """Statements that make the partitions."""
        stem, kind = self.name[:-1], self.partition.split(" ")[0]
        if kind == "RANGE":
            bounds = [f"FOR VALUES FROM ({low}) TO ({high})" for low, high in [("MINVALUE", 4), (4, 8), (8, "MAXVALUE")]]
        elif kind == "LIST":
            bounds = ["FOR VALUES IN (0, 1, 2, 3)", "FOR VALUES IN (5, 7)", "DEFAULT"]
        elif kind == "HASH":
            bounds = [f"FOR VALUES WITH (MODULUS 3, REMAINDER {i})" for i in range(3)]
        else:
            return []
        again, leaves = "", []
        if self.inner:
            again = f" PARTITION BY HASH ({self.dividing()[-1]})"
            leaves = [f'CREATE TABLE {stem}_p0_{i}" PARTITION OF {stem}_p0" FOR VALUES WITH (MODULUS 2, REMAINDER {i})' for i in range(2)]
        return [f'CREATE TABLE {stem}_p{i}" PARTITION OF {self.name} {bound}{again if i == 0 else ""}' for i, bound in enumerate(bounds)] + leaves


@dataclass
class Schema:
    tables: list
    views: list  # (name, table or None)
    functions: list  # (name, argument types)
    declared: list  # functions whose access is declared
    definitions: list  # SQL after the tables
    kinds: list  # of statements that could tell sessions apart (sessions.py)


def make_table(r, number, apart):
    """With `apart`, nothing ties rows of different keys together: neither sequences nor unique indexes over other columns."""
    names = r.sample(NAMES, len(NAMES))
    count = r.choice([1, 1, 1, 2, 2, 3])
    kinds = [r.choice(COMMON_KEYS if apart or r.random() < 0.6 else list(KEYS)) for _ in range(count)]
    odd = [(names[i], r.choice(list(TYPES))) for i in range(r.randrange(0, 5))]
    table = Table(f'public."f{number}{r.choice(["", ".x", " Y", "é", chr(39)])}"', [(f"k{i}", k) for i, k in enumerate(kinds)], [], odd)
    if kinds[0] == "int":
        table.partition = r.choice(["", "", "", "RANGE (k0)", "LIST (k0)", "HASH (k0)"])
    elif kinds[0] in ("text", "uuid", "bigint") and r.random() < 0.2:
        table.partition = "HASH (k0)"
    table.inner = bool(table.partition) and r.random() < 0.5
    table.columns = [("n", "int", r.choice(["", " DEFAULT 7"]) + " CHECK (n < 1000)"),
                     ("g", "int2", " NOT NULL DEFAULT 3")]
    for name, kind in odd:
        value = r.choice(TYPES[kind])
        table.columns.append((name, bare(kind), f" DEFAULT {value}" if r.random() < 0.3 and "now" not in value else ""))
    if r.random() < 0.4:
        table.columns.append(("gen", "int", " GENERATED ALWAYS AS (n / 7 + g) STORED"))
    if r.random() < 0.2:
        table.columns.append(("own", "name", " DEFAULT current_user"))
        table.owner_column = True
    table.sequence = r.choice(["", "", "bigserial", "int GENERATED ALWAYS AS IDENTITY (CACHE 7)",
                               "smallint GENERATED BY DEFAULT AS IDENTITY (START -1 INCREMENT -3)"])
    if apart:
        table.sequence = ""
    elif not table.partition:
        table.uniques = r.sample([("(n, g) WHERE n > 20", "(n, g) WHERE n > 20"), ("((n % 50), g)", "((n % 50), g)"),
                                  ("(n) NULLS NOT DISTINCT", "(n)"), ("(g, k0) INCLUDE (n)", "(g, k0)")], r.choice([0, 0, 1, 1, 2]))
    elif r.random() < 0.3:
        key = ", ".join(table.dividing() + ["n"])
        table.uniques = [(f"({key})", f"({key})")]
    if r.random() < 0.25:
        table.policies = [("seen", "FOR ALL", "n IS DISTINCT FROM 13", "n IS DISTINCT FROM 14")]
        if table.owner_column:
            table.policies.append(("own_rows", "AS RESTRICTIVE FOR UPDATE TO bob", "own = current_user", "true"))
    return table


def make_references(r, tables):
    """Foreign keys: to a table before it, to itself, several of one table; but none that the ledger refuses."""
    for at, table in enumerate(tables):
        while r.random() < 0.6 and len(table.references) < 3:
            parent = r.choice(tables[: at + 1])
            columns = [f"r{len(table.references)}_{i}" for i in range(len(parent.keys))]
            table.references.append(Reference(columns, parent, r.choice(ACTIONS), r.choice(ACTIONS)))
            if any(crossing(tables, one, other) for one, other in combinations(table.references, 2)):
                table.references.pop()
                break


def crossing(tables, one, other):
    """Whether two foreign keys of a table may act on one row by one statement (chainify_ledger.crossing_actions)."""
    acts = ("CASCADE", "SET NULL", "SET DEFAULT")
    deletes = [one.on_delete, other.on_delete]
    by_delete = (deletes.count("CASCADE") == 1 or all(d in acts[1:] for d in deletes)) and meet(tables, one, other)
    # No foreign key refers to a column that another one changes, so an update goes one step.
    return by_delete or (one.on_update in acts and other.on_update in acts and one.parent is other.parent)


def meet(tables, one, other):
    """Whether a DELETE of one table deletes from the parents of both."""
    for top in tables:
        reached, before = [top], 0
        while len(reached) > before:
            before = len(reached)
            reached += [t for t in tables if t not in reached and any(f.on_delete == "CASCADE" and f.parent in reached for f in t.references)]
        if one.parent in reached and other.parent in reached:
            return True
    return False


FUNCTIONS = r"""
CREATE FUNCTION fuzz_try(parts text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE part text; done int := 0;
BEGIN
    FOREACH part IN ARRAY parts LOOP
        BEGIN EXECUTE part; done := done + 1; EXCEPTION WHEN OTHERS THEN NULL; END;
    END LOOP;
    RETURN done;
END $$;
CREATE FUNCTION fuzz_raise(code text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = code; END $$;
CREATE FUNCTION fuzz_add(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT a + b $$;
"""


def make_functions(r, tables):
    """Functions of one table each: a loop in order, an upsert by exception, dynamic SQL, a body in SQL, a procedure-like chain."""
    names, texts = [], [FUNCTIONS]
    for i, t in enumerate(tables):
        by = ", ".join(t.key_names())
        match = " AND ".join(f"x.{k} = t.{k}" for k in t.key_names())
        name = f"fuzz_f{i}"
        if r.random() < 0.5:
            body = (f"DECLARE x record; s int := 0; BEGIN FOR x IN SELECT * FROM {t.name} ORDER BY {by} LOOP s := s + coalesce(x.n, 0) % a;"
                    f" IF x.g % 2 = 0 THEN UPDATE {t.name} t SET g = t.g + 1 WHERE {match}; END IF;"
                    f" EXIT WHEN s > 100; END LOOP; RETURN s; END")
            names.append(name)
            texts.append(f"CREATE FUNCTION {name}(a int) RETURNS int LANGUAGE plpgsql AS $$ {body} $$;")
        elif r.random() < 0.5:
            body = (f"BEGIN BEGIN UPDATE {t.name} SET n = n / a WHERE g < 5; EXCEPTION WHEN division_by_zero THEN"
                    f" UPDATE {t.name} SET g = 4 WHERE g = 3; END; EXECUTE 'DELETE FROM ' || {quoted(t.name)} || ' WHERE n > $1' USING a * 20;"
                    f" RETURN 1; END")
            names.append(name)
            texts.append(f"CREATE FUNCTION {name}(a int) RETURNS int LANGUAGE plpgsql AS $$ {body} $$;")
        else:
            names.append(name)
            texts.append(f"CREATE PROCEDURE {name}_call(a int, INOUT b int) LANGUAGE plpgsql AS $$ BEGIN b := a + b;"
                         f" UPDATE {t.name} SET n = n % 40 + b WHERE g = a; END $$;")
            texts.append(f"CREATE FUNCTION {name}(a int) RETURNS bigint LANGUAGE sql AS $$ UPDATE {t.name} SET n = a WHERE g = a % 4;"
                         f" SELECT count(*) FROM {t.name} WHERE n = a $$;")
    return names, texts


def quoted(name):
    return "'" + name.replace("'", "''") + "'"


def make(r, kinds):
    """A schema of two to five tables."""
    apart = r.random() < 0.35
    tables = [make_table(r, i, apart) for i in range(r.randrange(2, 6))]
    if not apart:
        make_references(r, tables)
    definitions, views, owned = ["GRANT ALL ON SCHEMA public TO admin"], [], r.random() < 0.7
    for i, t in enumerate(tables):
        grants = [f"GRANT ALL ON {t.name} TO alice"]
        rights = ["SELECT", "INSERT", "UPDATE (n, g)", "DELETE"]
        grants.append(f"GRANT {', '.join(rights[: r.randrange(1, 5)])} ON {t.name} TO bob")
        definitions += grants
        if t.sequence == "bigserial":
            definitions.append(f"DO $$ BEGIN EXECUTE 'GRANT USAGE ON SEQUENCE ' || pg_get_serial_sequence({quoted(t.name)}, 's') || ' TO alice'; END $$")
        if owned:
            definitions.append(f"DO $$ DECLARE part regclass; BEGIN FOR part IN SELECT relid FROM pg_partition_tree({quoted(t.name)})"
                               f" LOOP EXECUTE 'ALTER TABLE ' || part || ' OWNER TO admin'; END LOOP; END $$")
        if t.policies:
            definitions.append(f"ALTER TABLE {t.name} ENABLE ROW LEVEL SECURITY")
            definitions += [f"CREATE POLICY {name} ON {t.name} {how} USING ({using})" + f" WITH CHECK ({check})"
                            for name, how, using, check in t.policies]
        if r.random() < 0.4:
            views.append((f"fuzz_v{i}", t))
            invoker = r.choice(["", " WITH (security_invoker = true)", " WITH (security_barrier = true)"])
            definitions += [f"CREATE VIEW fuzz_v{i}{invoker} AS SELECT * FROM {t.name} WHERE n < 500 WITH CHECK OPTION",
                            f"GRANT ALL ON fuzz_v{i} TO alice, bob"]
    names, texts = make_functions(r, tables)
    functions = declared.make(tables)
    texts += [text for f in functions for text in (f.definition(), f.rows())]
    return Schema(tables, views, names, functions, definitions + texts + sessions.definitions(tables), kinds)


def prelude():
    return DEFINITIONS
