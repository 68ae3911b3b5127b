package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

var governanceVectors = filepath.Join("..", "..", "spec", "vectors", "governance.json")

// governanceVector is a record, and what holds under it: digests by block, and where one does not,
// the field that says so.
type governanceVector struct {
	Name    string          `json:"name"`
	Record  json.RawMessage `json:"record"`
	Field   string          `json:"field"` // of the record that is wrong; empty: none
	Digests []digestVector  `json:"digests"`
}

type digestVector struct {
	Field  string          `json:"field"` // empty: it holds
	Digest json.RawMessage `json:"digest"`
}

type governanceFile struct {
	ChainID       string `json:"chain_id"`
	Organisations []struct {
		Name         string     `json:"name"`
		GatewayKey   hexBytes   `json:"gateway_key"`
		Validators   []hexBytes `json:"validators"`
		OrderingOnly bool       `json:"ordering_only"`
	} `json:"organisations"`
	Cases []governanceVector `json:"cases"`
}

func (f governanceFile) founding() Founding {
	out := Founding{ChainID: f.ChainID}
	for _, o := range f.Organisations {
		founder := Organisation{Name: o.Name, GatewayKey: o.GatewayKey, OrderingOnly: o.OrderingOnly}
		for _, key := range o.Validators {
			founder.Validators = append(founder.Validators, key)
		}
		out.Organisations = append(out.Organisations, founder)
	}
	return out
}

// key is a signing key by name, such as "acme gateway 2".
func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(name string) []byte { return key(name).Public().(ed25519.PublicKey) }

// approvedBy is a change with the signatures of gateway keys, by organisation.
func approvedBy(fromBlock uint64, c *wire.GovernanceChange, keys ...string) GovernanceChange {
	raw := wire.Encode(c)
	out := GovernanceChange{FromBlock: fromBlock, Change: raw}
	for _, name := range keys {
		organisation, _, _ := strings.Cut(name, " ")
		out.Approvals = append(out.Approvals, Approval{organisation, made(wire.Approve(key(name), organisation, c.ChainId, raw)).Signature})
	}
	return out
}

// digestOf is a digest of a block that validators sign, by organisation.
func digestOf(t *testing.T, number, height uint64, keys ...string) json.RawMessage {
	t.Helper()
	r := &Receipt{Version: Version, ChainID: "trade-1", Block: Block{Number: number, OrderHeight: height, BlockTime: 1_700_000_000_000_000, TxCount: 1, Outcomes: hexBytes{1}}}
	r.Block.Previous[0] = byte(number)
	header, err := r.Block.header(r.ChainID)
	must.Do(t, err)
	r.Hash = hash(header.Hash())
	for _, name := range keys {
		organisation, _, _ := strings.Cut(name, " ")
		address := sha256.Sum256(public(name))
		extension := wire.NewEffectsVote(wire.Key{Number: number}, organisation, wire.Hash(r.Hash)).Encode()
		r.Certificate.Votes = append(r.Certificate.Votes, Vote{
			Organisation: organisation, Validator: address[:addressBytes], Height: int64(height) + 1, Extension: extension,
			Signature: ed25519.Sign(key(name), wire.ExtensionSignBytes(r.ChainID, int64(height)+1, 0, extension)),
		})
	}
	return encoded(t, r)
}

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	must.Do(t, err)
	return text
}

func sequence(n uint64, height uint64, actions ...*wire.GovernanceAction) *wire.GovernanceChange {
	return &wire.GovernanceChange{ChainId: "trade-1", Sequence: n, EffectiveHeight: height, Actions: actions}
}

func validator(organisation, name string, power uint64) *wire.GovernanceAction {
	return &wire.GovernanceAction{Body: &wire.GovernanceAction_Validator{Validator: &wire.MemberValidator{
		Organisation: organisation, Validator: &wire.ValidatorPower{Key: public(name), Power: power},
	}}}
}

// makeGovernance makes the vectors: three firms and one that only orders; keys change, a fourth
// comes, one goes, the orderer votes.
func makeGovernance(t *testing.T) governanceFile {
	f := governanceFile{ChainID: "trade-1"}
	for _, name := range []string{"acme", "bolt", "cargo", "echo"} {
		f.Organisations = append(f.Organisations, struct {
			Name         string     `json:"name"`
			GatewayKey   hexBytes   `json:"gateway_key"`
			Validators   []hexBytes `json:"validators"`
			OrderingOnly bool       `json:"ordering_only"`
		}{name, public(name + " gateway"), []hexBytes{public(name + " validator")}, name == "echo"})
	}
	gatewayKey := &wire.GovernanceAction{Body: &wire.GovernanceAction_GatewayKey{GatewayKey: &wire.GatewayKey{Organisation: "acme", Key: public("acme gateway 2")}}}
	add := &wire.GovernanceAction{Body: &wire.GovernanceAction_Add{Add: &wire.Member{
		Organisation: "delta", GatewayKey: public("delta gateway"), Validators: []*wire.ValidatorPower{{Key: public("delta validator"), Power: 1}},
	}}}
	remove := &wire.GovernanceAction{Body: &wire.GovernanceAction_Remove{Remove: "bolt"}}
	votes := &wire.GovernanceAction{Body: &wire.GovernanceAction_OrderingOnly{OrderingOnly: &wire.OrderingOnly{Organisation: "echo"}}}
	consent := &wire.GovernanceAction{Body: &wire.GovernanceAction_Consent{Consent: 4}}
	approvals := &wire.GovernanceAction{Body: &wire.GovernanceAction_Approvals{Approvals: 4}}

	times := &wire.GovernanceAction{Body: &wire.GovernanceAction_BlockTimes{BlockTimes: &wire.BlockTimes{Statements: 20_000}}}
	shares := &wire.GovernanceAction{Body: &wire.GovernanceAction_BlockShares{BlockShares: &wire.BlockShares{Client: 100, Organisation: 2000}}}

	keys := approvedBy(10, sequence(1, 100, gatewayKey, validator("acme", "acme validator", 0), validator("acme", "acme validator 2", 5)), "acme gateway", "bolt gateway", "cargo gateway")
	joins := approvedBy(20, sequence(2, 0, add, votes, approvals, consent), "acme gateway 2", "bolt gateway", "cargo gateway")
	withdrawal := &wire.GovernanceAction{Body: &wire.GovernanceAction_Withdraw{Withdraw: make([]byte, 32)}}
	withdrawn := approvedBy(10, sequence(3, 0, withdrawal), "acme gateway 2", "bolt gateway", "cargo gateway") // change 2 was
	then := approvedBy(20, sequence(4, 0, add, votes, approvals, consent), "acme gateway 2", "bolt gateway", "cargo gateway")
	leaves := approvedBy(20, sequence(3, 0, remove), "acme gateway 2", "bolt gateway", "cargo gateway", "delta gateway")
	toVersion := &wire.GovernanceAction{Body: &wire.GovernanceAction_ProtocolVersion{ProtocolVersion: 2}}
	version := sequence(3, 50, toVersion)
	elsewhere := &wire.GovernanceChange{ChainId: "trade-2", Sequence: 3, EffectiveHeight: 50, Actions: []*wire.GovernanceAction{toVersion}}
	withdraws := func(n uint64, of *wire.GovernanceChange) GovernanceChange { // by two of five
		sum := sha256.Sum256(wire.Encode(of))
		change := sequence(n, 0, &wire.GovernanceAction{Body: &wire.GovernanceAction_Withdraw{Withdraw: sum[:]}})
		return approvedBy(20, change, "bolt gateway", "cargo gateway")
	}
	showing := func(c GovernanceChange, withdrawn *wire.GovernanceChange) GovernanceChange {
		c.Withdrawn = wire.Encode(withdrawn)
		return c
	}
	two := showing(withdraws(4, version), version)
	record := func(changes ...GovernanceChange) json.RawMessage {
		return encoded(t, Governance{Version: GovernanceVersion, ChainID: "trade-1", Changes: append([]GovernanceChange{}, changes...)})
	}
	without := func(c GovernanceChange, approvals ...int) GovernanceChange {
		var kept []Approval
		for i, a := range c.Approvals {
			if !slices.Contains(approvals, i) {
				kept = append(kept, a)
			}
		}
		c.Approvals = kept
		return c
	}
	from := func(c GovernanceChange, block uint64) GovernanceChange {
		c.FromBlock = block
		return c
	}
	founders := digestOf(t, 9, 90, "acme validator", "bolt validator", "cargo validator")
	later := digestOf(t, 15, 120, "acme validator 2", "bolt validator", "cargo validator")
	last := digestOf(t, 20, 200, "acme validator 2", "cargo validator", "delta validator", "echo validator")
	whole := record(keys, joins, leaves)
	f.Cases = []governanceVector{
		{"nothing changed", record(), "", []digestVector{{"", founders}, {"certificate.votes[0]", later}}},
		{"keys, organisations and consent changed", whole, "", []digestVector{
			{"", founders},
			{"", later},
			{"", last},
			{"certificate.votes[0]", digestOf(t, 10, 100, "acme validator", "bolt validator", "cargo validator")},
			{"block.order_height", digestOf(t, 10, 99, "acme validator 2", "bolt validator", "cargo validator")},
			{"certificate.votes[1]", digestOf(t, 20, 200, "acme validator 2", "bolt validator", "cargo validator", "delta validator", "echo validator")},
			{"certificate", digestOf(t, 21, 201, "acme validator 2", "cargo validator", "delta validator")},
		}},
		{"one was withdrawn", record(keys, withdrawn, then), "", []digestVector{
			{"", founders},
			{"", later},
			{"block.order_height", digestOf(t, 10, 99, "acme validator 2", "bolt validator", "cargo validator")},
			{"certificate", digestOf(t, 20, 200, "acme validator 2", "bolt validator", "cargo validator")},
		}},
		{"the first was withdrawn", record(approvedBy(1, sequence(2, 0, withdrawal), "acme gateway", "bolt gateway", "cargo gateway")), "", []digestVector{{"", founders}}},
		{"a block's time and its shares changed", record(approvedBy(10, sequence(1, 100, times, shares), "acme gateway", "bolt gateway", "cargo gateway")), "", []digestVector{
			{"", founders},
			{"", digestOf(t, 15, 120, "acme validator", "bolt validator", "cargo validator")},
		}},
		{"two of five withdrew a version", record(keys, joins, two), "", []digestVector{{"", digestOf(t, 20, 200, "acme validator 2", "bolt validator", "cargo validator", "delta validator")}}},
		{"one of five withdrew a version", record(keys, joins, without(two, 0)), "changes[2].approvals", nil},
		{"two withdrew, and no version is shown", record(keys, joins, withdraws(4, version)), "changes[2].approvals", nil},
		{"two withdrew another change", record(keys, joins, showing(withdraws(4, sequence(3, 50, consent)), sequence(3, 50, consent))), "changes[2].withdrawn", nil},
		{"two withdrew another version than is shown", record(keys, joins, showing(two, sequence(3, 51, toVersion))), "changes[2].withdrawn", nil},
		{"two withdrew a version of another number", record(keys, joins, showing(withdraws(4, sequence(2, 50, toVersion)), sequence(2, 50, toVersion))), "changes[2].withdrawn", nil},
		{"two withdrew a version of another chain", record(keys, joins, showing(withdraws(4, elsewhere), elsewhere)), "changes[2].withdrawn", nil},
		{"a version is shown with another change", record(showing(keys, version)), "changes[0].withdrawn", nil},
		{"the withdrawal is left out", record(keys, then), "changes[1].change", nil},
		{"a withdrawal of none", record(keys, approvedBy(10, sequence(2, 0, withdrawal), "acme gateway 2", "bolt gateway", "cargo gateway")), "changes[1].change", nil},
		{"a withdrawal lacks an approval", record(keys, without(withdrawn, 0), then), "changes[1].approvals", nil},
		{"a withdrawal from a block", record(keys, from(withdrawn, 11), then), "changes[1].from_block", nil},
		{"one approval is missing", record(keys, without(joins, 1), leaves), "changes[1].approvals", nil},
		{"a key approves that was replaced", record(keys, approvedBy(20, sequence(2, 0, add), "acme gateway", "bolt gateway", "cargo gateway")), "changes[1].approvals[0]", nil},
		{"who only orders approves", record(approvedBy(10, sequence(1, 0, add), "acme gateway", "bolt gateway", "echo gateway")), "changes[0].approvals[2]", nil},
		{"one organisation approves twice", record(approvedBy(10, sequence(1, 0, add), "acme gateway", "bolt gateway", "bolt gateway")), "changes[0].approvals[2]", nil},
		{"as many as a change asked for do not approve", record(keys, joins, without(leaves, 3)), "changes[2].approvals", nil},
		{"a change left out", record(joins), "changes[0].change", nil},
		{"changes in another order", record(joins, keys), "changes[0].change", nil},
		{"of another chain", record(approvedBy(10, &wire.GovernanceChange{ChainId: "trade-2", Sequence: 1, Actions: []*wire.GovernanceAction{add}}, "acme gateway", "bolt gateway", "cargo gateway")), "changes[0].change", nil},
		{"a block before the change before", record(keys, from(joins, 9)), "changes[1].from_block", nil},
		{"who is removed takes no part", record(approvedBy(10, sequence(1, 0, &wire.GovernanceAction{Body: &wire.GovernanceAction_Remove{Remove: "delta"}}), "acme gateway", "bolt gateway", "cargo gateway")), "changes[0].change", nil},
	}
	return f
}

// UPDATE_VECTORS=1 rewrites the file; audit/test.py checks the same with an implementation of its
// own.
func TestGovernanceIsFollowedFromTheGenesis(t *testing.T) {
	text, err := json.MarshalIndent(makeGovernance(t), "", " ")
	must.Do(t, err)
	if text = append(text, '\n'); os.Getenv("UPDATE_VECTORS") != "" {
		must.Do(t, os.WriteFile(governanceVectors, text, 0o644))
	}
	kept, err := os.ReadFile(governanceVectors)
	if err != nil || string(kept) != string(text) {
		t.Fatalf("%s is not what is made here (%v); UPDATE_VECTORS=1 rewrites it", governanceVectors, err)
	}
	var f governanceFile
	must.Do(t, json.Unmarshal(kept, &f))
	for _, c := range f.Cases {
		record, err := ParseGovernance(c.Record)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		authorities, err := f.founding().Authorities(record)
		if c.Field != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.Field+":") {
				t.Errorf("%s: %v, want one about %s", c.Name, err, c.Field)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		for i, d := range c.Digests {
			r, err := Parse(d.Digest)
			if err != nil {
				t.Fatalf("%s: digest %d: %v", c.Name, i, err)
			}
			found := r.Check(authorities.For(r.Block.Number))
			if (d.Field == "") != (len(found) == 0) || d.Field != "" && found[0].Field != d.Field {
				t.Errorf("%s: digest %d: %v, want %q", c.Name, i, found, d.Field)
			}
		}
	}
}

// Each value of a record counts: changed or left out, the record is refused, or says that another
// block is the first.
func TestEveryFieldOfARecordCounts(t *testing.T) {
	f := makeGovernance(t)
	var whole any
	must.Do(t, json.Unmarshal(f.Cases[1].Record, &whole))
	mutate(whole, "", false, func(where string) {
		if strings.HasSuffix(where, "from_block") {
			return // nobody signs it: it has to come from somebody trusted
		}
		if record, err := ParseGovernance(encoded(t, whole)); err == nil {
			if _, err := f.founding().Authorities(record); err == nil && where != "changes" { // the last change may be left out: there was a time before it
				t.Errorf("%s changed, and it holds", where)
			}
		}
	})
}

// made is a message that its key signed; a key in memory never fails.
func made[T any](signed T, err error) T {
	if err != nil {
		panic(err)
	}
	return signed
}
