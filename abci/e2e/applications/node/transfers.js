// Transfers and notes by node-postgres; the argument is an organisation's number.
const { Pool } = require("pg");

const TRANSFERS = 20, TRIES = 1000;
const me = Number(process.argv[2]);
const pool = new Pool({ max: 3 }); // libpq's variables name host, port, role and database
let retried = 0;

// Does the work in a transaction until it does not lose, at most TRIES times.
async function again(work) {
  for (let attempt = 0; ; attempt++) {
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      const result = await work(client);
      await client.query("COMMIT");
      return result;
    } catch (error) {
      await client.query("ROLLBACK");
      if (error.code !== "40001" || attempt === TRIES) throw error;
      retried++;
    } finally {
      client.release();
    }
  }
}

async function transfer(client, from, to) {
  for (const [account, amount] of [[from, -1], [to, 1]]) {
    await client.query({ name: "move", text: "UPDATE accounts SET balance = balance + $2, version = version + 1 WHERE id = $1", values: [account, amount] });
    const { rows } = await client.query("INSERT INTO entries (account, amount) VALUES ($1, $2) RETURNING id", [account, amount]);
    if (rows.length !== 1) throw new Error("no id");
  }
}

// Writes 105 notes and one that does not stay.
async function notes(client) {
  await client.query("INSERT INTO notes (writer, text) SELECT $1, 'note ' || i FROM generate_series(1, 100) i", [me]);
  for (let i = 0; i < 5; i++) {
    await client.query("INSERT INTO notes (writer, text, facts, tags, at) VALUES ($1, $2, $3, $4, $5)", [me, "one", { i, half: 0.5 }, ["a,b", null], new Date()]);
  }
  await client.query("SAVEPOINT before");
  try {
    await client.query("INSERT INTO notes (id, writer, text) SELECT min(id), $1, 'double' FROM notes", [me]);
    throw new Error("two notes have one id");
  } catch (error) {
    if (error.code !== "23505") throw error;
  }
  await client.query("ROLLBACK TO before");
  const { rowCount } = await client.query("UPDATE notes SET text = 'changed' WHERE writer = $1 AND facts IS NOT NULL", [me]);
  if (rowCount !== 5) throw new Error(`${rowCount} notes changed`);
}

async function main() {
  const started = [];
  for (let i = 0; i < TRANSFERS; i++) {
    started.push(again((client) => transfer(client, 1 + (i % 10), 1 + ((i + me + 1) % 10))));
  }
  await Promise.all(started);
  await again(notes);
  await pool.end();
  console.log(`${retried} transactions ran again`);
}

main().catch((error) => { console.error(error); process.exit(1); });
