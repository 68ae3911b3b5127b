"""Random EFFECTS transactions (spec/formats.md): write sets made of the rows that are there, and stale ones.

A program is a function of its seed, and rows are known only when its blocks run. So a program holds recipes. `Kitchen` makes
write sets of them, from the rows of one database before the block. The databases agree, so that one of them is enough.
"""

import random
import struct
from dataclasses import dataclass

import statements
from transaction import EFFECTS, Transaction
from values import literal
from wire import PgError

READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE = 1, 2, 3
ROWS_MAX = 60
HASH_BYTES = 32


@dataclass(frozen=True)
class Recipe:
    """Decides a write set, given the rows. `tables` are those that it may touch."""

    seed: int
    tables: tuple
    fresh: tuple  # an INSERT for each table, of a row that may be new
    narrow: bool = False  # one change, so that many of a block can run side by side


@dataclass
class Row:
    """A row as the ledger encodes it."""

    key: bytes
    row: bytes
    hash: bytes

    def cells(self):
        """Encoded values by ordinal; NULL has none."""
        found, at = {}, 2
        while at < len(self.row):
            ordinal, _, length = struct.unpack_from("!HBI", self.row, at)
            found[ordinal] = self.row[at + 2 : at + 7 + length]
            at += 7 + length
        return found

    def key_ordinals(self):
        return Row(b"", self.key, b"").cells()


@dataclass
class Rows:
    """The rows of one table; `name` as write sets have it."""

    name: str
    id: str
    rows: list


def transaction(r, schema, nonce):
    """A recipe for one or two tables."""
    tables = r.sample(schema.tables, min(len(schema.tables), r.choice([1, 1, 1, 2])))
    fresh = tuple(statements.fill(r, table) for table in tables)
    role = r.choices(["alice", "bob", "stranger", "postgres"], [90, 7, 1, 1])[0]
    return Transaction("", role, EFFECTS, nonce=nonce, recipe=Recipe(r.randrange(1 << 62), tuple(tables), fresh))


def narrow(r, schema, nonce):
    """A recipe for one change."""
    wide = transaction(r, schema, nonce)
    recipe = Recipe(wide.recipe.seed, wide.recipe.tables[:1], wide.recipe.fresh[:1], narrow=True)
    return Transaction("", wide.role, EFFECTS, nonce=nonce, recipe=recipe)


def mixed(r, schema, nonce, other):
    """A block of EFFECTS transactions, and others that `other` makes between them."""
    count, share = r.choice([2, 4, 6, 9, 16, 40]), r.choice([1, 0.9, 0.6])
    return [(transaction if r.random() < share else other)(r, schema, nonce + i) for i in range(count)]


def follow_each_other(transactions, at):
    """Whether an EFFECTS transaction stands beside another one: the turns of others depend on it."""
    beside = transactions[max(0, at - 1) : at] + transactions[at + 1 : at + 2]
    return transactions[at].kind == EFFECTS and any(t.kind == EFFECTS for t in beside)


class Kitchen:
    """Makes the write sets of one block. `query` asks the database, as a superuser outside of a transaction."""

    def __init__(self, query):
        self.query, self.known = query, {}
        self.block = int(query("SELECT number FROM chainify_node.position()")[0][0])

    def make(self, given):
        """The transaction with its write set, where it has a recipe."""
        if not given.recipe:
            return given
        recipe = given.recipe
        made = WriteSet(random.Random(recipe.seed), self.block, recipe.narrow)
        for table, fresh in sorted(zip(recipe.tables, recipe.fresh), key=lambda pair: self.rows(pair[0]).name.encode()):
            made.touch(self.rows(table), lambda t=table, f=fresh: self.fresh(t, f))
        return given.with_effects(made.encode())

    def rows(self, table):
        if table.name not in self.known:
            found = self.query(f"SELECT id, name FROM chainify_ledger.ledger_table WHERE relation = {literal(table.name)}::regclass AND detached_at IS NULL")
            number, name = found[0] if found else ("0", "public.gone")
            rows = self.encoded(table, number) if found else []
            self.known[table.name] = Rows(name, number, rows)
        return self.known[table.name]

    def encoded(self, table, number, condition="true"):
        rows = self.query(f"SELECT encode(chainify_ledger.encoded_key({number}, t), 'hex'), encode(chainify_ledger.encoded_row({number}, t), 'hex'),"
                          f" encode(chainify.row_hash(t), 'hex') FROM {table.name} t WHERE {condition} ORDER BY 1 LIMIT {ROWS_MAX}")
        return [Row(*map(bytes.fromhex, row)) for row in rows]

    def fresh(self, table, insert):
        """The row that an INSERT gives, which is taken back; None when it fails."""
        rows = self.rows(table)
        if rows.id == "0":
            return None
        known = {row.key for row in rows.rows}
        try:
            self.query("BEGIN; SET LOCAL session_replication_role = replica; SET LOCAL chainify.guard = off")
            self.query(insert)
            found = [row for row in self.encoded(table, rows.id) if row.key not in known]
        except PgError:
            found = []
        finally:
            self.query("ROLLBACK")
        return found[0] if found else None


class WriteSet:
    """A write set in the making."""

    def __init__(self, r, block, narrow):
        self.r, self.stale, self.narrow = r, r.random() < (0.03 if narrow else 0.15), narrow
        self.isolation = r.choice([READ_COMMITTED, REPEATABLE_READ] if narrow else [READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE])
        self.snapshot = max(0, block - r.choice([0, 0, 0, 1, 3]))
        self.tables, self.changes, self.seen, self.reads = [], [], {}, set()

    def touch(self, rows, fresh):
        """Changes rows of one more table, and sees others."""
        if rows.name in self.tables:
            return
        self.tables.append(rows.name)
        table, free = len(self.tables) - 1, list(rows.rows)
        self.r.shuffle(free)
        for _ in range(1 if self.narrow else self.r.choice([1, 1, 2, 3])):
            self.change(table, free, rows.rows, fresh)
        for row in free[: self.r.choice([0, 1, 1] if self.narrow else [0, 0, 1, 2])]:
            present = self.r.random() > (0.3 if self.stale else 0)
            self.seen[table, row.key] = self.hash(row) if present else None
        if self.isolation == SERIALIZABLE and rows.rows:
            self.read(table, self.r.choice(rows.rows))
        if not any(c[0] == table for c in self.changes) and not any(t == table for t, _ in self.seen):
            self.changes.append((table, b"I", b"", self.a_row(rows.rows, fresh())))

    def hash(self, row):
        """The hash of a row; at times another one in a stale write set."""
        return self.r.randbytes(HASH_BYTES) if self.stale and self.r.random() < 0.5 else row.hash

    def a_row(self, rows, new):
        """A row that is not there, or else one that is, or one that no table has."""
        return (new or self.r.choice(rows)).row if new or rows else struct.pack("!HHBI", 1, 1, 0x10, 0)

    def change(self, table, free, rows, fresh):
        new = fresh() if not free or self.r.random() < (0.1 if self.narrow else 0.3) else None
        if new or not free or self.r.random() < 0.05:
            self.changes.append((table, b"I", b"", self.a_row(rows, new)))
            return
        row = free.pop()
        if self.r.random() < 0.25:
            self.changes.append((table, b"D", self.hash(row), row.key))
            return
        values = self.r.choice(rows).cells()
        ordinals = sorted((set(values) | set(row.cells())) - set(row.key_ordinals()))
        ordinals = sorted(self.r.sample(ordinals, self.r.randrange(1, min(3, len(ordinals)) + 1)))
        cells = b"".join(struct.pack("!H", o) + values.get(o, bytes(5)) for o in ordinals)
        self.changes.append((table, b"U", self.hash(row), row.key, struct.pack("!H", len(ordinals)) + cells))

    def read(self, table, row):
        """The whole table, the first values of a key, or all from there on."""
        kind = self.r.randrange(4)
        if kind == 0:
            self.reads.add(struct.pack("!HH", table, 0))
            return
        ordinal, value = sorted(row.key_ordinals().items())[0]
        ends = [b"\2" + value + b"\2" + value, b"\2" + value + b"\0", b"\0" + b"\1" + value][kind - 1]
        self.reads.add(struct.pack("!HHH", table, 1, ordinal) + ends)

    def encode(self):
        out = struct.pack("!BQBH", 1, self.snapshot, self.isolation, len(self.tables)) + b"".join(prefixed(t.encode()) for t in self.tables)
        out += struct.pack("!I", len(self.changes))
        for table, op, before, row, *cells in self.changes:
            out += struct.pack("!H", table) + op + before + prefixed(row) + b"".join(cells)
        out += struct.pack("!I", len(self.seen))
        for (table, key), digest in sorted(self.seen.items()):
            out += struct.pack("!H", table) + prefixed(key) + (b"\0" if digest is None else b"\1" + digest)
        return out + struct.pack("!I", len(self.reads)) + b"".join(sorted(self.reads))


def prefixed(data):
    """lp: a length of 4 bytes, then the bytes."""
    return struct.pack("!I", len(data)) + data
