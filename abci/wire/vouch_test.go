package wire

import (
	"crypto/ed25519"
	"strings"
	"testing"
)

const testNode = "0123456789abcdef0123456789abcdef01234567"

func testVouch(signers ...string) *Vouch {
	v := &Vouch{Organisation: "acme"}
	for _, signer := range signers {
		key := keyOf(signer)
		v.Sign(key.Public().(ed25519.PublicKey), ed25519.Sign(key, NodeSignBytes("trade-1", "acme", testNode)))
	}
	return v
}

// A vouch counts for one node of one organisation on one chain, by one of the keys given.
func TestAVouchIsForOneNode(t *testing.T) {
	public := func(signer string) []byte { return keyOf(signer).Public().(ed25519.PublicKey) }
	v := testVouch("acme", "its validator")
	other := *v
	other.Organisation = "bolt"
	renamed := &Vouch{Organisation: "acme"}
	renamed.Sign(public("stranger"), v.Signatures[0].Signature[:])
	for _, c := range []struct {
		name        string
		vouch       *Vouch
		key         string
		chain, node string
		want        bool
	}{
		{"the first key", v, "acme", "trade-1", testNode, true},
		{"the second key", v, "its validator", "trade-1", testNode, true},
		{"another key", v, "bolt", "trade-1", testNode, false},
		{"another chain", v, "acme", "trade-2", testNode, false},
		{"another node", v, "acme", "trade-1", strings.Repeat("0", 40), false},
		{"another organisation", &other, "acme", "trade-1", testNode, false},
		{"a signature under the name of another key", renamed, "stranger", "trade-1", testNode, false},
		{"no signature", &Vouch{Organisation: "acme"}, "acme", "trade-1", testNode, false},
	} {
		if got := c.vouch.By([][]byte{public("elsewhere"), public(c.key)}, c.chain, c.node); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestParseVouchRefusesOtherSpellings(t *testing.T) {
	one := testVouch("acme").String()
	if v, err := ParseVouch(one); err != nil || v.String() != one {
		t.Fatalf("%v, %v", v, err)
	}
	if v, err := ParseVouch(testVouch(strings.Split("a b c d e f g h", " ")...).String()); err != nil || len(v.Signatures) != NodeSignaturesMax {
		t.Fatalf("as many signatures as there may be: %v, %v", v, err)
	}
	name, signature, _ := strings.Cut(one, " ")
	for what, text := range map[string]string{
		"nothing":               "",
		"a name alone":          name,
		"two spaces":            name + "  " + signature,
		"a space at the end":    one + " ",
		"a name that is none":   "Acme " + signature,
		"upper case":            name + " " + strings.ToUpper(signature[:16]) + signature[16:],
		"padding":               one + "==",
		"a line":                one + "\n",
		"a short signature":     one[:len(one)-2],
		"bits beyond the bytes": one[:len(one)-1] + "_",
		"no key":                name + " " + signature[16:],
		"nine signatures":       name + strings.Repeat(" "+signature, 9),
		"a text without end":    strings.Repeat("a", VouchBytesMax+1),
	} {
		if v, err := ParseVouch(text); err == nil {
			t.Errorf("%s: %q is read as %v", what, text, v)
		}
	}
	if err := CheckNodeID(testNode); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"", testNode[1:], strings.ToUpper(testNode), testNode + "00", "x" + testNode[1:]} {
		if CheckNodeID(id) == nil {
			t.Errorf("%q counts as the id of a node", id)
		}
	}
}

func FuzzParseVouch(f *testing.F) {
	f.Add(testVouch("acme", "bolt").String())
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := ParseVouch(text); err == nil && v.String() != text {
			t.Errorf("%q is accepted and written as %q", text, v)
		}
	})
}
