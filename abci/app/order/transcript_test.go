package order_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

var update = flag.Bool("update", false, "rewrite the outputs in testdata")

// TestTranscripts plays testdata/*.txt: each line before ---- is an order block, what follows is
// what it did.
//
//   - consortium n=4 c=3 ordering=1: organisations o0 to o3, the last only orders; c=0 is the
//     default
//   - block t=5 bundle=o0:1,2@100: block time in seconds; nonces, valid until height 100
//   - block t=5 bundle=o0/teller:1,2@100: of another role than clerk
//   - block t=6 votes=o0:A,o1:stuck2 reveal=A: A, B, … are LedgerBlockHashes
//   - block t=6 votes=o0:A/xyx: a letter for the hash of each part
//   - block t=7 policy=1:4@9:o0,o1,o2: change 1 of c to 4 from height 9 on, approved by these
//
// Rewrite with: go test ./app/order -run Transcripts -update
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { playFile(t, file) })
	}
}

func playFile(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	must.Do(t, err)
	p := &player{t: t}
	var out strings.Builder
	for i, section := range strings.Split(strings.TrimSpace(string(raw)), "\n\n") {
		input, want, _ := strings.Cut(section+"\n", "\n----\n")
		got := ""
		for line := range strings.Lines(input) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				got += p.play(line)
			}
		}
		if want = strings.TrimSpace(want); strings.TrimSpace(got) != want && !*update {
			t.Errorf("section %d\n%s\ngot:\n%s\nwant:\n%s", i, input, got, want)
		}
		fmt.Fprintf(&out, "%s\n----\n%s\n\n", input, strings.TrimSpace(got))
	}
	if *update {
		must.Do(t, os.WriteFile(file, []byte(strings.TrimSpace(out.String())+"\n"), 0o644))
	}
}

type player struct {
	t          *testing.T
	consortium *ordertest.Consortium // as founded
	all        *ordertest.Consortium // with those that may join, and the keys that count now
	state      *order.State
	accepted   []wire.Hash // of changes
}

func (p *player) play(line string) string {
	fields := strings.Fields(line)
	switch fields[0] {
	case "consortium":
		n, c, ordering, outside := 0, 0, 0, 0
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			*map[string]*int{"n": &n, "c": &c, "ordering": &ordering, "outside": &outside}[name] = p.number(value)
		}
		p.all = ordertest.New(n, c).OrderOnly(ordering)
		p.consortium = p.all
		if outside > 0 {
			p.consortium = p.all.Without(outside)
		}
		registry := p.consortium.Registry(p.t)
		p.state = registry.Genesis(1)
		return fmt.Sprintf("%d organisations, consent %d\n", len(registry.Organisations()), registry.Consent())
	case "block":
		return p.block(fields[1:])
	default:
		p.t.Fatalf("unknown line %q", line)
		return ""
	}
}

func (p *player) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *player) block(fields []string) string {
	b := order.Block{Height: p.state.Height() + 1, Hash: wire.Hash{byte(p.state.Height() + 1)}}
	var votes []*wire.ExtendedVote
	var reveal *wire.Hash
	var bundles [][]byte
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "t":
			b.TimeMicro = int64(p.number(value)) * 1_000_000
		case "bundle":
			bundles = append(bundles, p.bundle(value))
		case "change":
			bundles = append(bundles, p.change(value))
		case "votes":
			votes = p.votes(value)
		case "reveal":
			reveal = &wire.Hash{value[0]}
		default:
			p.t.Fatalf("unknown field %q", field)
		}
	}
	raw := bundles
	if votes != nil || reveal != nil {
		raw = append([][]byte{ordertest.Certificate(p.key(), reveal, votes...)}, bundles...)
	}
	for _, tx := range raw {
		opened, err := p.state.Registry().Open(tx)
		if err != nil {
			return fmt.Sprintf("refused: %v\n", err)
		}
		b.Txs = append(b.Txs, opened)
	}
	return p.apply(b)
}

// key names what is voted on: the pending block, or else one that is not there.
func (p *player) key() wire.Key {
	if pending := p.state.Pending(); pending != nil {
		return pending.Key()
	}
	return wire.Key{Number: 1}
}

func (p *player) bundle(s string) []byte {
	who, rest, _ := strings.Cut(s, ":")
	nonces, until, _ := strings.Cut(rest, "@")
	who, role, _ := strings.Cut(who, "/")
	i := p.number(who[1:])
	var proposals []*wire.Proposal
	for _, nonce := range strings.Split(nonces, ",") {
		proposal := p.all.Proposal(i, uint64(p.number(nonce)), uint64(p.number(until)))
		if role != "" {
			proposal.Client.Role = role
		}
		proposals = append(proposals, proposal)
	}
	return p.all.Bundle(i, proposals...)
}

// change reads sequence:actions@height:who approves. Actions, with commas between, are c3
// (consent), a3 (approvals), +o4, -o1, g0 (another gateway key for o0), v0 (another validator for
// o0) and p0/20 (its power). Further ones are only0, votes0, t9 (a block's time, in seconds), s2/3
// (shares of a client and of an organisation), withdraw (the change accepted last) and withdraw7.
func (p *player) change(s string) []byte {
	what, who, _ := strings.Cut(s, "@")
	sequence, actions, _ := strings.Cut(what, ":")
	height, who, _ := strings.Cut(who, ":")
	c := &wire.GovernanceChange{Sequence: uint64(p.number(sequence)), EffectiveHeight: uint64(p.number(height))}
	signers := p.all.Copy() // with the keys from before
	for _, action := range strings.Split(actions, ",") {
		c.Actions = append(c.Actions, p.actions(action)...)
	}
	var approve []int
	for _, name := range strings.Split(who, ",") {
		approve = append(approve, p.number(name[1:]))
	}
	return signers.Governance(c, approve...)
}

func (p *player) actions(s string) []*wire.GovernanceAction {
	name := func(i string) string { return "o" + i }
	switch {
	case strings.HasPrefix(s, "only"), strings.HasPrefix(s, "votes"):
		i := s[len(s)-1:]
		return []*wire.GovernanceAction{{Body: &wire.GovernanceAction_OrderingOnly{OrderingOnly: &wire.OrderingOnly{Organisation: name(i), Only: s[0] == 'o'}}}}
	case strings.HasPrefix(s, "withdraw"):
		of := p.accepted[len(p.accepted)-1]
		if sequence := strings.TrimPrefix(s, "withdraw"); sequence != "" {
			of = p.accepted[p.number(sequence)-1]
		}
		return []*wire.GovernanceAction{{Body: &wire.GovernanceAction_Withdraw{Withdraw: of[:]}}}
	case s[0] == 't':
		return []*wire.GovernanceAction{{Body: &wire.GovernanceAction_BlockTimes{BlockTimes: &wire.BlockTimes{Statements: uint32(1000 * p.number(s[1:]))}}}}
	case s[0] == 's':
		client, organisation, _ := strings.Cut(s[1:], "/")
		shares := &wire.BlockShares{Client: uint32(p.number(client)), Organisation: uint32(p.number(organisation))}
		return []*wire.GovernanceAction{{Body: &wire.GovernanceAction_BlockShares{BlockShares: shares}}}
	case s[0] == 'c':
		return []*wire.GovernanceAction{{Body: &wire.GovernanceAction_Consent{Consent: uint32(p.number(s[1:]))}}}
	case s[0] == 'a':
		return []*wire.GovernanceAction{{Body: &wire.GovernanceAction_Approvals{Approvals: uint32(p.number(s[1:]))}}}
	case s[0] == '+':
		return []*wire.GovernanceAction{{Body: &wire.GovernanceAction_Add{Add: p.all.Member(p.number(s[2:]))}}}
	case s[0] == '-':
		return []*wire.GovernanceAction{{Body: &wire.GovernanceAction_Remove{Remove: s[1:]}}}
	case s[0] == 'g':
		key := p.all.Renew(p.number(s[1:]), byte(200+p.number(s[1:])))
		return []*wire.GovernanceAction{{Body: &wire.GovernanceAction_GatewayKey{GatewayKey: &wire.GatewayKey{Organisation: name(s[1:]), Key: key}}}}
	case s[0] == 'p':
		i, power, _ := strings.Cut(s[1:], "/")
		return []*wire.GovernanceAction{validator(name(i), p.all.Validators[p.number(i)].Key, uint64(p.number(power)))}
	case s[0] == 'v':
		i := p.number(s[1:])
		old := p.all.Validators[i].Key
		return []*wire.GovernanceAction{validator(name(s[1:]), p.all.RenewValidator(i, byte(220+i)), 10), validator(name(s[1:]), old, 0)}
	default:
		p.t.Fatalf("unknown action %q", s)
		return nil
	}
}

func validator(organisation string, key []byte, power uint64) *wire.GovernanceAction {
	return &wire.GovernanceAction{Body: &wire.GovernanceAction_Validator{Validator: &wire.MemberValidator{
		Organisation: organisation, Validator: &wire.ValidatorPower{Key: key, Power: power},
	}}}
}

func (p *player) votes(s string) (votes []*wire.ExtendedVote) {
	for _, vote := range strings.Split(s, ",") {
		who, what, _ := strings.Cut(vote, ":")
		i, key := p.number(who[1:]), p.key()
		what, parts, _ := strings.Cut(what, "/")
		if at, stuck := strings.CutPrefix(what, "stuck"); stuck {
			votes = append(votes, p.all.Sign(i, p.state.Height(), wire.NewStuckVote(key, uint32(p.number(at)))))
		} else {
			vote := wire.NewEffectsVote(key, fmt.Sprintf("o%d", i), wire.Hash{what[0]})
			for _, letter := range parts {
				vote.Parts += strings.Repeat(string(letter), wire.PartBytes)
			}
			votes = append(votes, p.all.Sign(i, p.state.Height(), vote))
		}
	}
	slices.SortFunc(votes, func(a, b *wire.ExtendedVote) int {
		return strings.Compare(string(a.ValidatorAddress), string(b.ValidatorAddress))
	})
	return votes
}

// validators names them by organisation and says their power.
func (p *player) validators(list []order.Validator) string {
	var out []string
	for _, v := range list {
		name := "former"
		for i := range p.all.Validators {
			if bytes.Equal(p.all.Validators[i].Key, v.Key) {
				name = fmt.Sprintf("o%d", i)
			}
		}
		out = append(out, fmt.Sprintf(" %s=%d", name, v.Power))
	}
	slices.Sort(out)
	if len(out) == 0 {
		return " none"
	}
	return strings.Join(out, "")
}

// apply plays a block and says what it did.
func (p *player) apply(b order.Block) string {
	before := p.state
	next, result, err := before.Apply(b)
	if err != nil {
		return fmt.Sprintf("refused: %v\n", err)
	}
	hashBefore := before.AppHash()
	next.Settle()
	p.state = next
	var out strings.Builder
	fmt.Fprintf(&out, "height %d:", b.Height)
	if len(result.Codes) > 0 {
		fmt.Fprintf(&out, " codes %v", result.Codes)
	}
	for _, r := range result.Refused {
		fmt.Fprintf(&out, ", refused %q", r.Message)
	}
	if c := result.Certified; c != nil {
		fmt.Fprintf(&out, ", certified block %d as %c in round %d by", c.Number, c.Hash[0], c.Round)
		for _, v := range c.Votes {
			fmt.Fprintf(&out, " %s", v.Organisation)
		}
	}
	if result.Ordered != nil {
		fmt.Fprintf(&out, ", ordered block %d with %d transactions", next.LastOrdered(), len(result.Ordered.IDs))
	}
	if result.Advanced {
		fmt.Fprintf(&out, ", next round")
	}
	if g := next.Governance(); g.Changes > before.Governance().Changes {
		fmt.Fprintf(&out, ", change %d accepted", g.Changes)
		if p.accepted = append(p.accepted, g.Hash); before.Governance().Waiting != nil {
			fmt.Fprintf(&out, ", change %d withdrawn", before.Governance().Changes)
		}
	}
	if result.Validators != nil || next.Governance().Announced > before.Governance().Announced {
		fmt.Fprintf(&out, ", validators announced:%s", p.validators(result.Validators))
	}
	if r := next.Registry(); r.Hash() != before.Registry().Hash() || r.Record().FromBlock != before.Registry().Record().FromBlock {
		fmt.Fprintf(&out, ", next registry: %s consent %d approvals %d from block %d",
			strings.Join(r.Organisations(), " "), r.Consent(), r.Approvals(), r.Record().FromBlock)
	}
	if r := next.Registry(); r.BlockTimes().Statements != before.Registry().BlockTimes().Statements {
		fmt.Fprintf(&out, ", a block may run for %d ms", r.BlockTimes().Statements)
	}
	if s := next.Registry().BlockShares(); s.String() != before.Registry().BlockShares().String() {
		fmt.Fprintf(&out, ", a block accepts %d of a client and %d of an organisation", s.GetClient(), s.GetOrganisation())
	}
	if q := next.Pending(); q != nil {
		fmt.Fprintf(&out, ", pending block %d round %d", q.Number, q.Round)
		if len(q.Quarantined) > 0 {
			fmt.Fprintf(&out, " quarantined %v", q.Quarantined)
		}
		if q.QuarantineAll {
			fmt.Fprintf(&out, " all quarantined")
		}
		fmt.Fprintf(&out, " votes %d revealed %d age %d", len(q.Votes), len(q.Revealed), next.Age())
	}
	if next.AppHash() == hashBefore {
		out.WriteString(", quiet")
	}
	return strings.Replace(out.String(), ":,", ":", 1) + "\n"
}
