"""Archives of blocks, read and checked by spec/archive.md alone: manifests, the part of Parquet that the files use, and what certified headers say of them."""

import hashlib
import json
import os
import re
import struct
import zlib

import audit

FILE_MAX, FILES_MAX, RANGE_MAX = 64 << 20, 10_000, 10_000
INT64, BOOLEAN, BYTES = 2, 0, 6
COLUMNS = {
    "blocks": [("number", INT64), ("order_height", INT64), ("block_time", INT64), ("tx_root", BYTES), ("tx_count", INT64), ("outcomes", BYTES), ("effects_root", BYTES),
               ("effects_count", INT64), ("state_root", BYTES), ("previous", BYTES), ("hash", BYTES), ("effect_round", INT64)],
    "votes": [("block", INT64), ("organisation", BYTES), ("validator", BYTES), ("height", INT64), ("round", INT64), ("extension", BYTES), ("signature", BYTES)],
    "transactions": [("block", INT64), ("index", INT64), ("id", BYTES), ("body", BYTES), ("succeeded", BOOLEAN), ("rows", INT64), ("sqlstate", BYTES), ("message", BYTES)],
    "changes": [("block", INT64), ("table", BYTES), ("key", BYTES), ("serial", INT64), ("tx", INT64), ("op", BYTES), ("row", BYTES), ("cells", BYTES)],
    "columns": [("table", BYTES), ("since_block", INT64), ("since_tx", INT64), ("ordinal", INT64), ("name", BYTES), ("type", BYTES), ("key_part", INT64)],
}
STATES_MAX, LANES = 16_384, 2048
MANIFEST = audit.is_object({
    "chainify_archive": audit.is_number((1, 2)), "chain_id": audit.is_type(str), "organisation": audit.is_type(str),
    "first": audit.is_number((1, audit.U64[1])), "last": audit.is_number((1, audit.U64[1])),
    "previous": audit.HASH, "previous_hash": audit.HASH, "hash": audit.HASH,
    "files": audit.is_list(audit.is_object({
        "name": audit.is_type(str), "kind": audit.is_type(str), "bytes": audit.is_number((0, FILE_MAX)), "rows": audit.is_number(audit.U64), "sha256": audit.HASH}), FILES_MAX),
    "definitions": audit.is_object({
        "digest": audit.is_type(dict),
        "states": audit.is_list(audit.is_object({
            "name": audit.is_type(str), "encoding": audit.is_number((0, 2)), "text": audit.is_type(str), "rows": audit.is_number(audit.U64), "state": audit.is_hex()}), STATES_MAX)}),
    "signature": audit.is_hex(64)}, optional=["definitions"])


class Thrift:
    """Reads the compact protocol, as Parquet uses it."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a number is too long")

    def integer(self):
        n = self.varint()
        return n >> 1 ^ -(n & 1)

    def value(self, kind, depth=0):
        if depth > 16:
            raise ValueError("nested too deep")
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.integer()
        if kind == 7:
            self.at += 8
            return self.data[self.at - 8:self.at]
        if kind == 8:
            size = self.varint()
            self.at += size
            return self.data[self.at - size:self.at]
        if kind in (9, 10):
            head = self.byte()
            size = head >> 4 if head >> 4 < 15 else self.varint()
            if size > len(self.data):
                raise ValueError("a list is too long")
            return [self.value(self.byte() if head & 15 in (1, 2) else head & 15, depth + 1) for _ in range(size)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"there is no type {kind}")

    def struct(self, depth=0):
        out, number = {}, 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            out[number] = self.value(head & 15, depth)
        return out


def plain(kind, data, count):
    """The values of a page in the encoding PLAIN."""
    if kind == INT64:
        return struct.unpack_from(f"<{count}q", data)
    if kind == BOOLEAN:
        return [bool(data[i // 8] >> i % 8 & 1) for i in range(count)]
    out, at = [], 0
    for _ in range(count):
        size = int.from_bytes(data[at:at + 4], "little")
        at += 4 + size
        if at > len(data):
            raise ValueError("a value is beyond its page")
        out.append(data[at - size:at])
    return out


def chunk(data, meta, kind):
    """The values of a column chunk: data pages of version 1, PLAIN, GZIP, without levels."""
    if meta[1] != kind or meta[4] != 2:
        raise ValueError("a column is of another type, or not compressed by GZIP")
    values, at = [], meta[9]
    while len(values) < meta[5]:
        header = Thrift(data, at)
        page = header.struct()
        if page[1] != 0 or page[5][2] != 0 or page[2] > FILE_MAX:
            raise ValueError("a page is no plain data page")
        body = zlib.decompressobj(31).decompress(data[header.at:header.at + page[3]], page[2] + 1)
        if len(body) != page[2]:
            raise ValueError("a page is not as long as it says")
        values.extend(plain(kind, body, page[5][1]))
        at = header.at + page[3]
    return values


def parquet(data, columns):
    """The rows of a file as tuples, row group by row group."""
    if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise ValueError("it is no Parquet file")
    footer = Thrift(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little")).struct()
    names = [element[4].decode() for element in footer[2][1:]]
    if names != [name for name, _ in columns] or any(element.get(3) != 0 for element in footer[2][1:]):
        raise ValueError(f"its columns are {names}, or one may be NULL")
    for group in footer[4]:
        yield from zip(*(chunk(data, of[3], kind) for of, (_, kind) in zip(group[1], columns, strict=True)), strict=True)


def number(n):
    return struct.pack(">Q", n)


def signed(m):
    head = b"chainify/archive/%d" % m["chainify_archive"] + audit.lp(m["chain_id"].encode()) + audit.lp(m["organisation"].encode()) + number(m["first"]) + number(m["last"])
    out = [head, m["previous"], m["previous_hash"], m["hash"], struct.pack(">I", len(m["files"]))]
    out += [audit.lp(f["name"].encode()) + audit.lp(f["kind"].encode()) + number(f["bytes"]) + number(f["rows"]) + f["sha256"] for f in m["files"]]
    return b"".join(out)


def name_of(chain_id, first, rest):
    return f"{chain_id}.{first:012d}.{rest}"


def wrong(file, why, block=None):
    return audit.Wrong(file if block is None else f"{file}: block {block}", why)


def read_manifest(directory, chain_id, first):
    """The manifest of the range from a block on; None: there is none."""
    path = os.path.join(directory, name_of(chain_id, first, "manifest.json"))
    if not os.path.exists(path):
        return None
    manifest, counts = MANIFEST(audit.read(path), ""), {}
    if manifest["chain_id"] != chain_id or manifest["first"] != first or not 0 <= manifest["last"] - first < RANGE_MAX:
        raise wrong(os.path.basename(path), "it is of another range")
    if ("definitions" in manifest) != (manifest["chainify_archive"] == 2):
        raise wrong(os.path.basename(path), "a manifest of version 2 has definitions, one of version 1 has none")
    for f in manifest["files"]:
        counts[f["kind"]] = counts.get(f["kind"], 0) + 1
        if f["kind"] not in COLUMNS or f["name"] != name_of(chain_id, first, f"{f['kind']}.{counts[f['kind']]:04d}.parquet"):
            raise wrong(os.path.basename(path), f"there is no such file as {f['name']}")
    return manifest


def rows(directory, manifest, kind):
    for f in manifest["files"]:
        if f["kind"] != kind:
            continue
        with open(os.path.join(directory, f["name"]), "rb") as file:
            data = file.read(FILE_MAX + 1)
        if len(data) != f["bytes"] or hashlib.sha256(data).digest() != f["sha256"]:
            raise wrong(f["name"], "its SHA-256 is not that of the manifest")
        count = 0
        try:
            for row in parquet(data, COLUMNS[kind]):
                count += 1
                yield f["name"], row
        except (ValueError, KeyError, IndexError, struct.error, zlib.error) as error:
            raise wrong(f["name"], f"it cannot be read: {error}") from None
        if count != f["rows"]:
            raise wrong(f["name"], f"it has {count} rows, the manifest says {f['rows']}")


def text(data):
    return data.decode("utf-8")


def by_block(rows, blocks):
    """The rows of each block of the range, in turn."""
    blocks, at, kept = list(blocks), 0, []
    for name, row in rows:
        while at < len(blocks) and blocks[at] != row[0]:
            yield blocks[at], kept
            at, kept = at + 1, []
        if at == len(blocks):
            raise wrong(name, "a row is of no block of the range, or not in their order", row[0])
        kept.append(row)
    for block in blocks[at:]:
        yield block, kept
        kept = []


def mth(leaves):
    """The Merkle tree hash of RFC 9162, section 2.1.1, level by level: a node without a right neighbour moves up."""
    if not leaves:
        return audit.sha256()
    while len(leaves) > 1:
        pairs = [audit.sha256(b"\x01", *leaves[i:i + 2]) for i in range(0, len(leaves) - 1, 2)]
        leaves = pairs + leaves[len(leaves) & ~1:]
    return leaves[0]


def receipts_of(directory, m):
    """The blocks of a range as digests, whose certificates are still to be checked."""
    out, previous = [], m["previous_hash"]
    for file, row in rows(directory, m, "blocks"):
        block = dict(zip((name for name, _ in COLUMNS["blocks"]), row))
        number = m["first"] + len(out)
        if block["number"] != number or number > m["last"]:
            raise wrong(file, f"block {block['number']} stands in the place of block {number}")
        if block["previous"] != previous:
            raise wrong(file, "it does not follow the block before it", number)
        previous, effect_round = block.pop("hash"), block.pop("effect_round")
        if any(len(block[name]) != 32 for name in ("tx_root", "effects_root", "state_root", "previous")) or len(previous) != 32:
            raise wrong(file, "a hash is none", number)
        out.append({"chain_id": m["chain_id"], "block": block, "hash": previous, "certificate": {"effect_round": effect_round, "votes": []}})
    if len(out) != m["last"] - m["first"] + 1 or previous != m["hash"]:
        raise wrong(name_of(m["chain_id"], m["first"], "manifest.json"), "blocks are missing, or the last has another hash")
    return out


def check_votes(directory, m, digests, authorities):
    for (number, kept), digest in zip(by_block(rows(directory, m, "votes"), range(m["first"], m["last"] + 1)), digests):
        digest["certificate"]["votes"] = [
            {"organisation": text(v[1]), "validator": v[2], "height": v[3], "round": v[4], "extension": v[5], "signature": v[6]} for v in kept]
        try:
            if len(kept) > audit.VOTES_MAX or not digest["block"]["tx_count"]:
                raise audit.Wrong("certificate", "too many votes, or no transaction")
            if audit.header_hash(digest) != digest["hash"]:
                raise audit.Wrong("hash", "the block's fields give another")
            authority = authorities.of(number)
            if digest["block"]["order_height"] < authority.from_height:
                raise audit.Wrong("order_height", "it is before the keys for this block")
            audit.check_certificate(digest, authority)
        except audit.Wrong as why:
            raise wrong("blocks and votes", str(why), number) from None
        digest["certificate"]["votes"] = []


def check_transactions(directory, m, digests):
    for (number, kept), digest in zip(by_block(rows(directory, m, "transactions"), range(m["first"], m["last"] + 1)), digests):
        block, leaves = digest["block"], []
        for place, (_, index, identity, body, succeeded, *_) in enumerate(kept):
            proposal = audit.only(audit.only(body, 1, "body"), 1, "body")
            if index != place or audit.sha256(b"chainify/tx/1", proposal) != identity:
                raise wrong("transactions", f"transaction {place} has another index or id", number)
            if index >= block["tx_count"] or bool(block["outcomes"][index // 8] >> index % 8 & 1) != succeeded:
                raise wrong("transactions", f"the header gives transaction {place} another outcome", number)
            leaves.append(audit.sha256(b"\0", identity))
        if len(leaves) != block["tx_count"] or mth(leaves) != block["tx_root"]:
            raise wrong("transactions", "they do not give tx_root", number)


def check_changes(directory, m, digests):
    count = 0
    for (number, kept), digest in zip(by_block(rows(directory, m, "changes"), range(m["first"], m["last"] + 1)), digests):
        block, leaves, before = digest["block"], [], None
        for _, table, key, serial, tx, op, row, _ in kept:
            if op not in (b"I", b"U", b"D") or not 0 <= tx < block["tx_count"] or not block["outcomes"][tx // 8] >> tx % 8 & 1:
                raise wrong("changes", "one is of no operation, or of a transaction that failed", number)
            if before is not None and not (before[:2] < (table, key) and serial == 0 or before[:2] == (table, key) and serial == before[2] + 1):
                raise wrong("changes", "they do not stand in the order of the leaves", number)
            before = table, key, serial
            row_hash = audit.sha256(b"chainify/row/1", audit.lp(table), row)
            leaves.append(audit.sha256(b"\0", audit.lp(table), audit.lp(key), struct.pack(">II", serial, tx), op, row_hash))
        if len(leaves) != block["effects_count"] or mth(leaves) != block["effects_root"]:
            raise wrong("changes", "they do not give effects_root", number)
        count += len(leaves)
    return count


def columns_of(text):
    """The names of a schema text's columns by ordinal; None: it has more than one meaning."""
    found = {}
    for ordinal, name in re.findall(r'^column ([0-9]{1,5}) ("(?:[^"]|"")*"|[^" \n]+) ', text, re.MULTILINE):
        if int(ordinal) in found or int(ordinal) > 65_535:
            return None
        found[int(ordinal)] = name[1:-1].replace('""', '"') if name[0] == '"' else name
    return found


def state_hash(state, file):
    text, kept = audit.lp(state["text"].encode()), state["state"]
    if len(kept) != (LANES if state["encoding"] else 32):
        raise wrong(file, f"the state of {state['name']} has {len(kept)} bytes")
    if state["encoding"] == 0:
        return kept
    schema = audit.sha256(b"chainify/schema/%d" % state["encoding"], text)
    return audit.sha256(b"chainify/table/1", audit.lp(state["name"].encode()), schema, number(state["rows"]), kept)


def check_names(directory, m, authorities, file):
    """Compares the names of columns, of the newest version of each table, with definitions that the state root of a certified block covers."""
    said, names = m["definitions"], [state["name"] for state in m["definitions"]["states"]]
    digest = audit.RECEIPT(said["digest"], "definitions.digest")
    block = digest["block"]["number"]
    if digest["chain_id"] != m["chain_id"] or "transaction" in digest or block < m["last"]:
        raise wrong(file, "its digest is of another chain, or of an earlier block")
    audit.check(said["digest"], authorities.of(block))
    if any(a.encode() >= b.encode() for a, b in zip(names, names[1:])):
        raise wrong(file, "its states do not stand by name")
    if audit.sha256(b"chainify/state-root/1", *(state_hash(state, file) for state in said["states"])) != digest["block"]["state_root"]:
        raise wrong(file, f"its states do not give the state root of block {block}")
    versions = {}
    for name, (table, since, tx, ordinal, called, *_) in rows(directory, m, "columns"):
        versions.setdefault(table.decode(), {}).setdefault((since, tx), []).append((name, ordinal, called.decode()))
    for state in said["states"]:
        newest = max(versions.get(state["name"], {(0, 0): []}).items())
        columns = columns_of(state["text"]) if state["encoding"] else None
        if columns is None or newest[0][0] > block:
            continue
        for name, ordinal, called in newest[1]:
            if columns.get(ordinal) != (called or str(ordinal)):
                raise wrong(name, f"column {ordinal} of {state['name']} is called {called}, and {columns.get(ordinal)} in the definitions of block {block}")


def check(directory, authorities):
    """Raises audit.Wrong unless an archive holds; returns its last block and how many changes it has. `cells` are for people, and not checked, nor are
    `columns` of versions of tables that ended, and of manifests without definitions."""
    first, changes, previous, previous_hash = 1, 0, bytes(32), bytes(32)
    chain_id = authorities.of(1).chain_id
    known = set()
    while (m := read_manifest(directory, chain_id, first)) is not None:
        file = name_of(chain_id, first, "manifest.json")
        if m["previous"] != previous or m["previous_hash"] != previous_hash:
            raise wrong(file, "it does not follow the manifest before it")
        keys = authorities.gateway_keys(m["organisation"], m["last"])
        if not any(audit.signature_holds(key, signed(m), m["signature"]) for key in keys):
            raise wrong(file, f"the signature is by no gateway key of {m['organisation']}")
        digests = receipts_of(directory, m)
        check_votes(directory, m, digests, authorities)
        check_transactions(directory, m, digests)
        changes += check_changes(directory, m, digests)
        for _ in rows(directory, m, "columns"):
            pass
        if "definitions" in m:
            check_names(directory, m, authorities, file)
        known |= {file, name_of(chain_id, first, "plan.json")} | {f["name"] for f in m["files"]}
        first, previous, previous_hash = m["last"] + 1, hashlib.sha256(signed(m)).digest(), m["hash"]
    for file in sorted(os.listdir(directory)):
        if file.startswith(chain_id + ".") and file not in known:
            raise wrong(file, "no manifest names it: a manifest before it is missing, or a range is unfinished")
    if first == 1:
        raise wrong(directory, "it has no block of this chain")
    return first - 1, changes
