package postgres

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
)

// surveyEvery is how often the servers beside the one with the database are asked how they stand.
const surveyEvery = 5 * time.Second

// Seen is how one server of a DSN stands, or why it does not say so.
type Seen struct {
	Name         string // host:port
	Err          error
	Standby      bool
	Epoch        uint64 // 0: the node was never there
	SupersededBy uint64 // 0: it was told of no later server
	LastBlock    uint64
	is           answering
}

// Survey asks all servers of a DSN at once, each within its connect timeout. Errors are about the
// DSN.
func Survey(ctx context.Context, dsn string) ([]Seen, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	c.RuntimeParams["search_path"] = "pg_catalog, pg_temp" // whatever role and database have: X11
	EndWithMachine(&c.Config)
	hosts, err := hostsOf(c)
	if err != nil {
		return nil, err
	}
	return survey(ctx, hosts, func(context.Context, *pgx.Conn, answering) error { return nil }), nil
}

// HasStandbys says whether a DSN names several servers.
func HasStandbys(dsn string) bool {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return false
	}
	hosts, err := hostsOf(c)
	return err == nil && len(hosts) > 1
}

// At is the connection to one server of several, by its name.
func At(c *pgx.ConnConfig, name string) *pgx.ConnConfig {
	hosts, _ := hostsOf(c)
	for _, h := range hosts {
		if h.name == name {
			return h.config
		}
	}
	return c
}

// survey asks servers, and has use look at each that answers, over the same connection.
func survey(ctx context.Context, hosts []host, use func(context.Context, *pgx.Conn, answering) error) []Seen {
	all := make([]Seen, len(hosts))
	var asked sync.WaitGroup
	for i, h := range hosts {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 2*h.config.ConnectTimeout)
			defer cancel()
			all[i] = Seen{Name: h.name}
			is, err := look(ctx, h, use)
			all[i].Err = err
			if err == nil {
				all[i].Standby, all[i].Epoch, all[i].SupersededBy, all[i].LastBlock, all[i].is = is.Standby, is.Epoch, is.SupersededBy, is.LastBlock, is
			}
		})
	}
	asked.Wait()
	return all
}

func look(ctx context.Context, h host, use func(context.Context, *pgx.Conn, answering) error) (answering, error) {
	c := h.config.Copy()
	c.ValidateConnect = nil // a standby, too
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return answering{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	is, err := askServer(ctx, conn, h.name)
	if err != nil {
		return is, err
	}
	return is, use(ctx, conn, is)
}

// watchServers looks at the other servers until ctx ends.
func (b *Backend) watchServers(ctx context.Context) {
	tick := time.NewTicker(surveyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if at := b.at.Load(); at != nil {
			seen := backend.Servers{}
			for _, s := range survey(ctx, b.hosts, func(ctx context.Context, conn *pgx.Conn, is answering) error {
				return supersede(ctx, conn, is, at.server)
			}) {
				count(&seen, s, at.server)
			}
			b.seen.Store(&seen)
		}
	}
}

// supersede tells a primary that was left behind so, once: no session submits there any more, and
// its rows count as stale.
func supersede(ctx context.Context, conn *pgx.Conn, is answering, followed Server) error {
	if is.Standby || is.SupersededBy > 0 || is.Epoch == 0 || is.Epoch >= followed.Epoch {
		return nil
	}
	if _, err := conn.Exec(ctx, `SELECT chainify_node.supersede($1)`, int64(followed.Epoch)); err != nil {
		return fmt.Errorf("tell the server that it was left behind: %w", err)
	}
	return nil
}

// count books how a server stands beside the one that is followed, which is in the same survey.
func count(seen *backend.Servers, s Seen, followed Server) {
	switch {
	case s.Err != nil:
		seen.Silent++
	case s.Standby && bytes.Equal(s.is.Mark, followed.Mark):
		seen.Standbys++
		seen.StandbyBlocks = append(seen.StandbyBlocks, s.LastBlock)
	case s.Standby:
		seen.LeftBehind++
	case s.Name == followed.Host && followed.same(s.is.Server):
		seen.LastBlock = s.LastBlock
	default:
		seen.OtherPrimaries++
	}
}

// Servers implements [backend.Inspector]: the newest look, zeros before the first.
func (b *Backend) Servers() backend.Servers {
	if seen := b.seen.Load(); seen != nil {
		return *seen
	}
	return backend.Servers{}
}
