"""Random blocks: transactions of several roles that meet on hot rows or keep apart, fail on purpose, and come again."""

import statements
from transaction import DEPLOY, Transaction
from values import KEYS, bare


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


def transaction(r, schema, nonce):
    role = r.choices(["alice", "bob", "stranger", "nobody", "postgres"], [80, 15, 1, 1, 1])[0]
    if r.random() < 0.15:
        sql, parameters = with_parameters(r, schema)
        return Transaction(sql, role, parameters=parameters, nonce=nonce)
    if r.random() < 0.2:
        return Transaction(statements.parts(r, schema), role, nonce=nonce)
    sql = "; ".join(statements.statement(r, schema) for _ in range(r.choice([1, 1, 1, 2, 4])))
    return Transaction(sql, role, nonce=nonce)


def block(r, schema, nonce):
    """One to nine transactions, seldom thirty; now and then one of them twice."""
    count = r.choice([1, 1, 2, 3, 4, 6, 9]) if r.random() < 0.97 else 30
    transactions = [transaction(r, schema, nonce + i) for i in range(count)]
    if r.random() < 0.05:
        transactions.append(r.choice(transactions))
    return transactions


def deploy(verb, schema, nonce):
    """ATTACH or DETACH of all tables."""
    return Transaction(f"{verb} TABLE {', '.join(t.name for t in schema.tables)}", "admin", DEPLOY, nonce=nonce)
