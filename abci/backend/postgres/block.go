package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

var errNotConnected = errors.New("no connection for blocks")

// connect opens the block connection to the first server that can go on, takes the database's lock
// and names the chain. Called with mu held.
func (b *Backend) connect(ctx context.Context) error {
	if b.conn != nil && !b.conn.IsClosed() {
		return nil
	}
	b.drop()
	followed, err := b.cfg.Memory.Followed()
	if err != nil {
		return fmt.Errorf("read which server is followed: %w", err)
	}
	hosts := inOrder(b.hosts, followed)
	if len(hosts) > 1 && followed.Known.Epoch == 0 && !followed.Accept {
		hosts = byEpoch(hosts, survey(ctx, hosts, func(context.Context, *pgx.Conn, answering) error { return nil }))
	}
	var all []error
	for _, h := range hosts {
		if err = b.connectTo(ctx, h, followed); err == nil {
			return nil
		}
		b.drop()
		all = append(all, fmt.Errorf("%s: %w", h.name, err))
	}
	if len(all) == 1 {
		return err
	}
	return fmt.Errorf("no server can go on: %w", errors.Join(all...))
}

// connectTo is connect for one server. After an error the caller drops the connection.
func (b *Backend) connectTo(ctx context.Context, h host, followed Followed) error {
	limited, cancel := context.WithTimeout(ctx, 2*h.config.ConnectTimeout) // also names that lead nowhere
	conn, err := pgx.ConnectConfig(limited, h.config)
	cancel()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	b.conn = conn
	former := b.former
	if former.host != h.name {
		former.pid = 0
	}
	if err := b.takeLock(ctx, former.pid); err != nil {
		return err
	}
	if err := checkVersion(ctx, conn); err != nil {
		return err
	}
	server, err := b.follow(ctx, conn, h.name, followed)
	if err != nil {
		return err
	}
	if was := b.at.Swap(&pin{h, server}); was == nil || !was.server.same(server) {
		b.pool.Reset()
		b.rehearsals.pool.Reset()
	}
	if _, err = conn.Exec(ctx, `SELECT chainify_node.init($1, $2)`, b.cfg.ChainID, b.cfg.Organisation); err != nil {
		return fmt.Errorf("name the chain: %w", err)
	}
	b.told.Store(nil) // the database may be another one, or restored
	if err := b.tellRegistry(ctx, conn); err != nil {
		return err
	}
	if err := b.tellEnvironment(ctx, conn); err != nil {
		return err
	}
	b.former = process{h.name, conn.PgConn().PID()}
	return nil
}

// tellEnvironment tells what the database leans on beside the ledger.
func (b *Backend) tellEnvironment(ctx context.Context, conn *pgx.Conn) error {
	if b.cfg.Environment == nil {
		return nil
	}
	rows, _ := conn.Query(ctx, `SELECT name, value FROM chainify.environment()`) // its error comes with the rows
	environment, name, value := backend.Environment{}, "", ""
	_, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		environment[name] = value
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the database's environment: %w", err)
	}
	b.cfg.Environment(environment)
	return nil
}

// checkVersion says what to do in a database of which the objects are not those of the server's
// files: between the installation of a release and its update nothing else works.
func checkVersion(ctx context.Context, conn *pgx.Conn) error {
	var objects, files string
	err := conn.QueryRow(ctx, `SELECT e.extversion, a.default_version FROM pg_extension e
		JOIN pg_available_extensions a ON a.name = e.extname WHERE e.extname = 'chainify' AND e.extversion <> a.default_version`).Scan(&objects, &files)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for the extension's version: %w", err)
	}
	return fmt.Errorf("extension chainify is of version %s in the database, and its files are of %s; as superuser, in the database: ALTER EXTENSION chainify UPDATE",
		objects, files)
}

// reconnect is connect for a connection that may have been lost while it rested: without it the
// database would have neither the node's lock nor maintenance until the next block.
func (b *Backend) reconnect(ctx context.Context) error {
	if b.conn != nil && !b.conn.IsClosed() && b.conn.Ping(ctx) != nil {
		b.drop()
	}
	return b.connect(ctx)
}

// takeLock keeps two nodes from executing blocks in one database. The server may still work for a
// connection of ours that was lost; that one is ended, so that its COMMIT cannot come after we have
// read the position.
func (b *Backend) takeLock(ctx context.Context, former uint32) error {
	var got bool
	err := b.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, lockSpace, lockNode).Scan(&got)
	if err != nil {
		return fmt.Errorf("lock the database for this node: %w", err)
	}
	if got {
		return nil
	}
	var pid int32
	var client string
	err = b.conn.QueryRow(ctx,
		`SELECT l.pid, coalesce(a.client_addr::text, 'a local socket') FROM pg_catalog.pg_locks l
		 JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
		 WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = $1 AND l.objid::bigint = $2 AND l.objsubid = 2
		   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())`,
		int64(lockSpace), int64(lockNode)).Scan(&pid, &client)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errors.New("lock the database for this node: another session held it a moment ago")
	case err != nil:
		return fmt.Errorf("lock the database for this node: %w", err)
	case uint32(pid) == former:
		if _, err := b.conn.Exec(ctx, `SELECT pg_terminate_backend($1)`, pid); err != nil {
			return fmt.Errorf("end our lost connection (process %d): %w", pid, err)
		}
		return fmt.Errorf("our lost connection (process %d) is being ended", pid)
	}
	return fmt.Errorf("another node works on this database: process %d, connected from %s, holds its lock", pid, client)
}

// drop closes the block connection; the server rolls back what was open. Called with mu held.
func (b *Backend) drop() {
	if b.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
		defer cancel()
		_ = b.conn.Close(ctx) // what it could say is nothing we would act on
	}
	b.conn, b.open, b.standing = nil, false, ""
}

// Execute runs the block in a transaction that stays open.
func (b *Backend) Execute(ctx context.Context, block *wire.OrderedBlock, previous wire.Hash) (backend.Execution, error) {
	return b.execute(ctx, block, previous, nil)
}

// Retry lets the database look up the rows that the block changes, when it comes out otherwise than
// certified.
func (b *Backend) Retry(ctx context.Context, block *wire.OrderedBlock, previous, certified wire.Hash) (backend.Execution, error) {
	return b.execute(ctx, block, previous, certified[:])
}

// execute expects no certain hash when certified is nil.
func (b *Backend) execute(ctx context.Context, block *wire.OrderedBlock, previous wire.Hash, certified []byte) (backend.Execution, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ready(ctx); err != nil {
		return backend.Execution{}, fmt.Errorf("execute block %d: %w", block.Number, err)
	}
	run, cancel := context.WithCancel(ctx)
	watch := b.watch(run, block, cancel)
	x, err := b.run(run, block, previous, certified)
	if err == nil {
		err = b.holdOnTheWay(run, x)
	}
	cancel()
	index, stuck := watch.stop()
	switch {
	case err == nil:
		b.open, b.failing = true, failing{}
		x.Slow = watch.spent.slow()
		return x, nil
	case stuck && ctx.Err() == nil:
		err = &backend.StuckError{Index: index}
	case sqlState(err) == outOfTurn:
		b.standing = "" // it may be that the block has to be judged
		err = fmt.Errorf("%w: %w", backend.ErrOutOfTurn, err)
	case ctx.Err() == nil && b.keepsFailing(block.Number, err):
		err = fmt.Errorf("%w: %w", &backend.StuckError{Index: b.failing.index}, err)
	}
	b.undo()
	if slices.Contains(unreadable, sqlState(err)) && b.scrubbedFor != block.Number {
		b.scrubbedFor = block.Number
		err = errors.Join(err, b.scrubSoon(ctx))
	}
	return backend.Execution{}, fmt.Errorf("execute block %d: %w", block.Number, err)
}

// unreadable are errors that tell of a damaged row or index.
var unreadable = []string{"XX001", "XX002"}

// scrubSoon lets the scrubber look for the damage that a block met: what it finds is repaired.
// Called with mu held.
func (b *Backend) scrubSoon(ctx context.Context) error {
	if b.conn == nil {
		return nil // the block is executed again
	}
	if _, err := b.conn.Exec(ctx, `SELECT chainify_node.scrub_soon()`); err != nil {
		b.scrubbedFor = 0
		return fmt.Errorf("let the tables be read: %w", err)
	}
	return nil
}

// failing is a transaction at which the block failed for a reason of the machine, time after time.
type failing struct {
	number uint64
	index  uint32
	since  time.Time
	// The block had one that would have failed for ever.
	forEver bool
}

// forEver are errors of the machine that do not pass: how deep its stack reaches, and what
// PostgreSQL does not expect of itself.
var forEver = []string{"54001", "XX000"}

// beyondBound is the error of more memory than chainify.block_memory, or more temporary files than
// their limit. It takes long to come to, and the next time is as the first.
const beyondBound = "53400"

// keepsFailing reports that this database has not got past one transaction for as long as a
// transaction may run. For an error that does not pass it reports this the second time, or the
// first time where the block had such a one before, or where it is beyond a bound. A statement that
// brings down every execution (memory, temporary files) must not stop the network for good: it is
// voted stuck like one that does not end. Called with mu held.
func (b *Backend) keepsFailing(number uint64, err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	now := failing{since: time.Now()}
	if n, _ := fmt.Sscanf(e.Detail, "chainify block %d tx %d", &now.number, &now.index); n != 2 || now.number != number {
		return false
	}
	before := b.failing
	now.forEver = before.number == now.number && before.forEver
	passes := !slices.Contains(forEver, e.Code)
	switch {
	case e.Code == beyondBound:
	case !passes && now.forEver:
	case before.number != now.number || before.index != now.index:
		b.failing = now
		return false
	case passes && now.since.Sub(before.since) < b.cfg.StuckAfter:
		return false
	}
	now.forEver = now.forEver || !passes
	b.failing = now // the next time takes as long again
	return true
}

const beginBlock = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`

// ready makes sure of a connection without an open transaction, to a database that knows the
// registry. Called with mu held.
func (b *Backend) ready(ctx context.Context) error {
	if b.conn == nil || b.conn.IsClosed() {
		b.drop()
		return errNotConnected
	}
	if b.open {
		b.undo()
		if b.conn == nil {
			return errNotConnected
		}
	}
	return b.tellRegistry(ctx, b.conn)
}

// run begins a transaction and executes the block in it: one round trip, two where it is judged.
func (b *Backend) run(ctx context.Context, block *wire.OrderedBlock, previous wire.Hash, certified []byte) (backend.Execution, error) {
	var refused refusals
	together := &pgx.Batch{}
	if judges(b.standing, block.Transactions) {
		var err error
		if refused, err = b.begin(ctx, block); err != nil {
			return backend.Execution{}, err
		}
	} else {
		together.Queue(beginBlock)
	}
	var a answer
	together.Queue(
		`SELECT hash, header, outcomes, rows, sqlstates, messages, transaction_effects
		 FROM chainify_node.execute_block($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		int64(block.Number), block.Height, block.TimeMicro, previous[:], block.Transactions, indices(block.Quarantined), block.QuarantineAll, block.Round > 0,
		certified, refused.indices, refused.sqlstates, refused.messages,
	).QueryRow(func(row pgx.Row) error {
		return row.Scan(&a.hash, &a.header, &a.outcomes, &a.rows, &a.sqlstates, &a.messages, &a.effects)
	})
	if err := b.conn.SendBatch(ctx, together).Close(); err != nil {
		return backend.Execution{}, err
	}
	return a.execution(block)
}

func indices(of []uint32) []int32 {
	list := make([]int32, len(of))
	for i, index := range of {
		list[i] = int32(index)
	}
	return list
}

// answer is the row that execute_block and adopt_block return.
type answer struct {
	hash, header, outcomes []byte
	rows                   []int64
	sqlstates, messages    []*string
	effects                [][]byte // NULL unless asked for
}

func (a *answer) execution(block *wire.OrderedBlock) (backend.Execution, error) {
	n := len(block.IDs)
	if len(a.rows) != n || len(a.sqlstates) != n || len(a.messages) != n || len(a.outcomes) != (n+7)/8 {
		return backend.Execution{}, fmt.Errorf("%d rows, %d sqlstates, %d messages and %d bytes of outcomes for %d transactions",
			len(a.rows), len(a.sqlstates), len(a.messages), len(a.outcomes), n)
	}
	hash, err := hashOf(a.hash)
	if err != nil {
		return backend.Execution{}, err
	}
	x := backend.Execution{Hash: hash, Header: a.header, Results: make([]wire.TxResult, n)}
	if block.Round > 0 {
		if len(a.effects) != n {
			return backend.Execution{}, fmt.Errorf("%d effects hashes for %d transactions", len(a.effects), n)
		}
		x.Effects = make([]wire.Hash, n)
		for i, raw := range a.effects {
			if x.Effects[i], err = hashOf(raw); err != nil {
				return backend.Execution{}, err
			}
		}
	}
	for i, id := range block.IDs {
		x.Results[i] = wire.TxResult{
			ID: id, Block: block.Number, Index: uint32(i), Succeeded: a.outcomes[i/8]>>(i%8)&1 == 1,
			Rows: a.rows[i], SQLState: text(a.sqlstates[i]), Message: text(a.messages[i]),
		}
	}
	return x, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// once runs f in a transaction of its own; an open block is rolled back first, since it holds the
// rows. Called with mu held.
func (b *Backend) once(ctx context.Context, f func() error) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	_, err := b.conn.Exec(ctx, beginBlock)
	if err == nil {
		err = f()
	}
	if err == nil {
		_, err = b.conn.Exec(ctx, `COMMIT`)
	}
	if err != nil {
		b.undo()
	}
	return err
}

// undo rolls back, by disconnecting when the server does not answer. Called with mu held, after
// ready.
func (b *Backend) undo() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	b.open = false
	if b.conn.IsClosed() {
		b.drop()
		return
	}
	if _, err := b.conn.Exec(ctx, `ROLLBACK`); err != nil {
		b.drop()
	}
}

// Commit makes the open block permanent. After an error the connection is gone, and with the lock
// that the next one takes Position reads what really happened.
func (b *Backend) Commit(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return backend.ErrNothingOpen
	}
	tag, err := b.conn.Exec(ctx, `COMMIT`)
	b.open = false
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("the server answered %s", tag)
	}
	if err != nil {
		b.drop()
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Rollback undoes the open block, if any.
func (b *Backend) Rollback(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return nil
	}
	b.undo()
	if b.conn == nil {
		return fmt.Errorf("roll back: %w", errNotConnected)
	}
	return nil
}

// Repair brings the tables back to the certified state.
func (b *Backend) Repair(ctx context.Context, step backend.Step, number uint64, certified wire.Hash, deviating uint64, found wire.Hash) (rows []backend.RowDeviation, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err = b.once(ctx, func() error {
		rows, err = b.repair(ctx, step, number, certified, deviating, found)
		return err
	})
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == beyondRepair {
		err = &backend.Obstacle{Why: refused.Detail, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("repair at block %d: %w", number, err)
	}
	return rows, nil
}

func (b *Backend) repair(ctx context.Context, step backend.Step, number uint64, certified wire.Hash, deviating uint64, found wire.Hash) ([]backend.RowDeviation, error) {
	rows, err := b.conn.Query(ctx,
		`SELECT tbl, key::text, expected::text, found::text FROM chainify_node.repair($1, $2, $3, $4, $5)`,
		int64(number), certified[:], int64(deviating), found[:], step.String())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, rowDeviation)
}

func rowDeviation(row pgx.CollectableRow) (backend.RowDeviation, error) {
	var d backend.RowDeviation
	var key, expected, got *string
	err := row.Scan(&d.Table, &key, &expected, &got)
	d.Key, d.Expected, d.Found = raw(key), raw(expected), raw(got)
	return d, err
}

func raw(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}
