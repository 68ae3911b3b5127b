"""A node that says what a test wants to hear: spec/node-socket.md and spec/proto/node.proto, and nothing behind them.

The first word of a statement's SQL chooses the behaviour: see FakeNode.submit and FakeNode.wait. Write sets succeed, and nothing applies them.
"""

import hashlib
import os
import socket
import struct
import threading

EFFECTS = 2


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def parse(message):
    """Fields of a message as {number: [values]}."""
    fields, at = {}, 0

    def read_varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = read_varint()
        if key & 7 == 0:
            value = read_varint()
        else:
            length = read_varint()
            value, at = message[at : at + length], at + length
        fields.setdefault(key >> 3, []).append(value)
    return fields


class FakeNode:
    def __init__(self, path):
        self.path = path
        self.submissions = []  # (role, [(kind, sql, [(type, null, text)])])
        self.write_sets = []
        self.conflicts = 0  # so many write sets to come are refused with 40001
        self.connections = 0
        self.excluded = True
        self.behaviour = {}  # id -> first word
        self.closed_early = threading.Event()  # a client hung up while it was owed an answer
        self.open = []
        self.start()

    def start(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o777)
        self.listener.listen(16)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)
        for connection in self.open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.open = []

    def accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self.open.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            while True:
                head = self.read(connection, 4)
                if head is None:
                    return
                message = parse(self.read(connection, struct.unpack(">I", head)[0]))
                number = message[1][0]
                if 2 in message:
                    answer = self.submit(connection, parse(message[2][0]))
                elif 3 in message:
                    answer = self.wait(connection, parse(message[3][0]))
                elif 6 in message:
                    answer = self.rejoin()
                else:
                    answer = self.status()
                if answer is None:
                    return
                if isinstance(answer, tuple):
                    connection.sendall(answer[0])
                    continue
                body = field(1, number) + answer
                connection.sendall(struct.pack(">I", len(body)) + body)

    @staticmethod
    def read(connection, count):
        data = b""
        while len(data) < count:
            try:
                more = connection.recv(count - len(data))
            except OSError:
                return None
            if not more:
                return None
            data += more
        return data

    def submit(self, connection, request):
        statements = []
        for raw in request.get(2, []):
            statement = parse(raw)
            parameters = [parse(p) for p in statement.get(3, [])]
            parameters = [
                (p.get(1, [b""])[0].decode(), bool(p.get(2, [0])[0]), p.get(3, [b""])[0].decode()) for p in parameters
            ]
            statements.append((statement[1][0], statement.get(2, [b""])[0].decode(), parameters))
            if statement[1][0] == EFFECTS:
                self.write_sets.append(statement[4][0])
                statements[-1] = (EFFECTS, "conflict" if self.conflicts else "ok", parameters)
                self.conflicts = max(self.conflicts - 1, 0)
        self.submissions.append((request[1][0].decode(), statements))
        word = statements[0][1].split()[0]
        if word == "close":
            return None
        if word == "hang":
            return self.hang(connection)
        if word == "garbage":
            return (struct.pack(">I", 3) + b"\xff\xff\xff",)
        if word == "long":
            return (struct.pack(">I", 1 << 30),)
        if word == "stray":
            body = field(1, 999999) + field(2, b"")
            return (struct.pack(">I", len(body)) + body,)
        if word == "error":
            code = statements[0][1].split()[1]
            return field(5, field(1, code) + field(2, "said the node") + field(3, "Its detail.") + field(4, "Its hint."))
        ids = []
        for kind, sql, parameters in statements:
            tx = hashlib.sha256(repr((sql, parameters, len(self.submissions))).encode()).digest()
            self.behaviour[tx] = sql.split()[0]
            ids.append(tx)
        return field(2, b"".join(field(1, tx) for tx in ids))

    def wait(self, connection, request):
        outcomes = b""
        for tx in request.get(1, []):
            word = self.behaviour.get(tx, "unknown")
            if word == "lost":
                return None
            if word == "stall":
                return self.hang(connection)
            if word == "unknown" or word == "slow":
                if self.hung_up(connection, request.get(2, [0])[0] / 1000):
                    return None
                continue
            if word == "fail" or word == "ATTACH":
                outcome = field(2, 7) + field(3, 1) + field(6, "23505") + field(7, "duplicate key")
            elif word == "conflict":
                outcome = field(2, 7) + field(6, "40001") + field(7, 'row (1) of table "public.checking" is not as the transaction saw it')
            elif word == "refused":
                outcome = field(6, "40000") + field(7, "expired")
            else:
                outcome = field(2, 7) + field(3, 2) + field(4, 1) + field(5, 3)
            outcomes += field(1, field(1, tx) + outcome)
        return field(3, outcomes)

    @staticmethod
    def status():
        fields = [(1, "alpha"), (2, "chain-a"), (3, "0.2.0"), (4, 12), (5, 7), (6, 7), (7, 7), (8, "serving"), (9, 3)]
        return field(4, b"".join(field(*f) for f in fields + [(10, 4), (11, 3)]))

    def rejoin(self):
        """An excluded organisation rejoins once."""
        if self.excluded:
            self.excluded = False
            return field(7, b"")
        return field(5, field(1, "55000") + field(2, "the organisation is not excluded"))

    def hang(self, connection):
        self.hung_up(connection, None)
        return None

    def hung_up(self, connection, seconds):
        """Waits; True when the client closed the connection meanwhile."""
        connection.settimeout(seconds)
        try:
            connection.recv(1)
            self.closed_early.set()
            return True
        except TimeoutError:
            return False
        except OSError:
            return True
        finally:
            connection.settimeout(None)
