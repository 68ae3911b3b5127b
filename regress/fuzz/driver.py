"""Runs a program on its databases and compares. The properties:

equal      every database answers a block with the same LedgerBlockHash, outcomes, SQLSTATEs and row counts, whatever its
           physical form, settings and number of executor processes
again      a block executed again after ROLLBACK answers as at first (X2)
nothing    a block without the transactions that failed has the same hash: they changed nothing (X1)
verify     ledger, tables and running states verify after any block
repair     a repair undoes what was changed behind the ledger's back
explain    chainify.explain_block does not fail for any block
error      no step raises, no connection is lost
"""

import itertools
from collections import Counter
from dataclasses import dataclass

from program import Block, Check, Move, Tamper
from transaction import buffer
from values import DEFINITIONS, literal
from wire import ConnectionLost, PgError


@dataclass
class Finding:
    """A property that did not hold at a step; `text` tells the rest."""

    kind: str
    step: int
    text: str


class Failed(Exception):
    """Carries a Finding out of the step."""


@dataclass
class Answer:
    """Of execute_block."""

    hash: str
    outcomes: str
    rows: str
    sqlstates: str
    messages: str

    def failed(self, count):
        bits = bytes.fromhex(self.outcomes)
        return [i for i in range(count) if not bits[i // 8] >> (i % 8) & 1]


EXECUTE = ("SELECT encode(r.hash, 'hex'), encode(r.outcomes, 'hex'), r.rows, r.sqlstates, r.messages FROM chainify_node.position() p,"
           " chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000 + p.number * 1000000, p.hash, {}, ARRAY{}::int[]) r")
numbers = itertools.count()


class Database:
    """One organisation's database, and all it was asked, so that a script can ask it again."""

    def __init__(self, server, shape):
        self.server, self.shape = server, shape
        self.name = f"fuzz_{next(numbers)}_{shape.number}"
        self.asked = []

    def open(self, program):
        """Makes schema and rows, then the session whose settings count."""
        self.server.create(self.name)
        self.connection = self.server.connect(self.name)
        self.connection.query("SET client_min_messages = warning")
        for sql in [DEFINITIONS, *self.shape.create(program.schema)]:
            self.ask(sql)
        if program.fill:
            self.ask(f"SELECT fuzz_try(ARRAY[{', '.join(map(literal, program.fill))}])")
        for table in program.schema.tables:
            for sql in self.shape.rearrange(table):
                self.ask(sql)
        self.connection.close()
        for name, value in self.shape.settings():
            self.server.admin.query(f"ALTER DATABASE {self.name} SET {name} = {literal(value)}")
            self.asked.append(f"SET {name} = {literal(value)}")
        self.connection = self.server.connect(self.name)

    def ask(self, sql):
        self.asked.append(sql)
        return self.connection.query(sql)

    def send_block(self, transactions, without=()):
        words = f"test.buffer(ARRAY[\n    {(',' + chr(10) + '    ').join(t.words() for t in transactions)}])"
        self.asked.append(EXECUTE.format(words, list(without)))
        self.connection.send(EXECUTE.format(f"decode('{buffer(transactions).hex()}', 'hex')", list(without)))

    def receive_block(self):
        return Answer(*self.connection.receive()[0])

    def reconnect(self):
        self.connection.close()
        self.connection = self.server.connect(self.name)

    def close(self):
        self.connection.close()
        self.server.drop(self.name)


class Run:
    """One execution of a program."""

    def __init__(self, server, program, statistics=None):
        self.server, self.program = server, program
        self.databases = [Database(server, shape) for shape in program.shapes]
        self.statistics = statistics if statistics is not None else Counter()
        self.step = -1

    def run(self):
        """The first Finding, or None."""
        try:
            for database in self.databases:
                database.open(self.program)
            for self.step, step in enumerate(self.program.steps):
                ACTIONS[type(step)](self, step)
        except Failed as failed:
            return Finding(failed.args[0], self.step, failed.args[1])
        except (PgError, ConnectionLost) as error:
            return Finding("error", self.step, f"{type(error).__name__}: {error}")
        finally:
            for database in self.databases:
                database.close()
        return None

    def block(self, step):
        first = None
        if step.again >= 0:
            database = self.databases[step.again]
            database.ask("BEGIN")
            database.send_block(step.transactions)
            first = database.receive_block()
            database.ask("ROLLBACK")
        self.without_failed(step)
        for database in self.databases:
            database.send_block(step.transactions)
        answers, errors = [], []
        for database in self.databases:
            try:
                answers.append(database.receive_block())
            except PgError as error:
                errors.append(f"database {database.shape.number}: {error}")
        if errors:
            raise Failed("error", "; ".join(errors))
        differ("equal", answers)
        if self.step == 0 and answers[0].failed(1):
            raise Failed("error", f"the tables could not be attached: {answers[0].messages}")
        if first:
            differ("again", [first, answers[step.again]])
        self.count(step, answers[0])
        self.explain(step)

    def without_failed(self, step):
        """Executes the block, then executes it with those that failed left out, and takes both back."""
        if step.without < 0:
            return
        database = self.databases[step.without]
        database.ask("BEGIN")
        database.send_block(step.transactions)
        whole = database.receive_block()
        database.ask("ROLLBACK")
        failed = whole.failed(len(step.transactions))
        if failed:
            database.ask("BEGIN")
            database.send_block(step.transactions, failed)
            rest = database.receive_block()
            database.ask("ROLLBACK")
            if rest.hash != whole.hash:
                raise Failed("nothing", f"database {step.without}: hash {whole.hash}, without transactions {failed} {rest.hash}")

    def count(self, step, answer):
        self.statistics["cases"] += 1
        self.statistics["transactions"] += len(step.transactions)
        for state in answer.sqlstates.strip("{}").split(","):
            self.statistics[state] += 1
        if len(step.transactions) >= 32:
            parts = "SELECT DISTINCT block FROM chainify_ledger.part JOIN chainify_node.position() ON block = number"
            self.statistics["in parts"] += sum(len(d.connection.query(parts)) for d in self.databases)

    def explain(self, step):
        """In the database that also ran the block without its failures."""
        if step.without >= 0:
            database = self.databases[step.without]
            database.ask("SELECT chainify.explain_block(number) FROM chainify_node.position()")

    def move(self, step):
        database = self.databases[step.database]
        for sql in step.statements:
            if sql is None:
                database.reconnect()
                continue
            database.ask("SET chainify.guard = off")
            database.ask(sql)
            database.ask("RESET chainify.guard")

    def tamper(self, step):
        database = self.databases[step.database]
        database.ask("SET session_replication_role = replica; SET chainify.guard = off; SET search_path = public")
        database.ask(f"ALTER TABLE {step.table.name} DISABLE TRIGGER chainify_digest")
        try:
            database.ask(step.statement)
        except PgError:
            self.statistics["tampering failed"] += 1
        database.ask("RESET session_replication_role; RESET chainify.guard; RESET search_path")
        database.ask("SELECT count(*) FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, NULL)")
        self.verify(database, "repair")
        self.statistics["repairs"] += 1

    def check(self, _step):
        for database in self.databases:
            database.connection.send("SELECT * FROM test.check()")
        found = [(d, d.connection.receive()) for d in self.databases]
        for database, rows in found:
            database.asked.append("SELECT * FROM test.check()")
            if rows:
                raise Failed("verify", f"database {database.shape.number}: {rows[:3]}")

    def verify(self, database, kind):
        rows = database.ask("SELECT * FROM test.check()")
        if rows:
            raise Failed(kind, f"database {database.shape.number}: {rows[:3]}")


ACTIONS = {Block: Run.block, Move: Run.move, Tamper: Run.tamper, Check: Run.check}


def differ(kind, answers):
    """Raises when not all answers are equal; messages may differ, as other rows may fail first."""
    for name in ("outcomes", "sqlstates", "rows", "hash"):
        values = [getattr(a, name) for a in answers]
        if len(set(values)) > 1:
            raise Failed(kind, f"{name} differ: " + " | ".join(values) + "; messages " + " | ".join(a.messages for a in answers))
