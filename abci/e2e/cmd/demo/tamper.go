package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const (
	victim     = 2  // index of the organisation whose administrator cheats
	customer   = 42 // whose checking account is made richer
	cureLimit  = 60 * time.Second
	tamperText = `SET chainify.guard = off;
ALTER TABLE checking DISABLE TRIGGER ALL;
UPDATE checking SET balance = balance + 1000000 WHERE custid = 42;
ALTER TABLE checking ENABLE TRIGGER ALL`
	touchText = "UPDATE checking SET balance = balance + 10 WHERE custid = 42"
)

// tamper changes one row behind the ledger's back, lets an honest transaction touch it, and waits
// for the repair.
func (d *demo) tamper(ctx context.Context) error {
	if err := d.claimGuard(ctx); err != nil {
		return err
	}
	cheat, honest := d.net.Organisations[victim], d.net.Organisations[0]
	d.out.announce("superuser at %s: guard off, triggers off, customer %d gets 1,000,000", cheat.Name, customer)
	if err := cheat.Exec(ctx, "postgres", tamperText); err != nil {
		return fmt.Errorf("tamper: %w", err)
	}
	tampered := time.Now()
	if err := d.showBalances(ctx); err != nil {
		return err
	}
	d.out.announce("bank at %s: an ordinary deposit of 10 touches that account", honest.Name)
	block, err := d.touch(ctx, honest)
	if err != nil {
		return err
	}
	cured, err := waitCured(ctx, cheat, block)
	if err != nil {
		return err
	}
	d.report.tampering(cured, tampered)
	d.out.line("  chainify.deviations of %s, block %d: table %s, key %s", cheat.Name, cured.block, cured.table, cured.key)
	d.out.line("    expected %s", cured.expected)
	d.out.line("    found    %s", cured.found)
	d.claims.add(cured.block == block && cured.rows == 1, "the changed row of %s was found in the block that touched it (%d), and that row alone: key %s", cheat.Name, block, cured.key)
	if err := d.showBalances(ctx); err != nil {
		return err
	}
	tip, err := harness.WaitSame(ctx, d.net.Organisations, block, agreeLimit)
	if err != nil {
		return err
	}
	d.claims.add(true, "%s repaired itself (%s) in %s and has the others' LedgerBlockHash again: block %d, %.16s…",
		cheat.Name, cured.by, millis(cured.took), tip.Number, tip.Hash)
	return nil
}

// claimGuard shows that the way round the ledger is closed for ordinary sessions.
func (d *demo) claimGuard(ctx context.Context) error {
	err := d.net.Organisations[victim].Exec(ctx, "bank", touchText)
	state := sqlState(err)
	if err == nil {
		state = "no error"
	}
	d.claims.add(state == "CH003", "UPDATE without the ledger is refused (SQLSTATE CH003), got %s", state)
	return nil
}

// touch submits one transaction on the tampered account and returns its block.
func (d *demo) touch(ctx context.Context, o *harness.Organisation) (uint64, error) {
	conn, err := o.Cluster.Connect(ctx, database, "bank")
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var block int64
	var succeeded bool
	d.report.touched = time.Now()
	if err := conn.QueryRow(ctx, "SELECT block, outcome FROM chainify.execute($1)", touchText).Scan(&block, &succeeded); err != nil {
		return 0, fmt.Errorf("touch the tampered row: %w", err)
	}
	d.claims.add(succeeded, "the other three went on without %s: the deposit was answered after %s",
		d.net.Organisations[victim].Name, millis(time.Since(d.report.touched)))
	return uint64(block), nil
}

// deviation is one cured row of chainify.deviations.
type deviation struct {
	block                       uint64
	table, key, expected, found string
	by                          string
	took                        time.Duration // from noticing to COMMIT, as the organisation records it
	rows                        int           // how many rows differed in all
	seen                        time.Time     // when this program saw it cured
}

// waitCured polls the view in which the tampered organisation itself reports what it found.
func waitCured(ctx context.Context, o *harness.Organisation, block uint64) (deviation, error) {
	const text = `SELECT block, tbl, key::text, coalesce(expected::text, 'none'), coalesce(found::text, 'none'), cured_by, took, count(*) OVER ()
		FROM chainify.deviations WHERE cured_by IS NOT NULL AND key IS NOT NULL AND block >= $1 ORDER BY block LIMIT 1`
	var v deviation
	conn, err := o.Connect(ctx)
	if err != nil {
		return v, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = harness.Poll(ctx, cureLimit, "repair of the tampered row at "+o.Name, func(ctx context.Context) (bool, string, error) {
		err := conn.QueryRow(ctx, text, int64(block)).
			Scan(&v.block, &v.table, &v.key, &v.expected, &v.found, &v.by, &v.took, &v.rows)
		v.seen = time.Now()
		if errors.Is(err, pgx.ErrNoRows) {
			return false, "chainify.deviations has no cured row", nil
		}
		return err == nil, "", err
	})
	return v, err
}

func (d *demo) showBalances(ctx context.Context) error {
	line := fmt.Sprintf("  customer %d has", customer)
	for _, o := range d.net.Organisations {
		var balance string
		if err := o.Scan(ctx, fmt.Sprintf("SELECT balance::text FROM checking WHERE custid = %d", customer), &balance); err != nil {
			return err
		}
		line += fmt.Sprintf("  %s %s", o.Name, balance)
	}
	d.out.line("%s", line)
	return nil
}
