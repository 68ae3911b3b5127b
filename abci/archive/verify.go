package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/wire"
)

func (m *Manifest) encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	return append(text, '\n'), err
}

// Verdict is the result of a verification.
type Verdict struct {
	Ranges       int       `json:"ranges"`
	Last         uint64    `json:"last"` // block
	Hash         string    `json:"hash"`
	Transactions uint64    `json:"transactions"`
	Changes      uint64    `json:"changes"`
	Bytes        uint64    `json:"bytes"`
	Findings     []Finding `json:"findings"`
	// Unproven are the tables with changes in a range whose definitions do not say the names of
	// their columns, by the range's first block. Their values are as agreed.
	Unproven []Unproven `json:"names_not_proven"`
}

// Unproven are tables of one range.
type Unproven struct {
	First  uint64   `json:"first"`
	Tables []string `json:"tables"`
}

// Verify reads a whole archive and compares it with what the organisations agreed on: manifests and
// their order, every file's hash, blocks, certificates, transactions and changes. Errors are of the
// store. It ends with the first manifest that does not follow the one before, or is not signed:
// nothing that it says is believed. Progress is told after each range. Cost: two SHA-256 a change,
// a signature a vote.
func Verify(ctx context.Context, store Store, chainID string, authorities audit.Authorities, progress func(*Manifest)) (Verdict, error) {
	v := Verdict{Findings: []Finding{}, Unproven: []Unproven{}}
	attached, said := attachments{}, (*agreed)(nil)
	known := map[string]bool{}
	var before *Manifest
	for len(v.Findings) < findingsMax {
		at := ManifestName(chainID, v.Last+1)
		m, err := next(ctx, store, chainID, before)
		if err != nil {
			if ctx.Err() != nil {
				return v, err
			}
			v.Findings = append(v.Findings, Finding{File: at, What: "manifest", Detail: err.Error()})
			break
		}
		if m == nil {
			break
		}
		known[at], known[name(chainID, m.First, planSuffix)] = true, true
		if wrong := checkManifest(at, m, before, authorities); len(wrong) > 0 {
			v.Findings = append(v.Findings, wrong...)
			break
		}
		r := newRangeCheck(ctx, store, m, authorities, nil)
		r.attached, r.said = attached, said
		v.Findings = append(v.Findings, r.check()...)
		said = r.said
		if len(r.unproven) > 0 {
			v.Unproven = append(v.Unproven, Unproven{m.First, slices.Sorted(maps.Keys(r.unproven))})
		}
		for _, f := range m.Files {
			known[f.Name] = true
		}
		v.Ranges, v.Last, v.Hash = v.Ranges+1, m.Last, fmt.Sprintf("%x", []byte(m.Hash))
		v.Transactions, v.Changes, v.Bytes = v.Transactions+m.Rows(Transactions), v.Changes+m.Rows(Changes), v.Bytes+m.Bytes()
		if progress != nil {
			progress(m)
		}
		before = m
	}
	if d, ok := store.(Directory); ok {
		strangers, err := d.Strangers(chainID, known)
		if err != nil {
			return v, err
		}
		for _, file := range strangers {
			v.Findings = append(v.Findings, Finding{File: file, What: "file", Detail: "no manifest names it: a manifest before it is missing, or a range is unfinished"})
		}
	}
	v.Findings = v.Findings[:min(len(v.Findings), findingsMax)]
	return v, ctx.Err()
}

// checkManifest checks a manifest but for its files.
func checkManifest(at string, m, before *Manifest, authorities audit.Authorities) []Finding {
	f := &findings{file: at}
	previous, hash := make([]byte, sha256.Size), make([]byte, sha256.Size)
	if before != nil {
		previous, hash = before.digest(), before.Hash
	}
	if !bytes.Equal(m.Previous, previous) {
		f.add(0, "previous", "it follows manifest %x, the one before is %x", []byte(m.Previous), previous)
	}
	if !bytes.Equal(m.PreviousHash, hash) {
		f.add(0, "previous_hash", "it is %x, the range before ends with %x", []byte(m.PreviousHash), hash)
	}
	if !m.signedBy(authorities) {
		f.add(0, "signature", "it is by no gateway key that %q had for block %d, or later", m.Organisation, m.Last)
	}
	return f.list
}

// checkRange reads the files of a range and compares them with what was agreed. It checks no
// certificate again that is among those checked.
func checkRange(ctx context.Context, store Store, m *Manifest, authorities audit.Authorities, checked seals) []Finding {
	return newRangeCheck(ctx, store, m, authorities, checked).check()
}

func newRangeCheck(ctx context.Context, store Store, m *Manifest, authorities audit.Authorities, checked seals) *rangeCheck {
	return &rangeCheck{
		ctx: ctx, store: store, m: m, names: newNames(), attached: attachments{}, unproven: map[string]bool{},
		c: &checker{findings: &findings{}, authorities: authorities, first: m.First, previous: wire.Hash(m.PreviousHash), seals: checked},
	}
}

func (r *rangeCheck) check() []Finding {
	for _, step := range []func(){r.columns, r.blocks, r.votes, r.transactions, r.changes} {
		step()
	}
	return r.c.list
}

// rangeCheck reads the files of one range, kind by kind.
type rangeCheck struct {
	ctx   context.Context
	store Store
	m     *Manifest
	c     *checker
	names *names
	// attached goes on from range to range.
	attached attachments
	said     *agreed         // what the definitions of the range before said; nil: nothing
	unproven map[string]bool // tables with changes whose columns' names are not proven
}

// rowsOf gives the rows of the files of a kind. Files that are not those of the manifest are
// findings.
func rowsOf[T any](r *rangeCheck, kind string, each func(*T) error) {
	for _, file := range r.m.Files {
		if file.Kind != kind {
			continue
		}
		r.c.file = file.Name
		data, err := r.store.Get(r.ctx, file.Name)
		if err != nil {
			r.c.add(0, "file", "%v", err)
			continue
		}
		sum := sha256.Sum256(data)
		if uint64(len(data)) != file.Bytes || !slices.Equal(sum[:], file.SHA256) {
			r.c.add(0, "sha256", "%d bytes with %x, the manifest says %d with %x", len(data), sum, file.Bytes, []byte(file.SHA256))
			continue // it is not what was archived, so nothing more is said of it
		}
		rows := uint64(0)
		err = readRows(data, func(row *T) error {
			rows++
			return each(row)
		})
		if err != nil {
			r.c.add(0, "rows", "%v", err)
		} else if rows != file.Rows {
			r.c.add(0, "rows", "there are %d, the manifest says %d", rows, file.Rows)
		}
	}
}

func (r *rangeCheck) columns() {
	rowsOf(r, Columns, func(row *columnRow) error {
		r.names.add(columnOf(row))
		return nil
	})
	if r.m.Definitions == nil {
		return
	}
	said, err := r.m.Definitions.check(r.m, r.c.authorities)
	if r.c.file = ManifestName(r.m.ChainID, r.m.First); err != nil {
		r.c.add(0, "definitions", "%v", err)
		return
	}
	if err := r.names.prove(said); err != nil {
		r.c.add(0, "names", "%v", err)
	}
	r.names.holdBackRenamed(r.said, said)
	r.said = said
}

func (r *rangeCheck) blocks() {
	rowsOf(r, Blocks, func(row *blockRow) error {
		if uint64(len(r.c.blocks)) > r.m.Last-r.m.First {
			return fmt.Errorf("there are more blocks than %d to %d", r.m.First, r.m.Last)
		}
		b, err := blockOf(row, r.m.ChainID)
		if err != nil {
			return fmt.Errorf("block %d: %w", row.Number, err)
		}
		r.c.block(b)
		return nil
	})
	n := len(r.c.blocks)
	if want := r.m.Last - r.m.First + 1; uint64(n) != want {
		r.c.add(0, "blocks", "there are %d of the %d blocks from %d to %d", n, want, r.m.First, r.m.Last)
	} else if hash := r.c.blocks[n-1].Hash; !bytes.Equal(hash[:], r.m.Hash) {
		r.c.add(r.m.Last, "hash", "it is %x, the manifest says %x", hash, []byte(r.m.Hash))
	}
}

func (r *rangeCheck) votes() {
	s := sweep{c: r.c, ends: r.c.certificate}
	rowsOf(r, Votes, func(row *voteRow) error {
		b := s.to(uint64(row.Block))
		if b == nil {
			return nil
		}
		if len(b.Votes) == wire.CertificateVotesMax || row.Round < 0 || row.Round > 1<<31-1 {
			return fmt.Errorf("block %d has more than %d votes, or no round", row.Block, wire.CertificateVotesMax)
		}
		b.Votes = append(b.Votes, voteOf(row))
		return nil
	})
	s.end()
}

func (r *rangeCheck) transactions() {
	check := newTransactionCheck(r.c)
	check.attached = r.attached
	rowsOf(r, Transactions, func(row *transactionRow) error {
		t, err := transactionOf(row)
		if err != nil {
			return fmt.Errorf("block %d: %w", row.Block, err)
		}
		check.add(t)
		return nil
	})
	check.end()
	r.names.holdBack(r.attached)
}

func (r *rangeCheck) changes() {
	check := newChangeCheck(r.c)
	rowsOf(r, Changes, func(row *changeRow) error {
		c, err := changeOf(row)
		if err != nil {
			return fmt.Errorf("block %d: %w", row.Block, err)
		}
		check.add(c)
		if !r.names.proves(c) {
			r.unproven[c.Table] = true
		}
		if r.names.cells(c) != row.Cells {
			r.c.add(c.Block, "cells", "those of a row of %s are not what its encoding says", c.Table)
		}
		return nil
	})
	check.end()
}

func columnOf(r *columnRow) *Column {
	return &Column{r.Table, uint64(r.SinceBlock), uint32(r.SinceTx), uint16(r.Ordinal), r.Name, r.Type, uint16(r.KeyPart)}
}
