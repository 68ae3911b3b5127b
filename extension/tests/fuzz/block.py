"""Random blocks: transactions of several roles that meet on hot rows or keep apart, fail on purpose, and come again."""

import declared
import effects
import sessions
import statements
from transaction import DEPLOY, Transaction
from values import KEYS, SPREAD, bare


def with_parameters(r, schema):
    """A statement whose key and number are parameters."""
    table = r.choice(schema.tables)
    parameters, conditions = [("integer", str(r.randrange(50)))], []
    for i, (name, kind) in enumerate(table.keys):
        text = r.choice(KEYS[kind])
        if "(" in text or "\\" in text:
            conditions.append(f"{name} = {text}::{bare(kind)}")
            continue
        parameters.append((bare(kind), text.strip("'")))
        conditions.append(f"{name} = ${len(parameters)}")
    condition = " AND ".join(conditions)
    sql = r.choice([f"UPDATE {table.name} SET n = $1 WHERE {condition}", f"DELETE FROM {table.name} WHERE {condition} AND n < $1",
                    f"SELECT * FROM {table.name} WHERE {condition} AND n = $1"])
    if r.random() < 0.05:
        parameters[0] = ("integer", r.choice(["x", "99999999999", None]))
    return sql, parameters


def statement(r, schema):
    return sessions.statement(r, schema) if schema.kinds and r.random() < 0.25 else statements.statement(r, schema)


def transaction(r, schema, nonce):
    if r.random() < 0.015:
        return Transaction(statements.definition(r, schema, nonce), "admin", DEPLOY, nonce=nonce)
    role = r.choices(["alice", "bob", "stranger", "nobody", "postgres"], [80, 15, 1, 1, 1])[0]
    if r.random() < 0.15:
        sql, parameters = with_parameters(r, schema)
        return Transaction(sql, role, parameters=parameters, nonce=nonce)
    if r.random() < 0.2:
        return Transaction(statements.parts(r, schema), role, nonce=nonce)
    sql = "; ".join(statement(r, schema) for _ in range(r.choice([1, 1, 1, 2, 4])))
    return Transaction(sql, role, nonce=nonce)


def narrow(r, schema, nonce):
    """One that keeps to a row of its own, so that many of a block can run side by side."""
    tables = [t for t in schema.tables if all(kind in SPREAD for _, kind in t.keys)]
    if not tables:
        return Transaction(statements.insert(r, r.choice(schema.tables)), "alice", nonce=nonce)
    table = r.choice(tables)
    values = [SPREAD[kind](r) for _, kind in table.keys]
    at = " AND ".join(f"{name} = {value}" for name, value in zip(table.key_names(), values))
    sql = r.choice([
        f"INSERT INTO {table.name} ({', '.join(table.key_names())}, n) VALUES ({', '.join(values)}, {r.randrange(30, 990)})",
        f"UPDATE {table.name} SET g = {r.randrange(6)} WHERE {at}", f"DELETE FROM {table.name} WHERE {at}",
        f"SELECT g FROM {table.name} WHERE {at}", f"INSERT INTO {table.name} ({', '.join(table.key_names())}, n) VALUES"
        f" ({', '.join(values)}, {r.randrange(30, 990)}) ON CONFLICT DO NOTHING",
    ])
    return Transaction(sql, "alice", nonce=nonce)


def block(r, schema, nonce):
    """One to nine transactions; now and then enough to run in parts, or one of them twice, or EFFECTS transactions."""
    if schema.declared and r.random() < 0.1:
        return declared.block(r, schema, nonce)
    if r.random() < 0.12:
        wide = r.choice([0, 0, 0, 0.03, 0.3])
        sets = r.choice([0, 0, 0.05, 0.5, 0.9, 1])
        kind = lambda: effects.narrow if r.random() < sets else transaction if r.random() < wide else narrow
        many = [kind()(r, schema, nonce + i) for i in range(r.choice([33, 64, 90]))]
        if r.random() < 0.2:
            many[r.randrange(len(many))] = effects.transaction(r, schema, nonce + 95)
        return many
    if r.random() < 0.25:
        return effects.mixed(r, schema, nonce, transaction)
    count = r.choice([1, 1, 2, 3, 4, 6, 9])
    transactions = [transaction(r, schema, nonce + i) for i in range(count)]
    if r.random() < 0.05:
        transactions.append(r.choice(transactions))
    return transactions


def deploy(verb, schema, nonce):
    """ATTACH or DETACH of all tables."""
    return Transaction(f"{verb} TABLE {', '.join(t.name for t in schema.tables)}", "admin", DEPLOY, nonce=nonce)
