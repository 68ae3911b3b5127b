"""Makes a failing program smaller, and writes it as scripts."""

import copy
import os
import tempfile

from driver import Run
from program import Block

# Runs of the program that shrinking may take.
RUNS_MAX = 150


class Shrinker:
    """Leaves out what the failure does not need: steps from the end, whole blocks, then transactions."""

    def __init__(self, server, program, finding):
        self.server, self.program, self.finding = server, program, finding
        self.runs = 0

    def fails(self, steps):
        """Whether the program with these steps fails in the same way; keeps it if so."""
        if self.runs >= RUNS_MAX:
            return False
        self.runs += 1
        smaller = copy.copy(self.program)
        smaller.steps = steps
        run = Run(self.server, smaller)
        finding = run.run()
        if finding and finding.kind == self.finding.kind:
            self.program, self.finding, self.last = smaller, finding, run
            smaller.steps = steps[: finding.step + 1]
            return True
        return False

    def shrink(self):
        """The smallest program found, its finding, and its run."""
        steps = self.program.steps[: self.finding.step + 1]
        if not self.fails(steps):
            return None  # not repeatable; the caller says so
        size = max(1, len(self.program.steps) // 2)
        while size:
            self.drop_steps(size)
            size //= 2
        for at in range(len(self.program.steps)):
            self.drop_transactions(at)
        return self.last

    def drop_steps(self, size):
        at = len(self.program.steps) - 1 - size
        while at >= 1:  # the first attaches the tables
            steps = self.program.steps
            self.fails(steps[:at] + steps[at + size:])
            at = min(at, len(self.program.steps) - 1) - size

    def drop_transactions(self, at):
        if at >= len(self.program.steps) or not isinstance(self.program.steps[at], Block):
            return
        i = len(self.program.steps[at].transactions) - 1
        while i >= 0 and len(self.program.steps[at].transactions) > 1:
            steps = list(self.program.steps)
            smaller = copy.copy(steps[at])
            smaller.transactions = steps[at].transactions[:i] + steps[at].transactions[i + 1:]
            steps[at] = smaller
            self.fails(steps)
            i -= 1


HEAD = """-- Seed {seed}, database {number}: {kind} at the end. Run each of these files on an empty database of its own, with
-- psql -v setup=sql/setup.sql, and compare. {text}
\\i :setup
CREATE ROLE bob LOGIN IN ROLE chainify_client;
ALTER FUNCTION test.varint SET standard_conforming_strings = on;
"""


def write_scripts(run, program, finding):
    """One psql script per database in a new directory, whose name is returned."""
    kept = tempfile.mkdtemp(prefix=f"chainify-fuzz-seed{program.seed}.")
    for database in run.databases:
        text = finding.text.replace("\n", " ")[:1000]
        with open(os.path.join(kept, f"{database.shape.number}.sql"), "w") as file:
            file.write(HEAD.format(seed=program.seed, number=database.shape.number, kind=finding.kind, text=text))
            file.writelines(sql.rstrip().rstrip(";") + ";\n" for sql in database.asked)
    return kept
