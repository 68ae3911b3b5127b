"""The fuzzer's private PostgreSQL: one cluster, one template database, and a copy of it for each database of a round."""

import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from wire import Connection

HERE = os.path.dirname(os.path.abspath(__file__))
TEMPLATE = "fuzz_template"
ROLES = {"alice": "chainify_client", "bob": "chainify_client", "admin": "chainify_admin", "stranger": None}

# What is beyond every database: no fsync, room for the executor's workers of several databases, no autovacuum (when rows
# are vacuumed is a dimension of the test). No JIT: blocks pin it off, and costs as odd as in shapes.py would have every query of
# a verification compiled, for seconds.
CONF = """
listen_addresses = ''
unix_socket_directories = '{dir}'
shared_preload_libraries = 'chainify'
fsync = off
full_page_writes = off
synchronous_commit = off
max_wal_size = 4GB
shared_buffers = 128MB
autovacuum = off
jit = off
max_worker_processes = 32
max_connections = 60
"""

# Beside the helpers of sql/setup.sql: everything that must hold of a database after any block.
CHECKS = r"""
CREATE FUNCTION test.check() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT 'states do not hold' WHERE NOT test.states_hold()
    UNION ALL SELECT 'verify_ledger: ' || v::text FROM chainify.verify_ledger() v WHERE what <> 'certificate missing'
    UNION ALL SELECT 'verify_table: ' || v::text FROM chainify_ledger.ledger_table t, chainify.verify_table(t.relation::regclass) v WHERE t.detached_at IS NULL
$$;
ALTER FUNCTION test.states_hold SET TimeZone = 'UTC';
ALTER FUNCTION test.states_hold SET DateStyle = 'ISO';
ALTER FUNCTION test.states_hold SET IntervalStyle = 'postgres';
ALTER FUNCTION test.states_hold SET extra_float_digits = 1;
ALTER FUNCTION test.states_hold SET bytea_output = 'hex';
ALTER FUNCTION test.states_hold SET quote_all_identifiers = off;
"""


def as_postgres():
    """PostgreSQL refuses root."""
    if os.getuid() == 0:
        user = pwd.getpwnam("postgres")
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)


def helpers():
    """The SQL helpers that the regression tests use, from the grants on: extension and roles are made here."""
    with open(os.path.join(HERE, "../../../sql/setup.sql")) as file:
        text = file.read().split("GRANT CREATE ON SCHEMA public TO alice;", 1)[1]
    return "\n".join(line for line in text.splitlines() if not line.startswith("\\"))


class Server:
    """Starts the cluster; `stop` removes it and tells what crashed. `letters`: a locale of ICU that the databases have."""

    def __init__(self, prefix, letters=None):
        # Told to end, the program removes its server as at any other end.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        self.bin = (glob.glob(os.path.join(prefix, "lib/postgresql/*/bin")) or [os.path.join(prefix, "bin")])[0]
        self.dir = tempfile.mkdtemp(prefix="chainify-fuzz.")
        self.data = os.path.join(self.dir, "data")
        os.chmod(self.dir, 0o755)
        if os.getuid() == 0:
            shutil.chown(self.dir, "postgres")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "RUST_"))}
        self.tool("initdb", "-D", self.data, "-U", "postgres", "--locale=C.UTF-8", "--encoding=UTF8", "--no-sync", "-A", "trust")
        with open(os.path.join(self.data, "postgresql.conf"), "a") as conf:
            conf.write(CONF.format(dir=self.dir))
        self.tool("pg_ctl", "-D", self.data, "-l", os.path.join(self.dir, "log"), "-w", "start")
        self.make_template(f"LOCALE_PROVIDER icu ICU_LOCALE '{letters}'" if letters else "")

    def tool(self, name, *args):
        subprocess.run([os.path.join(self.bin, name), *args], check=True, env=self.env, cwd=self.dir, preexec_fn=as_postgres,
                       stdout=subprocess.DEVNULL, timeout=1200)

    def ask(self, sql):
        """In a session of its own: databases are made and dropped at once."""
        admin = self.connect("postgres")
        admin.query(sql)
        admin.close()

    def make_template(self, letters):
        self.ask(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0 {letters}")
        template = Connection(self.dir, TEMPLATE)
        template.query("SET client_min_messages = warning; CREATE EXTENSION chainify; CREATE SCHEMA test")
        for role, group in ROLES.items():
            template.query(f"CREATE ROLE {role} LOGIN" + (f" IN ROLE {group}" if group else ""))
        template.query("GRANT ALL ON SCHEMA public TO PUBLIC; SELECT chainify_node.init('testchain', 'acme', '[]')")
        template.query(helpers())
        template.query(CHECKS)
        template.close()

    def create(self, database):
        """A copy of the template."""
        self.ask(f"CREATE DATABASE {database} TEMPLATE {TEMPLATE}")

    def connect(self, database):
        return Connection(self.dir, database)

    def drop(self, database):
        self.ask(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    def crashes(self):
        """Lines of the log that tell of a crash."""
        with open(os.path.join(self.dir, "log"), errors="replace") as log:
            return [line.strip() for line in log if re.search("terminated by signal|PANIC:|Rust panic", line)]

    def again(self):
        """How often a block ran in parts that were not what they seemed."""
        with open(os.path.join(self.dir, "log"), errors="replace") as log:
            return sum("runs again in one process" in line for line in log)

    def stop(self):
        """Ends the cluster and returns its crashes."""
        subprocess.run([os.path.join(self.bin, "pg_ctl"), "-D", self.data, "-m", "immediate", "-w", "stop"], env=self.env,
                       cwd=self.dir, preexec_fn=as_postgres, stdout=subprocess.DEVNULL, timeout=1200, check=False)
        crashes = self.crashes()
        shutil.rmtree(self.dir)
        return crashes
