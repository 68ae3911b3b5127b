package app

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	dbm "github.com/cometbft/cometbft-db"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// A certificate takes half of its JSON, is read as it was written, and those that a former release
// wrote are read as well. A damaged one, or one that unpacks to too much, is an error.
func TestCertificatesArePacked(t *testing.T) {
	c := &wire.Certificate{Number: 7, Hash: wire.Hash{1}}
	for i, name := range []string{"acme", "bolt", "cargo", "delta"} {
		signature := make([]byte, 64)
		for j := range signature {
			signature[j] = byte(89*i + 47*j*j)
		}
		c.Votes = append(c.Votes, wire.CertifiedVote{Organisation: name, Validator: signature[:20], Height: 8, Extension: bytes.Repeat([]byte{3, 250}, 45), Signature: signature})
	}
	plain, err := json.Marshal(c)
	must.Do(t, err)
	store := NewStore(dbm.NewMemDB())
	w := &writer{batch: store.db.NewBatch()}
	w.packed(numberKey('c', 7), c)
	w.set(numberKey('c', 8), plain)
	large, err := pack(make([]byte, packedMax+1))
	must.Do(t, err)
	w.set(numberKey('c', 9), large)
	w.set(numberKey('c', 10), []byte("x"))
	if err := w.batch.Write(); err != nil || w.err != nil {
		t.Fatal(err, w.err)
	}
	for number := uint64(7); number <= 8; number++ {
		if got, err := store.Certificate(number); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("certificate %d: %+v, %v", number, got, err)
		}
	}
	for number := uint64(9); number <= 10; number++ {
		if got, err := store.Certificate(number); err == nil {
			t.Errorf("certificate %d: %+v", number, got)
		}
	}
	if raw, err := store.db.Get(numberKey('c', 7)); err != nil || len(raw) > len(plain)/2 {
		t.Errorf("%d bytes of %d, %v", len(raw), len(plain), err)
	}
}
