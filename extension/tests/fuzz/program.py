"""What one round of the fuzzer does: a schema, the databases' shapes, and steps. A function of the seed alone.

A *case* is one `Blocks` step: a random block on a random schema, executed by every database of the round, with its answers compared.
"""

import random
from dataclasses import dataclass, field

import block
import schema as schemas
import sessions
import statements
from shapes import Shape


@dataclass
class Block:
    """Executed by all databases. `again`: the database that executes it once more after ROLLBACK; `without`: the one that
    also executes it with the transactions that failed left out."""

    transactions: list
    again: int = -1
    without: int = -1


@dataclass
class Move:
    """Changes the physical form of one database."""

    database: int
    statements: list


@dataclass
class Tamper:
    """Changes a table behind the ledger's back in one database, which a repair must undo."""

    database: int
    table: object
    statement: str


@dataclass
class Check:
    """Ledger and tables must verify."""


@dataclass
class Program:
    seed: int
    schema: object
    shapes: list
    fill: list
    steps: list = field(default_factory=list)


def tampering(r, table):
    return r.choice([lambda: f"DELETE FROM {table.name} WHERE {statements.where(r, table)}", lambda: statements.update(r, table),
                     lambda: statements.fill(r, table), lambda: statements.update_key(r, table), lambda: f"DELETE FROM {table.name}"])()


def make(seed, databases, blocks, workers=False, kinds=tuple(sessions.KINDS)):
    """The program of a seed."""
    r = random.Random(seed)
    schema = schemas.make(r, list(kinds))
    shapes = [Shape(number, seed, workers) for number in range(databases)]
    fill = [statements.fill(r, table) for _ in range(r.choice([0, 10, 40])) for table in schema.tables]
    program = Program(seed, schema, shapes, fill)
    nonce = 1
    add = program.steps.append
    add(Block([block.deploy("ATTACH", schema, nonce)], r.randrange(databases)))
    declarations = [f.declaration(r) for f in schema.declared]
    program.steps += [Move(database, declarations) for database in range(databases)]
    for at in range(blocks):
        nonce += 100
        some = r.randrange(databases)
        transactions = block.block(r, schema, nonce)
        again = r.random() < 0.4 or any(t.recipe for t in transactions)
        add(Block(transactions, some if again else -1, (some + 1) % databases))
        if r.random() < 0.3:
            moved = r.randrange(1, databases)
            add(Move(moved, shapes[moved].between_blocks(r, r.choice(schema.tables))))
        if r.random() < 0.08:
            table = r.choice(schema.tables)
            add(Tamper(r.randrange(databases), table, tampering(r, table)))
        if r.random() < 0.02:
            add(Block([block.deploy("DETACH", schema, nonce + 50)]))
            add(Block([block.deploy("ATTACH", schema, nonce + 51)]))
        if at % 14 == 13:
            add(Check())
    add(Check())
    return program
