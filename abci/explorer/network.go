package explorer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/health"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	chartBlocks  = 60
	recentBlocks = 8
	// Without a vote for so many blocks an organisation is missed. One that is merely slower than
	// others is seen to vote.
	silentBlocks = 20
	freshFor     = time.Second // however many look, the database is asked once in this time
)

// cache keeps the network page's reading for all who look at it.
type cache struct {
	mu   sync.Mutex
	at   time.Time
	body networkBody
}

// networkBody is the contents of the network page, the worst first.
type networkBody struct {
	Status        *wire.StatusResponse
	Wrong         []string
	Contradicting []string // organisations that voted twice
	Organisations []member
	Members       bool // the organisations are those that take part; otherwise those that signed lately
	Last          *Block
	Recent        []Block
	MedianSeconds float64
	Times, Sizes  chart
	Tables        []Table
	Procedures    []Procedure
	DatabaseError string
	At            time.Time // when this was read
}

// member is an organisation with its votes on the last blocks.
type member struct {
	Organisation
	Own   bool
	Strip []mark
	Said  string // the strip in words
}

// mark is one block of a strip.
type mark struct {
	Block   int64
	X       int
	Verdict string // agrees, differs, stuck, silent, open
}

func (e *Explorer) network(w http.ResponseWriter, r *http.Request) error {
	body, err := e.reading(r.Context())
	if err != nil {
		return err
	}
	return e.show(w, r, http.StatusOK, "network", "/", "Network", body)
}

// liveRegion is the part of the network page that changes.
func (e *Explorer) liveRegion(w http.ResponseWriter, r *http.Request) error {
	body, err := e.reading(r.Context())
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := pages["network"].ExecuteTemplate(&out, "live", body); err != nil {
		return err
	}
	sum := sha256.Sum256(out.Bytes())
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(out.Bytes()) // a client that went away is no error of ours
	return nil
}

// reading is a fresh look at everything, or one that is not old. A database that does not answer is
// part of what it says.
func (e *Explorer) reading(ctx context.Context) (networkBody, error) {
	e.live.mu.Lock()
	defer e.live.mu.Unlock()
	if time.Since(e.live.at) < freshFor {
		return e.live.body, nil
	}
	body := networkBody{Status: e.opt.Status(ctx), Members: e.db.Offers().Members, At: time.Now()}
	body.Wrong = health.Wrong(body.Status)
	body.Contradicting = contradicting(e.kept())
	err := e.db.Read(ctx, func(m Moment) error { return body.look(ctx, m, e.opt.Votes) })
	if ctx.Err() != nil {
		return body, ctx.Err()
	}
	if err != nil {
		body.DatabaseError = problemOf(err).Detail
		body.Wrong = append(body.Wrong, "this page cannot read the database")
		e.opt.Log.Warn("the network page lacks what the database says", "error", err)
	}
	e.live.at, e.live.body = time.Now(), body
	return body, nil
}

func (b *networkBody) look(ctx context.Context, m Moment, seen func() []Vote) error {
	blocks, err := m.Blocks(ctx, 0, chartBlocks)
	if err != nil {
		return err
	}
	organisations, err := m.Organisations(ctx, organisationsMax)
	if err != nil {
		return err
	}
	strip := blocks[:min(len(blocks), stripBlocks)]
	var cast []CastVote
	if len(strip) > 0 {
		if cast, err = m.CastVotes(ctx, strip[len(strip)-1].Number, stripBlocks*votesMax); err != nil {
			return err
		}
	}
	if b.Tables, err = m.Tables(ctx, tablesMax); err != nil {
		return err
	}
	if b.Procedures, err = m.Procedures(ctx, proceduresMax); err != nil {
		return err
	}
	n, err := m.OpenDeviations(ctx)
	if err != nil {
		return err
	}
	if n > 0 {
		b.Wrong = append(b.Wrong, plural(n, "deviation of the database is", "deviations of the database are")+" not put right")
	}
	var votes []Vote
	if seen != nil {
		votes = seen()
	}
	b.Organisations = members(organisations, strip, cast, votes, b.Status.Organisation)
	b.Wrong = append(b.Wrong, whoDiffers(b.Organisations)...)
	b.Wrong = append(b.Wrong, whoIsSilent(b.Organisations)...)
	b.draw(blocks)
	return nil
}

func (b *networkBody) draw(blocks []Block) {
	if len(blocks) == 0 {
		return
	}
	b.Last, b.Recent = &blocks[0], blocks[:min(len(blocks), recentBlocks)]
	var times, sizes []point
	var intervals []float64
	for i := len(blocks) - 1; i >= 0; i-- {
		x := blocks[i]
		if x.Since != nil {
			times = append(times, point{x.Number, *x.Since, 0, "block " + number(x.Number) + ": " + took(*x.Since) + " after the one before"})
			intervals = append(intervals, *x.Since)
		}
		said := "block " + number(x.Number) + ": " + plural(x.Transactions, "transaction", "transactions")
		if x.Failed > 0 {
			said += ", " + number(x.Failed) + " failed"
		}
		sizes = append(sizes, point{x.Number, float64(x.Transactions), float64(x.Failed), said})
	}
	b.MedianSeconds, b.Times, b.Sizes = median(intervals), draw(times), draw(sizes)
}

// members puts votes that certificates hold and votes that this node saw together, for each
// organisation the oldest block first.
func members(organisations []Organisation, newestFirst []Block, cast []CastVote, seen []Vote, own string) []member {
	type key struct {
		organisation string
		block        int64
	}
	verdicts := map[key]string{}
	for _, v := range seen {
		verdicts[key{v.Organisation, int64(v.Block)}] = v.Verdict
	}
	for _, v := range cast {
		verdicts[key{v.Organisation, v.Block}] = "agrees"
	}
	var out []member
	for _, o := range organisations {
		m := member{Organisation: o, Own: o.Name == own}
		counts := map[string]int{}
		for i := len(newestFirst) - 1; i >= 0 && !o.OrderingOnly; i-- {
			b := newestFirst[i]
			verdict := verdicts[key{o.Name, b.Number}]
			switch {
			case b.Number < o.Since:
				continue
			case b.Votes == 0 && verdict == "":
				verdict = "open"
			case verdict == "":
				verdict = "silent"
			}
			counts[verdict]++
			m.Strip = append(m.Strip, mark{b.Number, len(m.Strip), verdict})
		}
		m.Said = inWords(counts, len(m.Strip))
		out = append(out, m)
	}
	return out
}

// inWords describes a strip in words, for readers who cannot see it.
func inWords(counts map[string]int, of int) string {
	said := fmt.Sprintf("agreed to %d of the last %s", counts["agrees"], plural(of, "block", "blocks"))
	for _, x := range []struct{ verdict, words string }{
		{"differs", "reported other effects for %d"},
		{"stuck", "got stuck in %d"},
		{"silent", "has no vote in the certificates of %d"},
		{"open", "%d not certified yet"},
	} {
		if n := counts[x.verdict]; n > 0 {
			said += ", " + fmt.Sprintf(x.words, n)
		}
	}
	return said
}

// whoIsSilent names organisations that have not voted for a while.
func whoIsSilent(members []member) []string {
	var wrong []string
	for _, m := range members {
		silent := 0
		for i := len(m.Strip) - 1; i >= 0 && (m.Strip[i].Verdict == "silent" || m.Strip[i].Verdict == "open"); i-- {
			if m.Strip[i].Verdict == "silent" {
				silent++
			}
		}
		if silent >= silentBlocks {
			wrong = append(wrong, fmt.Sprintf("%s has not voted for the last %d blocks", m.Name, silent))
		}
	}
	return wrong
}

// whoDiffers names organisations whose newest vote is not for what was agreed.
func whoDiffers(members []member) []string {
	var wrong []string
	for _, m := range members {
		for i := len(m.Strip) - 1; i >= 0; i-- {
			v := m.Strip[i]
			if v.Verdict == "differs" || v.Verdict == "stuck" {
				wrong = append(wrong, fmt.Sprintf("%s reported other effects of block %s than were agreed, and has not agreed to a block since", m.Name, number(v.Block)))
			}
			if v.Verdict == "agrees" || v.Verdict == "differs" || v.Verdict == "stuck" {
				break
			}
		}
	}
	return wrong
}

// Verdict is the page's first sentence. Where nothing is wrong it says how old that knowledge is: a
// row that nobody has read since may be another one.
func (b networkBody) Verdict() string {
	switch {
	case len(b.Wrong) > 0:
		return strings.ToUpper(b.Wrong[0][:1]) + b.Wrong[0][1:] + "."
	case b.Last == nil:
		return "No deviation found. There is no block yet."
	case len(b.Tables) == 0:
		return "No deviation found. No table is on the ledger."
	}
	return "No deviation found; " + b.checked() + "."
}

// checked says when the scrubber last read the table that it read longest ago.
func (b networkBody) checked() string {
	unread, oldest := 0, b.At
	for _, t := range b.Tables {
		switch {
		case t.ScrubbedAt == nil:
			unread++
		case t.ScrubbedAt.Before(oldest):
			oldest = *t.ScrubbedAt
		}
	}
	if unread > 0 {
		return plural(unread, "table was", "tables were") + " not checked yet"
	}
	which := "the oldest table"
	if len(b.Tables) == tablesMax {
		which = fmt.Sprintf("the oldest of the first %d tables", tablesMax)
	}
	return which + " was checked " + ago(b.At.Sub(oldest))
}

// ago writes how long something is past, in its largest unit.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute ago"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return fmt.Sprintf("%d days ago", d/(24*time.Hour))
}
