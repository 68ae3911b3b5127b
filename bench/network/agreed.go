package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/wire"
)

// deals is a table that both organisations have to agree about, and bolt's check, which says yes.
const (
	deals = `CREATE TABLE deals (id bigint PRIMARY KEY, seller text NOT NULL, buyer text NOT NULL); GRANT SELECT, INSERT ON deals TO ` + role
	check = `CREATE FUNCTION agree(operation text, old_row deals, new_row deals) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
		SELECT chainify.set_agreement_check('deals', 'agree')`
)

// pair is a network of two organisations, of which one asks the other.
type pair struct {
	ours
	asks, asked *harness.Organisation
	deals       int // added to the repetition, so that deals of one mode are not those of another
}

func openPair(ctx context.Context, cfg Config) (*pair, error) {
	cfg.Customers = 2 // nobody banks here
	network, err := openNetwork(ctx, cfg, "pair", settings, []string{"acme", "bolt"})
	if err != nil {
		return &pair{ours: ours{net: network, cfg: cfg, mode: config.Balanced}}, err
	}
	p := &pair{ours: ours{net: network, cfg: cfg, mode: config.Balanced}, asks: network.Organisations[0], asked: network.Organisations[1]}
	for _, step := range []func() error{
		func() error {
			return network.Each(func(o *harness.Organisation) error {
				return o.Exec(ctx, "postgres", "GRANT CREATE ON SCHEMA public TO dba")
			})
		},
		func() error { return network.StartNodes(ctx, readyLimit) },
		func() error { return p.asks.Exec(ctx, "dba", "SELECT chainify.deploy($$"+deals+"$$)") },
		func() error {
			return p.asks.Exec(ctx, "dba", "SELECT chainify.set_policy('deals', 'AND(org(seller), org(buyer))')")
		},
		func() error {
			_, err := harness.WaitSame(ctx, network.Organisations, 3, doneLimit)
			return err
		},
		func() error { return p.asked.Exec(ctx, "postgres", check) },
		p.stop,
	} {
		if err := step(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// in is the same network, to be started in another mode.
func (p *pair) in(mode config.Mode) *pair {
	other := *p
	other.mode, other.deals = mode, p.deals+1<<16
	return &other
}

// deal is a statement that the buyer has to agree to; ids are used once for each buyer.
func deal(repetition, i int, buyer string) string {
	sign := map[string]int64{"acme": -1, "bolt": 1}[buyer]
	return fmt.Sprintf("INSERT INTO deals VALUES (%d, 'acme', '%s')", sign*(int64(repetition+1)<<32|int64(i)), buyer)
}

// submit times chainify.submit at acme of a deal with a buyer: until the transaction is queued,
// with the buyer's agreement. Each is waited for before the next, off the clock, so that no block
// is in the way.
func (p *pair) submit(buyer string) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		conn, err := p.asks.Cluster.Connect(ctx, database, role)
		if err != nil {
			return l, err
		}
		defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
		return timed(p.cfg.Seconds, func(i int) (time.Duration, error) {
			begun := time.Now()
			var id []byte
			if err := conn.QueryRow(ctx, "SELECT chainify.submit($1)", deal(p.deals+repetition, i, buyer)).Scan(&id); err != nil {
				return 0, err
			}
			took := time.Since(begun)
			var outcome bool
			err := conn.QueryRow(ctx, "SELECT outcome FROM chainify.wait($1)", id).Scan(&outcome)
			if err == nil && !outcome {
				err = errors.New("a deal failed")
			}
			return took, err
		})
	}
}

// check times what bolt's node asks bolt's database to find out whether it agrees.
func (p *pair) check(ctx context.Context, repetition int) (l load, err error) {
	var chain string
	if err := p.asked.Scan(ctx, "SELECT chain_id FROM chainify.status", &chain); err != nil {
		return l, err
	}
	conn, err := p.asked.Cluster.Connect(ctx, database, harness.NodeRole)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return timed(p.cfg.Seconds, func(i int) (time.Duration, error) {
		raw := wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: wire.Encode(&wire.Proposal{
			ChainId: chain, Client: &wire.Client{Organisation: p.asks.Name, Role: role}, Nonce: uint64(i), ValidUntilHeight: 1,
			Kind: wire.Kind_KIND_SQL, Sql: deal(repetition+1, i, "bolt"),
		})}})
		begun := time.Now()
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			var refusal, state *string
			if err := tx.QueryRow(ctx, "SELECT refusal, sqlstate FROM chainify_node.rehearse($1, $2)", raw, begun.UnixMicro()).Scan(&refusal, &state); err != nil {
				return err
			}
			if refusal != nil || state != nil {
				return errors.New("bolt does not agree")
			}
			return errUndo
		})
		if errors.Is(err, errUndo) {
			err = nil
		}
		return time.Since(begun), err
	})
}

var errUndo = errors.New("a rehearsal is undone")

// roundTrip times a message to and fro over a connection of this machine.
func roundTrip(cfg Config) (l load, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return l, err
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return l, err
	}
	defer conn.Close()
	message := make([]byte, 512)
	return timed(cfg.Seconds, func(int) (time.Duration, error) {
		begun := time.Now()
		if _, err := conn.Write(message); err != nil {
			return 0, err
		}
		_, err := io.ReadFull(conn, message)
		return time.Since(begun), err
	})
}

// timed repeats what says itself how long it took, for some seconds by the clock.
func timed(seconds int, one func(i int) (time.Duration, error)) (load, error) {
	var l load
	for i, begun := 0, time.Now(); time.Since(begun) < time.Duration(seconds)*time.Second; i++ {
		took, err := one(i)
		if err != nil {
			return l, err
		}
		l.latencies = append(l.latencies, took)
		l.took += took
	}
	l.count = len(l.latencies)
	slices.Sort(l.latencies)
	return l, nil
}
