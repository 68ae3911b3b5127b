"""A transaction as the order carries it (spec/proto/chainify.proto), in bytes for the fuzzer and in words for its scripts."""

from dataclasses import dataclass, field, replace

from values import literal

SQL, EFFECTS, DEPLOY = 1, 2, 3


@dataclass
class Transaction:
    sql: str
    role: str = "alice"
    kind: int = SQL
    # (type, text or None)
    parameters: list = field(default_factory=list)
    nonce: int = 0
    # Of kind EFFECTS: decides the write set when the block runs (effects.py), and the write set.
    recipe: object = None
    effects: bytes = b""

    def with_effects(self, effects):
        return replace(self, effects=effects)

    def encode(self):
        """ChainedTx."""
        proposal = _bytes(1, b"testchain") + _bytes(2, _bytes(1, b"acme") + _bytes(2, self.role.encode()))
        proposal += _number(3, self.nonce) + _number(4, 1000) + _number(5, self.kind) + _bytes(6, self.sql.encode())
        for kind, text in self.parameters:
            value = _number(2, 1) if text is None else _bytes(3, text.encode())
            proposal += _bytes(7, _bytes(1, kind.encode()) + value)
        proposal += _bytes(8, self.effects)
        return _bytes(1, _bytes(1, proposal))

    def words(self):
        """The call of test.tx (sql/setup.sql) that gives the same bytes, whatever backslashes mean in the session."""
        if self.kind == EFFECTS:
            return f"decode('{self.encode().hex()}', 'hex')"
        given = [f"$sql${self.sql}$sql$", literal(self.role), str(self.kind)]
        if self.parameters:
            flat = [item for kind, text in self.parameters for item in (literal(kind), "NULL" if text is None else f"$p${text}$p$")]
            given.append(f"ARRAY[{', '.join(flat)}]")
        return f"test.tx({', '.join(given)}, nonce => {self.nonce})"


def buffer(transactions):
    """What execute_block takes: spec/formats.md, "What PostgreSQL executes"."""
    bodies = [t.encode() for t in transactions]
    return len(bodies).to_bytes(4, "big") + b"".join(len(b).to_bytes(4, "big") + b for b in bodies)


def _varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def _number(field_number, value):
    return _varint(field_number << 3) + _varint(value) if value else b""


def _bytes(field_number, value):
    return _varint(field_number << 3 | 2) + _varint(len(value)) + value if value else b""
