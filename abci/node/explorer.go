package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/chainify-db/chainify/abci/engines"
	"github.com/chainify-db/chainify/abci/explorer"
)

// explorerDoor is the explorer with its listener.
type explorerDoor struct {
	pages  *explorer.Explorer
	listen net.Listener
}

// openExplorer makes the explorer; nil when it is off.
func (n *node) openExplorer() (*explorerDoor, error) {
	c := n.opt.Config
	if c.Explorer.Listen == "" {
		return nil, nil
	}
	dsn := cmp.Or(c.Explorer.DSN, c.Database.DSN)
	ledger, err := engines.Pages(dsn)
	if err != nil {
		return nil, err
	}
	log := n.log.With("part", "explorer")
	if !c.Explorer.Loopback() {
		log.Warn("the explorer listens beyond loopback: whoever reaches it sees all ledger data", "listen", c.Explorer.Listen)
	}
	pages := explorer.New(explorer.Options{
		Ledger: ledger, Hosts: c.Explorer.Hosts, Status: n.status, Votes: n.votesSeen, Evidence: n.evidence, Log: log,
	})
	listen, err := net.Listen("tcp", c.Explorer.Listen)
	if err != nil {
		pages.Close()
		return nil, fmt.Errorf("explorer: %w", err)
	}
	return &explorerDoor{pages, listen}, nil
}

// close closes a door that was never served. Safe on nil.
func (d *explorerDoor) close() error {
	if d == nil {
		return nil
	}
	d.pages.Close()
	return d.listen.Close()
}

// serve answers until ctx ends, and disconnects then.
func (d *explorerDoor) serve(ctx context.Context) error {
	defer d.pages.Close()
	err := d.pages.Serve(ctx, d.listen)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// votesSeen are the verdicts of the metrics, for people.
func (n *node) votesSeen() []explorer.Vote {
	seen := n.metrics.Judged()
	votes := make([]explorer.Vote, len(seen))
	for i, v := range seen {
		votes[i] = explorer.Vote{Block: v.Block, Organisation: v.Organisation, Verdict: v.Verdict}
	}
	return votes
}
