package archive

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

const chainID = "trade-1"

// keyOf is a key made from a name: the same each time, so that vectors are.
func keyOf(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(name string) []byte { return keyOf(name).Public().(ed25519.PublicKey) }

var members = []string{"acme", "bolt", "cargo"}

// founding is the consortium of these tests.
func founding() audit.Founding {
	f := audit.Founding{ChainID: chainID}
	for _, m := range members {
		f.Organisations = append(f.Organisations, audit.Organisation{Name: m, GatewayKey: public(m + " gateway"), Validators: [][]byte{public(m + " validator")}})
	}
	return f
}

func authorities(t testing.TB) audit.Authorities {
	t.Helper()
	a, err := founding().Authorities(nil)
	must.Do(t, err)
	return a
}

// database is a Source in memory. Block n has n % 3 + 1 transactions, of which the second fails,
// and two changes for each that succeeds.
type database struct {
	keys         uint32
	blocks       []*Block
	transactions []*Transaction
	changes      []*Change
	columns      []*Column
	states       []State // at the end of each block, but for the number of rows
	head         Head
}

func newDatabase(t testing.TB, blocks int) *database {
	t.Helper()
	return newDatabaseOf(t, blocks, 2)
}

// newDatabaseOf has so many changes for each transaction that succeeds.
func newDatabaseOf(t testing.TB, blocks int, keys uint32) *database {
	t.Helper()
	d := &database{keys: keys}
	for i, column := range []string{"id", "name", "paid"} {
		d.columns = append(d.columns, &Column{
			Table: "public.t", SinceTx: 0, Ordinal: uint16(i + 1), Name: column, Type: []string{"bigint", "text", "numeric"}[i], KeyPart: uint16(1 - min(i, 1)),
		})
	}
	d.states = []State{
		{Name: "definitions", State: bytes.Repeat([]byte{7}, 32)},
		{Name: "public.t", Encoding: 1, Text: schemaText, State: make([]byte, canonical.LaneBytes)},
	}
	previous := wire.Hash{}
	for n := range blocks {
		d.addBlock(t, uint64(n+1), previous)
		previous = d.blocks[n].Hash
	}
	d.head.Certified = uint64(blocks)
	return d
}

func encoded(t testing.TB, columns ...canonical.Column) []byte {
	t.Helper()
	raw, err := canonical.AppendRow(nil, columns)
	must.Do(t, err)
	return raw
}

func (d *database) addBlock(t testing.TB, number uint64, previous wire.Hash) {
	t.Helper()
	count := uint32(number%3 + 1)
	b := &Block{Header: wire.Header{
		ChainID: chainID, Number: number, OrderHeight: number * 2, BlockTime: 1_700_000_000_000_000 + int64(number), Outcomes: wire.NewOutcomes(count), Previous: previous,
	}}
	root, err := Root(d.statesAt(number))
	must.Do(t, err)
	b.Header.StateRoot = root
	var ids []wire.TxID
	var changes []*Change
	for i := range count {
		proposal := wire.Encode(&wire.Proposal{
			ChainId: chainID, Client: &wire.Client{Organisation: "acme", Role: "alice"}, Kind: wire.Kind_KIND_SQL, Sql: fmt.Sprintf("SELECT %d", number),
			Nonce: number<<8 + uint64(i), ValidUntilHeight: number*2 + 100,
		})
		tx := &Transaction{Block: number, Index: i, ID: wire.TxIDOf(proposal), Body: wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: proposal}})}
		if tx.Succeeded = i != 1; tx.Succeeded {
			b.Header.Outcomes.Set(i)
			tx.Rows = 2
			for k := range d.keys {
				key := canonical.Column{Ordinal: 1, Value: canonical.Value{Tag: canonical.Integer, Number: int64(k)}}
				changes = append(changes, &Change{
					Block: number, Table: "public.t", Tx: i, Op: 'U', Key: encoded(t, key),
					Row: encoded(t, key, canonical.Column{Ordinal: 2, Value: canonical.Value{Tag: canonical.Text, Text: "naïve \"<&>\""}},
						canonical.Column{Ordinal: 3, Value: canonical.Value{Tag: canonical.Numeric, Text: fmt.Sprintf("%d.5", number)}}),
				})
			}
		} else {
			tx.SQLState, tx.Message = "23505", "duplicate key"
		}
		d.transactions, ids = append(d.transactions, tx), append(ids, tx.ID)
	}
	slices.SortStableFunc(changes, func(a, b *Change) int { return slices.Compare(a.Key, b.Key) })
	var leaves []wire.Hash
	for i, c := range changes {
		if i > 0 && slices.Equal(changes[i-1].Key, c.Key) {
			c.Serial = changes[i-1].Serial + 1
		}
		leaves = append(leaves, c.leaf())
	}
	d.changes = append(d.changes, changes...)
	b.Header.TxRoot, b.Header.EffectsRoot, b.Header.EffectsCount = wire.TxRoot(ids), wire.MerkleRoot(leaves), uint32(len(leaves))
	b.Hash = b.Header.Hash()
	certify(b)
	d.blocks = append(d.blocks, b)
}

func sha256Of(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// certify gives a block the votes of all members.
func certify(b *Block) {
	b.Votes = nil
	for _, m := range members {
		key := wire.Key{Number: b.Header.Number, OrderHash: wire.Hash(sha256Of(fmt.Sprint("order ", b.Header.Number)))}
		extension := wire.NewEffectsVote(key, m, b.Hash).Encode()
		height := int64(b.Header.OrderHeight) + 1
		address := sha256.Sum256(public(m + " validator"))
		b.Votes = append(b.Votes, wire.CertifiedVote{
			Organisation: m, Validator: address[:20], Height: height, Extension: extension,
			Signature: ed25519.Sign(keyOf(m+" validator"), wire.ExtensionSignBytes(chainID, height, 0, extension)),
		})
	}
}

func (d *database) ArchiveHead(context.Context) (Head, error) { return d.head, nil }

func (d *database) SetArchived(_ context.Context, place string, block uint64, hash wire.Hash) error {
	if d.blocks[block-1].Hash != hash {
		return fmt.Errorf("block %d has another hash", block)
	}
	d.head.Place, d.head.Archived = place, block
	return nil
}

func (d *database) ReadArchive(context.Context) (Reading, error) { return d, nil }

func (d *database) Close() {}

func rows[T any](all []*T, number func(*T) uint64, from, to uint64, each func(*T) error) error {
	for _, row := range all {
		if n := number(row); n >= from && n <= to {
			given := *row
			if err := each(&given); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *database) Blocks(_ context.Context, from, to uint64, each func(*Block) error) error {
	return rows(d.blocks, func(b *Block) uint64 { return b.Header.Number }, from, min(to, d.head.Certified), each)
}

func (d *database) Transactions(_ context.Context, from, to uint64, each func(*Transaction) error) error {
	return rows(d.transactions, func(t *Transaction) uint64 { return t.Block }, from, to, each)
}

func (d *database) Changes(_ context.Context, from, to uint64, each func(*Change) error) error {
	return rows(d.changes, func(c *Change) uint64 { return c.Block }, from, to, each)
}

// schemaText is that of public.t, with a line in it that looks as if it were of a column.
const schemaText = "column 1 id bigint not null\ncolumn 2 name text collate pg_catalog.\"default\" default 'a\n column 2'::text\ncolumn 3 paid numeric\nconstraint PRIMARY KEY (id)"

// statesAt are those at the end of a block.
func (d *database) statesAt(block uint64) []State {
	states := slices.Clone(d.states)
	for i := range states {
		if states[i].Encoding != 0 {
			states[i].Rows = block
		}
	}
	return states
}

func (d *database) Names(_ context.Context, each func(*Column) error) (*Definitions, error) {
	if err := rows(d.columns, func(*Column) uint64 { return 0 }, 0, 0, each); err != nil || d.states == nil {
		return nil, err
	}
	var last *Block
	for _, b := range d.blocks {
		if b.Header.Number <= d.head.Certified {
			last = b
		}
	}
	return NewDefinitions(last, d.statesAt(last.Header.Number))
}

// options archive a database in a place, ten blocks at a time.
func options(t testing.TB, d *database, store Store) Options {
	t.Helper()
	return Options{
		Source: d, Store: store, ChainID: chainID, Organisation: "acme", RangeBlocks: 10,
		Authorities: func() (audit.Authorities, error) { return authorities(t), nil },
		Key:         func() (crypto.Signer, error) { return keyOf("acme gateway"), nil },
	}
}

// archived archives all blocks of a database in a new directory.
func archived(t testing.TB, d *database) Directory {
	t.Helper()
	store := Directory(t.TempDir())
	archiveAll(t, New(options(t, d, store)))
	return store
}

func archiveAll(t testing.TB, a *Archiver) (ranges int) {
	t.Helper()
	must.Do(t, a.Run(t.Context(), 0, func(*Manifest) { ranges++ }))
	return ranges
}

// A block that differs in any part that its certificate is checked by has another seal.
func TestASealHasAllThatACertificateIsCheckedBy(t *testing.T) {
	fresh := func() *Block { return newDatabase(t, 5).blocks[3] }
	seen := map[[32]byte]string{fresh().seal(): "itself"}
	if again := fresh().seal(); seen[again] == "" {
		t.Fatal("a block has two seals")
	}
	for what, change := range map[string]func(b *Block){
		"header":       func(b *Block) { b.Header.BlockTime++ },
		"chain":        func(b *Block) { b.Header.ChainID += "x" },
		"hash":         func(b *Block) { b.Hash[0]++ },
		"effect round": func(b *Block) { b.EffectRound++ },
		"fewer votes":  func(b *Block) { b.Votes = b.Votes[1:] },
		"order":        func(b *Block) { b.Votes[0], b.Votes[1] = b.Votes[1], b.Votes[0] },
		"organisation": func(b *Block) { b.Votes[0].Organisation += "x" },
		"validator":    func(b *Block) { b.Votes[0].Validator = append(slices.Clone(b.Votes[0].Validator), 0) },
		"height":       func(b *Block) { b.Votes[0].Height++ },
		"round":        func(b *Block) { b.Votes[0].Round++ },
		"extension":    func(b *Block) { b.Votes[0].Extension = append(slices.Clone(b.Votes[0].Extension), 0) },
		"signature":    func(b *Block) { b.Votes[0].Signature = append(slices.Clone(b.Votes[0].Signature), 0) },
	} {
		b := fresh()
		b.Votes = slices.Clone(b.Votes)
		change(b)
		if other, is := seen[b.seal()]; is {
			t.Errorf("%s: the seal is that of %s", what, other)
		}
		seen[b.seal()] = what
	}
}
