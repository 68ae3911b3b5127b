// Command demo shows Chainify on one machine: four organisations with the same bank in four
// databases of their own, all PostgreSQL or two of them MariaDB. It puts them on a shared ledger in
// place, loads them from all sides, tampers with one, and shows how that is found and repaired. It
// prints what it measured and which claims held; the exit code says whether all did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

const (
	database   = "bank"
	readyLimit = 60 * time.Second
	agreeLimit = 60 * time.Second
)

var organisations = []string{"acme", "bolt", "cargo", "delta"}

type options struct {
	pg, chainify, dir, scripts string
	analytics                  string
	mixed                      bool
	customers, transactions    int
	clients                    int
	seed                       int64
	once                       bool
}

func main() {
	var o options
	flag.StringVar(&o.pg, "pg", "", "prefix of a PostgreSQL tree with the extension")
	flag.StringVar(&o.chainify, "chainify", "", "the node's binary")
	flag.StringVar(&o.dir, "dir", "", "directory of the network; emptied when an earlier demo made it")
	flag.StringVar(&o.scripts, "scripts", "", "directory of the Smallbank scripts")
	flag.StringVar(&o.analytics, "analytics", "", "the analytics worker, which then answers queries at a block beside the load; empty: none")
	flag.BoolVar(&o.mixed, "mixed", false, "cargo and delta keep a MariaDB")
	flag.IntVar(&o.customers, "customers", 10000, "customers of the bank")
	flag.IntVar(&o.transactions, "transactions", 4000, "transactions in all: half by plain SQL, half by chainify.execute")
	flag.IntVar(&o.clients, "clients", 8, "clients of each organisation")
	flag.Int64Var(&o.seed, "seed", 2021, "seed of the load")
	flag.BoolVar(&o.once, "once", os.Getenv("ONCE") == "1", "end after the report (also: ONCE=1)")
	flag.Parse()
	if o.mixed && o.analytics != "" {
		fmt.Fprintln(os.Stderr, "demo: the analytics worker mirrors no MariaDB")
		os.Exit(2)
	}
	if o.pg == "" || o.chainify == "" || o.dir == "" || o.scripts == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: demo -pg TREE -chainify BINARY -dir DIR -scripts DIR (make demo knows them)")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// demo is the state that the steps share.
type demo struct {
	options
	net    *harness.Network
	bank   smallbank.Bank
	out    screen
	claims claims
	report report

	mirrors mirrors
}

var errClaims = errors.New("not all claims held")

func run(ctx context.Context, o options) (err error) {
	d := &demo{options: o, out: newScreen(os.Stdout), bank: smallbank.Bank{Scripts: o.scripts, Customers: o.customers, Engines: o.mixed}}
	d.out.title("Four organisations, one ledger: %v", organisations)
	cfg := harness.Config{Dir: o.dir, PG: o.pg, Chainify: o.chainify, Database: database, Organisations: organisations}
	steps := []func(context.Context) error{d.databases, d.enable, d.attach, d.mirror, d.loadPlain, d.conflict, d.load, d.tamper, d.verify}
	lookAround, printReport := d.lookAround, d.report.print
	if o.mixed {
		cfg.MariaDB, steps, lookAround, printReport = mixedMariaDB, d.mixedSteps(), d.mixedLookAround, d.report.printMixed
	}
	d.net, err = harness.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		err = d.finish(err)
	}()
	for _, step := range steps {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				return errors.New("ended before all was shown")
			}
			d.claims.add(false, "%v", err)
			d.claims.print(d.out)
			return errClaims
		}
	}
	printReport(d.out)
	held := d.claims.print(d.out)
	if !o.once {
		lookAround()
		<-ctx.Done()
	}
	if !held {
		return errClaims
	}
	return nil
}

// finish ends every process; data and logs stay when something went wrong or when a person asked
// for the network.
func (d *demo) finish(err error) error {
	d.out.line("")
	d.out.line("ending nodes and databases …")
	d.mirrors.stop()
	err = errors.Join(err, d.net.Close())
	if err == nil && d.once {
		return d.net.Remove()
	}
	d.out.line("data and logs are kept in %s", d.dir)
	if err != nil {
		for _, log := range d.net.Logs() {
			d.out.line("  %s", log)
		}
	}
	return err
}

func (d *demo) databases(ctx context.Context) error {
	done := d.out.step("four PostgreSQL clusters, each with the same bank of %d customers, stored in a different order", d.customers)
	if err := d.net.StartDatabases(ctx); err != nil {
		return err
	}
	if err := d.net.Each(func(o *harness.Organisation) error { return d.bank.Create(ctx, o) }); err != nil {
		return err
	}
	done()
	return nil
}

func (d *demo) enable(ctx context.Context) error {
	done := d.out.step("CREATE EXTENSION chainify in each, roles bank and dba, four nodes")
	if err := d.net.EnableChainify(ctx); err != nil {
		return err
	}
	if err := d.net.Each(func(o *harness.Organisation) error { return d.bank.CreateRoles(ctx, o) }); err != nil {
		return err
	}
	if err := d.net.InitNodes(ctx); err != nil {
		return err
	}
	port, err := harness.FreePorts(len(d.net.Organisations))
	if err != nil {
		return err
	}
	for i, o := range d.net.Organisations {
		o.Explorer = fmt.Sprintf("127.0.0.1:%d", port+i)
	}
	if err := d.net.StartNodes(ctx, readyLimit); err != nil {
		return err
	}
	done()
	return nil
}

func (d *demo) attach(ctx context.Context) error {
	done := d.out.step("dba at %s: SELECT chainify.attach('accounts', 'savings', 'checking')", d.net.Organisations[0].Name)
	if err := smallbank.Attach(ctx, d.net.Organisations[0]); err != nil {
		return err
	}
	tip, err := harness.WaitSame(ctx, d.net.Organisations, 1, agreeLimit)
	if err != nil {
		return err
	}
	d.claims.add(true, "filled tables are on the ledger in place, same state in four databases: block %d, %.16s…", tip.Number, tip.Hash)
	done()
	return nil
}

func (d *demo) lookAround() {
	d.out.line("")
	d.out.line("Look around in a browser:")
	for _, o := range d.net.Organisations {
		d.out.line("  http://%s   the ledger as %s has it", o.Explorer, o.Name)
	}
	d.out.line("")
	d.out.line("and in another terminal (any organisation, as its dba):")
	for _, o := range d.net.Organisations {
		d.out.line("  %s", o.Cluster.Psql(database, "dba"))
	}
	d.out.line("")
	d.out.line("  SELECT * FROM chainify.execute('UPDATE checking SET balance = balance + 10 WHERE custid = 1');")
	d.out.line("  SELECT * FROM chainify.ledger ORDER BY number DESC LIMIT 5;")
	d.out.line("  SELECT * FROM chainify.deviations;     SELECT * FROM chainify.verify_ledger();")
	d.out.line("  UPDATE checking SET balance = 0;       -- refused: it does not go through the ledger")
	d.out.line("  SET chainify.writes = 'effects'; BEGIN; UPDATE checking SET balance = balance + 10 WHERE custid = 1; COMMIT;")
	d.out.line("")
	d.out.line("Logs: %s and node.log beside it.  Ctrl-C ends the network.", filepath.Join(d.dir, "<organisation>", "postgres.log"))
}
