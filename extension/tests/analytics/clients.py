"""Clients over TCP and over PostgreSQL's own socket, which keep the columns that an answer has."""

import socket
import struct

from wire import Connection, ConnectionLost, PgError, _fields, _row
from worker import message


class Watching(Connection):
    """A session that keeps `columns`: name, type and modifier of each, `types` of parameters, `tags` and the transaction's `status`."""

    columns, tags, status, suspended, key, types = (), (), "", False, None, ()

    def _receive(self):
        rows, failure, binary = [], None, False
        self.tags, self.suspended = [], False
        while True:
            kind, length = struct.unpack("!ci", self._read(5))
            body = self._read(length - 4)
            if kind == b"T":
                self.columns = _columns(body)
                binary = any(column[-1] for column in self.columns)
            elif kind == b"t":
                self.types = struct.unpack(f"!{struct.unpack('!h', body[:2])[0]}i", body[2:])
            elif kind == b"D":
                rows.append(_raw(body) if binary else _row(body))
            elif kind == b"C":
                self.tags.append(body[:-1].decode())
            elif kind == b"K":
                self.key = body
            elif kind == b"s":
                self.suspended = True
            elif kind == b"E":
                fields = _fields(body)
                failure = PgError(fields)
                failure.hint = fields.get("H", "")
                if fields["S"] == "FATAL":
                    raise failure
            elif kind == b"Z":
                self.status = body.decode()
                if failure:
                    raise failure
                return rows

    def extended(self, sql, rows_max=0, portal="", oids=(), formats=(), parameters=(), sent=()):
        """The rows of a statement by the extended protocol. `sent` and `formats`: 1 for parameters and columns in binary; None is NULL."""
        types = struct.pack(f"!h{len(oids)}i", len(oids), *oids)
        values = b"".join(struct.pack("!i", -1) if p is None else struct.pack("!i", len(p)) + p for p in parameters)
        sent = struct.pack(f"!h{len(sent)}hh", len(sent), *sent, len(parameters))
        self._write(message(b"P", b"\0" + sql.encode() + b"\0" + types)
                    + message(b"B", portal.encode() + b"\0\0" + sent + values + struct.pack(f"!h{len(formats)}h", len(formats), *formats))
                    + message(b"D", b"P" + portal.encode() + b"\0") + message(b"E", portal.encode() + b"\0" + struct.pack("!i", rows_max)) + message(b"S"))
        return self._receive()

    def described(self, sql, oids=()):
        """The types of a statement's parameters, and its columns."""
        types = struct.pack(f"!h{len(oids)}i", len(oids), *oids)
        self._write(message(b"P", b"\0" + sql.encode() + b"\0" + types) + message(b"D", b"S\0") + message(b"S"))
        self._receive()
        return self.types, self.columns

    def more(self, portal, rows_max):
        """Further rows of a portal."""
        self._write(message(b"E", portal.encode() + b"\0" + struct.pack("!i", rows_max)) + message(b"S"))
        return self._receive()


class Own(Watching):
    """A session of PostgreSQL's own."""


class Client(Watching):
    """A client of the worker's door. `tls`: an ssl.SSLContext."""

    def __init__(self, port, user, token, database="analytics", tls=None, timeout=600, **more):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        if tls:
            self.socket.sendall(struct.pack("!ii", 8, 80877103))
            if self.socket.recv(1) != b"S":
                raise ConnectionLost("no TLS")
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.stream = self.socket.makefile("rb")
        parts = ["user", user, "database", database, *(part for pair in more.items() for part in pair)]
        body = struct.pack("!i", 196608) + b"".join(p.encode() + b"\0" for p in parts) + b"\0"
        self._write(struct.pack("!i", len(body) + 4) + body)
        kind, length = struct.unpack("!ci", self._read(5))
        body = self._read(length - 4)
        if kind == b"E":
            raise PgError(_fields(body))
        assert (kind, body) == (b"R", struct.pack("!i", 3)), (kind, body)
        self._write(message(b"p", token.encode() + b"\0"))
        self._receive()

    def cancel(self, port, key=None):
        """Asks the worker to end the statement that runs."""
        with socket.create_connection(("127.0.0.1", port), timeout=300) as other:
            other.sendall(struct.pack("!ii", 16, 80877102) + (key or self.key))
            assert other.recv(1) == b""


def _columns(body):
    count, at, columns = struct.unpack("!h", body[:2])[0], 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        _, _, of, size, modifier, form = struct.unpack("!ihihih", body[end + 1 : end + 19])
        columns.append((body[at:end].decode(), of, size, modifier, form))
        at = end + 19
    return columns


def _raw(body):
    """A row's values as they came."""
    count, at, row = struct.unpack("!h", body[:2])[0], 2, []
    for _ in range(count):
        length = struct.unpack("!i", body[at : at + 4])[0]
        row.append(None if length < 0 else body[at + 4 : at + 4 + length])
        at += 4 + max(length, 0)
    return row
