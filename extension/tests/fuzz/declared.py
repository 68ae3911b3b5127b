"""Functions whose accesses are declared (chainify.declare_access): rightly for calls that keep to their own row, wrongly for those
that look at, or change, another one. Whatever is declared, a block does what it does in one process.

The text of such a function says nothing about which rows it comes to, so that it is the declaration that decides what runs beside what.
"""

from dataclasses import dataclass

from transaction import Transaction
from values import SPREAD, bare, literal

KEEPS, LOOKS, CHANGES = 0, 1, 2


@dataclass
class Declared:
    """A function of two keys of `table` and of what it does to the second."""

    name: str
    table: object

    def definition(self):
        t, keys = self.table, self.table.key_names()
        variables = "".join(f" c{i} {kind} := a{i};" for i, kind in enumerate(self.types()))
        other = " ".join(f"c{i} := b{i};" for i in range(len(keys)))
        at_own, at_other = (" AND ".join(f"t.{k} = {of}{i}" for i, k in enumerate(keys)) for of in "ac")
        own = ", ".join(f"a{i}" for i in range(len(keys)))
        return (f"CREATE FUNCTION {self.name}({self.parameters()}) RETURNS int LANGUAGE plpgsql AS $$ DECLARE seen int;{variables}"
                f" BEGIN IF beyond <> {KEEPS} THEN {other} END IF; seen := (SELECT t.g FROM {t.name} t WHERE {at_other});"
                f" IF beyond = {CHANGES} THEN UPDATE {t.name} t SET g = (t.g + 1) % 6 WHERE {at_other}; END IF;"
                f" UPDATE {t.name} t SET g = (t.g + coalesce(seen, 0) + 1) % 6 WHERE {at_own};"
                f" IF NOT FOUND THEN INSERT INTO {t.name} ({', '.join(keys)}) VALUES ({own}); END IF; RETURN seen; END $$;")

    def rows(self):
        """A function that says the same as the key does."""
        columns = ", ".join(f"{k} {kind}" for k, kind in zip(self.table.key_names(), self.types()))
        own = ", ".join(f"a{i}" for i in range(len(self.types())))
        return (f"CREATE FUNCTION {self.name}_rows({self.parameters()}) RETURNS TABLE ({columns}) LANGUAGE sql STABLE AS"
                f" $$ SELECT {own} $$;")

    def types(self):
        return [bare(kind) for _, kind in self.table.keys]

    def parameters(self):
        return ", ".join([f"{of}{i} {kind}" for of in "ab" for i, kind in enumerate(self.types())] + ["beyond int"])

    def declaration(self, r):
        """Made when the table is on the ledger. Of a key of several columns the first may be all that is declared."""
        first = ", ".join(f"a{i}" for i in range(r.randrange(1, len(self.types()) + 1)))
        where = r.choice([f"key => '{first}'", f"rows => 'public.{self.name}_rows'"])
        return f"SELECT chainify.declare_access('public.{self.name}', {literal(self.table.name)}::regclass, {where})"

    def call(self, own, other, beyond):
        return f"SELECT public.{self.name}({', '.join([*own, *other, str(beyond)])})"


def make(tables):
    """One for each table that can have it."""
    fit = [t for t in tables if not t.partition and all(kind in SPREAD for _, kind in t.keys)]
    return [Declared(f"fuzz_d{i}", t) for i, t in enumerate(fit)]


def block(r, schema, nonce):
    """Calls with few keys, so that what is looked at or changed beyond the declaration is mostly another call's row."""
    of = r.choice(schema.declared)
    keys = [[SPREAD[kind](r) for _, kind in of.table.keys] for _ in range(r.choice([8, 40]))]
    beyond = r.choice([0, 0.03, 0.2])
    calls = []
    for i in range(r.choice([33, 64, 90])):
        does = r.choice([LOOKS, CHANGES]) if r.random() < beyond else KEEPS
        calls.append(Transaction(of.call(r.choice(keys), r.choice(keys), does), r.choices(["alice", "bob"], [95, 5])[0], nonce=nonce + i))
    return calls
