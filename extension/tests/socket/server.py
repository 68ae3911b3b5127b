"""A private server as user postgres, and a fake node beside it; both go when the tests end.

The first argument of the program is a PostgreSQL tree with the extension installed (scripts/pgtree).
"""

import glob
import os
import pwd
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from fake_node import FakeNode, field

PREFIX = sys.argv.pop(1) if len(sys.argv) > 1 else ""
BIN = glob.glob(os.path.join(PREFIX, "lib/postgresql/*/bin"))[0]


def as_postgres():
    if os.getuid() == 0:
        user = pwd.getpwnam("postgres")
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)


class Server(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="chainify-socket.")
        if os.getuid() == 0:
            shutil.chown(cls.dir, "postgres")
        os.chmod(cls.dir, 0o755)
        data = os.path.join(cls.dir, "data")
        cls.env = {k: v for k, v in os.environ.items() if k != "RUST_BACKTRACE" and not k.startswith("PG")}
        cls.tool("initdb", "-D", data, "-U", "postgres", "--locale=C.UTF-8", "--encoding=UTF8", "--no-sync", "-A", "trust")
        cls.path = os.path.join(cls.dir, "node.sock")
        with open(os.path.join(data, "postgresql.conf"), "a") as conf:
            conf.write(f"listen_addresses = ''\nunix_socket_directories = '{cls.dir}'\nfsync = off\n")
            conf.write(f"shared_preload_libraries = 'chainify'\nchainify.node_socket = '{cls.path}'\n")
        cls.tool("pg_ctl", "-D", data, "-l", os.path.join(cls.dir, "log"), "-w", "start")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.addClassCleanup(cls.tool, "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")

    @classmethod
    def tool(cls, name, *args):
        subprocess.run([os.path.join(BIN, name), *args], check=True, env=cls.env, cwd=cls.dir, preexec_fn=as_postgres,
                       stdout=subprocess.DEVNULL)

    @classmethod
    def start_psql(cls, *sql, user="app"):
        args = [os.path.join(BIN, "psql"), "-XAt", "-h", cls.dir, "-U", user, "-d", "postgres", "-v", "VERBOSITY=verbose"]
        for command in sql:
            args += ["-c", command]
        return subprocess.Popen(args, env=cls.env, cwd=cls.dir, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    @classmethod
    def psql(cls, *sql, user="app"):
        out, err = cls.start_psql(*sql, user=user).communicate(timeout=600)
        return out.strip(), err.strip()

    def setUp(self):
        self.node = FakeNode(self.path)
        self.addCleanup(lambda: os.path.exists(self.path) and self.node.stop())

    def fails(self, sqlstate, *sql, user="app"):
        out, err = self.psql(*sql, user=user)
        self.assertIn(f"ERROR:  {sqlstate}:", err, out)
        return err

    @staticmethod
    def block(kind, role, sql):
        """SQL that executes the next block, with one transaction."""
        client = field(1, "acme") + field(2, role)
        fields = [(1, "chain-a"), (2, client), (3, 1), (4, 1000), (5, kind), (6, sql)]
        tx = field(1, field(1, b"".join(field(*f) for f in fields)))
        block = (struct.pack(">II", 1, len(tx)) + tx).hex()
        return f"""SELECT outcomes FROM chainify_node.position() p,
            chainify_node.execute_block(p.number + 1, p.number + 1, 1700000000000000, p.hash, '\\x{block}')"""
