"""Write sets of EFFECTS transactions, read by spec/formats.md, "EFFECTS transactions", alone: what the order checks of them, and text for people."""

import json
import struct
import uuid

BYTES_MAX, TABLES_MAX, READS_MAX, BOUNDS_MAX, NAME_MAX = 524_288, 1_000, 1_024, 16, 127
ISOLATIONS = {1: "READ COMMITTED", 2: "REPEATABLE READ", 3: "SERIALIZABLE"}
NULL = bytes(5)
# The fewest bytes of each thing that is counted.
ROW_MIN = 2 + 2 + 5
LEAST = {"tables": 4 + 3, "changes": 2 + 1 + 4 + ROW_MIN, "cells": 2 + 5, "seen": 2 + 4 + ROW_MIN + 1, "reads": 2 + 2}


class Malformed(Exception):
    """What is not as the format says: a field, and why."""

    def __init__(self, field, why):
        super().__init__(f"{field}: {why}")
        self.field = field


class Reader:
    """Takes fields off the front of bytes."""

    def __init__(self, rest):
        self.rest = rest

    def take(self, size, field):
        if size > len(self.rest):
            raise Malformed(field, f"{len(self.rest)} bytes left, want {size}")
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def number(self, size, field):
        return int.from_bytes(self.take(size, field), "big")

    def prefixed(self, field):
        return self.take(self.number(4, field), field)

    def count(self, size, field, name, least, most):
        count = self.number(size, field)
        if not least <= count <= most:
            raise Malformed(field, f"{count}, want {least} to {most}")
        if count * LEAST[name] > len(self.rest):
            raise Malformed(field, f"{count} do not fit into {len(self.rest)} bytes")
        return count

    def ordinal(self, last, field):
        ordinal = self.number(2, field)
        if ordinal <= last:
            raise Malformed(field, f"ordinal {ordinal} is not above {last}")
        return ordinal

    def value(self, field, nullable=False):
        whole = self.rest
        tag = self.number(1, field)
        self.prefixed(field)
        whole = whole[:len(whole) - len(self.rest)]
        if not (1 <= tag <= 0x12 or tag == 0x7F or nullable and whole == NULL):
            raise Malformed(field, f"tag {tag:02x} is unknown")
        return whole

    def end(self, field):
        if self.rest:
            raise Malformed(field, f"{len(self.rest)} bytes too many")

    def row(self, field):
        """lp(row), of at least one column, as a list of ordinals and values, and its bytes."""
        raw = self.prefixed(field)
        columns, out, last = Reader(raw), [], 0
        count = columns.number(2, field)
        if not count:
            raise Malformed(field, "has no column")
        for _ in range(count):
            last = columns.ordinal(last, field)
            out.append((last, columns.value(field)))
        columns.end(field)
        return out, raw

    def table(self, tables, field):
        table = self.number(2, field)
        if table >= len(tables):
            raise Malformed(field, f"{table} of {len(tables)}")
        return table


def read(raw):
    """A write set as dictionaries and lists. Raises Malformed unless it is as the order demands; payloads of values are not looked into."""
    if len(raw) > BYTES_MAX:
        raise Malformed("effects", f"more than {BYTES_MAX} bytes")
    r = Reader(raw)
    if (version := r.number(1, "effects.version")) != 1:
        raise Malformed("effects.version", f"{version}, want 1")
    snapshot, isolation = r.number(8, "effects.snapshot"), r.number(1, "effects.isolation")
    if isolation not in ISOLATIONS:
        raise Malformed("effects.isolation", f"{isolation}, want 1 to 3")
    tables = read_tables(r)
    changes = [read_change(r, tables, f"effects.changes[{i}]") for i in range(r.count(4, "effects.changes", "changes", 0, BYTES_MAX))]
    seen = read_seen(r, tables)
    reads = read_reads(r, tables)
    if reads and isolation != 3:
        raise Malformed("effects.reads", "there though the isolation is not SERIALIZABLE")
    r.end("effects")
    used = {one["table"] for one in changes + seen + reads}
    for i in range(len(tables)):
        if i not in used:
            raise Malformed(f"effects.tables[{i}]", "nothing uses it")
    return {"snapshot": snapshot, "isolation": isolation, "tables": tables, "changes": changes, "seen": seen, "reads": reads}


def read_tables(r):
    tables, before = [], b""
    for i in range(r.count(2, "effects.tables", "tables", 1, TABLES_MAX)):
        field = f"effects.tables[{i}]"
        name = r.prefixed(field)
        if not 1 <= len(name) <= NAME_MAX or 0 in name or b"." not in name[1:-1]:
            raise Malformed(field, "no name of a table")
        if name <= before:
            raise Malformed(field, "not above the one before it")
        try:
            tables.append(name.decode())
        except UnicodeDecodeError:
            raise Malformed(field, "not UTF-8") from None
        before = name
    return tables


def read_change(r, tables, field):
    change = {"table": r.table(tables, field + ".table"), "op": r.take(1, field + ".op").decode("latin-1")}
    if change["op"] == "I":
        change["row"], _ = r.row(field + ".row")
        return change
    if change["op"] not in ("U", "D"):
        raise Malformed(field + ".op", "none of I, U, D")
    change["before"] = r.take(32, field + ".before")
    change["key"], _ = r.row(field + ".pk")
    if change["op"] == "U":
        at, last, change["cells"] = field + ".cells", 0, []
        for _ in range(r.count(2, at, "cells", 1, 65_535)):
            last = r.ordinal(last, at)
            change["cells"].append((last, r.value(at, nullable=True)))
    return change


def read_seen(r, tables):
    seen, before = [], None
    for i in range(r.count(4, "effects.seen", "seen", 0, BYTES_MAX)):
        field = f"effects.seen[{i}]"
        table = r.table(tables, field + ".table")
        key, raw = r.row(field + ".pk")
        if (present := r.number(1, field + ".present")) > 1:
            raise Malformed(field + ".present", f"{present}, want 0 or 1")
        if before is not None and (table, raw) <= before:
            raise Malformed(field, "not above the one before it")
        before = (table, raw)
        seen.append({"table": table, "key": key, "row_hash": r.take(32, field + ".hash") if present else None})
    return seen


def read_reads(r, tables):
    reads, before = [], None
    for i in range(r.count(4, "effects.reads", "reads", 0, READS_MAX)):
        field, whole = f"effects.reads[{i}]", r.rest
        table, count, bounds, last = r.table(tables, field + ".table"), r.number(2, field + ".bounds"), [], 0
        if count > BOUNDS_MAX:
            raise Malformed(field + ".bounds", f"{count}, want at most {BOUNDS_MAX}")
        for j in range(count):
            at = f"{field}.bounds[{j}]"
            last = r.ordinal(last, at + ".ordinal")
            lower, upper = read_end(r, at + ".lower"), read_end(r, at + ".upper")
            if lower is None and upper is None:
                raise Malformed(at + ".upper", "missing like lower")
            bounds.append({"ordinal": last, "lower": lower, "upper": upper})
        whole = whole[:len(whole) - len(r.rest)]
        if before is not None and whole <= before:
            raise Malformed(field, "not above the one before it")
        before = whole
        reads.append({"table": table, "bounds": bounds})
    return reads


def read_end(r, field):
    """None, or whether the value itself lies inside, and the value."""
    if (kind := r.number(1, field)) > 2:
        raise Malformed(field, f"{kind}, want 0 to 2")
    return (kind == 2, r.value(field)) if kind else None


# For people. Text that a client chose is escaped.


def value_text(value):
    tag, payload = value[0], value[5:]
    try:
        if tag == 0:
            return "NULL"
        if tag == 1:
            return {b"\0": "false", b"\1": "true"}[payload]
        if tag == 2:
            return str(struct.unpack(">q", payload)[0])
        if tag == 0x0B:
            return str(uuid.UUID(bytes=payload))
        if tag in (0x03, 0x05, 0x0C, 0x0F, 0x11):
            return json.dumps(payload.decode())
    except (KeyError, ValueError, struct.error):
        pass  # not canonical: the transaction failed
    return f"{tag:02x}:{payload.hex()}"


def columns_text(columns):
    return ", ".join(f"{ordinal} = {value_text(value)}" for ordinal, value in columns)


def bound_text(bound):
    lower, upper = bound["lower"], bound["upper"]
    parts = [f"{value_text(lower[1])} {'<=' if lower[0] else '<'} "] if lower else []
    parts.append(f"column {bound['ordinal']}")
    return "".join(parts + ([f" {'<=' if upper[0] else '<'} {value_text(upper[1])}"] if upper else []))


def lines(write_set):
    """A write set as lines of text; columns by their ordinals."""
    def name(of):
        return json.dumps(write_set["tables"][of["table"]])
    yield f"changes made in the client's own database, {ISOLATIONS[write_set['isolation']]}, after block {write_set['snapshot']}:"
    for change in write_set["changes"]:
        if change["op"] == "I":
            yield f"  insert into {name(change)}: {columns_text(change['row'])}"
        elif change["op"] == "U":
            yield f"  update {name(change)} where {columns_text(change['key'])}: {columns_text(change['cells'])}; row before {change['before'].hex()}"
        else:
            yield f"  delete from {name(change)} where {columns_text(change['key'])}; row before {change['before'].hex()}"
    for row in write_set["seen"]:
        yield f"  saw {name(row)} where {columns_text(row['key'])}: " + (f"row {row['row_hash'].hex()}" if row["row_hash"] else "no row")
    for read_ in write_set["reads"]:
        yield f"  read {name(read_)}" + (" where " + " and ".join(map(bound_text, read_["bounds"])) if read_["bounds"] else ", the whole table")
