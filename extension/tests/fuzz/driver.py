"""Runs a program on its databases and compares. The properties:

equal      every database answers a block with the same LedgerBlockHash, outcomes, SQLSTATEs and row counts, whatever its
           physical form, settings and number of executor processes
session    a block executed, and undone, in a session of its own, in one that is asked to execute every third block and nothing else, and in one that
           has recovered and has other costs, is answered as in the session that ran all blocks. Position and block are values, as from a node
again      a block executed again after ROLLBACK answers as at first (X2)
nothing    a block without the transactions that failed has the same hash: they changed nothing (X1). It does not hold for EFFECTS
           transactions beside each other, whose turns depend on the failed ones
verify     ledger, tables and running states verify after any block
repair     a repair undoes what was changed behind the ledger's back
explain    chainify.explain_block does not fail for any block
error      no step raises, no connection is lost
"""

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import effects
from program import Block, Check, Move, Tamper
from transaction import EFFECTS, buffer
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


@dataclass
class Answers:
    """Of one database to a block: `first` and `last` before and after a ROLLBACK, `rest` to the block without those that `failed` in the `whole`."""

    first: Answer = None
    whole: Answer = None
    failed: list = None
    rest: Answer = None
    last: Answer = None
    other: Answer = None  # of another session, whose kind is `session`
    session: str = ""


EXECUTE = ("SELECT encode(r.hash, 'hex'), encode(r.outcomes, 'hex'), r.rows, r.sqlstates, r.messages FROM chainify_node.position() p,"
           " chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000 + p.number * 1000000, p.hash, {}, ARRAY{}::int[]) r")
# The same with values from another session.
EXECUTE_AT = EXECUTE.split(" FROM ", 1)[0] + " FROM chainify_node.execute_block({0} + 1, {0} + 10, 1700000000000000 + {0} * 1000000, {1}, {2}, ARRAY{3}::int[]) r"
numbers = itertools.count()
NEW, KEPT, RECOVERED = "a new session", "a kept session", "a session that has recovered"


class Database:
    """One organisation's database, and all it was asked, so that a script can ask it again."""

    def __init__(self, server, shape):
        self.server, self.shape = server, shape
        self.name = f"fuzz_{next(numbers)}_{shape.number}"
        self.asked, self.connection, self.kept, self.others = [], None, {}, 0

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
        for name, value in self.shape.settings():
            self.connection.query(f"ALTER DATABASE {self.name} SET {name} = {literal(value)}")
            self.asked.append(f"SET {name} = {literal(value)}")
        self.reconnect()

    def ask(self, sql):
        self.asked.append(sql)
        return self.connection.query(sql)

    def execute(self, transactions, without=()):
        words = f"test.buffer(ARRAY[\n    {(',' + chr(10) + '    ').join(t.words() for t in transactions)}])"
        self.asked.append(EXECUTE.format(words, list(without)))
        return Answer(*self.connection.query(EXECUTE_AT.format(*self.position(), f"decode('{buffer(transactions).hex()}', 'hex')", list(without)))[0])

    def rehearse(self, transactions, without=()):
        """Executes a block and takes it back."""
        self.ask("BEGIN")
        answer = self.execute(transactions, without)
        self.ask("ROLLBACK")
        return answer

    def look(self, sql):
        """Asks in a session that executes no block: what a session is asked could change what it has kept."""
        if "looks" not in self.kept:
            self.kept["looks"] = self.server.connect(self.name)
        return self.kept["looks"].query(sql)

    def position(self):
        """Number and hash of the last block."""
        return self.look("SELECT number, quote_literal(hash) FROM chainify_node.position()")[0]

    def elsewhere(self, transactions):
        """Executes and undoes a block in another session, of each kind in turn. The answer, and the kind."""
        self.others += 1
        kind = (NEW, KEPT, RECOVERED)[(self.others + self.shape.number) % 3]
        number, previous = self.position()
        session = self.kept.get(kind) or self.server.connect(self.name)
        if kind not in self.kept:
            session.query("SET client_min_messages = warning; SET chainify.executor_workers = 1")
        if kind != NEW:
            self.kept[kind] = session
        if kind == RECOVERED:
            session.query("CREATE TEMPORARY TABLE was_here (); DROP TABLE was_here")
            session.query(f"BEGIN; SELECT count(*) FROM chainify_node.repair({number}, {previous}, {number}, NULL); ROLLBACK")
            session.query("; ".join(["SET work_mem = 4096"] + [f"SET {name} = {literal(value)}" for name, value in self.shape.costs(self.others)]))
        self.asked.append(f"-- executed, and undone, in {kind} too")
        sql = EXECUTE_AT.format(number, previous, f"decode('{buffer(transactions).hex()}', 'hex')", [])
        session.query("BEGIN")
        answer = Answer(*session.query(sql)[0])
        session.query("ROLLBACK")
        if kind == NEW:
            session.close()
        return answer, kind

    def block(self, step):
        """Executes the step's block; before it in another session, and twice more where the step says so: see Answers."""
        answers, number = Answers(), self.shape.number
        answers.other, answers.session = self.elsewhere(step.transactions)
        if step.again == number:
            answers.first = self.rehearse(step.transactions)
        if step.without == number:
            answers.whole = self.rehearse(step.transactions)
            answers.failed = answers.whole.failed(len(step.transactions))
            if answers.failed and not any(effects.follow_each_other(step.transactions, at) for at in answers.failed):
                answers.rest = self.rehearse(step.transactions, answers.failed)
        answers.last = self.execute(step.transactions)
        if step.without == number:
            self.look("SELECT chainify.explain_block(number), chainify.explain_block(number, 'dot') FROM chainify_node.position()")
        return answers

    def check(self):
        self.asked.append("SELECT * FROM test.check()")
        return self.look("SELECT * FROM test.check()")

    def reconnect(self):
        self.connection.close()
        self.connection = self.server.connect(self.name)

    def close(self):
        for connection in filter(None, [self.connection, *self.kept.values()]):
            connection.close()
        self.server.drop(self.name)


class Run:
    """One execution of a program."""

    def __init__(self, server, program, statistics=None):
        self.server, self.program = server, program
        self.databases = [Database(server, shape) for shape in program.shapes]
        self.statistics = statistics if statistics is not None else Counter()
        self.threads = ThreadPoolExecutor(len(self.databases))
        self.step = -1

    def run(self):
        """The first Finding, or None."""
        try:
            self.each(lambda database: database.open(self.program))
            for self.step, step in enumerate(self.program.steps):
                ACTIONS[type(step)](self, step)
        except Failed as failed:
            return Finding(failed.args[0], self.step, failed.args[1])
        except (PgError, ConnectionLost) as error:
            return Finding("error", self.step, f"{type(error).__name__}: {error}")
        finally:
            self.each(Database.close)
            self.threads.shutdown()
        return None

    def each(self, ask):
        """The answers of all databases, asked at once. Raises when one raised."""
        asked = [self.threads.submit(ask, database) for database in self.databases]
        errors = [f"database {database.shape.number}: {type(e).__name__}: {e}" for database, e in zip(self.databases, map(error, asked)) if e]
        if errors:
            raise Failed("error", "; ".join(errors))
        return [future.result() for future in asked]

    def block(self, step):
        if any(t.recipe for t in step.transactions):
            kitchen = effects.Kitchen(self.databases[0].look)
            step = replace(step, transactions=[kitchen.make(t) for t in step.transactions])
        answers = self.each(lambda database: database.block(step))
        last = [a.last for a in answers]
        differ("equal", last)
        if self.step == 0 and last[0].failed(1):
            raise Failed("error", f"the tables could not be attached: {last[0].messages}")
        for number, of in enumerate(answers):
            self.statistics["others"] += 1
            differ("session", [of.other, of.last], f" in {of.session}, in the session of all blocks")
            if of.first:
                differ("again", [of.first, of.last])
            if of.rest and of.rest.hash != of.whole.hash:
                raise Failed("nothing", f"database {number}: hash {of.whole.hash}, without transactions {of.failed} {of.rest.hash}")
        self.count(step, last[0])

    def count(self, step, answer):
        self.statistics["cases"] += 1
        self.statistics["transactions"] += len(step.transactions)
        for transaction, state in zip(step.transactions, answer.sqlstates.strip("{}").split(",")):
            self.statistics[state] += 1
            if transaction.kind == EFFECTS:
                self.statistics["effects"] += 1
                self.statistics["effects " + state] += 1
        parts = "SELECT count(*) FROM chainify_ledger.part JOIN chainify_node.position() ON block = number"
        for database in self.databases:
            workers = int(database.look(parts)[0][0])
            self.statistics["in parts"] += workers > 0
            self.statistics["effects in parts"] += workers > 0 and any(t.kind == EFFECTS for t in step.transactions)
            self.statistics["in four"] += workers == 3

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
        verify(database, database.check(), "repair")
        self.statistics["repairs"] += 1

    def check(self, _step):
        for database, rows in zip(self.databases, self.each(Database.check)):
            verify(database, rows, "verify")


ACTIONS = {Block: Run.block, Move: Run.move, Tamper: Run.tamper, Check: Run.check}


def error(asked):
    """What a thread raised; waits for it. A mistake of the fuzzer itself is raised."""
    raised = asked.exception()
    if raised and not isinstance(raised, (PgError, ConnectionLost)):
        raise raised
    return raised


def verify(database, found, kind):
    if found:
        raise Failed(kind, f"database {database.shape.number}: {found[:3]}")


def differ(kind, answers, which=""):
    """Raises when not all answers are equal; messages may differ, as other rows may fail first."""
    for name in ("outcomes", "sqlstates", "rows", "hash"):
        values = [getattr(a, name) for a in answers]
        if len(set(values)) > 1:
            raise Failed(kind, f"{name} differ{which}: " + " | ".join(values) + "; messages " + " | ".join(a.messages for a in answers))
