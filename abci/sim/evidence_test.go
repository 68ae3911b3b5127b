package sim

import (
	"context"
	"fmt"
	"slices"

	dbm "github.com/cometbft/cometbft-db"
	"github.com/cometbft/cometbft/evidence"
	"github.com/cometbft/cometbft/state"
	"github.com/cometbft/cometbft/store"
	"github.com/cometbft/cometbft/types"
)

// accused is one piece of evidence against an organisation.
type accused struct {
	organisation string
	height       int64 // of the order block that it signed twice for; 0: the effects of a ledger block
	where        string
}

func (a accused) String() string {
	return fmt.Sprintf("%s is accused for height %d: %s", a.organisation, a.height, a.where)
}

// told is the evidence that a running node tells: of effects, and of the order.
func (m *machine) told() (all []accused, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := m.client(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	kept, err := c.Evidence(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range kept.Evidence {
		all = append(all, accused{e.Organisation, 0, fmt.Sprintf("%s tells of block %d, effect round %d", m, e.Block, e.EffectRound)})
	}
	for _, e := range kept.Order {
		all = append(all, accused{e.Organisation, e.Height, fmt.Sprintf("%s tells of the order at block %d", m, e.Decided)})
	}
	if len(all) == 0 && kept.Count+kept.OrderCount > 0 {
		return nil, fmt.Errorf("%s counts %d and %d pieces, and keeps none", m, kept.Count, kept.OrderCount)
	}
	return all, nil
}

// stored is the evidence in CometBFT's stores that a stopped node left: in blocks, and pending.
func (m *machine) stored(owner func([]byte) string) (all []accused, err error) {
	open := func(name string) (db dbm.DB) {
		if err == nil {
			db, err = dbm.NewGoLevelDB(name, m.home.Data())
		}
		return db
	}
	blockDB, stateDB, evidenceDB := open("blockstore"), open("state"), open("evidence")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m, err)
	}
	blocks, states := store.NewBlockStore(blockDB), state.NewStore(stateDB, state.StoreOptions{})
	defer blocks.Close()
	defer states.Close()
	defer evidenceDB.Close()
	take := func(where string, found types.EvidenceList) {
		for _, e := range found {
			of := "?"
			if twice, is := e.(*types.DuplicateVoteEvidence); is {
				of = owner(twice.VoteA.ValidatorAddress)
			}
			all = append(all, accused{of, e.Height(), fmt.Sprintf("%s, %s", m, where)})
		}
	}
	for h := max(1, blocks.Base()); h <= blocks.Height(); h++ {
		if block := blocks.LoadBlock(h); block != nil {
			take(fmt.Sprintf("block %d", h), block.Evidence.Evidence)
		}
	}
	pool, err := evidence.NewPool(evidenceDB, states, blocks)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m, err)
	}
	pending, _ := pool.PendingEvidence(-1)
	take("pending", pending)
	return all, nil
}

// judge looks for double signatures, and for evidence against members. A member that had a twin may
// be accused of what the two signed. All nodes run, and are stopped.
func (w *world) judge() (problems []string, err error) {
	var all []accused
	for _, m := range w.members {
		told, err := m.node.told()
		if err != nil {
			return nil, err
		}
		all = append(all, told...)
	}
	addresses := map[string]string{}
	for _, m := range w.members {
		key, err := w.machines[m.index].home.Validator()
		if err != nil {
			return nil, err
		}
		addresses[string(key.Key.Address)] = m.name
	}
	for _, m := range w.machines {
		if err := m.stop(); err != nil {
			return nil, err
		}
	}
	for _, m := range w.machines {
		stored, err := m.stored(func(address []byte) string { return addresses[string(address)] })
		if err != nil {
			return nil, err
		}
		all = append(all, stored...)
	}
	twice, heights, revoted := w.record.twices()
	allowed := func(name string, height int64) bool {
		m := w.members[slices.IndexFunc(w.members, func(m *member) bool { return m.name == name })]
		return m.had && slices.Contains(heights[name], height)
	}
	for _, a := range all {
		if a.organisation == "?" || !allowed(a.organisation, a.height) {
			problems = append(problems, a.String())
		}
	}
	for _, m := range w.members {
		if len(heights[m.name]) > 0 && !m.had {
			problems = append(problems, fmt.Sprintf("%s signed twice at heights %v", m.name, heights[m.name]))
		}
	}
	if len(problems) > 0 {
		problems = append(problems, twice...)
	}
	return append(problems, revoted...), nil
}
