#!/usr/bin/env python3
"""Checks receipts, digests, exported chains of blocks and evidence of two votes: an auditor's own implementation, written from spec/receipt.md,
spec/evidence.md, spec/archive.md and spec/formats.md alone.

Usage: audit.py --genesis GENESIS.json [--governance RECORD.json] [--show] [--disclosed VALUE.json] FILE...

FILE is the directory of an archive (spec/archive.md), or a receipt, a digest or evidence, or a list of them: the blocks are a chain, and must not contradict each other. RECORD is who came, went and changed keys
since the genesis. VALUE is a private value that somebody disclosed, of a row that one of the receipts is of. Needs Python 3.11 and the package
`cryptography` (Debian: python3-cryptography). Prints a line for each file, and with --show what the transactions of receipts ask for. Exit codes: 0 all hold, 1 one does not, 2 wrong usage.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import struct
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import write_set

BYTES_MAX, VOTES_MAX, PATH_MAX, EXTENSION_MAX = 67_108_864, 1_000, 64, 16_464
U32, U64, I64, I32 = (0, 2**32 - 1), (0, 2**64 - 1), (-2**63, 2**63 - 1), (0, 2**31 - 1)
# Edwards25519 (RFC 8032): the order of the group of its base point, and the y coordinates of the eight points of small order.
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19
EIGHTH = 2707385501144840649318225287225658788936804267575313519463743609750303402022
SMALL_Y = {0, 1, PRIME - 1, EIGHTH, PRIME - EIGHTH}


class Wrong(Exception):
    """What does not hold: a field, and why."""

    def __init__(self, field, why):
        super().__init__(f"{field}: {why}")
        self.field = field


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def lp(data):
    return struct.pack(">I", len(data)) + data


def commitment(chain_id, table, column, logical_type, salt, value):
    """What a sealed column holds for a private value (spec/private.md); value: its canonical bytes."""
    names = b"".join(lp(name.encode()) for name in (chain_id, table, column, logical_type))
    return sha256(b"chainify/sealed/1", names, salt, value)


def check_disclosed(value, receipts):
    """Raises Wrong unless one of these checked receipts has a row with the commitment of a private value (spec/private.md, "Showing a value")."""
    names = [value.get(name) if isinstance(value, dict) else None for name in ("chain_id", "table", "column", "type")]
    if not all(isinstance(name, str) for name in names):
        raise Wrong("disclosed", "chain_id, table, column and type are not all texts")
    salt, encoded = (is_hex(size)(value.get(name), name) for name, size in (("salt", 32), ("value", None)))
    cell = b"\x06" + lp(commitment(*names, salt, encoded))
    for receipt in receipts:
        change = receipt.get("change")
        if change and receipt["chain_id"] == names[0] and change["table"] == names[1] and change["op"] in "IU" and cell in change["row"]:
            return
    raise Wrong("disclosed", "no receipt has a row with its commitment")


# Form: a table of members, each with what reads it.


def is_hex(size=None):
    def read(value, field):
        if not isinstance(value, str) or not re.fullmatch("(?:[0-9a-f]{2})*", value) or size is not None and len(value) != 2 * size:
            raise Wrong(field, f"no {size or ''} bytes in lower-case hexadecimal")
        return bytes.fromhex(value)
    return read


def is_number(bounds):
    def read(value, field):
        if type(value) is not int or not bounds[0] <= value <= bounds[1]:
            raise Wrong(field, "no such number")
        return value
    return read


def is_type(kind):
    def read(value, field):
        if type(value) is not kind:
            raise Wrong(field, f"no {kind.__name__}")
        return value
    return read


def is_list(of, count_max):
    def read(value, field):
        if type(value) is not list or len(value) > count_max:
            raise Wrong(field, f"no list of at most {count_max}")
        return [of(element, f"{field}[{i}]") for i, element in enumerate(value)]
    return read


def is_object(members, optional=()):
    def read(value, field):
        prefix = field + "." if field else ""
        if type(value) is not dict:
            raise Wrong(field or "receipt", "no object")
        for name in sorted(value.keys() - members.keys()):
            raise Wrong(prefix + name, "there is no such member")
        for name in sorted(members.keys() - value.keys() - set(optional)):
            raise Wrong(prefix + name, "missing")
        return {name: members[name](content, prefix + name) for name, content in value.items()}
    return read


HASH, PATH = is_hex(32), is_list(is_hex(32), PATH_MAX)
RECEIPT = is_object({
    "chainify_receipt": is_number((1, 1)),
    "chain_id": is_type(str),
    "block": is_object({
        "number": is_number((1, U64[1])), "order_height": is_number(U64), "block_time": is_number(I64), "tx_root": HASH,
        "tx_count": is_number((1, U32[1])), "outcomes": is_hex(), "effects_root": HASH, "effects_count": is_number(U32),
        "state_root": HASH, "previous": HASH}),
    "hash": HASH,
    "certificate": is_object({
        "effect_round": is_number(U32),
        "votes": is_list(is_object({
            "organisation": is_type(str), "validator": is_hex(20), "height": is_number(I64), "round": is_number(I32),
            "extension": is_hex(), "signature": is_hex(64)}), VOTES_MAX)}),
    "transaction": is_object({
        "index": is_number(U32), "id": HASH, "outcome": is_type(bool), "body": is_hex(), "path": PATH}),
    "change": is_object({
        "table": is_type(str), "key": is_hex(), "row": is_hex(), "serial": is_number(U32), "op": is_type(str),
        "leaf": is_number(U32), "path": PATH}),
}, optional=("transaction", "change"))




def is_extension(value, field):
    if isinstance(value, str) and len(value) > 2 * EXTENSION_MAX:
        raise Wrong(field, f"more than {EXTENSION_MAX} bytes")
    return is_hex()(value, field)


SIGNED_VOTE = is_object({
    "validator": is_hex(20), "height": is_number(I64), "round": is_number(I32), "extension": is_extension, "signature": is_hex(64)})
EVIDENCE = is_object({
    "chainify_evidence": is_number((1, 1)), "chain_id": is_type(str), "organisation": is_type(str), "block": is_number(U64),
    "effect_round": is_number(U32), "first": SIGNED_VOTE, "second": SIGNED_VOTE})


# What holds.


class Authority:
    """Whose votes count, from an order height on."""

    def __init__(self, chain_id, keys, consent, from_height=0):
        self.chain_id, self.consent, self.from_height = chain_id, consent, from_height
        self.keys = {sha256(key)[:20]: (organisation, key) for organisation, key in keys}


class Organisation:
    """A member of the consortium and its keys."""

    def __init__(self, gateway_key, validators, ordering_only=False):
        self.gateway_key, self.validators, self.ordering_only = gateway_key, set(validators), ordering_only


class Consortium:
    """Who takes part at one time; consent and approvals of 0 stand for the defaults."""

    def __init__(self, chain_id, organisations, consent=0):
        self.chain_id, self.organisations, self.consent, self.approvals, self.protocol = chain_id, organisations, consent, 0, 1

    @classmethod
    def of_genesis(cls, genesis):
        state = genesis["app_state"]

        def key(text):
            return base64.b64decode(text, validate=True)
        members = {o["name"]: Organisation(key(o["gateway_key"]), map(key, o["validators"]), o.get("ordering_only", False)) for o in state["organisations"]}
        return cls(genesis["chain_id"], members, state.get("consent") or 0)

    def voters(self):
        return {name for name, o in self.organisations.items() if not o.ordering_only}

    def authority(self, from_height=0):
        voters = self.voters()
        keys = [(name, key) for name in voters for key in self.organisations[name].validators]
        authority = Authority(self.chain_id, keys, self.consent or min(len(voters), max(2, 2 * len(voters) // 3 + 1)), from_height)
        authority.gateway_keys = {name: organisation.gateway_key for name, organisation in self.organisations.items()}
        return authority

    def approve(self, change, approvals, field, least=0, withdraws=None):
        """Raises Wrong unless enough organisations, least at any rate, signed the change's bytes. With withdraws, which is c, the change
        withdraws a version of the protocol."""
        voters, message, before = self.voters(), b"chainify/governance/1" + lp(self.chain_id.encode()) + change, ""
        for i, approval in enumerate(approvals):
            name, at = approval["organisation"], f"{field}.approvals[{i}]"
            if name not in voters:
                raise Wrong(at, f"{name} approves nothing")
            if name <= before:
                raise Wrong(at, "not after the one before by organisation")
            if not signature_holds(self.organisations[name].gateway_key, message, approval["signature"]):
                raise Wrong(at, f"the signature of {name} does not fit")
            before = name
        want = max(least, self.approvals or 2 * len(voters) // 3 + 1)
        if withdraws is not None:
            want = len(voters) - max(want, withdraws) + 1
        if len(approvals) < want:
            raise Wrong(f"{field}.approvals", f"{len(approvals)} of {len(voters)} approve, that is too few")

    def member(self, name, field):
        if name not in self.organisations:
            raise Wrong(field, f"{name} takes no part")
        return self.organisations[name]

    def act(self, number, body, field):
        """Does what an action says, by its field's number."""
        if number in (1, 2):
            setattr(self, "consent" if number == 1 else "approvals", body)
            return
        if number in (12, 13, 14):  # a block's time and its shares, snapshots: nothing of whose votes count
            return
        if number == 15:
            if body <= self.protocol:
                raise Wrong(field, f"version {body} of the protocol follows version {self.protocol}")
            self.protocol = body
            return
        if number == 4:
            self.member(body.decode(), field)
            del self.organisations[body.decode()]
            return
        if number not in (3, 5, 6, 7):
            raise Wrong(field, "there is no such action")
        parts = {}
        for part, content in fields(body, field):
            parts.setdefault(part, []).append(content)
        name = parts[1][0].decode()
        if number == 3:
            if name in self.organisations:
                raise Wrong(field, f"{name} takes part already")
            validators = [dict(fields(validator, field))[1] for validator in parts.get(3, [])]
            self.organisations[name] = Organisation(parts[2][0], validators, bool(parts.get(4, [0])[0]))
        elif number == 5:
            self.member(name, field).gateway_key = parts[2][0]
        elif number == 6:
            validator = dict(fields(parts[2][0], field))
            keys = self.member(name, field).validators
            (keys.add if validator.get(2) else keys.discard)(validator[1])
        else:
            self.member(name, field).ordering_only = bool(parts.get(2, [0])[0])


GOVERNANCE = is_object({
    "chainify_governance": is_number((1, 1)),
    "chain_id": is_type(str),
    "changes": is_list(is_object({
        "from_block": is_number((1, U64[1])), "change": is_hex(),
        "approvals": is_list(is_object({"organisation": is_type(str), "signature": is_hex(64)}), VOTES_MAX),
        "withdrawn": is_hex()}, optional=["withdrawn"]), 2**32),
})


def withdrawn_version(raw, chain_id, sequence, field):
    """The SHA-256 of a change that brings a version of the protocol; raises Wrong for another one."""
    change, actions = {}, []
    for number, content in fields(raw, field):
        actions.append(content) if number == 4 else change.update({number: content})
    if change.get(1) != chain_id.encode() or change.get(2) != sequence or [n for action in actions for n, _ in fields(action, field)] != [15]:
        raise Wrong(field, f"it is not change {sequence} of this chain, a version of the protocol")
    return sha256(raw)


class Authorities:
    """Whose votes count, by block."""

    def __init__(self, founders, record=None):
        """Follows the changes of a record from the genesis on; raises Wrong where they do not lead on."""
        self.periods, sequence = [(0, founders.authority())], 0
        if record is None:
            return
        record = GOVERNANCE(record, "")
        if record["chain_id"] != founders.chain_id:
            raise Wrong("chain_id", "not that of the genesis")
        for i, entry in enumerate(record["changes"]):
            field, change = f"changes[{i}]", {}
            actions = []
            for number, content in fields(entry["change"], f"{field}.change"):
                actions.append(content) if number == 4 else change.update({number: content})
            withdrawal = len(actions) == 1 and [number for number, _ in fields(actions[0], f"{field}.change")] == [8]
            sequence += 2 if withdrawal else 1  # the change that is withdrawn stands in no record
            if change.get(1) != founders.chain_id.encode() or change.get(2) != sequence:
                raise Wrong(f"{field}.change", f"it is not change {sequence} of this chain")
            version = any(number == 15 for action in actions for number, _ in fields(action, f"{field}.change"))
            least = founders.authority().consent if version else 0  # that agree on a block
            if entry.get("withdrawn"):
                of = withdrawn_version(entry["withdrawn"], founders.chain_id, sequence - 1, f"{field}.withdrawn")
                if not withdrawal or fields(actions[0], f"{field}.change") != [(8, of)]:
                    raise Wrong(f"{field}.withdrawn", "the change withdraws another one")
                founders.approve(entry["change"], entry["approvals"], field, withdraws=founders.authority().consent)
            else:
                founders.approve(entry["change"], entry["approvals"], field, least)
            since = max(1, self.periods[-1][0])
            if entry["from_block"] < since or withdrawal and entry["from_block"] > since:
                raise Wrong(f"{field}.from_block", "before that of the change before, or a withdrawal with another")
            if withdrawal:
                continue
            for action in actions:
                for number, body in fields(action, f"{field}.change"):
                    founders.act(number, body, f"{field}.change")
            self.periods.append((entry["from_block"], founders.authority(change.get(3, 0))))

    def gateway_keys(self, name, block):
        """The gateway keys that an organisation had for a block, or later."""
        ends = [since for since, _ in self.periods[1:]] + [block + 1]
        return [authority.gateway_keys[name] for (_, authority), end in zip(self.periods, ends) if end > block and name in authority.gateway_keys]

    def of(self, block):
        return [authority for since, authority in self.periods if since <= block][-1]


def header_hash(receipt):
    block, chain_id = receipt["block"], receipt["chain_id"].encode()
    count, outcomes = block["tx_count"], block["outcomes"]
    if not re.fullmatch("[a-z][a-z0-9_-]{0,49}", receipt["chain_id"]):
        raise Wrong("chain_id", "no name of a chain")
    if len(outcomes) != (count + 7) // 8 or count % 8 and outcomes[-1] >> count % 8:
        raise Wrong("block.outcomes", f"not the outcomes of {count} transactions")
    if block["number"] == 1 and any(block["previous"]):
        raise Wrong("block.previous", "not zeros for block 1")
    return sha256(b"chainify/ledger-block/1", lp(chain_id), struct.pack(">QQq", block["number"], block["order_height"], block["block_time"]),
                  block["tx_root"], struct.pack(">I", count), outcomes, block["effects_root"], struct.pack(">I", block["effects_count"]),
                  block["state_root"], block["previous"])


def small_order(point):
    return int.from_bytes(point, "little") % 2**255 % PRIME in SMALL_Y


def signature_holds(key, message, signature):
    """RFC 8032 without the cofactor, neither key nor R of small order."""
    if small_order(key) or small_order(signature[:32]) or int.from_bytes(signature[32:], "little") >= GROUP_ORDER:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def sign_bytes(chain_id, vote):
    message = b"\x0a" + varint(len(vote["extension"])) + vote["extension"] if vote["extension"] else b""
    if vote["height"]:
        message += b"\x11" + struct.pack("<q", vote["height"])
    if vote["round"]:
        message += b"\x19" + struct.pack("<q", vote["round"])
    message += b"\x22" + varint(len(chain_id)) + chain_id
    return varint(len(message)) + message


def effect_vote(extension):
    """Number, effect round, order block and value of a vote on effects; None for anything else."""
    if len(extension) < 78:
        return None
    version, number, effect_round = struct.unpack(">BQI", extension[:13])
    if extension[45] != 1 or number == 0:
        return None
    if version == 1:
        good = len(extension) == 78
    else:
        parts = int.from_bytes(extension[78:80], "big")
        good = version == 2 and effect_round > 0 and 1 <= parts <= 1024 and len(extension) == 80 + 16 * parts
    return (number, effect_round, extension[13:45], extension[46:78]) if good else None


def salted(extension, organisation, block_hash):
    """What a vote of this form for a LedgerBlockHash says."""
    return sha256(b"chainify/effect-vote/1", lp(organisation.encode()), block_hash)


def check_certificate(receipt, authority):
    certificate, agreeing, order = receipt["certificate"], set(), None
    for i, vote in enumerate(certificate["votes"]):
        field, name = f"certificate.votes[{i}]", vote["organisation"]
        organisation, key = authority.keys.get(vote["validator"], (None, None))
        said = effect_vote(vote["extension"])
        if organisation != name:
            raise Wrong(field, f"the validator is none of {name}")
        if said is None:
            raise Wrong(field, "the extension is no vote on effects")
        number, effect_round, names, value = said
        if (number, effect_round) != (receipt["block"]["number"], certificate["effect_round"]):
            raise Wrong(field, "it is for another block or effect round")
        if order not in (None, names):
            raise Wrong(field, "it names another order block than the votes before")
        if value != salted(vote["extension"], name, receipt["hash"]):
            raise Wrong(field, "it is not for the effects of this block")
        if not signature_holds(key, sign_bytes(receipt["chain_id"].encode(), vote), vote["signature"]):
            raise Wrong(field, "the signature does not fit")
        if name in agreeing:
            raise Wrong(field, "the organisation has voted already")
        agreeing.add(name)
        order = names
    if len(agreeing) < authority.consent:
        raise Wrong("certificate", f"{len(agreeing)} organisations agree, want {authority.consent}")


def root_of(leaf, index, size, path):
    """The root that an inclusion proof leads to; None where it is no proof for such a tree (RFC 9162, section 2.1.3.2)."""
    if index >= size:
        return None
    path, last, node = list(path), size - 1, leaf
    while last:
        if index % 2 or index < last:
            if not path:
                return None
            sibling = path.pop(0)
            node = sha256(b"\x01", sibling, node) if index % 2 else sha256(b"\x01", node, sibling)
        index, last = index // 2, last // 2
    return None if path else node


def fields(message, field):
    """The fields of a protobuf message that has length-delimited and varint fields alone."""
    at, out = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(message) or shift > 63:
                raise Wrong(field, "malformed")
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value
    while at < len(message):
        tag = number()
        if tag % 8 == 0:
            out.append((tag // 8, number()))
        elif tag % 8 == 2:
            size = number()
            if at + size > len(message):
                raise Wrong(field, "malformed")
            out.append((tag // 8, message[at:at + size]))
            at += size
        else:
            raise Wrong(field, "malformed")
    return out


def only(message, number, field):
    found = [content for at, content in fields(message, field) if at == number]
    if len(found) != 1 or type(found[0]) is not bytes:
        raise Wrong(field, f"it has not one field {number}")
    return found[0]


PLANNED_BYTES_MAX, APPROVALS_BYTES_MAX, PLAN_TIME_MAX = 65_536, 4_096, 253_402_300_799_999_999


def plan_of(proposal, parameters):
    """The plan of a proposal of kind PLAN, checked; None: it has none."""
    if 9 not in proposal:
        return None
    every = fields(proposal[9], "transaction.body")
    if any(type(content) is not (bytes if number in (2, 5) else int) for number, content in every):
        raise Wrong("transaction.body", "its plan is malformed")
    of = dict(every)
    plan = {"action": of.get(1, 0), "planned": of.get(2, b""), "not_before": of.get(3, 0), "expires": of.get(4, 0), "approvals": of.get(5, b"")}
    times = plan["not_before"], plan["expires"]
    size = len(proposal.get(6, b"")) + sum(len(p.get(1, b"")) + len(p.get(3, b"")) for p in parameters)
    makes = plan["action"] == 1 and not plan["planned"] and max(times) <= PLAN_TIME_MAX and size <= PLANNED_BYTES_MAX
    names = plan["action"] in (2, 3, 4) and len(plan["planned"]) == 32 and not any(times) and not plan["approvals"]
    if not (makes or names) or len(plan["approvals"]) > APPROVALS_BYTES_MAX:
        raise Wrong("transaction.body", "its plan is not as its action has it")
    return plan


def content_of(proposal):
    """What a proposal asks for: kind, the text of its statements, its parameters, the write set of kind EFFECTS, and the plan of kind PLAN."""
    every = fields(proposal, "transaction.body")
    if any(type(content) is not (bytes if number in (1, 2, 6, 7, 8, 9) else int) for number, content in every):
        raise Wrong("transaction.body", "malformed")
    of = dict(every)
    kind, sql, effects = of.get(5), of.get(6, b""), of.get(8, b"")
    parameters = [dict(fields(content, "transaction.body")) for number, content in every if number == 7]
    if kind not in (1, 2, 3, 5):
        raise Wrong("transaction.body", "it is of no kind that is executed")
    plan = plan_of(of, parameters)
    without = kind == 2 or plan and plan["action"] != 1
    if (kind == 2) != bool(effects) or (kind == 5) != bool(plan) or bool(without) == bool(sql) or without and parameters:
        raise Wrong("transaction.body", "statements, effects and plan are not as its kind has them")
    try:
        return kind, sql, parameters, write_set.read(effects) if effects else None, plan
    except write_set.Malformed as malformed:
        raise Wrong("transaction.body", str(malformed)) from None


def plan_lines(plan):
    if plan["action"] != 1:
        yield f"{ {2: 'approves', 3: 'cancels', 4: 'executes'}[plan['action']]} planned transaction {plan['planned'].hex()}"
        return
    yield f"planned for microsecond {plan['not_before']} to {plan['expires'] or 'the default'}, with approvals {json.dumps(plan['approvals'].decode(errors='replace'))}"


def shown(receipt):
    """What the transaction of a receipt that holds asks for, as lines of text. Text that a client chose is escaped."""
    transaction = receipt["transaction"]
    proposal = only(only(transaction["body"], 1, "transaction.body"), 1, "transaction.body")
    client = dict(fields(only(proposal, 2, "transaction.body"), "transaction.body"))
    kind, sql, parameters, effects, plan = content_of(proposal)

    def text(content):
        return json.dumps(content.decode(errors="replace"))
    yield f"transaction {transaction['id'].hex()} {'succeeded' if transaction['outcome'] else 'failed'}, by {text(client.get(2, b''))} of {text(client.get(1, b''))}"
    if effects:
        yield from write_set.lines(effects)
        return
    if plan:
        yield from plan_lines(plan)
    if plan and plan["action"] != 1:
        return
    yield f"{'definitions' if kind == 3 else 'statements'}: {text(sql)}"
    for i, parameter in enumerate(parameters):
        yield f"  ${i + 1}: {'NULL' if parameter.get(2) else text(parameter.get(3, b''))}"


def check_transaction(receipt):
    transaction, block = receipt["transaction"], receipt["block"]
    index = transaction["index"]
    proposal = only(only(transaction["body"], 1, "transaction.body"), 1, "transaction.body")
    if only(proposal, 1, "transaction.body") != receipt["chain_id"].encode():
        raise Wrong("transaction.body", "it is a transaction of another chain")
    if sha256(b"chainify/tx/1", proposal) != transaction["id"]:
        raise Wrong("transaction.id", "the body has another")
    if index >= block["tx_count"]:
        raise Wrong("transaction.index", f"the block has {block['tx_count']} transactions")
    if bool(block["outcomes"][index // 8] >> index % 8 & 1) != transaction["outcome"]:
        raise Wrong("transaction.outcome", "the block says otherwise")
    if root_of(sha256(b"\0", transaction["id"]), index, block["tx_count"], transaction["path"]) != block["tx_root"]:
        raise Wrong("transaction.path", "it does not lead to tx_root")
    content_of(proposal)


def check_change(receipt):
    if "transaction" not in receipt:
        raise Wrong("change", "there is no transaction beside it")
    change, block, transaction = receipt["change"], receipt["block"], receipt["transaction"]
    if change["op"] not in ("I", "U", "D"):
        raise Wrong("change.op", "none of I, U, D")
    if not transaction["outcome"]:
        raise Wrong("change", "its transaction failed")
    table = change["table"].encode()
    row_hash = sha256(b"chainify/row/1", lp(table), change["row"])
    leaf = sha256(b"\0", lp(table), lp(change["key"]), struct.pack(">II", change["serial"], transaction["index"]), change["op"].encode(), row_hash)
    if root_of(leaf, change["leaf"], block["effects_count"], change["path"]) != block["effects_root"]:
        raise Wrong("change", "it does not lead to effects_root")


def check(value, authority):
    """Raises Wrong unless a receipt or digest holds; returns it with its bytes decoded. `authority` is one, or those of all blocks."""
    receipt = RECEIPT(value, "")
    if isinstance(authority, Authorities):
        authority = authority.of(receipt["block"]["number"])
    if receipt["chain_id"] != authority.chain_id:
        raise Wrong("chain_id", "not that of the genesis")
    if header_hash(receipt) != receipt["hash"]:
        raise Wrong("hash", "the block's fields give another")
    if receipt["block"]["order_height"] < authority.from_height:
        raise Wrong("block.order_height", f"who may sign for this block may do so from {authority.from_height} on")
    check_certificate(receipt, authority)
    if "transaction" in receipt:
        check_transaction(receipt)
    if "change" in receipt:
        check_change(receipt)
    return receipt


def any_vote(extension):
    """Number, effect round and order block of an effect vote, on effects or stuck; None for anything else."""
    if (said := effect_vote(extension)) is not None:
        return said[:3]
    if len(extension) != 78 or extension[0] != 1 or extension[45] != 2 or any(extension[50:]):
        return None
    number, effect_round = struct.unpack(">QI", extension[1:13])
    return (number, effect_round, extension[13:45]) if number else None


def check_evidence(value, authorities):
    """Raises Wrong unless evidence holds: an organisation signed two different votes for one execution. Returns it with its bytes decoded."""
    evidence = EVIDENCE(value, "")
    authority = authorities.of(evidence["block"])
    if evidence["chain_id"] != authority.chain_id:
        raise Wrong("chain_id", "not that of the genesis")
    orders = []
    for field in ("first", "second"):
        vote = evidence[field]
        organisation, key = authority.keys.get(vote["validator"], (None, None))
        if organisation != evidence["organisation"]:
            raise Wrong(f"{field}.validator", f"it is none of {evidence['organisation']} for this block")
        if vote["height"] < authority.from_height:
            raise Wrong(f"{field}.height", f"who may sign for this block may do so from {authority.from_height} on")
        if not signature_holds(key, sign_bytes(evidence["chain_id"].encode(), vote), vote["signature"]):
            raise Wrong(f"{field}.signature", "it does not fit")
        said = any_vote(vote["extension"])
        if said is None or said[:2] != (evidence["block"], evidence["effect_round"]):
            raise Wrong(f"{field}.extension", "it is no effect vote of this block and round")
        orders.append(said[2])
    if orders[0] != orders[1]:
        raise Wrong("second.extension", "it names another order block than the first vote")
    if evidence["first"]["extension"] == evidence["second"]["extension"]:
        raise Wrong("second.extension", "it says the same as the first vote")
    return evidence


def check_chain(receipts):
    """Raises Wrong where blocks that hold one by one contradict each other."""
    before = None
    for receipt in sorted(receipts, key=lambda r: r["block"]["number"]):
        number = receipt["block"]["number"]
        if before and number == before["block"]["number"] and receipt["hash"] != before["hash"]:
            raise Wrong(f"block {number}", "there are two")
        if before and number == before["block"]["number"] + 1 and receipt["block"]["previous"] != before["hash"]:
            raise Wrong(f"block {number}", "it does not follow the block before it")
        before = receipt


def read(path):
    with open(path, "rb") as file:
        text = file.read(BYTES_MAX + 1)
    if len(text) > BYTES_MAX:
        raise Wrong("receipt", f"more than {BYTES_MAX} bytes")
    return json.loads(text.decode("utf-8"))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--genesis", required=True)
    options.add_argument("--governance")
    options.add_argument("--show", action="store_true", help="print what the transactions of receipts ask for")
    options.add_argument("--disclosed", metavar="VALUE")
    options.add_argument("files", nargs="+", metavar="FILE")
    options = options.parse_args()
    with open(options.genesis, encoding="utf-8") as file:
        founders = Consortium.of_genesis(json.load(file))
    try:
        authority = Authorities(founders, read(options.governance) if options.governance else None)
    except (Wrong, ValueError) as wrong:
        print(f"{options.governance}: {wrong}", file=sys.stderr)
        return 2
    failed, of_rows = 0, []
    for path in options.files:
        try:
            if os.path.isdir(path):
                last, changes = archive.check(path, authority)
                print(f"{path}: holds, blocks 1 to {last} with {changes} changes")
                continue
            content = read(path)
            receipts, evidence = [], []
            for value in content if isinstance(content, list) else [content]:
                if isinstance(value, dict) and "chainify_evidence" in value:
                    evidence.append(check_evidence(value, authority))
                else:
                    receipts.append(check(value, authority))
            check_chain(receipts)
            of_rows += receipts
            if receipts or not evidence:
                print(f"{path}: holds, {len(receipts)} blocks" if isinstance(content, list) else f"{path}: holds, block {receipts[0]['block']['number']}")
            for line in (line for receipt in receipts if options.show and "transaction" in receipt for line in shown(receipt)):
                print(f"  {line}")
            for piece in evidence:
                print(f"{path}: holds, {piece['organisation']} voted twice, differently, for block {piece['block']} in effect round {piece['effect_round']}")
        except (Wrong, ValueError, RecursionError) as wrong:
            failed += 1
            print(f"{path}: DOES NOT HOLD: {wrong}")
    if options.disclosed:
        try:
            check_disclosed(read(options.disclosed), of_rows)
            print(f"{options.disclosed}: holds, the value of a row above")
        except (Wrong, ValueError, RecursionError) as wrong:
            failed += 1
            print(f"{options.disclosed}: DOES NOT HOLD: {wrong}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.modules["audit"] = sys.modules["__main__"]  # archive.py imports it by that name
    import archive
    sys.exit(main())
