package archive

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/wire"
)

// Version is that of the format. Manifests of version 1 have no definitions.
const Version = 2

const (
	manifestSuffix = ".manifest.json"
	planSuffix     = ".plan.json"
)

// Manifest says what a range of the archive consists of (spec/archive.md).
type Manifest struct {
	Version      int           `json:"chainify_archive"`
	ChainID      string        `json:"chain_id"`
	Organisation string        `json:"organisation"`
	First        uint64        `json:"first"`
	Last         uint64        `json:"last"`
	Previous     wire.HexBytes `json:"previous"`      // SHA-256 of the signed bytes of the manifest before; zeros
	PreviousHash wire.HexBytes `json:"previous_hash"` // LedgerBlockHash of the block before the first
	Hash         wire.HexBytes `json:"hash"`          // of the last
	Files        []File        `json:"files"`
	// Definitions prove names of columns. A block's certificate covers them, and no signature.
	Definitions *Definitions  `json:"definitions,omitempty"`
	Signature   wire.HexBytes `json:"signature"`
}

// File is one of the range.
type File struct {
	Name   string        `json:"name"`
	Kind   string        `json:"kind"`
	Bytes  uint64        `json:"bytes"`
	Rows   uint64        `json:"rows"`
	SHA256 wire.HexBytes `json:"sha256"`
}

// name is that of a range's file: those of a chain sort by their first block.
func name(chainID string, first uint64, rest string) string {
	return fmt.Sprintf("%s.%012d%s", chainID, first, rest)
}

// ManifestName is the name of the manifest of the range that begins with a block.
func ManifestName(chainID string, first uint64) string { return name(chainID, first, manifestSuffix) }

// Signed returns the bytes that the organisation signs.
func (m *Manifest) Signed() []byte {
	out := fmt.Appendf(nil, "chainify/archive/%d", m.Version)
	lp := func(text string) { out = append(binary.BigEndian.AppendUint32(out, uint32(len(text))), text...) }
	number := func(n uint64) { out = binary.BigEndian.AppendUint64(out, n) }
	lp(m.ChainID)
	lp(m.Organisation)
	number(m.First)
	number(m.Last)
	out = append(append(append(out, m.Previous...), m.PreviousHash...), m.Hash...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(m.Files)))
	for _, f := range m.Files {
		lp(f.Name)
		lp(f.Kind)
		number(f.Bytes)
		number(f.Rows)
		out = append(out, f.SHA256...)
	}
	return out
}

// digest is the hash by which the next manifest names this one.
func (m *Manifest) digest() []byte {
	sum := sha256.Sum256(m.Signed())
	return sum[:]
}

// Sign signs it by the organisation's gateway key.
func (m *Manifest) Sign(key crypto.Signer) (err error) {
	m.Signature, err = wire.Sign(key, m.Signed())
	return err
}

// Rows are those of all files of a kind.
func (m *Manifest) Rows(kind string) (n uint64) {
	for _, f := range m.Files {
		if f.Kind == kind {
			n += f.Rows
		}
	}
	return n
}

// Bytes are those of all files.
func (m *Manifest) Bytes() (n uint64) {
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

// ParseManifest reads a manifest; nothing in it is checked but its form. Errors name the field.
func ParseManifest(text []byte) (*Manifest, error) {
	if len(text) > manifestMax {
		return nil, fmt.Errorf("manifest: %d bytes, want at most %d", len(text), manifestMax)
	}
	m := &Manifest{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return m, m.checkForm()
}

func (m *Manifest) checkForm() error {
	if m.Version < 1 || m.Version > Version {
		return fmt.Errorf("chainify_archive: version %d, want 1 to %d", m.Version, Version)
	}
	if (m.Version == 1) != (m.Definitions == nil) {
		return fmt.Errorf("definitions: there %t, in a manifest of version %d", m.Definitions != nil, m.Version)
	}
	if m.Definitions != nil && len(m.Definitions.States) > statesMax {
		return fmt.Errorf("definitions.states: %d of them, want at most %d", len(m.Definitions.States), statesMax)
	}
	if err := wire.CheckChainID(m.ChainID); err != nil {
		return err
	}
	if err := wire.CheckOrganisation(m.Organisation); err != nil {
		return err
	}
	if m.First == 0 || m.Last < m.First || m.Last-m.First >= RangeBlocksMax {
		return fmt.Errorf("last: blocks %d to %d are no range", m.First, m.Last)
	}
	for field, hash := range map[string][]byte{"previous": m.Previous, "previous_hash": m.PreviousHash, "hash": m.Hash} {
		if len(hash) != sha256.Size {
			return fmt.Errorf("%s: %d bytes, want %d", field, len(hash), sha256.Size)
		}
	}
	if len(m.Signature) != ed25519.SignatureSize {
		return fmt.Errorf("signature: %d bytes, want %d", len(m.Signature), ed25519.SignatureSize)
	}
	if len(m.Files) > filesMax {
		return fmt.Errorf("files: %d of them, want at most %d", len(m.Files), filesMax)
	}
	parts := map[string]int{}
	for i, f := range m.Files {
		parts[f.Kind]++
		want := name(m.ChainID, m.First, fmt.Sprintf(".%s.%04d.parquet", f.Kind, parts[f.Kind]))
		switch {
		case !isKind(f.Kind):
			return fmt.Errorf("files[%d].kind: there is no %q", i, f.Kind)
		case f.Name != want:
			return fmt.Errorf("files[%d].name: %q, want %q", i, f.Name, want)
		case f.Bytes > FileBytesMax:
			return fmt.Errorf("files[%d].bytes: %d, want at most %d", i, f.Bytes, FileBytesMax)
		case len(f.SHA256) != sha256.Size:
			return fmt.Errorf("files[%d].sha256: %d bytes, want %d", i, len(f.SHA256), sha256.Size)
		}
	}
	return nil
}

func isKind(kind string) bool {
	return kind == Blocks || kind == Votes || kind == Transactions || kind == Changes || kind == Columns
}

// signedBy reports whether the organisation signed it by a gateway key that it had for the last
// block of the range, or had later.
func (m *Manifest) signedBy(all audit.Authorities) bool {
	signed := m.Signed()
	for i, a := range all {
		if i+1 < len(all) && all[i+1].FromBlock <= m.Last {
			continue // over before the last block
		}
		if key := a.GatewayKeys[m.Organisation]; key != nil && wire.VerifyVote(key, signed, m.Signature) {
			return true
		}
	}
	return false
}

// next reads the manifest of the range after another one, of the first range after nil; nil when
// there is none.
func next(ctx context.Context, store Store, chainID string, before *Manifest) (*Manifest, error) {
	first := uint64(1)
	if before != nil {
		first = before.Last + 1
	}
	text, err := store.Get(ctx, ManifestName(chainID, first))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := ParseManifest(text)
	if err == nil && (m.ChainID != chainID || m.First != first) {
		err = fmt.Errorf("it is of block %d of chain %s", m.First, m.ChainID)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestName(chainID, first), err)
	}
	return m, nil
}

// List gives the first rangesMax ranges, the oldest first, by the form of their manifests alone;
// each returning an error ends it. Cost: a manifest read for each.
func List(ctx context.Context, store Store, chainID string, each func(*Manifest) error) error {
	before := (*Manifest)(nil)
	for range rangesMax {
		m, err := next(ctx, store, chainID, before)
		if err != nil || m == nil {
			return err
		}
		if err := each(m); err != nil {
			return err
		}
		before = m
	}
	return fmt.Errorf("the archive %s has more than %d ranges", store, rangesMax)
}

// errEnough ends reading.
var errEnough = errors.New("enough")

// accepted gives the ranges whose manifests follow each other and are signed, the oldest first;
// each returning errEnough ends it. Another manifest is an error.
func accepted(ctx context.Context, store Store, chainID string, authorities audit.Authorities, each func(*Manifest) error) error {
	before := (*Manifest)(nil)
	err := List(ctx, store, chainID, func(m *Manifest) error {
		if wrong := checkManifest(ManifestName(chainID, m.First), m, before, authorities); len(wrong) > 0 {
			return fmt.Errorf("the archive %s: %w: %s", store, ErrFalse, wrong[0])
		}
		before = m
		return each(m)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// plan fixes where an unfinished range ends, so that writing it again gives the same files.
type plan struct {
	Last uint64 `json:"last"`
}

// planned returns the last block of the range that was begun at a block; last when none was.
func planned(ctx context.Context, store Store, chainID string, first, last uint64) (uint64, error) {
	at := name(chainID, first, planSuffix)
	text, err := store.Get(ctx, at)
	if errors.Is(err, os.ErrNotExist) {
		text, err = json.Marshal(plan{last})
		if err != nil {
			return 0, err
		}
		return last, store.Put(ctx, at, text)
	}
	if err != nil {
		return 0, err
	}
	var p plan
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Last < first || p.Last-first >= RangeBlocksMax {
		return 0, fmt.Errorf("%s: no plan of a range: remove it (%v)", at, err)
	}
	return p.Last, nil
}
