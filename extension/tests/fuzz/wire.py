"""A small PostgreSQL client: simple queries over a Unix socket.

It exists so that databases are kept busy without a process per statement and without a package beyond the standard library. No password, no TLS, no copy: the server is the fuzzer's own.
"""

import socket
import struct


class PgError(Exception):
    """An ERROR or FATAL of the server."""

    def __init__(self, fields):
        self.sqlstate = fields.get("C", "")
        self.message = fields.get("M", "")
        self.detail = fields.get("D", "")
        super().__init__(f"{self.sqlstate} {self.message}" + (f" ({self.detail})" if self.detail else ""))


class ConnectionLost(Exception):
    """The server closed the connection, or did not answer in time."""


class Connection:
    """One session. `timeout` bounds each wait, in seconds."""

    def __init__(self, directory, database, user="postgres", timeout=600, port=5432):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(f"{directory}/.s.PGSQL.{port}")
        except OSError as error:
            raise ConnectionLost(f"connect: {error}") from error
        self.stream = self.socket.makefile("rb")
        parts = ["user", user, "database", database, "application_name", "fuzz", "client_encoding", "UTF8"]
        body = struct.pack("!i", 196608) + b"".join(p.encode() + b"\0" for p in parts) + b"\0"
        self._write(struct.pack("!i", len(body) + 4) + body)
        self._receive()

    def _write(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise ConnectionLost(f"send: {error}") from error

    def _read(self, count):
        try:
            data = self.stream.read(count)
        except OSError as error:
            raise ConnectionLost(f"no answer: {error}") from error
        if len(data) < count:
            raise ConnectionLost("the server closed the connection")
        return data

    def query(self, sql):
        """The rows of all results of one or several statements, as lists of text or None. Raises PgError when the server did."""
        body = sql.encode() + b"\0"
        self._write(b"Q" + struct.pack("!i", len(body) + 4) + body)
        return self._receive()

    def _receive(self):
        rows, error = [], None
        while True:
            kind, length = struct.unpack("!ci", self._read(5))
            body = self._read(length - 4)
            if kind == b"D":
                rows.append(_row(body))
            elif kind == b"E":
                error = PgError(_fields(body))
                if error.sqlstate.startswith("57P"):
                    raise ConnectionLost(str(error))
            elif kind == b"R" and struct.unpack("!i", body[:4])[0] != 0:
                raise ConnectionLost("the server wants a password")
            elif kind == b"Z":
                if error:
                    raise error
                return rows

    def close(self):
        self.stream.close()
        self.socket.close()


def _row(body):
    count, at, row = struct.unpack("!h", body[:2])[0], 2, []
    for _ in range(count):
        (length,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        row.append(None if length < 0 else body[at : at + length].decode(errors="replace"))
        at += max(length, 0)
    return row


def _fields(body):
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
