"""The worker's door for clients over TCP: answers as PostgreSQL's own, rights, tokens, TLS, and the bounds of what an attacker can do."""

import hashlib
import json
import os
import random
import socket
import ssl
import struct
import subprocess
import time

from clients import Client, Own
from queries import Generator
from real import LONG, MORE, idle, last, readers, restart, run, stop
from wire import ConnectionLost, PgError
from worker import message

ROLES = ("alice", "bob", "auditor", "stranger", "ungranted")
HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.join(HERE, "../../..")


class Door:
    """The door of a test's worker. Each role has a token, which is the role's name in capitals."""

    def __init__(self, test):
        self.test, self.dir = test, os.path.join(test.server.dir, "door")
        os.mkdir(self.dir)
        self.file = os.path.join(self.dir, "tokens.json")
        self.tokens = {role: {"role": role, "sha256": hashlib.sha256(role.upper().encode()).hexdigest()} for role in ROLES}
        self.write()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def write(self, mode=0o600):
        """Replaces the tokens file."""
        text = json.dumps({"tokens": [{"name": name, **token} for name, token in sorted(self.tokens.items())]})
        with open(self.file + ".new", "w") as file:
            file.write(text)
        os.chmod(self.file + ".new", mode)
        os.rename(self.file + ".new", self.file)

    def start(self, more="", address="127.0.0.1"):
        """The worker anew, with the door."""
        stop(self.test)
        self.test.start_real(MORE + self.config(more, address))

    def config(self, more="", address="127.0.0.1"):
        return f"[listen]\naddress = '{address}:{self.port}'\ntokens_file = '{self.file}'\n{more}"

    def client(self, role="alice", token=None, **more):
        return Client(self.port, role, role.upper() if token is None else token, **more)

    def refused(self, *args, **more):
        """SQLSTATE and message for a client that is not let in."""
        try:
            self.client(*args, **more).close()
        except PgError as failure:
            return failure.sqlstate, failure.message
        except (ConnectionLost, OSError) as failure:
            return "lost", str(failure)
        return "", "let in"

    def identity(self, name):
        """A TLS certificate and its key, in place of those before."""
        paths = [os.path.join(self.dir, file) for file in ("cert.pem", "key.pem")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", paths[0] + ".new", "-keyout", paths[1] + ".new"], check=True, capture_output=True)
        for path in reversed(paths):
            os.rename(path + ".new", path)
        return paths

    def psql(self, sql, role="alice", mode="disable", **env):
        """What psql prints, or its errors."""
        connection = f"host=localhost hostaddr=127.0.0.1 port={self.port} user={role} dbname=analytics sslmode={mode} connect_timeout=300"
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("PG")}, "PGPASSWORD": role.upper(), **env}
        done = subprocess.run([os.path.join(self.test.server.bin, "psql"), "-XAt", connection], env=env, input=sql, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.strip() or done.stderr.strip()


def state(client, sql, how="query", **more):
    """The SQLSTATE of a statement."""
    try:
        getattr(client, how)(sql, **more)
    except PgError as failure:
        return failure.sqlstate
    return ""


def check(test, seed):
    test.ask("CREATE ROLE auditor LOGIN IN ROLE chainify_reader; CREATE ROLE ungranted LOGIN; GRANT alice, bob, auditor, stranger TO analytics")
    door = Door(test)
    misconfigured(test, door)
    door.start()
    test.wait_until("the door opens", lambda: door.refused()[0] != "lost")
    for step in (plain, rights, tokens, blocks, statements, extended, parameters, ended, shares, bounds, restarted):
        step(test, door)
        test.check(f"{step.__name__}: the worker runs", test.process.poll(), None)
    differential(test, door, seed)
    crowded(test, door)
    encrypted(test, door)
    stop(test)
    test.start_real(MORE)


def misconfigured(test, door):
    def started():
        config = os.path.join(test.server.dir, "door.toml")
        done = subprocess.run([test.real, "run", "--config", config], capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stderr

    for what, more, address, mode, words in (("beyond loopback without TLS", "", "0.0.0.0", 0o600, "beyond loopback"), ("tokens that others can read", "", "127.0.0.1", 0o644, "want 0600"),
                                             ("TLS files that are not there", "tls_cert_file = '/none'\ntls_key_file = '/none'", "127.0.0.1", 0o600, "/none")):
        door.write(mode)
        with open(os.path.join(test.server.dir, "door.toml"), "w") as file:
            file.write("[database]\nconnection = ''\n" + door.config(more, address))
        code, error = started()
        test.check(what, (code, words in error), (2, True))
    door.write()


def plain(test, door):
    """psql, as it is."""
    sql = "SELECT k.title, count(*), sum(i.price), avg(i.price), max(i.sold) FROM item i JOIN kind k ON k.id = i.kind GROUP BY k.title ORDER BY k.title COLLATE \"C\""
    own = "\n".join("|".join(value or "" for value in row) for row in test.ask(sql))
    test.check("psql", door.psql(sql), own)
    test.check("a setting at the start", door.psql("SHOW statement_timeout", PGOPTIONS="-c statement_timeout=25s"), "25s")
    test.check("PostgreSQL's own names", door.psql("SELECT count(*) FROM public.kind"), "6")
    test.check("an error", door.psql("SELECT 1 / (id - id) FROM kind"), "ERROR:  division by zero")


def rights(test, door):
    """A role asks for itself alone."""
    alice = door.client()
    test.check("a role with SELECT", alice.query("SELECT count(*) FROM kind"), [["6"]])
    test.check("a role without", state(door.client("bob"), "SELECT count(*) FROM kind"), "42501")
    test.check("a stranger", state(door.client("stranger"), "SELECT count(*) FROM kind"), "42501")
    try:
        door.client("ungranted").query("SELECT 1")
        test.check("a role that was not granted", "an answer", "42501")
    except PgError as failure:
        test.check("a role that was not granted", (failure.sqlstate, failure.hint), ("42501", 'GRANT "ungranted" TO "analytics"'))
    test.check("a reader", door.client("auditor").query("SELECT count(*) FROM kind"), [["6"]])
    test.ask("REVOKE ALL ON kind FROM alice")
    test.check("a right that was taken away", state(alice, "SELECT count(*) FROM kind"), "42501")
    test.ask("GRANT ALL ON kind TO alice")
    test.ask("""CREATE FUNCTION public.climb() RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('role', 'analytics', false);
                RETURN (SELECT string_agg(name, ',') FROM chainify_history.kind k, chainify.tables); END $$;
                CREATE FUNCTION public.climb_and_back() RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ DECLARE found text; BEGIN PERFORM set_config('role', 'analytics', false);
                found := (SELECT count(*)::text FROM chainify.registry_changes); PERFORM set_config('role', 'alice', false); RETURN found; END $$""")
    for function in ("climb", "climb_and_back"):
        test.check(f"{function}: a function that changes the role", state(alice, f"SELECT {function}() FROM kind"), "42501")
    test.ask("DROP FUNCTION public.climb(); DROP FUNCTION public.climb_and_back()")
    test.check("afterwards", alice.query("SELECT count(*) FROM kind"), [["6"]])
    test.check("names of one's own schema", state(alice, "SET search_path = nowhere") + state(alice, "SELECT count(*) FROM kind"), "42P01")
    test.check("a schema that looks like SQL", state(alice, "SET search_path = 'x; DROP TABLE kind'") + state(alice, "SELECT count(*) FROM public.kind"), "")
    for name in ("none", 'x"; RESET ROLE; --', "a'b", "\u00e9"):
        door.tokens["odd"] = {"role": name, "sha256": hashlib.sha256(b"ODD").hexdigest()}
        door.write()
        try:
            test.check(f"a role with the name {name}", state(door.client(name, "ODD"), "SELECT count(*) FROM kind"), "42501")
        except PgError as failure:
            test.check(f"a role with the name {name}", failure.sqlstate, "28P01")
    del door.tokens["odd"]
    door.write()


def tokens(test, door):
    unknown = door.refused("alice", "WRONG")
    test.check("a wrong token", unknown[0], "28P01")
    door.tokens["old"] = {"role": "alice", "sha256": hashlib.sha256(b"OLD").hexdigest(), "expires": "2020-01-01T00:00:00Z"}
    door.tokens["soon"] = {"role": "alice", "sha256": hashlib.sha256(b"SOON").hexdigest(), "expires": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 4))}
    door.tokens["more"] = {"role": "alice", "sha256": hashlib.sha256(b"MORE").hexdigest()}
    door.write()
    for what, role, token in (("an expired token", "alice", "OLD"), ("another role's token", "bob", "ALICE"), ("a role that is not there", "nobody", "ALICE"), ("no token", "alice", "")):
        test.check(what, door.refused(role, token), unknown)
    expiring, kept = door.client(token="SOON"), door.client(token="MORE")
    test.check("two tokens of a role", (expiring.query("SELECT count(*) FROM kind"), kept.query("SELECT count(*) FROM kind")), ([["6"]], [["6"]]))
    test.wait_until("a token expires on an open connection", lambda: state(expiring, "SHOW statement_timeout") == "28P01")
    del door.tokens["more"], door.tokens["soon"], door.tokens["old"]
    door.write()
    test.check("a token revoked on an open connection", state(kept, "SELECT count(*) FROM kind"), "28P01")
    try:
        kept.query("SELECT 1")
        test.check("the connection", "is open", "closed")
    except (ConnectionLost, OSError, struct.error):
        pass
    revoked_beside(test, door)
    door.write(0o644)
    test.check("a file that others can read has no tokens", door.refused(), unknown)
    door.write()
    test.check("a database that is not there", door.refused(database="other")[0], "3D000")


def revoked_beside(test, door):
    """A token that is revoked while its client says nothing: a query runs, rows wait, or nothing happens."""
    door.tokens["more"] = {"role": "alice", "sha256": hashlib.sha256(b"MORE").hexdigest()}
    door.write()
    computing, waiting, silent = (door.client(token="MORE", timeout=300) for _ in range(3))
    waiting.query("BEGIN")
    waiting.extended("SELECT a.id FROM item a, item b, item c", 1, "p")
    computing._write(message(b"Q", LONG.encode() + b"\0"))
    test.wait_until("both run", lambda: readers(test) == 2)
    with open(door.file, "r+") as file:  # a file that is written in place is empty for a moment
        text = file.read()
        file.truncate(0)
        time.sleep(0.2)
        file.seek(0)
        file.write(text)
    time.sleep(2)
    test.check("it counts still", idle(test), False)
    del door.tokens["more"]
    begun = time.monotonic()
    door.write()
    for what, client in (("a query that runs", computing), ("rows that wait", waiting), ("silence", silent)):
        test.check(f"revoked beside {what}", state_of(client._receive), "28P01")
    test.check("soon", time.monotonic() - begun < 120, True)
    test.wait_until("their queries have ended", lambda: idle(test))
    test.check("other tokens of the role", door.client().query("SELECT count(*) FROM kind"), [["6"]])


def blocks(test, door):
    """One block for a transaction; earlier ones for readers."""
    alice, auditor = door.client(), door.client("auditor")
    count = "SELECT count(*), sum(price) FROM item"
    alice.query("BEGIN")
    before = alice.query(count)
    block = last(test)
    run(test, "UPDATE item SET price = price + 1")
    test.check("a transaction sees one block", (alice.query(count), alice.status), (before, "T"))
    test.check("another one the last", auditor.query(count), test.ask(count))
    test.check("no other block once one was seen", state(alice, f"SET chainify.block = {block}"), "25001")
    test.check("a transaction that failed", (alice.status, state(alice, count)), ("E", "25P02"))
    alice.query("COMMIT")
    test.check("is rolled back", (alice.tags, alice.query(count)), (["ROLLBACK"], test.ask(count)))
    auditor.query(f"SET chainify.block = {block}")
    test.check("an earlier block", auditor.query(count), before)
    test.check("what it is", auditor.query("SHOW chainify.block"), [[str(block)]])
    auditor.query("RESET chainify.block")
    test.check("the last one again", auditor.query(count), test.ask(count))
    test.ask(f"SELECT chainify.pin_snapshot({block}, 'held')")
    auditor.query("SET chainify.snapshot = 'held'")
    test.check("a pinned one", auditor.query(count), before)
    test.check("settings of a transaction", auditor.query("BEGIN") + auditor.query("SET LOCAL chainify.block = ''") + auditor.query(count), test.ask(count))
    test.check("end with it", auditor.query("COMMIT") + auditor.query(count), before)
    test.check("settings that are rolled back", auditor.query("BEGIN") + auditor.query("SET chainify.block = ''") + auditor.query("ROLLBACK") + auditor.query(count), before)
    for setting in (f"chainify.block = {block}", f"chainify.block = {last(test)}", "chainify.snapshot = 'held'"):
        alice.query("SET " + setting)
        test.check(f"{setting}, of a role that is no reader", state(alice, count), "42501")
        alice.query("RESET ALL")
    for setting in ("999999", ">=999999"):
        auditor.query(f"SET chainify.block = '{setting}'")
        test.check(f"block {setting}", state(auditor, count), "22023")
    test.ask("SELECT chainify.unpin_snapshot('held')")


def statements(test, door):
    alice = door.client(application_name="test", TimeZone="Europe/Berlin", extra_float_digits="3", client_encoding="UTF8", DateStyle="ISO")
    for sql, wanted in (("SHOW application_name", [["test"]]), ("SHOW TimeZone", [["Europe/Berlin"]]), ("SHOW transaction_read_only", [["on"]]), ("/* x */ SELECT 1 -- ;", [["1"]]), ("", [])):
        test.check(sql, alice.query(sql), wanted)
    for sql in ("SET application_name = 'other'", "SET client_encoding TO 'UTF8'", "SET extra_float_digits = 2", "SET DateStyle = ISO, MDY", "SET TIME ZONE 'UTC'", "START TRANSACTION READ ONLY",
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "ROLLBACK", "DISCARD ALL", "DEALLOCATE ALL", "SET default_transaction_read_only = on", "SET statement_timeout = '1min'"):
        test.check(sql, state(alice, sql), "")
    for wanted, texts in {"25006": ("INSERT INTO kind VALUES (1)", "UPDATE kind SET id = 1", "DROP TABLE kind", "COPY kind TO STDOUT", "DO $$ BEGIN END $$", "BEGIN READ WRITE", "CALL x()"),
                          "0A000": ("CHAINIFY PIN 'x' AT 1", "CHAINIFY UNPIN 'x'", "BEGIN; COMMIT", "EXPLAIN SELECT 1", "SET ROLE bob", "SET SESSION AUTHORIZATION bob", "LISTEN x", "PREPARE x AS SELECT 1",
                                    "SET client_encoding = 'LATIN1'", "SET DateStyle = 'German'", "DECLARE c CURSOR FOR SELECT 1", "SELECT * INTO x FROM kind", "SELECT pg_sleep(1) FROM kind",
                                    "SELECT current_setting('is_superuser') FROM kind", "SELECT pg_read_file('/etc/passwd') FROM kind", "SELECT set_config('role', 'none', false) FROM kind",
                                    "WITH x AS (DELETE FROM kind RETURNING id) SELECT * FROM x"),
                          "42601": ("SELECT 1; SELECT 2", "SELECT 1; COMMIT; SET ROLE bob", "SELEC 1 FROM"), "42704": ("SET role = 'bob'", "SET search = 1"), "42P01": ("SELECT * FROM t_1", "SELECT state FROM chainify_worker.mirrors")}.items():
        for sql in texts:
            found = state(alice, sql)
            test.check(sql, found, "0A000" if sql.startswith("SELEC 1") else wanted)
            test.check(f"{sql}: the status", alice.status, "I")
    test.check("afterwards", alice.query("SELECT count(*) FROM kind"), [["6"]])


def extended(test, door):
    alice, own = door.client(), Own(test.server.dir, "analytics")
    sql = "SELECT id, title, share, since FROM kind ORDER BY id"
    test.check("rows", alice.extended(sql), own.query(sql))
    test.check("columns", alice.columns, own.columns)
    test.check("SET", (alice.extended("SET statement_timeout = 60000"), alice.tags), ([], ["SET"]))
    test.check("SHOW", alice.extended("SHOW statement_timeout"), [["60000"]])
    alice.extended("BEGIN")
    rows = alice.extended(sql, 2, "p")
    test.check("a portal that waits", (rows, alice.suspended, alice.status), (own.query(sql)[:2], True, "T"))
    test.check("its other rows", (alice.more("p", 2) + alice.more("p", 0), alice.suspended), (own.query(sql)[2:], False))
    alice.extended("COMMIT")
    test.check("portals end with their transaction", state_of(lambda: alice.more("p", 1)), "34000")
    test.check("columns in binary", (alice.extended(sql, formats=[1]), alice.columns), (own.extended(sql, formats=[1]), own.columns))
    test.check("some of them", (alice.extended(sql, formats=[1, 0, 1, 0]), alice.columns), (own.extended(sql, formats=[1, 0, 1, 0]), own.columns))
    test.check("formats of other columns", state(alice, sql, "extended", formats=[1, 0]), "08P01")
    alice._write(message(b"P", b"s\0SELECT 1 / (id - id) AS a FROM kind\0\0\0") + message(b"D", b"Ss\0") + message(b"B", b"\0s\0\0\0\0\0\0\0") + message(b"E", b"\0\0\0\0\0") + message(b"Q", b"SELECT 1\0") + message(b"S"))
    test.check("an error skips what follows", (state_of(alice._receive), alice.status), ("22012", "I"))
    alice._write(message(b"C", b"Ss\0") + message(b"D", b"Ss\0") + message(b"S"))
    test.check("a closed statement", state_of(alice._receive), "26000")
    alice._write(b"".join(message(b"P", b"s%d\0SELECT 1\0\0\0" % n) for n in range(1001)) + message(b"S"))
    test.check("too many statements", state_of(alice._receive), "54000")
    test.check("afterwards", alice.query("DISCARD ALL") + alice.query(sql), own.query(sql))
    pgx = ["SELECT id, title, share, since FROM kind WHERE id < $1 AND title LIKE $2 ORDER BY id", "5", "%"]
    theirs, ours = (by_pgx(connection, *pgx) for connection in (f"host={test.server.dir} user=postgres dbname=analytics", f"postgres://alice:ALICE@127.0.0.1:{door.port}/analytics?sslmode=disable"))
    test.check("pgx, in each of its ways to ask", (ours, len(ours.splitlines()) % 4), (theirs, 0))
    own.close()


def by_pgx(connection, *query):
    """The rows that pgx reads."""
    command = ["go", "run", "./e2e/cmd/pgxrows", connection, *query]
    told = subprocess.run(command, cwd=os.path.join(REPOSITORY, "abci"), env={**os.environ, "GOWORK": "off"}, capture_output=True, text=True, timeout=300, check=False)
    return told.stdout.strip() or told.stderr


def state_of(what):
    try:
        what()
    except PgError as failure:
        return failure.sqlstate
    return ""


def ended(test, door):
    """Queries end with their timeout, their cancel request and their client."""
    alice = door.client()
    alice.query("SET statement_timeout = 300")
    begun = time.monotonic()
    test.check("statement_timeout", state(alice, LONG), "57014")
    test.check("in time", time.monotonic() - begun < 120, True)
    alice.query("RESET statement_timeout")
    test.wait_until("the query has ended", lambda: idle(test))
    alice._write(message(b"Q", LONG.encode() + b"\0"))
    test.wait_until("a query runs", lambda: not idle(test))
    number, secret = struct.unpack("!ii", alice.key)
    for key in ((number, secret ^ 1), (number ^ 1, secret), (0, 0)):
        alice.cancel(door.port, struct.pack("!ii", *key))
    test.check("a key that is not its own", idle(test), False)
    alice.cancel(door.port)
    test.check("cancel", state_of(alice._receive), "57014")
    test.wait_until("the query has ended then", lambda: idle(test))
    alice.cancel(door.port)
    test.check("a cancel request between two", alice.query("SELECT count(*) FROM kind"), [["6"]])
    alice._write(message(b"Q", LONG.encode() + b"\0"))
    test.wait_until("a query runs again", lambda: not idle(test))
    alice.close()
    test.wait_until("the query of a client that left has ended", lambda: idle(test))


def shares(test, door):
    """The queries of one role leave turns for others, and one whose client takes no rows has none."""
    door.start("[queries]\nrunning_max = 2\n")
    test.wait_until("the door opens", lambda: door.refused()[0] != "lost")
    others = [door.client() for _ in range(4)]
    for other in others:
        other._write(message(b"Q", LONG.encode() + b"\0"))
    test.wait_until("they run", lambda: not idle(test))
    other_role = door.client("auditor", timeout=300)
    test.check("another role", other_role.query("SELECT count(*) FROM kind"), [["6"]])
    for other in others:
        other.close()
    test.wait_until("their queries have ended", lambda: idle(test))
    slow = door.client(timeout=300)
    slow.query("BEGIN")
    for n in range(8):
        many = "SELECT a.id FROM item a, item b, item c, item d"
        test.check("rows that wait for their client", len(slow.extended(many, portal=f"p{n}", rows_max=1)), 1)
    test.check("the same role", slow.query("SELECT count(*) FROM kind"), [["6"]])
    slow.close()
    other_role.close()
    door.start()
    test.wait_until("the door opens again", lambda: door.refused()[0] != "lost")


def bounds(test, door):
    """Sizes and times, before and after a client is known."""
    def sent(data, known=False):
        """What comes back for these bytes until the worker closes, and how long that takes."""
        begun = time.monotonic()
        other = door.client() if known else None
        raw = other.socket if known else socket.create_connection(("127.0.0.1", door.port), timeout=300)
        got = b""
        try:
            raw.sendall(data)
            while more := raw.recv(65536):
                got += more
        except OSError:
            pass
        raw.close()
        return got, time.monotonic() - begun

    startup = struct.pack("!i", 196608) + b"user\0alice\0database\0analytics\0\0"
    startup = struct.pack("!i", len(startup) + 4) + startup
    for what, data in (("a long startup", struct.pack("!ii", 10_005, 196608)), ("an endless one", struct.pack("!ii", 0x7FFFFFFF, 196608)), ("a negative one", struct.pack("!i", -1)), ("none", struct.pack("!i", 0)),
                       ("a long token", startup + b"p" + struct.pack("!i", 2_000)), ("a query before the token", startup + message(b"Q", b"SELECT 1\0")), ("old protocol", struct.pack("!ii", 8, 131072)),
                       ("HTTP", b"GET / HTTP/1.1\r\n\r\n"), ("requests for encryption without end", struct.pack("!ii", 8, 80877104) * 9), ("replication", None)):
        if data is None:
            test.check(what, door.refused(replication="database")[0], "0A000")
            continue
        got, took = sent(data)
        test.check(what, (b"SFATAL" in got, b"ALICE" in got, took < 120), (True, False, True))
    got, took = sent(b"")
    test.check("silence", (got, took > 4), (b"", True))
    got, took = sent(startup)
    test.check("silence after the startup", (got[:1], took > 4), (b"R", True))
    for what, data in (("1 GiB", b"Q" + struct.pack("!i", 1 << 30)), ("2 MiB", b"Q" + struct.pack("!i", 2 << 20)), ("negative", b"Q\xff\xff\xff\xff"), ("unknown", message(b"F", b"")), ("cut off", message(b"B", b"\0\0\0\x09")),
                       ("no UTF-8", message(b"Q", b"\xff\0")), ("another token", message(b"p", b"BOB\0"))):
        got, took = sent(data + message(b"X"), known=True)
        test.check(f"a message: {what}", (b"C54000" in got or b"C08P01" in got or b"C22021" in got, took < 120), (True, True))
    alice = door.client()
    long = "SELECT count(*) FROM kind WHERE title <> '" + "x" * 1_000_000 + "'"
    test.check("a query of a megabyte", alice.query(long), [["6"]])
    test.check("deep", state(alice, "SELECT " + "(" * 20_000 + "1" + ")" * 20_000) in ("54001", "0A000", "42601"), True)
    test.check("wide", state(alice, "SELECT " + ", ".join(["1"] * 1_700)), "54011")
    alice.close()


def parameters(test, door):
    """Statements with parameters: rows, types and errors are PostgreSQL's."""
    alice, own = door.client(), Own(test.server.dir, "analytics")
    by_id = "SELECT id, title FROM kind WHERE id = $1"
    for sql, more in (
        (by_id, {"parameters": [b"1"]}),
        (by_id, {"parameters": [None]}),
        (by_id, {"parameters": [struct.pack("!i", 2)], "sent": [1], "oids": [23]}),
        (by_id, {"parameters": [struct.pack("!q", 2)], "sent": [1], "oids": [20], "formats": [1]}),
        ("SELECT id FROM kind WHERE id = ANY($1) ORDER BY 1", {"parameters": [b"{1,3,7}"]}),
        ("SELECT id FROM kind WHERE title LIKE $1 || '%' AND id < $2 ORDER BY 1 LIMIT $3", {"parameters": [b"", b"5", struct.pack("!q", 2)], "sent": [0, 0, 1]}),
        ("SELECT $1::int + id, $2 AS said, $3::date - since FROM kind ORDER BY 1", {"parameters": [b"40", b"it's \\ $1", b"2026-01-31"]}),
        ("SELECT count(*) FROM kind WHERE since < $1", {"parameters": [struct.pack("!i", 9000)], "sent": [1]}),
        (by_id, {"parameters": [b"one"]}),
        (by_id, {"parameters": [b"1\0"]}),
        (by_id, {"parameters": [b"\xff"]}),
        (by_id, {"parameters": [b"1234567"], "sent": [1]}),
        (by_id, {"parameters": [b"123"], "sent": [1]}),
        (by_id, {"parameters": [b"1", b"2"]}),
        (by_id, {"parameters": [b"1"], "oids": [4_000_000_000 - 2**32]}),
        (by_id, {"parameters": [b"1", b"1"], "sent": [1, 0, 1]}),
        ("SELECT id FROM kind WHERE id = $2", {"parameters": [b"1", b"2"]}),
    ):
        told = [state_of(lambda s=session: found(s, sql, more)) for session in (alice, own)]
        test.check(f"{sql} with {more}", told[0], told[1])
        test.check(f"{sql} with {more}: rows", *(found(session, sql, more) if told[1] == "" else None for session in (alice, own)))
    for sql, oids in ((by_id, ()), (by_id, [20]), ("SELECT title || $2, $1::date FROM kind LIMIT $3", ()), ("SELECT id FROM kind WHERE id = ANY($1)", ()), ("SELECT id, share FROM kind", ())):
        test.check(f"{sql}: described", alice.described(sql, oids), own.described(sql, oids))
    test.check("no type", state_of(lambda: alice.described("SELECT $1 IS NULL FROM kind")), "42P18")
    test.check("no values", state(alice, by_id), "42P02")
    test.check("values for a setting", state(alice, "SET statement_timeout = 60000", "extended", parameters=[b"1"]), "08P01")
    test.check("afterwards", alice.query("SELECT count(*) FROM kind"), [["6"]])


def found(session, sql, more):
    return session.extended(sql, **more), session.columns


def restarted(test, door):
    """The database starts anew below clients."""
    alice = door.client()
    test.check("before", alice.query("SELECT count(*) FROM kind"), [["6"]])
    restart(test)
    test.check("a database that was started anew", alice.query("SELECT count(*) FROM kind"), [["6"]])


def differential(test, door, seed):
    """Random queries: rows and columns are PostgreSQL's."""
    alice, own = door.client(), Own(test.server.dir, "analytics")
    own.query("SET TimeZone = 'UTC'")
    generator, counts = Generator(random.Random(seed)), {"equal": 0, "refused": 0}
    for number in range(150):
        sql = generator.query()
        try:
            formats = [1] if number % 3 == 0 else []
            told = sorted(map(str, alice.query(sql) if number % 3 == 1 else alice.extended(sql, formats=formats)))
            wanted = sorted(map(str, own.extended(sql, formats=formats)))
        except PgError as failure:
            counts["refused"] += failure.sqlstate == "0A000"
            continue
        counts["equal"] += told == wanted
        # PostgreSQL tells the modifier of a column twice, and the planner's may differ from the parser's. The door tells the parser's.
        planned, parsed = own.columns, own.described(sql)[1]
        columns = list(alice.columns), [(*parser[:4], planner[4]) for parser, planner in zip(parsed, planned, strict=True)]
        test.check(f"query {number} of seed {seed} at the door: {sql}", (told, columns[0]), (wanted, columns[1]))
        if test.failures > 10:
            return
    print(f"analytics: at the door: {counts}", flush=True)
    test.check("enough queries are equal", counts["equal"] > 75, True)
    own.close()


def crowded(test, door):
    door.start("connections_max = 3\n")
    test.wait_until("the door opens again", lambda: door.refused()[0] != "lost")
    clients = []

    def comes():  # the place of one that went may be free a moment later
        try:
            clients.append(door.client())
        except PgError as refused:
            if refused.sqlstate != "53300":
                raise
        return len(clients) == 3

    test.wait_until("three clients are there", comes)
    test.check("one too many", door.refused()[0], "53300")
    clients.pop().close()
    test.wait_until("a place is free", lambda: door.refused()[0] == "")
    silent = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(64)]
    test.wait_until("clients that say nothing have all places", lambda: door.refused()[0] == "lost")
    test.check("those that are known go on", clients[0].query("SELECT count(*) FROM kind"), [["6"]])
    test.wait_until("and the others go", lambda: door.refused()[0] == "")
    for one in silent:
        one.close()


def encrypted(test, door):
    """TLS 1.3, and nothing else."""
    certificate, key = door.identity("one")
    door.start(f"tls_cert_file = '{certificate}'\ntls_key_file = '{key}'\n", "0.0.0.0")
    test.wait_until("the door opens in TLS", lambda: door.refused()[0] != "lost")
    count = "SELECT count(*) FROM kind"
    test.check("plain", door.refused()[0], "28000")
    test.check("psql", door.psql(count, mode="verify-full", PGSSLROOTCERT=certificate), "6")
    tls = ssl.create_default_context(cafile=certificate)
    client = door.client(tls=tls)
    test.check("TLS", (client.socket.version(), client.query(count)), ("TLSv1.3", [["6"]]))
    old = ssl.create_default_context(cafile=certificate)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    test.check("TLS 1.2", door.refused(tls=old)[0], "lost")
    with socket.create_connection(("127.0.0.1", door.port), timeout=300) as raw:
        startup = struct.pack("!i", 196608) + b"user\0alice\0\0"
        raw.sendall(struct.pack("!ii", 8, 80877103) + struct.pack("!i", len(startup) + 4) + startup)
        got = b"".join(iter(lambda: _received(raw), b""))
        test.check("what comes before TLS does not count", b"R\0\0\0" in got, False)
    client._write(message(b"Q", LONG.encode() + b"\0"))
    test.wait_until("a query runs", lambda: not idle(test))
    client.cancel(door.port)
    test.check("cancel", state_of(client._receive), "57014")
    door.identity("two")
    test.check("a TLS certificate that was replaced", (door.refused(tls=tls)[0], door.refused(tls=ssl.create_default_context(cafile=certificate))[0]), ("lost", ""))
    test.check("open connections go on", client.query(count), [["6"]])
    client._write(message(b"Q", LONG.encode() + b"\0"))
    test.wait_until("a query runs again", lambda: not idle(test))
    client.close()
    test.wait_until("the query of a client that left has ended", lambda: idle(test))


def _received(raw):
    try:
        return raw.recv(4096)
    except OSError:
        return b""
