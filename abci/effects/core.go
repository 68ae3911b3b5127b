// Package effects decides when an organisation's database commits. Core is pure: events in, actions
// out, no I/O, no clock, no goroutine; time comes with each event. Shell drives a backend.Backend
// and the order's store with it. The application talks to Shell.
//
// The rules are those of spec/effect-consensus.md, "Deciding about the database"
// (Whatever-LedgerConsensus: Schuhknecht, Sharma, Dittrich, Agrawal, ChainifyDB, CIDR 2021).
package effects

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Bounds of what a core keeps in memory.
const (
	blocksAhead    = 4  // decided blocks and certificates kept beyond the database's position
	ballotsMax     = 32 // own votes: one per execution
	rejoinAttempts = 5
	progressMS     = 10_000 // between two reports of how far executing all blocks again has come
)

// Config describes a core's consortium, and its limits.
type Config struct {
	Organisation string
	// OrderingOnly: this node has no database; it votes nothing.
	OrderingOnly bool
	OpenMaxMS    int64 // a block open without consent for longer is rolled back; default 5,000
	BackoffMinMS int64 // default 50
	BackoffMaxMS int64 // default 10,000
	// Steps are those of recovery that may be taken, in this order; default all of them.
	Steps []backend.Step
	// FullBlocksMax: step Full begins by itself only in a database of at most so many blocks;
	// default: of any number.
	FullBlocksMax uint64
	// FullNoticeMS is how long Full is announced before it begins.
	FullNoticeMS int64
	// RepairsMax bounds the repairs of one block, default 3: a database may be changed again
	// between repair and execution.
	RepairsMax int
	// HelpAttempts bounds how often the other organisations are asked for rows of one block, with
	// growing pauses; default 10.
	HelpAttempts int
	// LookMS is how often an idle core asks the database whether its scrubber found something; 0:
	// never.
	LookMS int64
}

func (c Config) check() error {
	if c.OpenMaxMS < 0 || c.FullNoticeMS < 0 || c.BackoffMinMS < 0 || c.BackoffMaxMS < 0 || c.LookMS < 0 || c.RepairsMax < 0 || c.HelpAttempts < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

// ballot is what this organisation says about one execution. Of one read back after a restart the
// hash is not known until the block is executed again and comes out the same.
type ballot struct {
	vote  wire.EffectVote
	hash  wire.Hash
	known bool
}

// Key names the execution.
func (b ballot) Key() wire.Key { return b.vote.Key() }

// opened is a block executed in a transaction that has not ended.
type opened struct {
	block   *wire.OrderedBlock
	key     wire.Key
	hash    wire.Hash
	parts   string // as in a vote on it
	sinceMS int64
	adopted bool // the effects are another organisation's word, shown to be as certified
}

// Core is the decision about one organisation's database.
//
// Invariant E1: Core asks Commit only for a block whose own LedgerBlockHash c organisations voted
// for. They do so by a certificate on the chain or, if 3c > 2·organisations for the block's c, by
// live votes. Those in a certificate that is only proposed count as live. Invariant E2: it asks
// Commit only for a decided block. Invariant E3: of an organisation's votes for one execution the
// first counts. Invariant E4: at most one operation is under way. Invariant E5: this organisation
// votes once for one execution, whatever later executions give, also after a restart
// (Started.Voted). In a lost node's place it abstains where that one may have voted (VotesUnknown).
// In the rounds after it committed a block it votes what it committed. Invariant E8: it votes only
// for what it computed, and so for no block that it adopted. Invariant E6: clients are answered
// after the database was seen to hold the block.
type Core struct {
	cfg   Config
	nowMS int64
	out   []Action

	// ordered and certified are the tips of the order, durable in the node's stores (E2).
	ordered, certified uint64
	// blocks are decided blocks beyond the position, certs certificates not stored yet; the source
	// has the rest.
	blocks map[uint64]*wire.OrderedBlock
	certs  map[uint64]*wire.Certificate
	// proposal is the newest block proposed and not decided, proof the newest certificate in a
	// proposal.
	proposal *wire.OrderedBlock
	proof    *wire.Certificate
	// votes are the first live votes of the other organisations (E3), ballots this one's own,
	// oldest first (E5).
	votes   wire.HeardVotes[wire.EffectVote]
	ballots wire.FirstVotes[ballot]
	// unknown are executions on which this organisation says nothing, unless it is known what it
	// said before (E5).
	unknown Unknown

	// position is where the database stood last; known is false after anything that may have
	// changed it unseen.
	position backend.Position
	known    bool
	// proven: the block at position is certified with the hash found there.
	proven   bool
	open     *opened
	lookedMS int64 // when position was read last
	finding  finding
	past     past
	toldMS   int64 // when the progress of blocks executed again was reported last
	// unsure is the block whose COMMIT may or may not have happened.
	unsure *opened
	// op is the operation under way (E4) since opMS, nil when there is none.
	op        Action
	opMS      int64
	cancelled bool
	// pauses follow operations that failed.
	pauses

	ladder   ladder
	adopts   bool // step Adopt may be taken
	adoption adoption
	stall    stall
	joining  joining
	// shelved is the execution that is rolled back until consent about it is known.
	shelved    wire.Key
	records    []RecordDeviation
	excluded   string // why; empty: not excluded
	announced  string // what Full is about to do; empty: it is not
	rejoins    int    // attempts left
	deviations uint64 // cured, or ended in exclusion
}

// NewCore makes the core of an organisation; its first event has to be Started.
func NewCore(cfg Config) (*Core, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("configure effect consensus: %w", err)
	}
	setDefault(&cfg.OpenMaxMS, 5_000)
	setDefault(&cfg.BackoffMinMS, 50)
	setDefault(&cfg.BackoffMaxMS, 10_000)
	setDefault(&cfg.RepairsMax, 3)
	setDefault(&cfg.HelpAttempts, 10)
	setDefault(&cfg.FullBlocksMax, math.MaxUint64)
	if len(cfg.Steps) == 0 {
		cfg.Steps = backend.Steps()
	}
	adopts := slices.Contains(cfg.Steps, backend.Adopt)
	cfg.Steps = keep(cfg.Steps, func(s backend.Step) bool { return s != backend.Adopt })
	if len(cfg.Steps) == 0 {
		return nil, errors.New("configure effect consensus: no step of recovery but adopt")
	}
	return &Core{
		cfg:    cfg,
		adopts: adopts,
		blocks: map[uint64]*wire.OrderedBlock{},
		certs:  map[uint64]*wire.Certificate{},
	}, nil
}

func setDefault[N int | int64 | uint64](v *N, def N) {
	if *v == 0 {
		*v = def
	}
}

// Step takes one event at a time (milliseconds of any monotonic clock) and returns what to do, in
// order.
func (c *Core) Step(nowMS int64, e Event) []Action {
	c.nowMS = max(c.nowMS, nowMS)
	c.out = nil
	c.take(e)
	c.decide()
	return c.out
}

// DeadlineMS is when the next Tick is due at the latest; 0 when time alone changes nothing.
func (c *Core) DeadlineMS() int64 {
	switch {
	case c.op != nil || c.cfg.OrderingOnly:
		return 0
	case c.nowMS < c.resumeMS:
		return c.resumeMS
	case c.open != nil:
		return c.open.sinceMS + c.cfg.OpenMaxMS
	case c.stall.waits(c.position.Number+1, c.nowMS):
		return c.stall.resumeMS
	case c.known && c.excluded == "" && c.cfg.LookMS > 0:
		return c.lookedMS + c.cfg.LookMS
	}
	return 0
}

func (c *Core) take(e Event) {
	switch e := e.(type) {
	case Started:
		c.ordered, c.certified = max(c.ordered, e.Ordered), max(c.certified, e.Certified)
		if e.Excluded != "" {
			c.excluded = e.Excluded
			c.report(Report{What: NodeExcluded, Number: c.ordered, Reason: e.Excluded})
		}
		for _, v := range e.Voted {
			c.cast(ballot{vote: v})
		}
	case VotesUnknown:
		c.votesUnknown(e)
	case Proposed:
		c.proposed(e)
	case VoteSeen:
		c.voteSeen(e)
	case Decided:
		c.decided(e)
	case Rejoin:
		c.rejoin()
	case GiveUp:
		c.giveUp(e)
	case Tick:
	case Executed:
		c.executed(e)
	case Committed:
		c.committed(e)
	case RolledBack:
		c.op, c.open = nil, nil
		c.went(e.Failure)
	case Repaired:
		c.repaired(e)
	case CertificateStored:
		c.certificateStored(e)
	case DeviationRecorded:
		c.op = nil
		if c.went(e.Failure) {
			c.records = c.records[1:]
		}
	case Adopted:
		c.adopted(e)
	case BlockRestored:
		c.blockRestored(e)
	case Joined:
		c.joined(e)
	case DatabaseAt:
		c.databaseAt(e)
	case Fetched:
		c.fetched(e)
	}
}

func (c *Core) proposed(e Proposed) {
	if e.Certificate != nil && (c.proof == nil || e.Certificate.Number >= c.proof.Number) {
		c.proof = e.Certificate
	}
	if b := e.Block; b != nil && b.Number > c.ordered {
		c.proposal = b
	}
}

func (c *Core) decided(e Decided) {
	if cert := e.Certificate; cert != nil {
		c.certified = max(c.certified, cert.Number)
		c.ordered = max(c.ordered, cert.Number)
		c.keepCertificate(cert)
	}
	if b := e.Ordered; b != nil {
		if b.Round > 0 && b.Number >= c.ordered {
			c.report(Report{What: RoundAdvanced, Number: b.Number, Round: b.Round})
		}
		c.ordered = max(c.ordered, b.Number)
		c.votes.Decided(b.Key())
		c.keepBlock(b)
	}
	if p := c.proposal; p != nil && (p.Number <= c.ordered || p.Height <= e.Height) {
		c.proposal = nil
	}
}

// keepBlock keeps a decided block that comes soon; the others are fetched when their turn comes.
func (c *Core) keepBlock(b *wire.OrderedBlock) {
	if b.Number <= c.position.Number || b.Number > c.position.Number+blocksAhead {
		return
	}
	if old := c.blocks[b.Number]; old != nil && old.Round > b.Round {
		return
	}
	c.blocks[b.Number] = b
	// A database that is behind keeps its ladder for the block that it needs first.
	if b.Round > 0 && b.Number > c.certified && b.Number == c.position.Number+1 {
		before := b.Key()
		before.Round--
		c.ladderOf(b.Number).round(c.ballots.Of(before))
	}
}

func (c *Core) keepCertificate(cert *wire.Certificate) {
	if cert.Number <= c.position.Certified || cert.Number > c.position.Number+blocksAhead {
		return
	}
	c.certs[cert.Number] = cert
	if b := c.blocks[cert.Number]; b != nil && b.Round != cert.Round {
		delete(c.blocks, cert.Number) // the source has it in its last round
	}
}

func (c *Core) rejoin() {
	if c.excluded == "" {
		return
	}
	c.report(Report{What: OperatorRejoins, Number: c.position.Number + 1, Reason: c.excluded})
	c.excluded, c.announced, c.rejoins = "", "", rejoinAttempts
	c.pauses, c.finding, c.adoption = pauses{}, finding{}, adoption{number: c.adoption.number}
	c.restartRecovery()
}

// restartRecovery forgets what is believed of the database and begins with a repair.
func (c *Core) restartRecovery() {
	c.known, c.proven = false, false
	c.ladder = ladder{number: c.position.Number + 1, needRepair: c.position.Number > 0, sinceMS: c.nowMS}
}

// exclude ends this organisation's part in effect consensus until the operator asks for Rejoin; the
// attempts that follow such a wish come with growing pauses.
func (c *Core) exclude(number uint64, expected, found wire.Hash, reason string) {
	if c.rejoins > 0 {
		c.rejoins--
		c.resumeMS = c.nowMS + 1_000<<(rejoinAttempts-1-c.rejoins)
		c.restartRecovery()
		return
	}
	c.excluded = reason
	c.deviations++
	c.report(Report{What: NodeExcluded, Number: number, Expected: expected, Found: found, Reason: reason})
}

func (c *Core) report(r Report) { c.out = append(c.out, r) }
