package canonical

import (
	"bytes"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

func TestCommitmentVectors(t *testing.T) {
	var vectors struct {
		Cases []struct {
			Name, Table, Column, Type string
			ChainID                   string `json:"chain_id"`
			Value                     valueVector
			Encoded, Salt, Commitment hexBytes
		}
	}
	readVectors(t, "sealed", &vectors)
	if len(vectors.Cases) == 0 {
		t.Fatal("no cases")
	}
	for _, v := range vectors.Cases {
		encoded, err := v.Value.Append(nil)
		must.Do(t, err)
		if !bytes.Equal(encoded, v.Encoded) {
			t.Errorf("%s: encoded %x, want %x", v.Name, encoded, v.Encoded)
		}
		if got := Commitment(v.ChainID, v.Table, v.Column, v.Type, v.Salt, v.Encoded); !bytes.Equal(got[:], v.Commitment) {
			t.Errorf("%s: commitment %x, want %x", v.Name, got, v.Commitment)
		}
	}
}
