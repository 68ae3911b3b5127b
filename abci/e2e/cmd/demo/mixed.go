package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

// mixedMariaDB are the organisations that keep a MariaDB with -engines mixed.
var mixedMariaDB = []string{"cargo", "delta"}

const mixedTamper = `CREATE TEMPORARY TABLE bank_ledger.captured (name TEXT, op TEXT, before_row LONGBLOB, after_row LONGBLOB);
	UPDATE checking SET balance = balance + 1000000 WHERE custid = 42`

// mixedSteps are those of two PostgreSQL and two MariaDB.
func (d *demo) mixedSteps() []func(context.Context) error {
	return []func(context.Context) error{d.mixedDatabases, d.mixedEnable, d.mixedAttach, d.mixedLoad, d.mixedTampering, d.mixedVerify}
}

func (d *demo) mixedDatabases(ctx context.Context) error {
	done := d.out.step("two PostgreSQL (acme, bolt) and two MariaDB (cargo, delta), each with the same bank of %d customers", d.customers)
	if err := d.net.StartDatabases(ctx); err != nil {
		return err
	}
	err := d.net.Each(func(o *harness.Organisation) error { return d.bank.Create(ctx, o) })
	done()
	return err
}

func (d *demo) mixedEnable(ctx context.Context) error {
	done := d.out.step("CREATE EXTENSION chainify, chainify install-mariadb; roles bank and dba, four nodes")
	if err := d.net.EnableChainify(ctx); err != nil {
		return err
	}
	err := d.net.Each(func(o *harness.Organisation) error { return d.bank.CreateRoles(ctx, o) })
	if err == nil {
		err = d.net.InitNodes(ctx)
	}
	if err == nil {
		err = d.net.StartNodes(ctx, readyLimit)
	}
	done()
	return err
}

func (d *demo) mixedAttach(ctx context.Context) error {
	by := d.net.Organisations[victim]
	done := d.out.step("dba at %s: CALL chainify_deploy('%s')", by.Name, smallbank.AttachEngines)
	dba, err := by.Client(ctx, "dba")
	if err != nil {
		return err
	}
	defer dba.Close()
	if err := dba.Deploy(ctx, smallbank.AttachEngines); err != nil {
		return err
	}
	tip, err := harness.WaitSame(ctx, d.net.Organisations, 1, agreeLimit)
	if err != nil {
		return err
	}
	d.claims.add(true, "filled tables are on the ledger in place, same state in databases of two engines: block %d, %.16s…", tip.Number, tip.Hash)
	done()
	return nil
}

// mixedStatement is a transaction of the bank that every engine executes alike. One in three opens
// an account, whose number may be taken.
func (d *demo) mixedStatement(random *rand.Rand) string {
	customer, amount := 1+random.IntN(d.customers), fmt.Sprintf("%d.%02d", 1+random.IntN(500), random.IntN(100))
	switch random.IntN(3) {
	case 0:
		return fmt.Sprintf("INSERT INTO accounts (custid, name) VALUES (%d, 'opened')", 1+random.IntN(4*d.customers))
	case 1:
		return fmt.Sprintf("UPDATE savings SET balance = balance + %s WHERE custid = %d", amount, customer)
	default:
		return fmt.Sprintf("UPDATE checking SET balance = balance - %s WHERE custid = %d", amount, customer)
	}
}

// mixedLoad submits SQL at all organisations at once, each in its engine's own way.
func (d *demo) mixedLoad(ctx context.Context) error {
	each := max(1, d.transactions/(d.clients*len(organisations)))
	d.out.announce("%d transactions in SQL at all four at once: SELECT chainify.execute(…) and CALL chainify_execute(…), %d clients at each", each*d.clients*len(organisations), d.clients)
	var mutex sync.Mutex
	var latencies smallbank.Latencies
	var succeeded, taken, others int
	began := time.Now()
	err := d.net.Each(func(o *harness.Organisation) error {
		errs := make(chan error, d.clients)
		for i := range d.clients {
			go func() {
				errs <- d.mixedClient(ctx, o, each, uint64(i), func(r harness.Outcome, took time.Duration) {
					mutex.Lock()
					defer mutex.Unlock()
					latencies = append(latencies, took)
					switch {
					case r.Succeeded:
						succeeded++
					case r.SQLState == "23505":
						taken++
					default:
						others++
					}
				})
			}()
		}
		var err error
		for range d.clients {
			err = errors.Join(err, <-errs)
		}
		return err
	})
	took := time.Since(began)
	if err != nil {
		return err
	}
	slices.Sort(latencies)
	d.report.executed, d.report.succeeded, d.report.refused = rate{len(latencies), took, latencies}, succeeded, taken
	tip, err := harness.WaitSame(ctx, d.net.Organisations, 1, agreeLimit)
	if err != nil {
		return err
	}
	d.claims.add(true, "same LedgerBlockHash in all four databases after the load: block %d, %.16s…", tip.Number, tip.Hash)
	same, recorded, err := d.sameOutcomes(ctx)
	d.claims.add(same && recorded == len(latencies)+1, "each of %d answered transactions is on the ledger once, with the same outcome in both engines: %d succeeded", len(latencies), succeeded)
	d.claims.add(taken > 0 && others == 0, "%d opened an account that was there (SQLSTATE 23505 in both engines): undone alone, their blocks went on", taken)
	return err
}

// mixedClient submits so many transactions, one after the other.
func (d *demo) mixedClient(ctx context.Context, o *harness.Organisation, count int, number uint64, answered func(harness.Outcome, time.Duration)) error {
	c, err := o.Client(ctx, "bank")
	if err != nil {
		return err
	}
	defer c.Close()
	random := rand.New(rand.NewPCG(uint64(d.seed), number<<8+uint64(o.Name[0])))
	for range count {
		began := time.Now()
		r, err := c.Execute(ctx, d.mixedStatement(random))
		if err != nil {
			return fmt.Errorf("submit at %s: %w", o.Name, err)
		}
		answered(r, time.Since(began))
	}
	return nil
}

// sameOutcomes compares what became of every transaction in all databases, and counts them.
func (d *demo) sameOutcomes(ctx context.Context) (same bool, count int, err error) {
	var first [32]byte
	same = true
	for i, o := range d.net.Organisations {
		var all string
		var n int
		if o.MariaDB != nil {
			err = o.MariaDB.Exec(ctx, "root", "", "SET GLOBAL group_concat_max_len = 1073741824")
			err = errors.Join(err, o.MariaDB.Scan(ctx, database+"_ledger",
				`SELECT count(*), group_concat(lower(hex(id)), outcome ORDER BY block, place SEPARATOR ',') FROM "transaction"`, &n, &all))
		} else {
			err = o.Scan(ctx, "SELECT count(*), string_agg(encode(id, 'hex') || outcome::int, ',' ORDER BY block, index) FROM chainify.transactions", &n, &all)
		}
		if err != nil {
			return false, 0, err
		}
		digest := sha256.Sum256([]byte(all))
		if i == 0 {
			first, count = digest, n
		}
		same = same && digest == first && n == count
	}
	return same, count, nil
}

// mixedTampering changes a row of a MariaDB as its root, lets a PostgreSQL's client touch it, and
// waits for the repair.
func (d *demo) mixedTampering(ctx context.Context) error {
	cheat, honest := d.net.Organisations[victim], d.net.Organisations[0]
	var refused *mysql.MySQLError
	_ = errors.As(cheat.MariaDB.Exec(ctx, harness.Login("bank"), database, touchText), &refused)
	d.claims.add(refused != nil && refused.Number == 1146, "UPDATE without the ledger is refused at %s: %v", cheat.Name, refused)
	d.out.announce("root at %s: the trigger is given a list of its own, customer %d gets 1,000,000", cheat.Name, customer)
	tampered := time.Now()
	if err := cheat.MariaDB.Exec(ctx, "root", database, mixedTamper); err != nil {
		return fmt.Errorf("tamper: %w", err)
	}
	d.out.announce("bank at %s: an ordinary deposit of 10 touches that account", honest.Name)
	block, err := d.touch(ctx, honest)
	if err != nil {
		return err
	}
	v, err := mixedCured(ctx, cheat, block)
	if err != nil {
		return err
	}
	d.report.tampering(v, tampered)
	d.claims.add(v.block == block && v.rows <= 1, "the changed row of %s was found in the block that touched it (%d)", cheat.Name, block)
	tip, err := harness.WaitSame(ctx, d.net.Organisations, block, agreeLimit)
	if err != nil {
		return err
	}
	d.claims.add(true, "%s repaired itself (%s) in %s and has the others' LedgerBlockHash again: block %d, %.16s…", cheat.Name, v.by, millis(v.took), tip.Number, tip.Hash)
	return nil
}

// mixedCured polls what a MariaDB itself tells of what it found.
func mixedCured(ctx context.Context, o *harness.Organisation, block uint64) (v deviation, err error) {
	db, err := o.MariaDB.Open(database+"_ledger", "root")
	if err != nil {
		return v, err
	}
	defer func() { _ = db.Close() }()
	err = harness.Poll(ctx, cureLimit, "repair of the tampered row at "+o.Name, func(ctx context.Context) (bool, string, error) {
		var ms int64
		err := db.QueryRowContext(ctx, fmt.Sprintf(`SELECT d.block, d.cured_by, d.took_ms, d.rows_total
			FROM deviation d WHERE d.cured_by IS NOT NULL AND d.took_ms IS NOT NULL AND d.block >= %d ORDER BY d.block LIMIT 1`, block)).Scan(
			&v.block, &v.by, &ms, &v.rows)
		v.took, v.seen = time.Duration(ms)*time.Millisecond, time.Now()
		return err == nil, fmt.Sprint("no row is cured: ", err), nil
	})
	return v, err
}

// mixedVerify has every organisation check its ledger, and compares the money.
func (d *demo) mixedVerify(ctx context.Context) error {
	done := d.out.step("every organisation verifies its ledger")
	const money = "SELECT CAST((SELECT sum(balance) FROM savings) + (SELECT sum(balance) FROM checking) AS char(30))"
	holds, sums := 0, map[string]bool{}
	for _, o := range d.net.Organisations {
		var sum string
		if o.MariaDB == nil {
			found, err := d.findings(ctx, o)
			if err = errors.Join(err, o.Scan(ctx, money, &sum)); err != nil {
				return err
			}
			holds += map[bool]int{true: 1}[found == 0]
		} else {
			out, err := o.Tool(ctx, "verify", "--dsn", o.MariaDB.DSN(database, harness.NodeRole), "--genesis", filepath.Join(o.Home(), "config", "genesis.json"))
			if err = errors.Join(err, o.MariaDB.Scan(ctx, database, money, &sum)); err != nil {
				return err
			}
			holds += map[bool]int{true: 1}[strings.Contains(out, "the ledger holds")]
		}
		sums[strings.TrimSpace(sum)] = true
	}
	done()
	d.claims.add(holds == len(organisations), "verify_ledger() and chainify verify: the ledger holds in %d of four databases", holds)
	d.claims.add(len(sums) == 1, "savings + checking hold the same money in all databases: %v", slices.Collect(maps.Keys(sums)))
	return nil
}

// mixedLookAround says how to go on by hand.
func (d *demo) mixedLookAround() {
	d.out.line("")
	d.out.line("Look around in another terminal:")
	for _, o := range d.net.Organisations {
		if o.MariaDB != nil {
			d.out.line("  mariadb --no-defaults --socket=%s -u %s %s", o.MariaDB.Socket, harness.Login("bank"), database)
			continue
		}
		d.out.line("  %s", o.Cluster.Psql(database, "bank"))
	}
	d.out.line("")
	d.out.line("  SELECT * FROM chainify.execute('UPDATE checking SET balance = balance + 10 WHERE custid = 1');   -- PostgreSQL")
	d.out.line("  CALL chainify_execute('UPDATE checking SET balance = balance + 10 WHERE custid = 1', NULL);        -- MariaDB")
	d.out.line("")
	d.out.line("Logs: %s.  Ctrl-C ends the network.", filepath.Join(d.dir, "<organisation>"))
}
