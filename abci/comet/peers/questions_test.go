package peers

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// asker is a test's clock with the questions of others.
type asker struct {
	*questions
	time  time.Time
	begun time.Time
	next  uint64
}

func newAsker() *asker {
	a := &asker{time: time.Unix(1_700_000_000, 0)}
	a.begun = a.time
	a.questions = newQuestions(func() time.Time { return a.time })
	return a
}

func roleOf(organisation, role string) *wire.Client {
	return &wire.Client{Organisation: organisation, Role: role}
}

func (a *asker) id() wire.TxID {
	a.next++
	return wire.TxIDOf(fmt.Append(nil, a.next))
}

// allowed is the most that may be worked in vain by now: all of a budget, and what came back.
func (a *asker) allowed(full time.Duration, part int) time.Duration {
	return full + a.time.Sub(a.begun)/time.Duration(part)
}

// Clients ask without end, several at once, and take all that they are granted. The database works
// a sixteenth of the time for their organisation, and half of that for one of them. Another
// organisation finds what it would find without them.
func TestQuestionsInVainHaveAPartOfOneProcessor(t *testing.T) {
	r := seeded.Random(t)
	for clients := range 4 {
		clients++
		a := newAsker()
		of, all, refused := map[string]time.Duration{}, time.Duration(0), 0
		for range 20_000 {
			a.time = a.time.Add(time.Duration(r.IntN(100)) * time.Millisecond)
			var granted []charge
			for range answersAtOnce / 2 {
				g, refusal := a.grant("greedy", roleOf("greedy", fmt.Sprint(r.IntN(clients))))
				if refusal != "" {
					refused++
					break
				}
				granted = append(granted, g)
			}
			for _, g := range granted {
				worked := time.Duration(r.Int64N(g.micros)+1) * time.Microsecond
				a.settle(g, a.id(), worked)
				of[g.client], all = of[g.client]+worked, all+worked
			}
			for client, worked := range of {
				if most := a.allowed(clientTime, clientPart); worked > most {
					t.Fatalf("%d clients: %s worked for %s, want at most %s", clients, worked, client, most)
				}
			}
			if most := a.allowed(memberTime, memberPart); all > most {
				t.Fatalf("%d clients: %s worked for all, want at most %s", clients, all, most)
			}
		}
		if refused == 0 {
			t.Errorf("%d clients: nothing was refused", clients)
		}
		if g, refusal := a.grant("honest", roleOf("honest", "0")); refusal != "" || g.micros != clientTime.Microseconds()/2 {
			t.Errorf("%d clients: another organisation is granted %d µs, %q", clients, g.micros, refusal)
		}
	}
}

// A client that used all of its time is told when to ask again; another client of its organisation
// is not refused.
func TestARefusalSaysWhoseTimeIsUsedUp(t *testing.T) {
	a := newAsker()
	ask := func(client *wire.Client) string {
		g, refusal := a.grant("acme", client)
		if refusal == "" {
			a.settle(g, a.id(), time.Duration(g.micros)*time.Microsecond)
		}
		return refusal
	}
	slow := ""
	for range 20 {
		if slow = ask(roleOf("acme", "clerk")); slow != "" {
			break
		}
	}
	if want := `its time for questions of role "clerk" of acme is used up; ask again in 2s`; slow != want {
		t.Errorf("refused with %q, want %q", slow, want)
	}
	if refusal := ask(roleOf("acme", "teller")) + a.refuses("acme"); refusal != "" {
		t.Errorf("another role is refused: %s", refusal)
	}
	a.time = a.time.Add(2 * time.Second)
	if refusal := ask(roleOf("acme", "clerk")); refusal != "" {
		t.Errorf("refused when it was to ask again: %s", refusal)
	}
	for i := range 50 {
		ask(&wire.Client{Organisation: "acme", Role: "app", Key: fmt.Appendf(nil, "key %d", i)})
	}
	if refusal := a.refuses("acme"); !strings.Contains(refusal, `organisation "acme" is used up; ask again in `) {
		t.Errorf("refused with %q once the organisation's time is used up", refusal)
	}
}

// An organisation whose transactions are ordered asks as often and as long as it likes, once they
// are.
func TestWorkForWhatIsOrderedIsGivenBack(t *testing.T) {
	a := newAsker()
	client := roleOf("acme", "clerk")
	for i := range 10_000 {
		g, refusal := a.grant("acme", client)
		if refusal != "" {
			t.Fatalf("question %d is refused: %s", i, refusal)
		}
		id := a.id()
		a.settle(g, id, time.Duration(g.micros)*time.Microsecond/2)
		a.ordered([]wire.TxID{{1}, id})
	}
	if len(a.answered) != 0 {
		t.Errorf("%d charges are kept for nothing", len(a.answered))
	}
	// A transaction that was asked for twice is given back once.
	id := a.id()
	for times := range 2 {
		g, _ := a.grant("acme", client)
		a.settle(g, id, time.Duration(times+1)*100*time.Millisecond)
	}
	a.ordered([]wire.TxID{id})
	a.ordered([]wire.TxID{id})
	if left, want := a.client.Left("acme/clerk"), (clientTime - 200*time.Millisecond - questionWork).Microseconds(); left != want {
		t.Errorf("%d µs left, want %d", left, want)
	}
}

// The memory of others' questions has a bound for each organisation.
func TestChargesRememberedAreBounded(t *testing.T) {
	a := newAsker()
	honest := a.id()
	g, _ := a.grant("honest", roleOf("honest", "app"))
	a.settle(g, honest, time.Millisecond)
	for range 3 * answersKept {
		a.time = a.time.Add(time.Second)
		g, refusal := a.grant("greedy", roleOf("greedy", "app"))
		if refusal != "" {
			t.Fatal(refusal)
		}
		a.settle(g, a.id(), time.Millisecond)
	}
	if n := len(a.answered); n != answersKept+1 || len(a.lately["greedy"]) != answersKept {
		t.Errorf("%d charges are remembered, %d of the greedy one", n, len(a.lately["greedy"]))
	}
	if _, kept := a.answered[honest]; !kept {
		t.Error("that of another organisation is forgotten for them")
	}
}

// Of a member's questions in one second no more are decoded than there may be.
func TestQuestionsOfASecondAreBounded(t *testing.T) {
	a := newAsker()
	for range questionsPerSecond {
		if !a.hears("o0") {
			t.Fatal("dropped within the bound")
		}
	}
	if a.hears("o0") || !a.hears("o2") {
		t.Error("one member's bound is not its own")
	}
	if a.time = a.time.Add(time.Second); !a.hears("o0") || len(a.heard) != 1 {
		t.Error("dropped in the next second")
	}
}

// An organisation whose questions take long is answered no, with the reason, and nothing is asked
// of the database any more; another one is answered as ever.
func TestLongQuestionsAreRefusedWithTheReason(t *testing.T) {
	decided := make(chan time.Duration, 100)
	b := newTable(t, 2, func(int) func(context.Context, []byte) (string, error) {
		return func(ctx context.Context, _ []byte) (string, error) {
			allowed := backend.Allowed(ctx)
			left, _ := allowed.Left()
			decided <- left
			allowed.Spend(left)
			return "", context.DeadlineExceeded
		}
	})
	var reasons []string
	for i := range 20 {
		id, tx := proposal("o0", uint64(i))
		got := b.ask(testLimit, id, tx, "o1")
		if len(got) != 1 || got["o1"].Agreement.Yes {
			t.Fatalf("answered %v", got)
		}
		reasons = append(reasons, got["o1"].Reason)
	}
	first := <-decided
	if first > clientTime/2 || !strings.Contains(reasons[0], "takes longer than is left of its time") {
		t.Errorf("the first was granted %s and refused with %q", first, reasons[0])
	}
	if last := reasons[len(reasons)-1]; !strings.Contains(last, `its time for questions of role "app" of o0 is used up`) || len(decided) >= 19 {
		t.Errorf("the last one was refused with %q; the database was asked %d times", last, len(decided)+1)
	}
}

// newAsked is the reactor of o1, and a question that the node "o0" of o0 signed. change has it be
// another one.
func newAsked(t testing.TB, change func(*wire.AgreementAsk)) (*Agreements, []byte) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	public := key.Public().(ed25519.PublicKey)
	conduct := NewConduct(slog.New(slog.DiscardHandler))
	conduct.Member = func(peer p2p.Peer) string { return string(peer.ID()) }
	r, err := NewAgreements(AgreementOptions{
		ChainID: "test", Organisation: "o1", NodeID: "asked", Key: func() crypto.Signer { return key }, Limit: time.Minute,
		GatewayKey: func(string) (ed25519.PublicKey, bool) { return public, true },
		Ever:       func(_ string, fits func(ed25519.PublicKey) bool) bool { return fits(public) },
		Conduct:    conduct, Log: slog.New(slog.DiscardHandler),
		Decide: func(context.Context, []byte, func() int64) (string, error) { return "", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Switch = silentSwitch{}
	id, tx := proposal("o0", 1)
	ask := &wire.AgreementAsk{
		Request: 1, Asked: []string{"o1"}, Transaction: tx, Signature: ed25519.Sign(key, wire.AskSignBytes("test", "o0", "asked", id)),
	}
	if change != nil {
		change(ask)
	}
	return r, wire.Encode(&wire.AgreementMessage{Body: &wire.AgreementMessage_Ask{Ask: ask}})
}

// recording is a peer that keeps what it is sent.
type recording struct {
	named
	sent *int
}

func (r recording) Send(p2p.Envelope) bool    { *r.sent++; return true }
func (r recording) TrySend(p2p.Envelope) bool { *r.sent++; return true }

// A member whose time is used up is refused before anything is verified. Another member that asks
// in its name gets no signed answer, and is disconnected.
func TestARefusalIsSignedForTheMemberThatAsks(t *testing.T) {
	for from, want := range map[p2p.ID]struct {
		answers  int
		offences uint64
	}{"o0": {1, 0}, "o2": {0, 1}} {
		r, question := newAsked(t, func(ask *wire.AgreementAsk) { ask.Signature[3] ^= 1 })
		r.questions.members.Spend("o0", memberTime.Microseconds())
		answers := 0
		r.Receive(p2p.Envelope{Src: recording{named{id: from}, &answers}, ChannelID: AgreementChannel, Message: &types.BytesValue{Value: question}})
		r.work.Wait()
		if answers != want.answers || r.opt.Conduct.Offences() != want.offences {
			t.Errorf("%s: %d answers and %d offences, want %+v", from, answers, r.opt.Conduct.Offences(), want)
		}
	}
}

// BenchmarkQuestion gives the cost of a question to this node beside the database: answered, and
// refused when the time of its organisation is used up.
func BenchmarkQuestion(b *testing.B) {
	r, question := newAsked(b, nil)
	for name, spent := range map[string]int64{"answered": 0, "refused": memberTime.Microseconds()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.questions = newQuestions(time.Now)
				r.questions.members.Spend("o0", spent)
				r.Receive(p2p.Envelope{Src: answering{named{id: "o0"}}, ChannelID: AgreementChannel, Message: &types.BytesValue{Value: question}})
				r.work.Wait()
			}
		})
	}
}
