#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets, small files, into DIRECTORY/TARGET/: from the vectors of spec/ where there are some, refused ones too,
which are the shortest way to what a decoder must not take. An input that a target once refused belongs into SEEDS, with a comment that says why.

Usage: crates/fuzz/seeds.py DIRECTORY
"""
import hashlib
import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
VECTORS = HERE.parent.parent / "spec" / "vectors"
SEED_BYTES_MAX = 4096  # what scripts/fuzz-rust tries at most


def vectors(name, section, field):
    return [bytes.fromhex(case[field]) for case in json.loads((VECTORS / f"{name}.json").read_text())[section]]


def values(kind):
    cases = json.loads((VECTORS / "values.json").read_text())["cases"]
    return [case["value"][kind].encode() for case in cases if kind in case["value"]]


def proofs(sizes):
    for case in json.loads((VECTORS / "merkle.json").read_text())["cases"]:
        for index, path in enumerate(case["proofs"]):
            if len(case["proofs"]) in sizes:
                leaf = hashlib.sha256(b"\0" + bytes.fromhex(case["data"][index])).digest()
                yield struct.pack(">QQ", index, len(case["data"])) + leaf + bytes.fromhex("".join(path))


def columns(*ordinals):
    """A row that is true in all of its columns."""
    column = (struct.pack(">HB", ordinal, 1) + lp(b"\1") for ordinal in ordinals)
    return struct.pack(">H", len(ordinals)) + b"".join(column)


def receipts():
    cases = json.loads((VECTORS / "receipts.json").read_text())["receipts"]
    smallest = min((case["receipt"] for case in cases), key=lambda receipt: len(json.dumps(receipt)))
    return [json.dumps(smallest).encode()]


def lp(content):
    return struct.pack(">I", len(content)) + content


def message(*fields):
    """A protobuf message of fields below 16, numbers below 128 and bytes below 128."""
    return b"".join(
        bytes([number << 3, content]) if isinstance(content, int) else bytes([number << 3 | 2, len(content)]) + content
        for number, content in fields
    )


def wire(kind, body):
    """A message of PostgreSQL's protocol."""
    return kind + struct.pack(">I", 4 + len(body)) + body


READY = wire(b"Z", b"I")
CELLS = b"\0\3\1" + lp(b"7") + b"\0\1" + lp("Öl".encode())
OUTCOME = message((1, b"\7" * 32), (2, 3), (3, 1), (4, 1), (5, 2))
LEAVES = message((1, b"public.a"), (2, b"\2"), (3, b"\1\1"), (4, b"kl"), (5, b"\1" * 64))
READS = bytes.fromhex(  # a write set with a row that was read, a range and its bounds
    "010000000000000007030002000000087075626c69632e61000000087075626c69632e6200000001000144000000000000000000000000000000000000000000"
    "00000000000000000000000000001100010001020000000800000000000000030000000100000000001100010001020000000800000000000000090000000002"
    "0000000000010001000102020000000800000000000000010102000000080000000000000009"
)
REQUEST = message((1, b"trade-1"), (2, 7), (5, b"\5" * 32), (7, 1), (8, b"\0\2"), (9, b"a"), (9, b"b"), (12, message((1, 2), (2, 9))))

SEEDS = {
    "block": vectors("transactions", "blocks", "buffer") + vectors("transactions", "refused_blocks", "buffer"),
    "change": [CELLS, lp(b"public.t") + struct.pack(">II", 3, 7) + b"U" + lp(b"\x09" * 32) + CELLS],
    "foundation": [
        *(b"\1" + header for header in vectors("blocks", "cases", "header")[:2]),
        b"\2" + lp(b"public.t") + b"\6" * 32 + struct.pack(">Q", 4) + bytes(2048),
        b"\3" + b"\7" * 32,
        b"\4" + struct.pack(">QIH", 7, 1, 2) + b"\5" * 64 + b"body",
        b"\5" + b"\7" * 32,
    ],
    "command": [
        b'ATTACH TABLE public.t, "odd ""one"."Ta,b.le"',
        b"detach table A.b;",
        b"SET AGREEMENT POLICY a.b TO AND(org(x), c)",
        b"DROP AGREEMENT POLICY a.b",
        b"SET DETERMINISM detect",
        b"SET DEPLOYS agreed",
        b"SET ORGANISATIONS OF ROLE \"Odd\" TO acme, \"b-2\"",
        b"DROP ORGANISATIONS OF ROLE clerk",
        b"ATTACH PROCEDURE public.pay (bigint, numeric) ENCODING 2 MARIADB " + b"0a" * 32 + b" POSTGRESQL " + b"f9" * 32,
        b"DETACH PROCEDURE public.pay",
    ],
    "decimal": values("numeric") + [b"+1.25E1", b"-.5e-3", b"Infinity"],
    "digest": receipts(),
    "frames": [lp(message((1, 9), (3, message((1, OUTCOME))))) * 2, lp(message((1, 1), (5, message((1, b"08P01"), (2, b"no")))))],
    "header": vectors("blocks", "cases", "header") + vectors("blocks", "refused", "header"),
    "json": values("json") + [rb'{"b":[1.50e1,null],"a":"\ud83d\ude00\n","a":{}}'],
    "lanes": vectors("lanes", "tables", "lanes")[-1:],
    "literals": [
        b"UPDATE t1 SET \"a 5\" = a1-5, x$2 = $12 + '12''3' WHERE b[3] <= .5",
        b"INSERT INTO t VALUES (2147483649, 99999999999999999999, 1e3, 'it''s', $1)",
    ],
    "merkle": list(proofs({1, 3, 7})),
    "normalised": [
        rb"SELECT 1, 'it''s', E'a\'b', $$c$$, $t$d$t$, x'ff', .5e-3 -- 2",
        b"SELECT $7 + 1 /* 3 */ + t1.\"a 4\", pg_catalog.now (), s.f(1)",
    ],
    "parts": [
        b"R" + REQUEST,
        b"R" + REQUEST.replace(b"\0\2", b"\2\0"),
        b"R" + message((1, message((1, 2))), (3, LEAVES)),
        b"R" + message((1, message((1, 2))), (3, LEAVES.replace(b"\1\1\x22", b"\1\0\x22"))),
        b"C",
        b"Fbroken",
        message((1, message((1, 3), (2, 4), (3, b"\0" * 8)))),
    ],
    "plain": [b"-32768", b"9223372036854775807", b"-0.50", b"{1,-2,3}"],
    "policy": [b"AND(org(seller), OR(auditor, 2 OF (acme, bolt, cargo)))", b'1 of (Org("Odd ""one"), a-b)', b"OR(" + b",".join([b"a" * 15] * 255) + b")"],
    "prepared_name": [b"chainify:" + b"ab" * 32 + b":18446744073709551615", b"chainify:" + b"%064d" % 7 + b":200"],
    "row": vectors("rows", "cases", "row") + vectors("values", "cases", "encoded") + vectors("values", "refused", "encoded") + [columns(0), columns(1, 1), columns(2, 1)],
    "settled": [b"((s)::text = ANY ((ARRAY['a'::character varying, f(x, y[1])])::text[]))", b"(ARRAY[f((ARRAY[x])::text[])])::character varying[]", b"((ARRAY[x])::text[])::name[]"],
    "told": [
        json.dumps([{"name": "a.b", "state": state, "bits": bits, "ranges": ranges}]).encode()
        for state, bits, ranges in [("0F" * 32, 3, [0, 7]), ("00" * 32, 0, [0]), ("00" * 32, 24, []), ("00" * 32, 3, [7, 0]), ("00" * 32, 3, [7, 7]), ("0" * 63, 3, []), ("00" * 32, 25, [])]
    ],
    "transaction": vectors("transactions", "cases", "chained_tx") + vectors("transactions", "refused", "chained_tx"),
    "write_set": vectors("write_sets", "cases", "encoded") + vectors("write_sets", "refused", "encoded") + vectors("write_sets", "failing", "encoded") + [READS],
    "vote": vectors("votes", "votes", "extension") + vectors("votes", "refused", "extension"),
    "worker_message": [
        wire(b"E", b"SERROR\0C22012\0Mdivision by zero\0\0") + READY,
        wire(b"T", b"\0\1o1\0" + bytes(18)) + wire(b"D", b"\0\1" + lp(b"42")) + wire(b"D", b"\0\1" + b"\xff" * 4) + wire(b"C", b"SELECT 2\0") + READY,
        wire(b"R", bytes(4)) + wire(b"K", struct.pack(">II", 1, 2)) + READY,
    ],
}

for target, seeds in SEEDS.items():
    corpus = pathlib.Path(sys.argv[1]) / target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(dict.fromkeys(seeds)):
        if len(seed) <= SEED_BYTES_MAX:
            (corpus / f"seed-{number:02}").write_bytes(seed)
