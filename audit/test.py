#!/usr/bin/env python3
"""Tests of audit.py: the vectors, every value of a receipt changed once, chains. Usage: python3 audit/test.py"""

import copy
import json
import pathlib
import shutil
import sys
import tempfile

import archive
import audit
import write_set

VECTORS = pathlib.Path(__file__).parent.parent / "spec" / "vectors"


def authority(case):
    of = case["authority"]
    keys = [(v["organisation"], bytes.fromhex(v["public_key"])) for v in of["validators"]]
    return audit.Authority(of["chain_id"], keys, of["consent"])


def wrong_with(receipt, of):
    try:
        audit.check(receipt, of)
    except audit.Wrong as wrong:
        return wrong.field
    return None


def other(value):
    """Values that stand for a change of this one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, -1, str(value), None]
    if isinstance(value, str):
        flipped = [value[:i] + ("1" if value[i:i + 1] == "0" else "0") + value[i + 1:] for i in {0, len(value) // 2, len(value) - 1} if value]
        return flipped + [value + "00", value.upper() + "x", None]
    if isinstance(value, list) and value:
        return [value[1:], value + value[:1]]
    return []


def mutations(node, at=""):
    """Changes each value below a node once, in place, and names it."""
    for place in list(node) if isinstance(node, dict) else range(len(node)):
        was, where = node[place], f"{at}.{place}".lstrip(".")
        for value in other(was):
            node[place] = value
            yield where
        if isinstance(node, dict) and place not in ("change", "transaction"):
            del node[place]
            yield where
        node[place] = was
        if isinstance(was, (dict, list)):
            yield from mutations(was, where)


def y_of_double(y):
    """The y coordinate of twice a point, from its own: (x² + y²) / (1 - d x² y²), x² = (y² - 1) / (d y² + 1)."""
    p = audit.PRIME
    d = -121665 * pow(121666, -1, p)
    x2 = (y * y - 1) * pow(d * y * y + 1, -1, p)
    return (x2 + y * y) * pow(1 - d * x2 * y * y, -1, p) % p


def governance():
    """What is not as the vectors of governance records say, and how many records there are."""
    vectors, failures = json.loads((VECTORS / "governance.json").read_text(encoding="utf-8")), []
    for case in vectors["cases"]:
        members = {o["name"]: audit.Organisation(bytes.fromhex(o["gateway_key"]), map(bytes.fromhex, o["validators"]), o["ordering_only"]) for o in vectors["organisations"]}
        try:
            authorities, field = audit.Authorities(audit.Consortium(vectors["chain_id"], members), case["record"]), ""
        except audit.Wrong as wrong:
            field = wrong.field
        if field != case["field"]:
            failures.append(f"{case['name']}: {field or 'it holds'}")
        for i, digest in enumerate(case["digests"] or []):
            if (wrong_with(digest["digest"], authorities) or "") != digest["field"]:
                failures.append(f"{case['name']}: digest {i}: {wrong_with(digest['digest'], authorities)}")
    return failures, len(vectors["cases"])


def evidence():
    """What is not as the vectors of evidence say, and how many cases there are."""
    vectors, failures = json.loads((VECTORS / "evidence.json").read_text(encoding="utf-8")), []
    members = {o["name"]: audit.Organisation(bytes.fromhex(o["gateway_key"]), map(bytes.fromhex, o["validators"]), o["ordering_only"]) for o in vectors["organisations"]}
    authorities = audit.Authorities(audit.Consortium(vectors["chain_id"], members), vectors["record"])

    def wrong(piece):
        try:
            audit.check_evidence(piece, authorities)
        except audit.Wrong as found:
            return found.field
        return ""
    for case in vectors["cases"]:
        if wrong(case["evidence"]) != case["field"]:
            failures.append(f"{case['name']}: {wrong(case['evidence']) or 'it holds'}")
    good = vectors["cases"][0]["evidence"]
    for where in good:
        for change in ({**good, where: None}, {name: value for name, value in good.items() if name != where}, {**good, where + "x": good[where]}):
            if not wrong(change):
                failures.append(f"evidence holds with another {where}")
    return failures, len(vectors["cases"])


def archived(vectors):
    """What is not as it should be with an archive of the vectors, each file and field of it changed once, and how many changes were made."""
    failures, changes = [], 0
    founders = audit.Consortium.of_genesis(json.loads((vectors / "genesis.json").read_text(encoding="utf-8")))
    authorities = audit.Authorities(founders)

    def wrong(directory):
        try:
            archive.check(directory, authorities)
        except audit.Wrong as found:
            return str(found)
        return ""
    if held := wrong(vectors):
        failures.append(f"the archive of the vectors: {held}")
    if "is called" not in (named := wrong(VECTORS / "archive2-misnamed")):
        failures.append(f"names of columns that are swapped: {named or 'it holds'}")
    manifest = archive.read_manifest(vectors, "trade-1", 1)
    if archive.signed(manifest).hex() != (vectors / "signed.hex").read_text(encoding="utf-8").strip():
        failures.append("the signed bytes of a manifest are not those recorded")
    files = sorted(path for path in vectors.iterdir() if path.suffix in (".json", ".parquet") and path.name.startswith("trade-1") and "plan" not in path.name)
    for path in files:
        was = path.read_bytes()
        damaged = [None, was[:-1], was[:len(was) // 2] + bytes([was[len(was) // 2] ^ 1]) + was[len(was) // 2 + 1:]]
        if path.suffix == ".json":
            whole = json.loads(was)
            damaged = [None] + [json.dumps({**whole, field: value}).encode() for field in whole for value in other(whole[field])]
        for content in damaged:
            with tempfile.TemporaryDirectory() as directory:
                shutil.copytree(vectors, directory, dirs_exist_ok=True)
                copy_of = pathlib.Path(directory) / path.name
                copy_of.unlink()
                if content is not None:
                    copy_of.write_bytes(content)
                changes += 1
                try:
                    named = wrong(directory)
                except FileNotFoundError as missing:
                    named = str(missing)
                if not named:
                    failures.append(f"the archive holds with another {path.name}: {(content or b'none')[:80]}")
    return failures, changes


def as_vector(read):
    """What was read of a write set in the form of the vectors: columns as ordinals alone, since values are encoded there from other words."""
    def columns(row):
        return [ordinal for ordinal, _ in row]
    changes = [{"table": c["table"], "op": c["op"], **({"row": columns(c["row"])} if c["op"] == "I" else {"before": c["before"].hex(), "pk": columns(c["key"])}),
                **({"cells": [(ordinal, value == write_set.NULL) for ordinal, value in c["cells"]]} if c["op"] == "U" else {})} for c in read["changes"]]
    seen = [{"table": s["table"], "pk": columns(s["key"]), "row_hash": s["row_hash"] and s["row_hash"].hex()} for s in read["seen"]]
    reads = [{"table": r["table"], "bounds": [{**b, **{side: b[side] and ("closed" if b[side][0] else "open") for side in ("lower", "upper")}} for b in r["bounds"]]} for r in read["reads"]]
    return {**read, "snapshot": str(read["snapshot"]), "changes": changes, "seen": seen, "reads": reads}


def without_values(of):
    """A write set of the vectors in the same form."""
    def columns(row):
        return [column["ordinal"] for column in row]
    changes = [{**c, **{part: columns(c[part]) for part in ("row", "pk") if part in c},
                **({"cells": [(cell["ordinal"], cell["value"] is None) for cell in c["cells"]]} if "cells" in c else {})} for c in of["changes"]]
    reads = [{**r, "bounds": [{**b, **{side: b[side] and next(iter(b[side])) for side in ("lower", "upper")}} for b in r["bounds"]]} for r in of["reads"]]
    return {**of, "changes": changes, "seen": [{**s, "pk": columns(s["pk"])} for s in of["seen"]], "reads": reads}


SHOWN = """changes made in the client's own database, SERIALIZABLE, after block 41:
  insert into "public.transfer": 1 = 5, 2 = "rent"
  update "public.account" where 1 = 42: 2 = "10.5", 3 = NULL; row before 0101
  delete from "public.transfer" where 1 = 4; row before 0202
  saw "public.account" where 1 = 42: row 0101
  saw "public.transfer" where 1 = 9: no row
  read "public.account", the whole table
  read "public.transfer" where 3 <= column 1 < 9 and column 4 <= 07:0000000000004d46"""


def write_sets():
    """What is not as the vectors of write sets and of transactions with them say, and how many write sets there are."""
    vectors, failures = json.loads((VECTORS / "write_sets.json").read_text(encoding="utf-8")), []

    def wrong(raw):
        try:
            write_set.read(raw)
        except write_set.Malformed as malformed:
            return malformed.field
        return ""
    for case in vectors["cases"] + vectors["refused"] + vectors["failing"]:
        raw = bytes.fromhex(case["encoded"])
        want = case["field"] if case in vectors["refused"] else ""
        if wrong(raw) != want:
            failures.append(f"write set {case['name']}: {wrong(raw) or 'it is taken'}")
        if not wrong(raw):
            list(write_set.lines(write_set.read(raw)))
        if "write_set" in case and as_vector(write_set.read(raw)) != without_values(case["write_set"]):
            failures.append(f"write set {case['name']}: {as_vector(write_set.read(raw))}")
    whole = bytes.fromhex(vectors["cases"][1]["encoded"])
    if [line.replace("01" * 32, "0101").replace("02" * 32, "0202") for line in write_set.lines(write_set.read(whole))] != SHOWN.split("\n"):
        failures.append("\n".join(write_set.lines(write_set.read(whole))))
    failures += [f"{size} bytes of a write set are taken" for size in range(len(whole)) if not wrong(whole[:size])]
    if wrong(bytes(write_set.BYTES_MAX + 1)) != "effects":
        failures.append("a write set that is too long is taken")
    transactions = json.loads((VECTORS / "transactions.json").read_text(encoding="utf-8"))
    of_kind = [case for case in transactions["refused"] if case["field"].startswith(("transaction.proposal.effects", "transaction.proposal.kind", "transaction.proposal.plan"))]
    of_kind += [case for case in transactions["refused"] if "EFFECTS" in case["name"] or "effects" in case["name"]]
    for case in transactions["cases"] + of_kind:
        body = bytes.fromhex(case["chained_tx"])
        try:
            audit.content_of(audit.only(audit.only(body, 1, "transaction.body"), 1, "transaction.body"))
            taken = True
        except audit.Wrong:
            taken = False
        if taken != ("id" in case):
            failures.append(f"transaction {case['name']}: {'taken' if taken else 'refused'}")
    return failures, len(vectors["cases"]) + len(vectors["refused"]) + len(vectors["failing"])


def main():
    vectors, tried = json.loads((VECTORS / "receipts.json").read_text(encoding="utf-8")), 0
    failures = []
    for case in vectors["receipts"]:
        of, receipt = authority(case), copy.deepcopy(case["receipt"])
        if field := wrong_with(receipt, of):
            failures.append(f"{case['name']}: {field}")
        for where in mutations(receipt):
            tried += 1
            field, part = wrong_with(receipt, of), where.split(".")[0]
            if field is None or not field.startswith((part, "hash") if part in ("block", "chain_id") else part):
                failures.append(f"{case['name']}: {where} changed, and it says {field}")
    for case in vectors["forged"]:
        if wrong_with(case["receipt"], authority(case)) is None:
            failures.append(f"{case['name']}: holds")
    signatures = json.loads((VECTORS / "signatures.json").read_text(encoding="utf-8"))["cases"]
    for case in signatures:
        key, message, signature = (bytes.fromhex(case[name]) for name in ("public_key", "message", "signature"))
        if audit.signature_holds(key, message, signature) != case["valid"]:
            failures.append(f"signature {case['name']}")
    for y in audit.SMALL_Y:
        if y_of_double(y_of_double(y_of_double(y))) != 1:
            failures.append(f"eight times the point with y = {y} is not the neutral one")
    wrong, records = governance()
    failures += wrong
    wrong, pieces = evidence()
    failures += wrong
    wrong, sets = write_sets()
    failures += wrong
    sealed = json.loads((VECTORS / "sealed.json").read_text(encoding="utf-8"))["cases"]
    for case in sealed:
        names = [case[name] for name in ("chain_id", "table", "column", "type")]
        if audit.commitment(*names, bytes.fromhex(case["salt"]), bytes.fromhex(case["encoded"])).hex() != case["commitment"]:
            failures.append(f"commitment of {case['name']}")
        receipt = {"chain_id": case["chain_id"], "change": {"table": case["table"], "op": "I", "row": b"\0\1\0\2\6\0\0\0\x20" + bytes.fromhex(case["commitment"])}}
        disclosed = {name: case[name] for name in ("chain_id", "table", "column", "type", "salt")} | {"value": case["encoded"]}
        tries = [disclosed] + [{**disclosed, name: value} for name in disclosed for value in other(disclosed[name])]
        for value, receipts in [(value, [receipt]) for value in tries] + [(disclosed, []), (disclosed, [{**receipt, "change": {**receipt["change"], "op": "D"}}])]:
            try:
                audit.check_disclosed(value, receipts)
                holds = True
            except audit.Wrong:
                holds = False
            if holds != (value is disclosed and receipts == [receipt]):
                failures.append(f"disclosed {case['name']}: {value}")
    archives = 0
    for name in ("archive", "archive2"):
        wrong, changes = archived(VECTORS / name)
        failures, archives = failures + wrong, archives + changes
    for case in vectors["receipts"]:
        lines = list(audit.shown(audit.check(case["receipt"], authority(case)))) if "transaction" in case["receipt"] else []
        if lines and not lines[1].startswith("changes made" if "EFFECTS" in case["name"] else "statements: "):
            failures.append(f"{case['name']}: shown as {lines}")
    for failure in failures:
        print(failure)
    print(f"audit: {tried} changes of receipts, {records} governance records, {pieces} pieces of evidence, {sets} write sets, {archives} changes of an archive, {len(vectors['forged'])} forgeries, {len(signatures)} signatures, {len(sealed)} private values, {len(failures)} not as expected")
    return 1 if failures or tried < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
