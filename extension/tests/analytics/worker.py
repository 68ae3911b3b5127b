"""A worker made of PostgreSQL, for tests: it has the protocol and the dialect of spec/analytics.md, and no mirror.

Each connection has a session of the database, in which dialect.sql was run. Switches make it fail: see Worker.
"""

import os
import re
import socket
import struct
import threading

from wire import Connection

KEY = struct.pack("!ii", 4711, 42)
TYPES = {"Timestamp(Microsecond, None)": "timestamp", 'Timestamp(Microsecond, Some("+00:00"))': "timestamptz", "Time64(Microsecond)": "time",
         "FixedSizeBinary(16)": "uuid", "BinaryView": "bytea", "Duration(Microsecond)": "interval"}
ARROW_CAST = re.compile(r"arrow_cast\((NULL|'[^']*'), '([^']*)'\)")


def message(kind, body=b""):
    return kind + struct.pack("!i", len(body) + 4) + body


def error(sqlstate, text):
    return message(b"E", f"SERROR\0C{sqlstate}\0M{text}\0\0".encode())


def as_postgres(sql):
    """The dialect's own ways of writing types, in PostgreSQL's."""
    sql = ARROW_CAST.sub(lambda m: f"CAST({m.group(1)} AS {TYPES[m.group(2)]})", sql)
    return sql.replace(" AS DOUBLE)", " AS DOUBLE PRECISION)")


class Worker:
    """`said` has what connections sent. `silent`: queries are not answered. `answer`: bytes sent in place of an answer."""

    def __init__(self, directory, server, database, port=26670):
        self.path = os.path.join(directory, f".s.PGSQL.{port}")
        self.server, self.database = server, database
        self.said, self.cancelled, self.silent, self.answer, self.open = [], threading.Event(), False, None, []
        self.connections = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o777)
        self.listener.listen(16)
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def stop(self):
        """As a killed process: the socket's file stays."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.open:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.thread.join(10)

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        stream = client.makefile("rb")
        try:
            (length,) = struct.unpack("!i", stream.read(4))
            body = stream.read(length - 4)
            if body[:4] == struct.pack("!i", 80877102):
                assert body[4:] == KEY
                self.cancelled.set()
                client.close()
                return
            self.connections += 1
            client.sendall(message(b"R", struct.pack("!i", 0)) + message(b"S", b"server_version\0" + b"0\0") + message(b"K", KEY) + message(b"Z", b"I"))
            backend = Connection(self.server, self.database)
            backend.query("SET search_path = dialect, pg_catalog; SET TimeZone = 'UTC'; SET bytea_output = hex; SET jit = off")
            block = b"0"
            while head := stream.read(5):
                (length,) = struct.unpack("!i", head[1:])
                sql = stream.read(length - 4)[:-1].decode()
                self.said.append(sql)
                if sql.startswith(("SET ", "CHAINIFY ")):
                    if sql.startswith("SET chainify.block"):
                        block = re.sub("[^0-9]", "", sql).encode()
                    client.sendall(message(b"C", b"SET\0") + message(b"Z", b"I"))
                elif self.silent:
                    self.cancelled.wait(30)
                    return
                elif self.answer is not None:
                    client.sendall(self.answer)
                else:
                    client.sendall(message(b"S", b"chainify.block\0" + block + b"\0"))
                    self._relay(client, backend, sql)
        except (OSError, struct.error):
            return

    @staticmethod
    def _relay(client, backend, sql):
        body = as_postgres(sql).encode() + b"\0"
        backend._write(message(b"Q", body))
        while True:
            head = backend._read(5)
            (length,) = struct.unpack("!i", head[1:])
            client.sendall(head + backend._read(length - 4))
            if head[:1] == b"Z":
                return
