package effects

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscripts plays testdata/*.txt: lines that begin with ">" are events for organisation a of
// four with consent 3, the lines below each are what the core asks for. A word stands for a hash;
// block 2x is block 2 as ordered by order block x. A line "= 1 10000" lets step full begin by
// itself with at most 1 block, 10,000 ms after it was announced.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			must.Do(t, err)
			got := play(t, string(want))
			if *update {
				must.Do(t, os.WriteFile(file, []byte(got), 0o644))
			} else if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

type transcript struct {
	*testing.T
	core  *Core
	nowMS int64
	names map[wire.Hash]string
}

func play(t *testing.T, text string) string {
	cfg := Config{Organisation: "a", LookMS: 60_000}
	for line := range strings.Lines(text) {
		if limits, ok := strings.CutPrefix(line, "= "); ok {
			if _, err := fmt.Sscan(limits, &cfg.FullBlocksMax, &cfg.FullNoticeMS); err != nil {
				t.Fatal(err)
			}
		}
	}
	core, err := NewCore(cfg)
	must.Do(t, err)
	p := &transcript{T: t, core: core, nowMS: 1, names: map[wire.Hash]string{{}: "-"}}
	var out strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "> "):
			out.WriteString(line)
			for _, a := range core.Step(p.nowMS, p.event(strings.Fields(line)[1:])) {
				fmt.Fprintf(&out, "%s\n", p.action(a))
			}
		case strings.HasPrefix(line, "? "): // what a would vote
			out.WriteString(line)
			vote, more := core.Vote(p.block(strings.Fields(line)[1]).Key())
			fmt.Fprintf(&out, "vote %s, more %v\n", p.vote(vote), more)
		case line == "\n" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "= "):
			out.WriteString(line)
		}
	}
	return out.String()
}

func (p *transcript) hash(word string) wire.Hash {
	if word == "-" {
		return wire.Hash{}
	}
	h := wire.Hash(sha256.Sum256([]byte(word)))
	p.names[h] = word
	return h
}

func (p *transcript) number(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 32)
	if err != nil {
		p.Fatal(err)
	}
	return n
}

// block reads "2x" or, in effect round 1, "2x/1", with "/all" when it is quarantined.
func (p *transcript) block(word string) *wire.OrderedBlock {
	if word == "-" {
		return nil
	}
	parts := strings.Split(word, "/")
	b := &wire.OrderedBlock{Organisations: 4, Consent: 3, Number: p.number(parts[0][:1]), OrderHash: p.hash(parts[0][1:])}
	b.Height = int64(2*b.Number - 1)
	if len(parts) > 1 {
		b.Round = uint32(p.number(parts[1]))
	}
	b.QuarantineAll = len(parts) > 2
	return b
}

// certificate reads "1:good" or "1:good/1" for effect round 1.
func (p *transcript) certificate(word string) *wire.Certificate {
	number, hash, ok := strings.Cut(word, ":")
	if !ok {
		return nil
	}
	hash, round, _ := strings.Cut(hash, "/")
	c := &wire.Certificate{Number: p.number(number), Hash: p.hash(hash)}
	if round != "" {
		c.Round = uint32(p.number(round))
	}
	return c
}

func (p *transcript) failure(word string) Failure {
	for f := Fine; f <= NoHelp; f++ {
		if strings.ReplaceAll(f.String(), " ", "-") == word {
			return f
		}
	}
	p.Fatalf("no failure %q", word)
	return Fine
}

func (p *transcript) event(w []string) Event {
	w = append(w, "-", "-", "-")
	switch w[0] {
	case "started":
		return Started{Ordered: p.number(w[1]), Certified: p.number(w[2]), Excluded: strings.TrimPrefix(w[3], "-")}
	case "at":
		if w[1] == "unavailable" {
			return DatabaseAt{Failure: Unavailable}
		}
		at := backend.Position{Number: p.number(w[1]), Hash: p.hash(w[2]), Certified: p.number(w[3]), Deviates: w[4] == "deviates"}
		if until, ok := strings.CutPrefix(w[4], "anew:"); ok {
			at.AnewUntil = p.number(until)
		}
		if blocks, ok := strings.CutPrefix(w[4], "false:"); ok {
			for n := range strings.SplitSeq(blocks, ",") {
				at.FalseBlocks = append(at.FalseBlocks, p.number(n))
			}
		}
		return DatabaseAt{Position: at}
	case "proposed":
		return Proposed{p.block(w[1]), p.certificate(w[2])}
	case "decided":
		height := int64(1000)
		return Decided{Height: height, Ordered: p.block(w[1]), Certificate: p.certificate(w[2])}
	case "vote":
		k := p.block(w[2]).Key()
		if w[3] == "stuck" {
			return VoteSeen{w[1], wire.NewStuckVote(k, 0)}
		}
		return VoteSeen{w[1], wire.NewEffectsVote(k, w[1], p.hash(w[3]))}
	case "time":
		p.nowMS += int64(p.number(w[1]))
		return Tick{}
	case "rejoin":
		return Rejoin{}
	}
	return p.ended(w)
}

func (p *transcript) ended(w []string) Event {
	switch w[0] {
	case "executed":
		e := Executed{Key: p.core.op.(Execute).Block.Key()}
		if w[1] == "failed" {
			e.Failure = p.failure(w[2])
		} else {
			e.Hash = p.hash(w[1])
			e.Why = strings.ReplaceAll(strings.TrimPrefix(w[2], "-"), "-", " ")
		}
		return e
	case "committed":
		return Committed{p.failure(w[1])}
	case "rolled-back":
		return RolledBack{p.failure(w[1])}
	case "adopted":
		e := Adopted{Key: p.core.op.(Adopt).Block.Key()}
		if w[1] == "failed" {
			e.Failure, e.Why = p.failure(w[2]), strings.ReplaceAll(strings.TrimPrefix(w[3], "-"), "-", " ")
		} else {
			e.Hash = p.hash(w[1])
		}
		return e
	case "repaired":
		if w[1] == "failed" {
			return Repaired{Failure: p.failure(w[2]), Why: strings.ReplaceAll(strings.TrimPrefix(w[3], "-"), "-", " ")}
		}
		return Repaired{Rows: int(p.number(w[1]))}
	case "stored":
		return CertificateStored{p.failure(w[1])}
	case "told":
		return BlockRestored{p.failure(w[1])}
	case "recorded":
		return DeviationRecorded{p.failure(w[1])}
	case "fetched":
		return Fetched{Number: p.number(w[1][:1]), Block: p.block(w[1]), Certificate: p.certificate(w[2])}
	}
	p.Fatalf("no event %q", w[0])
	return nil
}

func (p *transcript) name(h wire.Hash) string { return p.names[h] }

func (p *transcript) key(k wire.Key) string {
	s := fmt.Sprintf("%d%s", k.Number, p.name(k.OrderHash))
	if k.Round > 0 {
		s += fmt.Sprintf("/%d", k.Round)
	}
	return s
}

func (p *transcript) vote(v *wire.EffectVote) string {
	if v == nil {
		return "nothing"
	}
	if i, stuck := v.StuckAt(); stuck {
		return fmt.Sprintf("stuck at %d", i)
	}
	for h, name := range p.names {
		if v.IsFor("a", h) {
			return name
		}
	}
	return "?"
}

func (p *transcript) action(a Action) string {
	switch a := a.(type) {
	case Execute:
		if a.Certified != (wire.Hash{}) {
			return fmt.Sprintf("execute %s after %s to be %s", p.key(a.Block.Key()), p.name(a.Previous), p.name(a.Certified))
		}
		return fmt.Sprintf("execute %s after %s", p.key(a.Block.Key()), p.name(a.Previous))
	case Adopt:
		return fmt.Sprintf("adopt %s after %s as %s", p.key(a.Block.Key()), p.name(a.Previous), p.name(a.Certified))
	case Cancel:
		return "cancel " + p.key(a.Key)
	case Answer:
		return "answer " + p.key(a.Block.Key())
	case Repair:
		by := ""
		if a.Step != backend.Rows {
			by = "by " + a.Step.String() + " "
		}
		return fmt.Sprintf("repair %sat %d %s, block %d gave %s", by, a.Number, p.name(a.Certified), a.Deviating, p.name(a.Found))
	case StoreCertificate:
		return fmt.Sprintf("store certificate %d %s", a.Certificate.Number, p.name(a.Certificate.Hash))
	case RecordDeviation:
		return fmt.Sprintf("record deviation %d: %s, not %s, cured by %s in %d ms", a.Number, p.name(a.Expected), p.name(a.Found), a.CuredBy, a.TookMS)
	case Report:
		s := fmt.Sprintf("report %d: %s", a.Number, a.What)
		if a.Reason != "" {
			s += " (" + a.Reason + ")"
		}
		return s
	case RestoreBlock:
		return fmt.Sprintf("have block %d told", a.Number)
	case Commit:
		return fmt.Sprintf("commit %d", a.Number)
	case Rollback:
		return fmt.Sprintf("roll back %d", a.Number)
	case ReadPosition:
		return "read position"
	case FetchOrdered:
		return fmt.Sprintf("fetch %d", a.Number)
	}
	return fmt.Sprintf("%T", a)
}
