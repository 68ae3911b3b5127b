package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/config"
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
	opt := explorer.Options{Ledger: ledger, Hosts: c.Explorer.Hosts, Status: n.status, Votes: n.votesSeen, Evidence: n.evidence, Log: log}
	if files, ok := c.Explorer.TLS(n.opt.Home); ok {
		opt.TLS, err = files.Config(log)
	}
	if err == nil && !c.Explorer.Loopback() {
		opt.MayLook, err = readers(n.opt.Home.Path(c.HTTP.TokensFile), c.Explorer.Listen)
	}
	var listen net.Listener
	if err == nil {
		listen, err = net.Listen("tcp", c.Explorer.Listen)
	}
	pages := explorer.New(opt)
	if err != nil {
		pages.Close()
		return nil, fmt.Errorf("explorer: %w", err)
	}
	return &explorerDoor{pages, listen}, nil
}

// readers lets those look who show a token for the reader's role. It is refused where there is no
// such token.
func readers(path, listen string) (func(*http.Request) bool, error) {
	somebody, err := access.AnyToken(path, config.ReaderRole, time.Now())
	if err == nil && !somebody {
		err = fmt.Errorf("%s is not on loopback, and no token opens it: make one with \"chainify client token add --role %s\"", listen, config.ReaderRole)
	}
	if err != nil {
		return nil, err
	}
	tokens, err := access.OpenTokens(path)
	visitors := access.Access{Tokens: tokens}
	return func(r *http.Request) bool {
		client, err := visitors.OfBrowser(r)
		return err == nil && client.Role == config.ReaderRole
	}, err
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
