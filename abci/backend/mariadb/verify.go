package mariadb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/chainify-db/chainify/abci/anchor"
	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// findingsMax bounds what VerifyDigest returns.
const findingsMax = 100

// Verify reads the whole ledger of a database as of one moment: blocks, transactions, history, the
// votes of certificates when authorities are given, then the tables. It tells what does not hold.
// It trusts nothing but the authorities. Cost: a read of everything; one block is in memory.
func Verify(ctx context.Context, dsn string, a audit.Authorities, each func(backend.Finding) error) error {
	pool, name, err := openPool(dsn)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer func() { _ = pool.Close() }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	v := &verification{reading: &reading{conn: conn, name: name}, authorities: a, each: each}
	defer v.Close()
	if err := v.all(ctx); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return nil
}

type verification struct {
	*reading
	authorities audit.Authorities
	each        func(backend.Finding) error
	header      *wire.Header // of the last block that was read
}

func (v *verification) all(ctx context.Context) error {
	if err := v.snapshot(ctx); err != nil {
		return err
	}
	p, err := readPosition(ctx, v.conn, v.name)
	if errors.Is(err, sql.ErrNoRows) {
		return errors.New("no node has worked on this ledger yet")
	}
	if err != nil {
		return err
	}
	var previous wire.Hash
	for number := uint64(1); number <= p.Number; number++ {
		hash, err := v.block(ctx, number, previous)
		if err != nil {
			return err
		}
		previous = hash
	}
	return v.tablesAt(ctx, p.Number)
}

// block checks one, and returns the hash that it is kept with.
func (v *verification) block(ctx context.Context, number uint64, previous wire.Hash) (wire.Hash, error) {
	var raw []byte
	err := v.conn.QueryRowContext(ctx, v.name.in(`SELECT hash FROM %L.block WHERE number = ?`), number).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return wire.Hash{}, v.each(backend.Finding{Block: number, What: "block", Detail: "it is not there"})
	}
	if err != nil {
		return wire.Hash{}, err
	}
	hash, err := hashOf(raw)
	if err != nil {
		return hash, v.each(backend.Finding{Block: number, What: "block", Detail: err.Error()})
	}
	k, err := keptBlock(ctx, v.conn, v.name, number)
	if err == nil {
		err = k.readIDs(ctx, v.conn, v.name, number)
	}
	if err == nil {
		v.header, err = k.check(number, hash)
	}
	var why *backend.Obstacle
	switch {
	case errors.As(err, &why):
		return hash, v.each(backend.Finding{Block: number, What: "block", Detail: why.Why})
	case err != nil:
		return hash, err
	case v.header.Previous != previous:
		return hash, v.each(backend.Finding{Block: number, What: "previous", Detail: fmt.Sprintf("it follows a block with hash %x, before it is %x", v.header.Previous, previous)})
	}
	return hash, v.certificate(ctx, v.header)
}

// certificate checks the votes on a block. The last blocks may not have one yet.
func (v *verification) certificate(ctx context.Context, header *wire.Header) error {
	if v.authorities == nil {
		return nil
	}
	digest, err := digestOf(ctx, v.conn, v.name, header)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		p, err := readPosition(ctx, v.conn, v.name)
		if err != nil || header.Number > p.Certified {
			return err
		}
		return v.each(backend.Finding{Block: header.Number, What: "certificate", Detail: "there is none, and a later block has one"})
	case err != nil:
		return v.each(backend.Finding{Block: header.Number, What: "certificate", Detail: err.Error()})
	}
	for _, f := range digest.Check(v.authorities.For(header.Number)) {
		if err := v.each(backend.Finding{Block: header.Number, What: f.Field, Detail: f.Detail}); err != nil {
			return err
		}
	}
	return nil
}

// tablesAt compares the tables with the state root of the last block.
func (v *verification) tablesAt(ctx context.Context, number uint64) error {
	tables, err := readTables(ctx, v.conn, v.name, maxBlock, map[string]*described{})
	if err != nil || number == 0 {
		return err
	}
	var states []canonical.Named
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		hash, err := v.stateNow(ctx, tables[name])
		if err != nil {
			return err
		}
		if hash != tables[name].started || tables[name].altered {
			if err := v.each(backend.Finding{Block: number, What: "table " + name, Detail: "rows or definition are not those of the state kept"}); err != nil {
				return err
			}
		}
		states = append(states, canonical.Named{Name: name, State: hash})
	}
	procedures, err := readProcedures(ctx, v.conn, v.conn, v.name, maxBlock)
	if err != nil {
		return err
	}
	for _, name := range procedures.altered() {
		if err := v.each(backend.Finding{Block: number, What: "procedure " + name, Detail: "its words are not those agreed"}); err != nil {
			return err
		}
	}
	states = append(states, procedures.states()...)
	if v.header == nil || v.header.Number != number || canonical.StateRoot(states) == v.header.StateRoot {
		return nil
	}
	return v.each(backend.Finding{Block: number, What: "state", Detail: "the tables do not give the state root of the block"})
}

// stateNow is the state of a table by its rows; zeros where it cannot be read as it was attached.
func (v *verification) stateNow(ctx context.Context, t *table) (wire.Hash, error) {
	state, err := t.read(ctx, v.conn, v.name, 0)
	if t.altered && outcomeOf(err) != nil || errors.Is(err, canonical.ErrValue) {
		return wire.Hash{}, nil
	}
	return canonical.TableState(t.Name, canonical.SchemaHash2(t.text), &state), err
}

// digestOf is the digest of a block with its certificate (spec/receipt.md); sql.ErrNoRows: there is
// no certificate.
func digestOf(ctx context.Context, q querier, name names, h *wire.Header) (*audit.Receipt, error) {
	r := &audit.Receipt{Version: audit.Version, ChainID: h.ChainID, Hash: [32]byte(h.Hash()), Block: audit.Block{
		Number: h.Number, OrderHeight: h.OrderHeight, BlockTime: h.BlockTime, TxRoot: [32]byte(h.TxRoot), TxCount: h.Outcomes.Len(), Outcomes: h.Outcomes.Bytes(),
		EffectsRoot: [32]byte(h.EffectsRoot), EffectsCount: h.EffectsCount, StateRoot: [32]byte(h.StateRoot), Previous: [32]byte(h.Previous),
	}}
	var votes []byte
	err := q.QueryRowContext(ctx, name.in(`SELECT effect_round, votes FROM %L.certificate WHERE number = ?`), h.Number).Scan(&r.Certificate.EffectRound, &votes)
	if err == nil {
		err = json.Unmarshal(votes, &r.Certificate.Votes)
	}
	if len(r.Certificate.Votes) > wire.CertificateVotesMax {
		err = fmt.Errorf("%d votes, at most %d", len(r.Certificate.Votes), wire.CertificateVotesMax)
	}
	return r, err
}

// Digest is that of the last certified block, as JSON.
func (b *Backend) Digest(ctx context.Context) ([]byte, error) {
	var raw []byte
	err := b.pool.QueryRowContext(ctx, b.name.in(`SELECT header FROM %L.block WHERE number = (SELECT max(number) FROM %L.certificate)`)).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, anchor.ErrNoDigest
	}
	var header *wire.Header
	if err == nil {
		header, err = wire.DecodeHeader(raw)
	}
	var r *audit.Receipt
	if err == nil {
		r, err = digestOf(ctx, b.pool, b.name, header)
	}
	if err != nil {
		return nil, fmt.Errorf("digest: %w", err)
	}
	return json.Marshal(r)
}

// VerifyDigest says where the database does not lead to a digest any more; it reads everything.
func (b *Backend) VerifyDigest(ctx context.Context, digest []byte) ([]string, error) {
	r, err := audit.Parse(digest)
	if err != nil {
		return nil, fmt.Errorf("verify digest: %w", err)
	}
	var findings []string
	note := func(f backend.Finding) error {
		if len(findings) < findingsMax {
			findings = append(findings, fmt.Sprintf("block %d: %s: %s", f.Block, f.What, f.Detail))
		}
		return nil
	}
	var hash []byte
	err = b.pool.QueryRowContext(ctx, b.name.in(`SELECT hash FROM %L.block WHERE number = ?`), r.Block.Number).Scan(&hash)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		_ = note(backend.Finding{Block: r.Block.Number, What: "block", Detail: "it is not there"})
	case err != nil:
		return nil, fmt.Errorf("verify digest: %w", err)
	case string(hash) != string(r.Hash[:]):
		_ = note(backend.Finding{Block: r.Block.Number, What: "block", Detail: "it has another hash than the digest"})
	}
	err = Verify(ctx, b.cfg.DSN, nil, note)
	return findings, err
}
