package wire

import "testing"

func TestVectorsOfSignatures(t *testing.T) {
	var v struct {
		Cases []struct {
			Name      string
			PublicKey hexBytes `json:"public_key"`
			Message   hexBytes
			Signature hexBytes
			Valid     bool
		}
	}
	readVectors(t, "signatures", &v)
	for _, c := range v.Cases {
		if valid := VerifyVote(c.PublicKey, c.Message, c.Signature); valid != c.Valid {
			t.Errorf("%s: valid %t, want %t", c.Name, valid, c.Valid)
		}
	}
	if VerifyVote(nil, nil, nil) {
		t.Error("no key verifies")
	}
}
