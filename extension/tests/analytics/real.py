"""The real worker, chainify-analytics: what it serves at each block, what ends a query, and what it does after faults. Whatever happens, an answer is
that of the certified rows, and the worker comes back by itself."""

import os
import signal
import subprocess
import time

from wire import PgError

LONG = "SELECT count(*) FROM item a, item b, item c, item d, item e WHERE a.price + b.price + c.price = d.price + e.price + 1"
MORE = "[mirrors]\nretry_seconds = 1\n"


def check(test):
    test.check("a configuration that cannot be used", misconfigured(test.real, test.server.dir), (2, True))
    for step in (planned, blocks, rechecked, pins, ended, killed, restarted, behind, tampered, deployed, bounded):
        step(test)
        test.check(f"{step.__name__}: the worker runs", test.process.poll(), None)


def run(test, statement):
    outcome = test.ask("SELECT ok, message FROM test.run($q$" + statement + "$q$)")
    assert outcome[0][0] == "t", outcome


def deploy(test, statement):
    outcome = test.ask("SELECT ok, message FROM test.deploy($q$" + statement + "$q$)")
    assert outcome[0][0] == "t", outcome


def last(test):
    return int(test.ask("SELECT max(number) FROM chainify.ledger")[0][0])


def totals(test, block="NULL"):
    """What the worker says of all rows of a table, or the SQLSTATE."""
    query = ("SELECT * FROM chainify.query_at({}, 'SELECT count(*), sum(price), min(name), max(seen) FROM item')"
             " AS t (n bigint, price numeric, name text, seen timestamptz)").format(block)
    return test.state(query)[0] or test.ask(query)


def own(test, block):
    """The same as PostgreSQL has it."""
    return test.ask(f"SELECT count(*), sum(price), min(name), max(seen) FROM chainify.as_of(NULL::item, {block})")


def states(test, column="state"):
    return sorted({row[0] for row in test.ask(f"SELECT {column} FROM chainify.mirrors")})


def planned(test):
    """The worker's statements look blocks up by an index, however few there were when their plans were made."""
    stop(test)
    test.ask("ANALYZE chainify_ledger.block; ALTER ROLE analytics SET session_preload_libraries = 'auto_explain';"
             " ALTER ROLE analytics SET auto_explain.log_min_duration = 0")
    test.start_real(MORE)
    for n in range(10):
        run(test, f"UPDATE item SET price = price + {n} WHERE id = 1")
        test.check("the last block", totals(test), own(test, last(test)))
    test.ask("ALTER ROLE analytics RESET ALL")
    stop(test)
    test.start_real(MORE)
    with open(os.path.join(test.server.dir, "log")) as file:
        plans = {line.split("  (cost")[0].split(" using")[0].strip(" \t->") for line in file if " on block " in line}
    test.check("looks at blocks by an index", plans & {"Index Scan", "Index Scan Backward"}, {"Index Scan", "Index Scan Backward"})
    test.check("looks at blocks without one", [plan for plan in plans if plan.startswith("Seq Scan")], [])


def rechecked(test):
    """Following goes on while the cells of a large table are looked at."""
    deploy(test, "CREATE TABLE public.large (id bigint PRIMARY KEY, price numeric(12,2), name text)")
    fill = "INSERT INTO large SELECT n, n, repeat(md5(n::text), 2) FROM generate_series(1, 60000) n"
    test.check("its rows", test.ask(f"SELECT ok FROM test.block(test.tx('{fill}', 'admin'))"), [["t"]])
    test.ask("SELECT chainify.mirror('large')")
    stop(test)
    test.start_real("[mirrors]\nretry_seconds = 1\nrecheck_minutes = 0\n")
    test.wait_until("it is mirrored", lambda: test.ask("SELECT state FROM chainify.mirrors WHERE \"table\" = 'public.large'") == [["serving"]])
    begun, computed, slowest = time.monotonic(), processor_time(test), 0
    while processor_time(test) - computed < 3 and time.monotonic() < begun + 600:
        run(test, "UPDATE item SET price = price + 1 WHERE id = 1")
        committed = time.monotonic()
        test.check("the last block", totals(test), own(test, last(test)))
        slowest = max(slowest, time.monotonic() - committed)
    test.check("each commit is visible soon", slowest < 60 or slowest, True)
    test.check("the worker looks at cells all the time", processor_time(test) - computed >= 3, True)
    test.ask("SELECT chainify.unmirror('large')")
    deploy(test, "DROP TABLE public.large")
    stop(test)
    test.start_real(MORE)


def processor_time(test):
    """Seconds that the worker has computed."""
    with open(f"/proc/{test.process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def blocks(test):
    """Each block, those that were not kept included."""
    statements = [f"UPDATE item SET price = price + {n}, name = name || '{n}' WHERE id % {n} = 0" for n in range(2, 12)]
    statements += ["DELETE FROM item WHERE id % 7 = 0", "INSERT INTO item (id, price, name) SELECT id + 1000, price, repeat('long ', 20) || id FROM item"]
    for statement in statements * 2:
        try:
            run(test, statement)
        except AssertionError:  # the second time the keys are there
            continue
        test.check("the last block", totals(test), own(test, last(test)))
    first = int(test.ask("SELECT max(attached_at) FROM chainify.mirrored_tables")[0][0])
    for block in range(first, last(test) + 1):
        test.check(f"block {block}", totals(test, block), own(test, block))
    deep = "abs(" * 80 + "id" + ")" * 80
    test.check("a query as deep as may be", test.ask(f"SELECT * FROM chainify.query_at(NULL, 'SELECT max({deep}) FROM kind') AS t (n int)"), [["6"]])
    plan = test.ask("SET chainify.analytics = on; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT sum(price) FROM item; RESET chainify.analytics")
    test.check("the plan names the block", [line.strip() for line, in plan if "Block" in line], [f"Block: {last(test)}"])
    test.check("a block before the table was", totals(test, first - 1) in ("55000", "0A000"), True)
    test.check("a block that is not there", totals(test, last(test) + 1), "22023")
    test.check("mirrors", test.ask("SELECT DISTINCT block, lag, state, digest_checked, error FROM chainify.mirrors"),
               [[str(last(test)), "0", "serving", str(last(test)), None]])
    test.check("what they count", test.ask("SELECT \"table\", rows FROM chainify.mirrors ORDER BY 1"),
               test.ask("SELECT name, rows FROM chainify.tables WHERE name IN ('public.item', 'public.kind') ORDER BY 1"))
    test.check("their memory", test.ask("SELECT bool_and(bytes > 0 AND chunks > 0 AND chunks_shared <= chunks) FROM chainify.mirrors"), [["t"]])


def pins(test):
    block = last(test)
    before = totals(test)
    test.ask(f"SELECT chainify.pin_snapshot({block}, 'month')")
    for n in range(20):
        run(test, f"UPDATE item SET price = price - 1 WHERE id % 20 = {n}")
        totals(test)
    test.check("the pinned block", totals(test, block), before)
    test.check("snapshots", test.ask("SELECT name, block, pinned FROM chainify.snapshots WHERE pinned"), [["month", str(block), "t"]])
    test.ask("SELECT chainify.unpin_snapshot('month')")
    test.check("unpinned", test.ask("SELECT count(*) FROM chainify.snapshots WHERE pinned"), [["0"]])
    test.ask("BEGIN; SELECT chainify.pin_snapshot(NULL, 'rolled'); ROLLBACK")
    test.check("a pin that was rolled back", test.ask("SELECT count(*) FROM chainify.snapshots WHERE pinned"), [["0"]])


def readers(test):
    """The queries that hold a snapshot."""
    return int(test.ask("SELECT coalesce(sum(readers), 0) FROM chainify.snapshots")[0][0])


def idle(test):
    return readers(test) == 0


def ended(test):
    """Queries end with their timeout, their cancel request and their client."""
    query = f"SELECT * FROM chainify.query_at(NULL, '{LONG}') AS t (n bigint)"
    test.ask("SET statement_timeout = '300ms'")
    begun = time.monotonic()
    test.check("statement_timeout", test.state(query)[0], "57014")
    test.check("in time", time.monotonic() - begun < 120, True)
    test.ask("RESET statement_timeout")
    test.wait_until("the query has ended in the worker", lambda: idle(test))
    other = test.server.connect("analytics")
    other._write(b"Q" + (len(query) + 5).to_bytes(4, "big") + query.encode() + b"\0")
    test.wait_until("a query runs", lambda: not idle(test))
    other.close()
    test.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%query_at%' AND pid <> pg_backend_pid()")
    test.wait_until("the query of a client that left has ended", lambda: idle(test))
    test.check("afterwards", totals(test), own(test, last(test)))


def killed(test):
    """kill -9 of the worker: an error, then the same answers as before, also at a block that is pinned."""
    block, before = last(test), totals(test)
    test.ask(f"SELECT chainify.pin_snapshot({block}, 'kept')")
    test.process.kill()
    test.process.wait()
    test.check("without a worker", totals(test) in ("08001", "08006"), True)
    test.check("the view says so", states(test), ["no worker"])
    run(test, "UPDATE item SET price = price + 1")
    # By a strategy that most kernels do not have: the worker says so and takes the other.
    test.start_real(MORE + "[memory]\nstrategy = 'vm_snapshot'\n")
    test.check("a new worker", totals(test), own(test, last(test)))
    known = "SELECT name, block, pinned, readers IS NOT NULL FROM chainify.snapshots WHERE name = 'kept'"
    test.wait_until("it knows the pin", lambda: test.ask(known) == [["kept", str(block), "t", "t"]])
    test.check("the pinned block", totals(test, block), before)
    for _ in range(20):
        run(test, "UPDATE item SET price = price + 1")
        test.check("later blocks", totals(test), own(test, last(test)))
    test.check("the pinned block, later", totals(test, block), before)
    test.ask("SELECT chainify.unpin_snapshot('kept')")
    test.check("unpinned", test.ask(known), [])


def restart(test):
    """kill -9 of the postmaster, and a start. That fails while processes of the old one are there."""
    test.session.close()
    with open(os.path.join(test.server.data, "postmaster.pid")) as file:
        os.kill(int(file.readline()), signal.SIGKILL)
    end = time.monotonic() + 600
    while True:
        try:
            test.server.tool("pg_ctl", "-D", test.server.data, "-w", "start", "-l", os.path.join(test.server.dir, "log"))
            break
        except subprocess.CalledProcessError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
    test.session = test.server.connect("analytics")
    test.ask("SET TimeZone = 'UTC'")


def restarted(test):
    """kill -9 of PostgreSQL: the worker connects again and follows."""
    restart(test)
    run(test, "UPDATE item SET price = price + 2")
    test.wait_until("the worker follows again", lambda: totals(test) == own(test, last(test)))


def behind(test):
    """A worker that is far behind: each answer is right, or says which block the worker has."""
    had, before = last(test), totals(test)
    os.kill(test.process.pid, signal.SIGSTOP)
    for n in range(200):
        run(test, f"UPDATE item SET price = price + 1 WHERE id % 50 = {n % 50}")
    wanted = {block: own(test, block) for block in (*range(had, last(test), 25), last(test))}
    # The changes cannot be read for now.
    other = test.server.connect("analytics")
    other.query("BEGIN; LOCK TABLE chainify_history.item IN ACCESS EXCLUSIVE MODE")
    os.kill(test.process.pid, signal.SIGCONT)
    test.check("the block that it has", totals(test, had), before)
    try:
        answer = test.ask("SELECT * FROM chainify.query_at(NULL, 'SELECT sum(price) FROM item') AS t (price numeric)")
    except PgError as error:
        answer = error.sqlstate, error.detail
    test.check("a later one", answer, ("55000", f"It has block {had}; the database's last block is {last(test)}."))
    test.check("the view says so", test.ask("SELECT DISTINCT block, lag FROM chainify.mirrors"), [[str(had), "200"]])
    other.query("ROLLBACK")
    other.close()
    for block in wanted:
        test.check(f"block {block} meanwhile", totals(test, block) in (wanted[block], "55000"), True)
    test.check("the last block", totals(test), wanted[last(test)])
    for block in wanted:
        test.check(f"block {block} afterwards", totals(test, block), wanted[block])


def tampered(test):
    """A history that was changed behind the ledger's back: the table itself gives the mirror then, and no answer is wrong."""
    os.kill(test.process.pid, signal.SIGSTOP)
    run(test, "UPDATE item SET price = price + 3")
    change = f"UPDATE chainify_history.item SET price = price {{}} 1 WHERE _block = {last(test)} AND id = 1"
    right, block = test.ask("SELECT count(*), sum(price), min(name), max(seen) FROM item"), last(test)
    test.ask(change.format("+"))
    os.kill(test.process.pid, signal.SIGCONT)
    test.wait_until("the mirror is made anew", lambda: totals(test) == right)
    run(test, "UPDATE item SET price = price + 3")
    test.check("a block that the history gives wrongly", totals(test, block) in (right, "55000"), True)
    test.ask(change.format("-"))
    changed_behind(test)


def changed_behind(test):
    """A table that was changed behind the ledger's back has no mirror, until it is put right."""
    right = own(test, last(test))
    test.ask("SELECT chainify.unmirror('item')")
    run(test, "UPDATE kind SET id = id WHERE id = 1")
    test.wait_until("the worker has given it up", lambda: states(test, "block") == [str(last(test))])
    behind = ("SET session_replication_role = replica; SET chainify.guard = off; ALTER TABLE item DISABLE TRIGGER chainify_digest;"
              " UPDATE item SET price = price {} 1 WHERE id = 1;"
              " ALTER TABLE item ENABLE ALWAYS TRIGGER chainify_digest; RESET session_replication_role; RESET chainify.guard")
    test.ask(behind.format("+"))
    test.ask("SELECT chainify.mirror('item')")
    test.wait_until("the mirror differs", lambda: "differs" in states(test))
    test.check("it serves nothing", totals(test), "55000")
    test.check("the other mirror serves", test.ask("SELECT * FROM chainify.query_at(NULL, 'SELECT count(*) FROM kind') AS t (n bigint)"), [["6"]])
    own_sum = test.ask("SELECT sum(price) FROM item")
    test.check("the planner takes PostgreSQL's own plan", test.ask("SET chainify.analytics = on; SELECT sum(price) FROM item; RESET chainify.analytics"), own_sum)
    test.ask(behind.format("-"))
    test.wait_until("it is put right", lambda: totals(test) == right)


def deployed(test):
    """Tables that change, go and come while they are mirrored."""
    deploy(test, "ALTER TABLE kind ADD COLUMN note text")
    noted = "SELECT * FROM chainify.query_at(NULL, 'SELECT count(note), count(*) FROM kind') AS t (n bigint, m bigint)"
    test.wait_until("a new column is mirrored", lambda: not test.state(noted)[0] and test.ask(noted) == [["0", "6"]])
    run(test, "UPDATE kind SET note = 'x' WHERE id < 3")
    test.wait_until("and has values", lambda: test.ask(noted) == [["2", "6"]])
    deploy(test, "DETACH TABLE public.kind")
    test.check("a table that left", test.state(noted)[0], "55000")
    test.check("the other one", totals(test), own(test, last(test)))
    deploy(test, "ATTACH TABLE public.kind")
    test.wait_until("and came back", lambda: not test.state(noted)[0] and test.ask(noted) == [["2", "6"]])
    deploy(test, "CREATE TABLE public.gone (id integer PRIMARY KEY, price numeric(9,2))")
    test.ask("SELECT chainify.mirror('gone')")
    gone = "SELECT * FROM chainify.query_at(NULL, 'SELECT count(*) FROM gone') AS t (n bigint)"
    test.wait_until("one more table", lambda: not test.state(gone)[0])
    deploy(test, "DROP TABLE public.gone")
    test.check("a table that was dropped", test.state(gone)[0], "42P01")
    test.check("what the view says", test.ask("SELECT state FROM chainify.mirrors WHERE \"table\" = 'public.gone'"), [["not on the ledger"]])
    test.check("the others", (totals(test), test.ask(noted)), (own(test, last(test)), [["2", "6"]]))
    deploy(test, "CREATE TABLE public.gone (id integer PRIMARY KEY, other text)")
    test.check("its row", test.ask("SELECT ok FROM test.block(test.tx('INSERT INTO gone VALUES (1)', 'admin'))"), [["t"]])
    test.wait_until("another one of its name", lambda: not test.state(gone)[0] and test.ask(gone) == [["1"]])
    deploy(test, "DROP TABLE public.gone")
    test.ask("SELECT chainify.unmirror('kind')")
    test.check("a mirror of nothing ends with it", test.ask("SELECT \"table\" FROM chainify.mirrors"), [["public.item"]])
    test.check("no longer mirrored", test.state(noted)[0], "55000")
    test.ask("SELECT chainify.mirror('kind')")
    test.wait_until("mirrored again", lambda: not test.state(noted)[0])


def bounded(test):
    """A query and a mirror beyond the bounds of memory."""
    stop(test)
    test.start_real("[memory]\nqueries = '1MiB'\n" + MORE)
    many = "SELECT * FROM chainify.query_at(NULL, 'SELECT count(*) FROM (SELECT a.id, b.id AS i, c.id AS j FROM item a, item b, item c GROUP BY 1, 2, 3) x') AS t (n bigint)"
    test.check("a query beyond the bound", test.state(many)[0], "53200")
    test.check("another one", totals(test), own(test, last(test)))
    grown = "SELECT * FROM chainify.query_at(NULL, 'SELECT max(length(replace(replace(id::text || ''aaaaaaaaaa'', ''a'', $1), ''a'', $1))) FROM item', repeat('a', 1000)) AS t (n int)"
    test.check("texts beyond it", test.state(grown)[0], "53200")
    test.check("constants beyond what may be repeated", test.state("SELECT * FROM chainify.query_at(NULL, 'SELECT max(coalesce(name, $1)) FROM item', repeat('a', 40000)) AS t (n text)")[0], "0A000")
    stop(test)
    test.start_real("[queries]\nseconds_max = 1\nrunning_max = 1\n" + MORE)
    test.check("a query beyond its time", test.state(f"SELECT * FROM chainify.query_at(NULL, '{LONG}') AS t (n bigint)")[0], "53400")
    test.check("the next one has its turn", totals(test), own(test, last(test)))
    own_plan = "SET chainify.analytics = on; SELECT count(*) FROM kind a, kind b; RESET chainify.analytics"
    test.check("PostgreSQL's own plan is there", test.ask(own_plan), [["36"]])
    stop(test)
    test.start_real("[memory]\nmirrors = '3MiB'\n" + MORE)
    run(test, "INSERT INTO item (id, price, name) SELECT 100000 + n, 1, repeat(md5(n::text), 40) FROM generate_series(1, 2000) n")
    test.wait_until("a mirror beyond the bound", lambda: "failed" in states(test))
    test.check("says so", any("memory.mirrors" in error for error in states(test, "coalesce(error, '')")), True)
    test.check("and serves nothing", totals(test), "55000")
    test.check("the other one serves", test.ask("SELECT * FROM chainify.query_at(NULL, 'SELECT count(*) FROM kind') AS t (n bigint)"), [["6"]])
    run(test, "DELETE FROM item WHERE id > 100000")
    test.wait_until("it comes back when there is room", lambda: totals(test) == own(test, last(test)))
    stop(test)
    test.start_real(MORE)


def stop(test):
    test.process.send_signal(signal.SIGTERM)
    test.check("ends when it is told to", test.process.wait(20), 0)
    test.check("its socket is gone", os.path.exists(os.path.join(test.server.dir, ".s.PGSQL.26670")), False)


def misconfigured(binary, directory):
    """The exit code and the words for a configuration that cannot be used."""
    path = os.path.join(directory, "wrong.toml")
    with open(path, "w") as file:
        file.write("[database]\nconnection = ''\n[memory]\nmirrors = 'much'\n")
    ended = subprocess.run([binary, "run", "--config", path], capture_output=True, text=True, timeout=300, check=False)
    os.unlink(path)
    return ended.returncode, "memory.mirrors" in ended.stderr
