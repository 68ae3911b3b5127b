//go:build synthetic_next

package audit

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// next is what audit.py would have of the synthetic next version: another form of votes, another
// domain string.
const next = `
import sys
sys.path.insert(0, sys.argv.pop(1))
import audit
import archive
vote, salted = audit.effect_vote, audit.salted
audit.effect_vote = lambda e: vote(e[5:] if e[:5] == bytes([254, 0, 0, 0, 2]) else e)
audit.salted = lambda e, o, h: audit.sha256(b"chainify/effect-vote/synthetic-2", audit.lp(o.encode()), h) if e[0] == 254 else salted(e, o, h)
sys.exit(audit.main())
`

// under has the votes of a digest be cast under a version of the protocol.
func under(t *testing.T, digest json.RawMessage, p wire.Protocol) json.RawMessage {
	t.Helper()
	r := &Receipt{}
	must.Do(t, json.Unmarshal(digest, r))
	for i := range r.Certificate.Votes {
		v := &r.Certificate.Votes[i]
		v.Extension = wire.NewEffectsVote(wire.Key{Number: r.Block.Number, Protocol: p}, v.Organisation, wire.Hash(r.Hash)).Encode()
		v.Signature = ed25519.Sign(key(v.Organisation+" validator"), wire.ExtensionSignBytes(r.ChainID, v.Height, v.Round, v.Extension))
	}
	return encoded(t, r)
}

// Digests of both versions hold, for Go and for Python, under a record in which the organisations
// approve the next version. A vote whose form is that of one version and its value that of the
// other does not.
func TestReceiptsOfBothVersionsHold(t *testing.T) {
	founding := Founding{ChainID: "trade-1"}
	genesis := map[string]any{"chain_id": "trade-1"}
	var organisations []map[string]any
	spell := base64.StdEncoding.EncodeToString
	for _, name := range []string{"acme", "bolt", "cargo"} {
		founding.Organisations = append(founding.Organisations, Organisation{
			Name: name, GatewayKey: public(name + " gateway"), Validators: [][]byte{public(name + " validator")},
		})
		organisations = append(organisations, map[string]any{
			"name": name, "gateway_key": spell(public(name + " gateway")), "validators": []string{spell(public(name + " validator"))},
		})
	}
	genesis["app_state"] = map[string]any{"organisations": organisations}
	change := sequence(1, 100, &wire.GovernanceAction{Body: &wire.GovernanceAction_ProtocolVersion{ProtocolVersion: 2}})
	record := Governance{Version: GovernanceVersion, ChainID: "trade-1", Changes: []GovernanceChange{
		approvedBy(10, change, "acme gateway", "bolt gateway", "cargo gateway"),
	}}
	authorities, err := founding.Authorities(&record)
	must.Do(t, err)
	first := digestOf(t, 9, 90, "acme validator", "bolt validator", "cargo validator")
	later := under(t, digestOf(t, 11, 110, "acme validator", "bolt validator", "cargo validator"), 2)
	mixed := strings.Replace(string(later), "fe00000002", "fe00000003", 1)
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, text, 0o600))
		return path
	}
	script, genesisFile, recordFile := write("next.py", []byte(next)), write("genesis.json", encoded(t, genesis)), write("record.json", encoded(t, record))
	for name, c := range map[string]struct {
		digest []byte
		holds  bool
	}{"first": {first, true}, "next": {later, true}, "mixed": {[]byte(mixed), false}} {
		r, err := Parse(c.digest)
		must.Do(t, err)
		if wrong := r.Check(authorities.For(r.Block.Number)); (len(wrong) == 0) != c.holds {
			t.Errorf("%s, in Go: %v", name, wrong)
		}
		out, err := exec.Command("python3", script, filepath.Join("..", "..", "audit"), "--genesis", genesisFile, "--governance", recordFile, write(name+".json", c.digest)).CombinedOutput()
		if (err == nil) != c.holds {
			t.Errorf("%s, in Python: %v\n%s", name, err, out)
		}
	}
}
