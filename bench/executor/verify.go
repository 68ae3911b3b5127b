package executor

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

// What is verified.
const (
	verifyLedger  = "verify_ledger"
	verifyTable   = "verify_table"
	verifyChanged = "verify_table, a row changed behind the ledger"
)

// VerifiedBlocks are as many as verify_ledger reads; ShortVerifiedBlocks are for development.
const (
	VerifiedBlocks      = 50
	ShortVerifiedBlocks = 5

	// checkpointEvery so many blocks: between the base and the last block are up to three times
	// as many.
	checkpointEvery = 5

	// tick is what processor time is told in.
	tick = 10 * time.Millisecond
)

// voters are the organisations that certify blocks.
var voters = []string{"acme", "bolt", "cargo", "delta"}

// Verify measures how fast the ledger is verified: blocks of Smallbank, certified by four
// organisations, and its tables.
func Verify(ctx context.Context, cfg Config, blocks int, r *report.Report) (err error) {
	schema := workload.SmallbankSchema(cfg.Customers)
	sites, err := open(ctx, cfg, r, schema)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, sites.close()); err == nil {
			err = sites.network.Remove()
		}
	}()
	v, err := fillLedger(ctx, cfg, sites.ledger, blocks)
	if err != nil {
		return err
	}
	fmt.Fprintf(cfg.Progress, "%d blocks with %d changes, %d rows\n", blocks, v.changes, v.rows)
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		if err := v.measure(ctx, cfg, repetition, r); err != nil {
			return err
		}
	}
	const onOneCore = "; by processor time of the one session that does it"
	return errors.Join(
		machine.NoteDisk(r, sites.network.Dir),
		r.AddFigure("verify.ledger_rate", r.Find(verifyLedger, 0).Values(), "changes/s", targets.Of("verify.ledger_rate"),
			fmt.Sprintf("chainify.verify_ledger() of %d certified blocks of %d Smallbank transactions: bodies, outcomes, history, effects roots, hashes, signatures", blocks, cfg.Block)+onOneCore),
		r.AddFigure("verify.table_rate", r.Find(verifyTable, 0).Values(), "rows/s", targets.Of("verify.table_rate"),
			"chainify.verify_table() of Smallbank's tables: rows, running state, and the rows of every checkpoint kept"+onOneCore),
		r.AddFigure("verify.changed_rate", r.Find(verifyChanged, 0).Values(), "rows/s", targets.Of("verify.changed_rate"),
			"the same of one table where a row was changed behind the ledger, which is named"+onOneCore))
}

// verified is a ledger to be verified.
type verified struct {
	*site
	changes, rows int
}

// fillLedger runs blocks and certifies them.
func fillLedger(ctx context.Context, cfg Config, s *site, blocks int) (v verified, err error) {
	v.site = s
	keys := map[string]ed25519.PrivateKey{}
	var validators []map[string]string
	for i, name := range voters {
		keys[name] = ed25519.NewKeyFromSeed(append(make([]byte, ed25519.SeedSize-1), byte(i+1)))
		public := keys[name].Public().(ed25519.PublicKey)
		validators = append(validators, map[string]string{"organisation": name, "address": address(public), "public_key": hex.EncodeToString(public)})
	}
	if s.blocks, err = newChain(ctx, s, validators); err != nil {
		return v, err
	}
	bank := workload.NewSmallbank(cfg.Seed, 0, int64(cfg.Customers))
	for s.blocks.number < int64(blocks) {
		if err := s.blocks.certify(ctx, keys); err != nil {
			return v, err
		}
		raw, err := s.blocks.encode(wire.Kind_KIND_SQL, spelled(bank.Block(cfg.Block), workload.Function))
		if err != nil {
			return v, err
		}
		if _, _, err := s.blocks.run(ctx, raw); err != nil {
			return v, err
		}
		if s.blocks.number%checkpointEvery == 0 {
			if _, err := s.conn.Exec(ctx, "SELECT chainify_node.checkpoint()"); err != nil {
				return v, err
			}
		}
	}
	// as the maintenance worker does
	if _, err := s.conn.Exec(ctx, "SELECT chainify_node.fold_history(100000000)"); err != nil {
		return v, err
	}
	if err := s.blocks.certify(ctx, keys); err != nil {
		return v, err
	}
	if err := s.vacuum(ctx); err != nil {
		return v, err
	}
	err = s.conn.QueryRow(ctx, "SELECT (SELECT sum(effects_count) FROM chainify.ledger), (SELECT sum(rows) FROM chainify.tables)").Scan(&v.changes, &v.rows)
	return v, err
}

// address is that of a validator.
func address(public ed25519.PublicKey) string {
	of := order.AddressOf(public)
	return hex.EncodeToString(of[:])
}

// certify stores the certificate of the last block, signed by all.
func (c *chain) certify(ctx context.Context, keys map[string]ed25519.PrivateKey) error {
	var votes []map[string]any
	for _, name := range voters {
		public := keys[name].Public().(ed25519.PublicKey)
		extension := wire.NewEffectsVote(wire.Key{Number: uint64(c.number)}, name, wire.Hash(c.previous)).Encode()
		votes = append(votes, map[string]any{
			"organisation": name, "validator": address(public), "height": c.number + 1, "round": 0,
			"extension": hex.EncodeToString(extension),
			"signature": hex.EncodeToString(ed25519.Sign(keys[name], wire.ExtensionSignBytes(c.author.ChainID, c.number+1, 0, extension))),
		})
	}
	raw, err := json.Marshal(votes)
	if err != nil {
		return err
	}
	if _, err := c.conn.Exec(ctx, "SELECT chainify_node.store_certificate($1, 0, $2, $3)", c.number, c.previous, string(raw)); err != nil {
		return fmt.Errorf("certify block %d: %w", c.number, err)
	}
	return nil
}

// measure verifies everything once. A finding without a reason ends the run.
func (v verified) measure(ctx context.Context, cfg Config, repetition int, r *report.Report) error {
	tables := "SELECT 0"
	for _, table := range v.tables {
		tables += " + (SELECT count(*) FROM chainify.verify_table('" + table + "'))"
	}
	changed := v.tables[len(v.tables)-1]
	var rows int
	if err := v.conn.QueryRow(ctx, "SELECT rows FROM chainify.tables WHERE name = $1", changed).Scan(&rows); err != nil {
		return err
	}
	for _, of := range []struct {
		system, unit, sql string
		amount, findings  int
		within            [2]string // what is done before and taken back after
	}{
		{verifyLedger, "changes/s", "SELECT count(*) FROM chainify.verify_ledger()", v.changes, 0, [2]string{}},
		{verifyTable, "rows/s", tables, v.rows, 0, [2]string{}},
		{verifyChanged, "rows/s", "SELECT count(*) FROM chainify.verify_table('" + changed + "')", rows, 2, [2]string{
			"BEGIN; SET LOCAL chainify.guard = off; SET LOCAL session_replication_role = replica; UPDATE " + changed + " SET balance = balance + 1 WHERE custid = 7", "ROLLBACK",
		}},
	} {
		if _, err := v.conn.Exec(ctx, of.within[0]); err != nil {
			return err
		}
		load, started, findings := machine.Load(), time.Now(), 0
		cpu, err := v.cpu(func() error { return v.conn.QueryRow(ctx, of.sql).Scan(&findings) })
		took := time.Since(started)
		if _, err := v.conn.Exec(ctx, of.within[1]); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s, repetition %d: %w", of.system, repetition, err)
		}
		if findings != of.findings {
			return fmt.Errorf("%s, repetition %d: %d findings, want %d", of.system, repetition, findings, of.findings)
		}
		rate := float64(of.amount) / max(cpu, tick).Seconds()
		r.Add(of.system, 0, of.unit, report.Sample{
			Repetition: repetition, Value: rate, Seconds: took.Seconds(), Load: load, ServerCPUUS: 1e6 / rate,
			Detail: map[string]float64{"amount": float64(of.amount), "per_second_of_the_clock": float64(of.amount) / took.Seconds()},
		})
		fmt.Fprintf(cfg.Progress, "repetition %d/%d: %-46s %8.0f %s, %.2f s, load %.1f\n", repetition, cfg.Repeat, of.system, rate, of.unit, took.Seconds(), load)
	}
	return nil
}
