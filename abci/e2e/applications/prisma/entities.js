// Transfers and notes by Prisma's client; the argument is an organisation's number.
const { PrismaClient } = require("@prisma/client");
const { PrismaPg } = require("@prisma/adapter-pg");

const TRANSFERS = 20, TRIES = 1000;
const me = Number(process.argv[2]);
const { PGHOST: host, PGPORT: port, PGUSER: user, PGDATABASE: database } = process.env;
const prisma = new PrismaClient({ adapter: new PrismaPg({ host, port: Number(port), user, database, max: 3 }) });
let retried = 0;

// A failed COMMIT is the adapter's own error. A failed statement has the adapter's error in meta: its code is P2034, and
// P2010 when the program wrote its SQL.
function lost(error) {
  return (error.meta?.driverAdapterError ?? error).cause?.originalCode === "40001";
}

// Does the work in a transaction until it does not lose, at most TRIES times.
async function again(work) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await prisma.$transaction(work, { maxWait: 60000, timeout: 60000 });
    } catch (error) {
      if (!lost(error) || attempt === TRIES) throw error;
      retried++;
    }
  }
}

async function transfer(tx, from, to) {
  for (const [account, amount] of [[from, -1], [to, 1]]) {
    await tx.accounts.update({
      where: { id: account },
      data: { balance: { increment: amount }, version: { increment: 1 }, entries: { create: { amount } } },
    });
  }
}

// Writes 105 notes: in bulk, and one by one.
async function notes(tx) {
  const note = (i) => ({
    writer: me, text: `note ${i}`, facts: { i, half: 0.5 }, tags: ["a,b", "c"], at: new Date(), code: crypto.randomUUID(),
  });
  const { count } = await tx.notes.createMany({ data: Array.from({ length: 100 }, (_, i) => note(i)) });
  if (count !== 100) throw new Error(`${count} notes made`);
  for (let i = 100; i < 105; i++) await tx.notes.create({ data: note(i) });
  const changed = await tx.notes.updateMany({
    where: { writer: me, text: { startsWith: "note 10" } }, data: { text: "changed" },
  });
  if (changed.count !== 6) throw new Error(`${changed.count} notes changed`);
}

async function main() {
  const started = [];
  for (let i = 0; i < TRANSFERS; i++) {
    started.push(again((tx) => transfer(tx, 1 + (i % 10), 1 + ((i + me + 1) % 10))));
  }
  await Promise.all(started);
  await again(notes);
  await prisma.$disconnect();
  console.log(`${retried} transactions ran again`);
}

main().catch((error) => { console.error(error); process.exit(1); });
