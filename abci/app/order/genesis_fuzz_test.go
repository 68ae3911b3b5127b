package order

import (
	"encoding/json"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

func FuzzParseGenesis(f *testing.F) {
	f.Add([]byte(`{"organisations":[{"name":"a","gateway_key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","validators":["AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]}],"consent":1,"parameters":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := ParseGenesis(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(g)
		must.Do(t, err)
		if _, err := ParseGenesis(again); err != nil {
			t.Errorf("%s is accepted, and refused as %s: %v", text, again, err)
		}
	})
}
