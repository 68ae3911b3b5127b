package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

type authorityVector struct {
	ChainID    string `json:"chain_id"`
	Consent    int
	Validators []struct {
		Organisation string
		PublicKey    hexBytes `json:"public_key"`
	}
}

func (v authorityVector) authority() Authority {
	a := Authority{ChainID: v.ChainID, Consent: v.Consent}
	for _, k := range v.Validators {
		a.Validators = append(a.Validators, Validator{k.Organisation, k.PublicKey})
	}
	return a
}

type vector struct {
	Name, Field string
	Authority   authorityVector
	Receipt     json.RawMessage
}

func vectors(t *testing.T) (receipts, forged []vector) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "spec", "vectors", "receipts.json"))
	must.Do(t, err)
	var v struct{ Receipts, Forged []vector }
	must.Do(t, json.Unmarshal(text, &v))
	return v.Receipts, v.Forged
}

// verdict is what is wrong with a receipt's text: its form, or what Check finds.
func verdict(text []byte, a Authority) []string {
	r, err := Parse(text)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, f := range r.Check(a) {
		out = append(out, f.String())
	}
	return out
}

func TestReceiptsHold(t *testing.T) {
	receipts, _ := vectors(t)
	for _, v := range receipts {
		if wrong := verdict(v.Receipt, v.Authority.authority()); wrong != nil {
			t.Errorf("%s: %q", v.Name, wrong)
		}
	}
}

func TestForgeriesAreNamed(t *testing.T) {
	_, forged := vectors(t)
	for _, v := range forged {
		if wrong := verdict(v.Receipt, v.Authority.authority()); wrong == nil || !strings.HasPrefix(wrong[0], v.Field+":") {
			t.Errorf("%s: %q, want one about %s", v.Name, wrong, v.Field)
		}
	}
}

// Each value in a receipt counts, and each character of its texts (of all for one of the receipts):
// changed or left out, it is refused. The error names its part, or the hash that it went into.
func TestEveryFieldOfAReceiptCounts(t *testing.T) {
	receipts, _ := vectors(t)
	for i, v := range receipts {
		var whole any
		must.Do(t, json.Unmarshal(v.Receipt, &whole))
		tried := 0
		mutate(whole, "", i == 5, func(where string) {
			tried++
			text, err := json.Marshal(whole)
			must.Do(t, err)
			wrong := verdict(text, v.Authority.authority())
			if wrong == nil {
				t.Errorf("%s: %s changed, and it holds", v.Name, where)
			} else if !slices.ContainsFunc(wrong, func(said string) bool { return names(said, where) }) {
				t.Errorf("%s: %s changed, and it says %q", v.Name, where, wrong)
			}
		})
		if tried < 100 {
			t.Errorf("%s: %d mutations, that is too few", v.Name, tried)
		}
	}
}

// names reports whether what is said leads to the part of the receipt that was changed.
func names(said, where string) bool {
	part, _, _ := strings.Cut(where, ".")
	if part == "block" || part == "chain_id" { // they are hashed together, and the hash is another one
		return strings.HasPrefix(said, part) || strings.HasPrefix(said, "hash:")
	}
	return strings.HasPrefix(said, part)
}

// mutate changes each value of a JSON document in some ways, or in all, calls check, and puts it
// back.
func mutate(v any, at string, all bool, check func(where string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, old := range v {
			where := strings.TrimPrefix(at+"."+name, ".")
			for _, changed := range variants(old, all) {
				v[name] = changed
				check(where)
			}
			if name != "transaction" || v["change"] == nil { // a digest is a receipt without a transaction
				optional := name == "transaction" || name == "change"
				delete(v, name)
				if !optional {
					check(where)
				}
			}
			v[name] = old
			mutate(old, where, all, check)
		}
	case []any:
		for i, old := range v {
			where := fmt.Sprintf("%s[%d]", at, i)
			for _, changed := range variants(old, all) {
				v[i] = changed
				check(where)
			}
			v[i] = old
			mutate(old, where, all, check)
		}
	}
}

func variants(v any, all bool) []any {
	switch v := v.(type) {
	case bool:
		return []any{!v, nil}
	case float64:
		return []any{v + 1, v - 1, "1", nil}
	case string:
		out := []any{v + "00", v + "x", "", float64(1)}
		for i := range v {
			if !all && i > 0 && i < len(v)-1 {
				continue
			}
			other := byte('0')
			if v[i] == '0' {
				other = '1'
			}
			out = append(out, v[:i]+string(other)+v[i+1:])
		}
		return out
	case []any:
		if len(v) == 0 {
			return []any{[]any{strings.Repeat("00", 32)}, nil}
		}
		return []any{nil, v[1:], v[:len(v)-1], append(v[:len(v):len(v)], v[0])}
	default:
		return nil
	}
}

func TestContradictionsAreNamed(t *testing.T) {
	at := func(number uint64, hash, previous byte) *Receipt {
		r := &Receipt{Block: Block{Number: number}}
		r.Hash[0], r.Block.Previous[0] = hash, previous
		return r
	}
	for _, c := range []struct {
		name string
		list []*Receipt
		want string
	}{
		{"none", []*Receipt{at(9, 3, 2), at(7, 1, 0), at(8, 2, 1), at(8, 2, 1), at(20, 9, 8)}, ""},
		{"two of one number", []*Receipt{at(7, 1, 0), at(9, 1, 0), at(7, 2, 0)}, "block 7: there are two"},
		{"one that does not follow", []*Receipt{at(8, 2, 2), at(7, 1, 0)}, "block 8: it follows 02"},
	} {
		found := Contradictions(c.list)
		if (c.want == "") != (len(found) == 0) || c.want != "" && !strings.HasPrefix(found[0].String(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, found, c.want)
		}
	}
}

func FuzzReceipt(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("..", "..", "spec", "vectors", "receipts.json"))
	var v struct{ Receipts, Forged []vector }
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range append(v.Receipts, v.Forged...) {
		f.Add([]byte(c.Receipt))
	}
	authority := v.Receipts[0].Authority.authority()
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		r.Check(authority) // must not panic, whatever it finds
		again, err := json.Marshal(r)
		must.Do(t, err)
		if _, err := Parse(again); err != nil {
			t.Fatalf("written again it is not read: %v", err)
		}
	})
}
