package order

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// Block is an order block with its transactions opened.
type Block struct {
	Height    int64
	TimeMicro int64
	Hash      wire.Hash // CometBFT's
	Txs       []Tx
}

// Result reports the effects of an order block; the next state is returned beside it.
type Result struct {
	Codes     []uint32          // one for each of the block's transactions
	Spent     []bool            // one for each of them: a bundle of which no later block accepts anything
	Certified *wire.Certificate // of the ledger block that was pending before
	Voted     []Vote            // on the chain for what was pending before, those that this block adds included; read only
	Ordered   *Body             // of the ledger block that is pending now, when this order block made it
	Advanced  bool              // the pending ledger block goes into its next effect round
	Suspended string            // the client of whom stuck votes ended transactions; empty: none
	Refused   []wire.TxResult
	// Validators are those to change in two heights, with their power, 0 to remove one.
	Validators []Validator
}

// Body is the part of a ledger block that later effect rounds do not change.
type Body struct {
	IDs          []wire.TxID
	Transactions []byte   // block buffer
	Skipped      []uint32 // indexes, among all bundled transactions of the order block, of those not accepted
}

// Apply returns the state after an order block, leaving s as it is. An error means that no correct
// validator accepts the block; it names what the block breaks.
func (s *State) Apply(b Block) (*State, *Result, error) {
	if b.Height != s.height+1 {
		return nil, nil, fmt.Errorf("order block has height %d, the state is at %d", b.Height, s.height)
	}
	if s.window.height != s.height {
		return nil, nil, fmt.Errorf("state is at height %d, its replay window at %d", s.height, s.window.height)
	}
	next := *s
	next.height, next.timeMicro, next.added = b.Height, b.TimeMicro, nil
	result := &Result{Codes: make([]uint32, len(b.Txs)), Spent: make([]bool, len(b.Txs))}
	bundles, err := next.certify(b, result)
	if err != nil {
		return nil, nil, err
	}
	if first := next.takeClients(b, next.takeChange(b, bundles, result), result); s.settles(b.Height) && first < len(b.Txs) {
		return nil, nil, fmt.Errorf("transaction %d: a bundle while governance change %d comes into force", first, s.governance.Changes)
	} else if err := next.orderBundles(b, first, result); err != nil {
		return nil, nil, err
	}
	if next.pending != nil && result.Ordered == nil {
		next.age++
	}
	next.enforce(result)
	if next.registry != s.registry {
		next.registries = append(slices.Clip(s.registries), next.registry.record)
	}
	return &next, result, nil
}

// certify applies the certificate, if there is one, and tallies. It returns the index of the first
// bundle.
func (s *State) certify(b Block, result *Result) (bundles int, err error) {
	if len(b.Txs) > 0 && b.Txs[0].certificate != nil {
		if err := s.applyCertificate(b, b.Txs[0].certificate); err != nil {
			return 0, fmt.Errorf("transaction 0: %w", err)
		}
		bundles = 1
	}
	for i, tx := range b.Txs[bundles:] {
		if tx.certificate != nil {
			return 0, fmt.Errorf("transaction %d: a certificate that is not first", bundles+i)
		}
		if tx.change != nil && i > 0 {
			return 0, fmt.Errorf("transaction %d: a governance change that is not first after the certificate", bundles+i)
		}
		if err := s.MayHold(tx); err != nil {
			return 0, fmt.Errorf("transaction %d: %w", bundles+i, err)
		}
		if tx.client != nil && i > 0 && b.Txs[bundles+i-1].bundle != nil {
			return 0, fmt.Errorf("transaction %d: a change of clients behind a bundle", bundles+i)
		}
	}
	if s.pending == nil {
		return bundles, nil
	}
	result.Voted = s.pending.Votes
	verdict := s.pending.tally(len(s.registry.voters), s.pending.Consent, b.TimeMicro, s.registry.record.Parameters)
	switch verdict.kind {
	case certifiedVerdict:
		result.Certified = s.pending.certificate(verdict.hash)
		s.certified, s.certifiedHash = s.pending.Number, verdict.hash
		s.pending = nil
	case nextRoundVerdict:
		if client := verdict.stuck.client; client != "" {
			s.suspensions = s.suspensions.suspend(client, b.TimeMicro, s.pending.TimeMaxMS)
			result.Suspended = client
		}
		s.pending = s.pending.nextRound(verdict, len(s.registry.voters), s.pending.Consent, s.registry.record.Parameters)
		result.Advanced = true
	}
	return bundles, nil
}

// applyCertificate checks a certificate against the pending ledger block and adds what it carries.
func (s *State) applyCertificate(b Block, c *wire.EffectCertificate) error {
	p := s.pending
	if p == nil {
		return fmt.Errorf("certificate for block %d, nothing is pending", c.Block)
	}
	if c.Block != p.Number || c.EffectRound != p.Round {
		return fmt.Errorf("certificate for block %d round %d, pending is block %d round %d", c.Block, c.EffectRound, p.Number, p.Round)
	}
	next := *p
	next.Votes, next.Revealed = slices.Clone(p.Votes), slices.Clone(p.Revealed)
	for i, extended := range c.Votes {
		vote, err := s.checkVote(&next, b.Height, extended)
		if err != nil {
			return fmt.Errorf("vote %d: %w", i, err)
		}
		next.Votes = append(next.Votes, vote)
	}
	if len(p.Votes) < p.Consent && len(next.Votes) >= p.Consent {
		next.SinceMicro = b.TimeMicro
	}
	if len(c.LedgerBlockHash) > 0 {
		hash := wire.Hash(c.LedgerBlockHash)
		if slices.Contains(next.Revealed, hash) {
			return fmt.Errorf("hash %x is on the chain already", hash)
		}
		if !next.fitsAVote(hash) {
			return fmt.Errorf("hash %x fits no vote", hash)
		}
		next.Revealed = append(next.Revealed, hash)
	}
	s.pending = &next
	return nil
}

// checkVote decides whether a vote may stand in a certificate at this height, beside those p has.
func (s *State) checkVote(p *Pending, height int64, extended *wire.ExtendedVote) (Vote, error) {
	name, known := s.registry.OrganisationOf(extended.ValidatorAddress)
	if !known {
		return Vote{}, fmt.Errorf("validator %x is not in the registry", extended.ValidatorAddress)
	}
	if !s.registry.votes(name) {
		return Vote{}, fmt.Errorf("organisation %q only orders: it has no effect vote", name)
	}
	vote, err := wire.DecodeEffectVote(extended.Extension)
	if err != nil {
		return Vote{}, err
	}
	if vote.Key() != p.Key() {
		return Vote{}, fmt.Errorf("vote of %q is for block %d round %d order %x protocol %d, pending is block %d round %d order %x protocol %d",
			name, vote.Number, vote.Round, vote.OrderHash, vote.Protocol.Version(), p.Number, p.Round, p.OrderHash, p.Protocol.Version())
	}
	if index, stuck := vote.StuckAt(); stuck && index >= p.TxCount {
		return Vote{}, fmt.Errorf("vote of %q is stuck at transaction %d of %d", name, index, p.TxCount)
	}
	if got, want := len(vote.Parts)/wire.PartBytes, p.inQuestion().Parts(); got != 0 && got != want {
		return Vote{}, fmt.Errorf("vote of %q has %d parts, the block has %d", name, got, want)
	}
	if extended.Height < p.Height || extended.Height >= height {
		return Vote{}, fmt.Errorf("vote of %q is from height %d, want %d to %d", name, extended.Height, p.Height, height-1)
	}
	if _, voted := p.VoteOf(name); voted {
		return Vote{}, fmt.Errorf("organisation %q has a vote on the chain already", name)
	}
	if _, err := s.registry.CheckExtension(extended); err != nil {
		return Vote{}, err
	}
	return Vote{CertifiedVote: wire.CertifiedVote{
		Organisation: name, Validator: extended.ValidatorAddress, Height: extended.Height, Round: extended.Round,
		Extension: extended.Extension, Signature: extended.Signature,
	}, vote: vote}, nil
}

// certificate collects the votes for hash, by organisation.
func (p *Pending) certificate(hash wire.Hash) *wire.Certificate {
	c := &wire.Certificate{Number: p.Number, Round: p.Round, Hash: hash}
	for _, v := range p.Votes {
		if v.vote.IsFor(v.Organisation, hash) {
			c.Votes = append(c.Votes, v.CertifiedVote)
		}
	}
	slices.SortFunc(c.Votes, func(a, b wire.CertifiedVote) int { return strings.Compare(a.Organisation, b.Organisation) })
	return c
}

// orderBundles accepts transactions one by one and makes a ledger block of them.
func (s *State) orderBundles(b Block, first int, result *Result) error {
	if s.pending != nil && first < len(b.Txs) {
		return fmt.Errorf("transaction %d: a bundle while ledger block %d stays pending", first, s.pending.Number)
	}
	body, raw, position, who := &Body{}, [][]byte(nil), uint32(0), clientsMaker{}
	taken := &taking{seen: map[wire.TxID]struct{}{}, refused: map[wire.TxID]struct{}{}, shares: s.registry.Shares()}
	for i, tx := range b.Txs[first:] {
		if err := taken.shares.Take(tx.bundle); err != nil {
			return fmt.Errorf("transaction %d: %w", first+i, err)
		}
		accepted, spent := false, true
		for _, t := range tx.bundle.transactions {
			switch verdict := s.judge(t, b, taken); verdict {
			case live:
				accepted = true
				s.remember(t, taken)
				body.IDs, raw = append(body.IDs, t.id), append(raw, t.raw)
				who.add(t.client)
			case replayed: // its outcome is that of the one accepted, so it is not reported as refused
				body.Skipped = append(body.Skipped, position)
			default:
				body.Skipped = append(body.Skipped, position)
				result.Refused = append(result.Refused, s.refusalOf(t, verdict, taken.shares))
				switch verdict { // for good: its client may submit it anew, and it must not be ordered twice
				case suspended: // counts for the bound of the block
					s.remember(t, taken)
				case overBound, overOrganisation, overClient, overKeys:
					spent = s.refuse(t, taken) && spent
				case tooFarAhead, unregistered:
					spent = false
				}
			}
			position++
		}
		if !accepted {
			result.Codes[first+i] = CodeNothingLive
		}
		result.Spent[first+i] = spent
	}
	if len(raw) == 0 {
		return nil
	}
	body.Transactions = wire.EncodeTransactions(raw)
	result.Ordered = body
	s.ordered++
	s.age = 0
	s.chain = sha256.Sum256(slices.Concat([]byte("chainify/chain/1"), s.chain[:], b.Hash[:]))
	s.pending = &Pending{
		Number: s.ordered, OrderHash: b.Hash, Height: b.Height, TimeMicro: b.TimeMicro, TxCount: uint32(len(raw)),
		Organisations: len(s.registry.voters), Consent: s.registry.consent, Protocol: s.registry.Protocol(), Clients: who.made(),
		TimeMaxMS: s.registry.Parameters().BlockTimeMaxMS, DeployTimeMaxMS: s.registry.Parameters().DeployTimeMaxMS,
	}
	return nil
}

// taking counts what an order block has accepted so far, of suspended clients included, and the
// transactions that it has no room for. All of them are remembered.
type taking struct {
	seen, refused map[wire.TxID]struct{}
	shares        *Shares
}

// remember has no later transaction be this one.
func (s *State) remember(t transaction, taken *taking) {
	taken.seen[t.id] = struct{}{}
	taken.shares.accept(t)
	s.added = append(s.added, Accepted{t.id, t.validUntil})
}

// refuse has no later transaction be this one, which the block has no room for. A block fills the
// window with twice as many as it accepts at most: floods beyond are refused and not remembered. It
// reports whether this one is.
func (s *State) refuse(t transaction, taken *taking) (remembered bool) {
	if len(taken.seen)+len(taken.refused) >= 2*s.registry.record.Parameters.BlockTransactionsMax {
		return false
	}
	taken.refused[t.id] = struct{}{}
	s.added = append(s.added, Accepted{t.id, t.validUntil})
	return true
}

type liveness int

const (
	live liveness = iota
	replayed
	expired
	tooFarAhead
	overBound
	overOrganisation
	overClient
	overKeys
	unregistered
	suspended
)

// judge decides about one transaction of an order block, after those taken.
func (s *State) judge(t transaction, b Block, taken *taking) liveness {
	height := b.Height
	_, twice := taken.seen[t.id]
	_, refused := taken.refused[t.id]
	if twice || refused || s.window.has(Accepted{t.id, t.validUntil}) {
		return replayed
	}
	switch {
	case t.validUntil < uint64(height):
		return expired
	case t.validUntil-uint64(height) > s.registry.Protocol().ValidityHeights():
		return tooFarAhead
	case !s.vouched(t):
		return unregistered
	case len(taken.seen) >= s.registry.record.Parameters.BlockTransactionsMax:
		return overBound
	}
	if cut := taken.shares.cuts(t); cut != live {
		return cut
	}
	if s.suspensions.until(t.client) > b.TimeMicro {
		return suspended
	}
	return live
}

func (s *State) refusalOf(t transaction, l liveness, shares *Shares) wire.TxResult {
	id := t.id
	switch l {
	case suspended:
		return wire.TxResult{ID: id, SQLState: "53400", Message: MessageSuspended(time.UnixMicro(s.suspensions.until(t.client)))}
	case expired:
		return wire.TxResult{ID: id, SQLState: "40001", Message: "transaction expired before it was ordered"}
	case tooFarAhead:
		return wire.TxResult{ID: id, SQLState: "54000", Message: fmt.Sprintf("transaction is valid for more than %d heights", s.registry.Protocol().ValidityHeights())}
	case overOrganisation, overClient, overKeys:
		return wire.TxResult{ID: id, SQLState: "53400", Message: shares.refusal(t, l)}
	case unregistered:
		return wire.TxResult{ID: id, SQLState: "28000", Message: "the client's key is not registered for this role"}
	default:
		return wire.TxResult{ID: id, SQLState: "53400", Message: "order block holds no more transactions; submit a new one"}
	}
}

// Live reports whether the next order block could accept the change, or some transaction of the
// bundle. A transaction that a suspension refuses is ordered, so that its client is told.
func (s *State) Live(tx Tx) bool {
	if tx.change != nil {
		return s.MayHold(tx) == nil && s.governance.accepts(tx.change, s.height+1) == nil
	}
	if tx.client != nil {
		return s.clients.accepts(tx.client.change) == nil
	}
	for _, t := range tx.bundle.transactions {
		if s.judge(t, Block{Height: s.height + 1, TimeMicro: math.MaxInt64}, &taking{shares: &Shares{}}) == live {
			return true
		}
	}
	return false
}

// Extract rebuilds the body of a ledger block with count transactions from its order block and the
// indexes that were not accepted.
func Extract(txs []Tx, skipped []uint32, count uint32) (*Body, error) {
	body, raw, position := &Body{Skipped: skipped}, [][]byte(nil), uint32(0)
	for _, tx := range txs {
		if tx.bundle == nil {
			continue
		}
		for _, t := range tx.bundle.transactions {
			if len(skipped) > 0 && skipped[0] == position {
				skipped = skipped[1:]
			} else {
				body.IDs, raw = append(body.IDs, t.id), append(raw, t.raw)
			}
			position++
		}
	}
	if uint64(len(raw)) != uint64(count) || len(skipped) > 0 {
		return nil, fmt.Errorf("order block holds %d accepted transactions, want %d", len(raw), count)
	}
	body.Transactions = wire.EncodeTransactions(raw)
	return body, nil
}
