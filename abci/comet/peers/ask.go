package peers

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cometbft/cometbft/p2p"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// rowBytesMax bounds one row received: the changes of a block, key and row of which are counted,
// have no more.
const rowBytesMax = 256 << 20

// Nodes implements effects.Others: those connected that speak this protocol.
func (r *Reactor) Nodes() []string {
	if r.Switch == nil {
		return nil
	}
	var out []string
	for _, peer := range r.Switch.Peers().Copy() {
		if speaks(peer, Channel) {
			out = append(out, string(peer.ID()))
		}
	}
	return out
}

// speaks reports whether a connected node has a channel.
func speaks(peer p2p.Peer, channel byte) bool {
	info, ok := peer.NodeInfo().(p2p.DefaultNodeInfo)
	return ok && slices.Contains(info.Channels, channel)
}

// Read implements effects.Others.
func (r *Reactor) Read(ctx context.Context, node string, number uint64, hash wire.Hash) (string, backend.Reading, error) {
	from, err := r.open(ctx, node, &wire.StateOpen{Block: number, Hash: hash[:]})
	if err != nil {
		return "", nil, err
	}
	return from.organisation, from, nil
}

// ReadPast implements effects.Others.
func (r *Reactor) ReadPast(ctx context.Context, node string, number uint64, hash wire.Hash) (string, backend.Past, error) {
	from, err := r.open(ctx, node, &wire.StateOpen{Block: number, Hash: hash[:], Past: true})
	if err != nil {
		return "", nil, err
	}
	return from.organisation, from, nil
}

func (r *Reactor) open(ctx context.Context, node string, what *wire.StateOpen) (*asking, error) {
	peer := r.Switch.Peers().Get(p2p.ID(node))
	if peer == nil {
		return nil, errors.New("the connection is lost")
	}
	from := &asking{reactor: r, peer: peer}
	return from, from.open(ctx, what)
}

// asking is a reading of another organisation's database, or of its past.
type asking struct {
	reactor      *Reactor
	peer         p2p.Peer
	organisation string // which signed what it tells
	tables       []backend.TableState
	waited       time.Duration // for answers
	bytes        int           // of rows told
}

var (
	_ backend.Foundation = (*asking)(nil)
	_ backend.Past       = (*asking)(nil)
)

func (a *asking) open(ctx context.Context, what *wire.StateOpen) error {
	r := a.reactor
	o := &wire.StateOpen{Block: what.Block, Hash: what.Hash, Past: what.Past, Organisation: r.opt.Organisation}
	key := r.opt.Key()
	if key == nil {
		return errNoMember
	}
	if err := wire.SignState(key, r.opt.ChainID, r.opt.NodeID, string(a.peer.ID()), o); err != nil {
		return err
	}
	limit := r.answerLimit
	if what.Past {
		limit = r.openLimit
	}
	answer, err := a.ask(ctx, limit, &wire.StateRequest{Body: &wire.StateRequest_Open{Open: o}})
	if err != nil {
		return err
	}
	t := answer.GetTables()
	if t == nil {
		return errUnasked
	}
	fits := func(key ed25519.PublicKey) bool {
		return wire.VerifyTables(key, r.opt.ChainID, r.opt.NodeID, string(a.peer.ID()), o, t)
	}
	if key, known := r.opt.GatewayKey(t.Organisation); !known || !fits(key) {
		if !r.opt.Ever(t.Organisation, fits) {
			r.opt.Conduct.Forged(r.Switch, a.peer, "told rows in the name of an organisation that did not sign them", errNoSuchKey)
		}
		return errUnsigned
	}
	a.organisation = t.Organisation
	for _, table := range t.Tables {
		a.tables = append(a.tables, backend.TableState{Table: table.Table, Rows: table.Rows, State: wire.Hash(table.State)})
	}
	return nil
}

var errUnsigned = errors.New("the answer is not signed by the organisation that it names")

var errNoMember = errors.New("no gateway key of this node is in the registry")

var errUnasked = errors.New("the answer is none to what was asked")

// ask sends a request and waits for its answer, at most for limit and what the other side may still
// have waited for; a refusal is an error.
func (a *asking) ask(ctx context.Context, limit time.Duration, q *wire.StateRequest) (*wire.StateResponse, error) {
	r := a.reactor
	if limit = min(limit, r.stallLimit+time.Duration(a.bytes)*time.Second/rateMin-a.waited); limit <= 0 {
		return nil, fmt.Errorf("%d bytes told in %s, want more by now", a.bytes, a.waited)
	}
	began := time.Now()
	defer func() { a.waited += time.Since(began) }()
	answer := make(chan *wire.StateResponse, 1)
	r.mu.Lock()
	r.requests++
	q.Request = r.requests
	key := question{a.peer.ID(), q.Request}
	r.waiting[key] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.waiting, key)
		r.mu.Unlock()
	}()
	if !a.peer.Send(envelope(&wire.StateMessage{Body: &wire.StateMessage_Request{Request: q}})) {
		return nil, errors.New("the connection does not take the request")
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.ctx.Done():
		return nil, r.ctx.Err()
	case <-timer.C:
		return nil, fmt.Errorf("no answer in %s", limit)
	case got, connected := <-answer:
		switch {
		case !connected:
			return nil, errors.New("the connection is lost")
		case got.GetRefusal() != nil:
			return nil, fmt.Errorf("refused: %q", got.GetRefusal().Reason)
		}
		return got, nil
	}
}

// Tables implements backend.Reading.
func (a *asking) Tables() []backend.TableState { return a.tables }

// Digests implements backend.Reading.
func (a *asking) Digests(ctx context.Context, table string, within backend.Ranges, bits uint32) ([]backend.RangeDigest, error) {
	answer, err := a.ask(ctx, a.reactor.answerLimit, &wire.StateRequest{Body: &wire.StateRequest_Ranges{Ranges: &wire.StateRangesOf{
		Table: table, OfBits: within.Bits, OfRanges: within.List, Bits: bits,
	}}})
	if err != nil {
		return nil, err
	}
	if answer.GetDigests() == nil {
		return nil, errUnasked
	}
	list := answer.GetDigests().Ranges
	out := make([]backend.RangeDigest, len(list))
	for i, d := range list {
		if d.Range>>bits != 0 {
			return nil, fmt.Errorf("range %d of %d bits", d.Range, bits)
		}
		out[i] = backend.RangeDigest{Range: d.Range, Rows: d.Rows, Digest: wire.Hash(d.Digest)}
	}
	return out, nil
}

// Rows implements backend.Reading.
func (a *asking) Rows(ctx context.Context, table string, in backend.Ranges, each func(cells []byte) error) error {
	return a.pages(ctx, &wire.StateRequest{Body: &wire.StateRequest_Rows{Rows: &wire.StateRowsOf{Table: table, Bits: in.Bits, Ranges: in.List}}}, each)
}

// Foundation implements backend.Foundation.
func (a *asking) Foundation(ctx context.Context, each func(part []byte) error) error {
	return a.pages(ctx, &wire.StateRequest{Body: &wire.StateRequest_Foundation{Foundation: &wire.StateFoundationOf{}}}, each)
}

// Block implements backend.Past.
func (a *asking) Block(ctx context.Context, number uint64, hash wire.Hash, each func(part []byte) error) error {
	return a.pages(ctx, &wire.StateRequest{Body: &wire.StateRequest_Block{Block: &wire.StateBlockOf{Block: number, Hash: hash[:]}}}, each)
}

// pages asks for page after page and gives what they hold.
func (a *asking) pages(ctx context.Context, q *wire.StateRequest, each func([]byte) error) error {
	var rows rows
	for {
		answer, err := a.ask(ctx, a.reactor.answerLimit, q)
		if err != nil {
			return err
		}
		page := answer.GetPage()
		if page == nil || len(page.Rows) == 0 && !page.Last {
			return errUnasked
		}
		a.bytes += len(page.Rows)
		if err := rows.add(page.Rows, each); err != nil {
			return err
		}
		if page.Last {
			return rows.end()
		}
		q = &wire.StateRequest{Body: &wire.StateRequest_Next{Next: &wire.StateNext{}}}
	}
}

// Close implements backend.Reading and backend.Past.
func (a *asking) Close() {
	a.peer.TrySend(envelope(&wire.StateMessage{Body: &wire.StateMessage_Request{Request: &wire.StateRequest{
		Body: &wire.StateRequest_Close{Close: &wire.StateClose{}},
	}}}))
}

// rows puts rows together from pieces: lp(cells) ‖ lp(cells) …
type rows struct{ rest []byte }

func (r *rows) add(piece []byte, each func(cells []byte) error) error {
	r.rest = append(r.rest, piece...)
	for len(r.rest) >= 4 {
		length := binary.BigEndian.Uint32(r.rest)
		if length > rowBytesMax {
			return fmt.Errorf("row of %d bytes, want at most %d", length, rowBytesMax)
		}
		if len(r.rest)-4 < int(length) {
			return nil
		}
		if err := each(r.rest[4 : 4+length]); err != nil {
			return err
		}
		r.rest = r.rest[4+length:]
	}
	return nil
}

func (r *rows) end() error {
	if len(r.rest) > 0 {
		return fmt.Errorf("rows end within one, after %d bytes of it", len(r.rest))
	}
	return nil
}
