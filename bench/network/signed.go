package network

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// preparedEach is how many transactions a second each client has ready, signed or not: signing is
// the client's own machine's work. The nodes' processor time counts while they are made ready, so
// there are not many more than are submitted.
const preparedEach = 1_000

// requestsEach is the number of requests under way for one client of the other systems, where each
// transaction is one request. They are on a connection each, since clients that sign are many, or
// all on one.
const requestsEach = 16

// batch is how many transactions one request has of clients that have many ready, and sign some
// of them at once.
const batch = 64

// signedValidity is for how many heights what is prepared may be ordered.
const signedValidity = 1_800

// clientKey is the key with which an organisation's clients sign.
func clientKey(o *harness.Organisation) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("bench client of " + o.Name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// registerClients registers each organisation's key.
func registerClients(ctx context.Context, net *harness.Network) error {
	return net.Each(func(o *harness.Organisation) error {
		public := fmt.Sprintf("%x", clientKey(o).Public())
		if _, err := o.Run(ctx, "client", "add", "--role", role, public); err != nil {
			return err
		}
		return harness.Poll(ctx, doneLimit, "the clients' key of "+o.Name, func(ctx context.Context) (bool, string, error) {
			out, err := o.Run(ctx, "client", "list")
			return err == nil && out != "", out, nil
		})
	})
}

// bySocket submits at all organisations' sockets, so many transactions a request, over at most so
// many connections. Clients sign them, or gateways vouch for them. It is done when all have
// committed all.
func (o *ours) bySocket(size, connections int, signed bool) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		each := make([]submitter, 0, submitters)
		defer func() {
			for _, s := range each {
				_ = s.(*socketSession).close() // of those that failed, closed already
			}
		}()
		for i := range cap(each) {
			s, err := o.openSocket(ctx, o.net.Organisations[i%len(o.net.Organisations)], repetition, i, size, connections, signed)
			if err != nil {
				return l, err
			}
			each = append(each, s)
		}
		before, err := o.committed(ctx)
		if err != nil {
			return l, err
		}
		return flood(ctx, each, o.cfg.Seconds, func(ctx context.Context, count int) error { return o.waitFor(ctx, before, count) })
	}
}

// openSocket connects and prepares what will be submitted.
func (o *ours) openSocket(ctx context.Context, at *harness.Organisation, repetition, client, size, connections int, signed bool) (*socketSession, error) {
	s := &socketSession{requests: bundle / size}
	s.atOnce = min(requestsEach, s.requests)
	for range min(connections, s.atOnce) {
		c, err := gateway.Dial(ctx, at.Socket())
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.connections = append(s.connections, c)
	}
	status, err := s.connections[0].Status(ctx)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	calls, key, nonce := o.cfg.stream(repetition, client), clientKey(at), uint64(repetition)<<48|uint64(client)<<32|uint64(size)<<24
	s.next = func() call {
		var statements []*wire.Statement
		var proposals []*wire.Proposal
		for _, one := range calls.Block(size) {
			nonce++
			statement := &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: one.FunctionText()}
			statements = append(statements, statement)
			proposals = append(proposals, &wire.Proposal{
				ChainId: status.ChainId, Client: &wire.Client{Organisation: at.Name, Role: role}, Nonce: nonce,
				ValidUntilHeight: uint64(status.Height) + signedValidity, Kind: statement.Kind, Sql: statement.Sql,
			})
		}
		if !signed {
			return call{statements: statements}
		}
		return call{signed: wire.SignProposals(key, proposals)}
	}
	for range preparedEach * o.cfg.Seconds / size {
		s.prepared = append(s.prepared, s.next())
	}
	return s, nil
}

// call is one request: one of the two.
type call struct {
	statements []*wire.Statement
	signed     []*wire.SignedProposal
}

// socketSession is some clients at a node's socket, each with one request at a time.
type socketSession struct {
	connections []*gateway.Client
	atOnce      int // requests under way, shared out among the connections
	requests    int // of which all are answered before more are made
	prepared    []call
	next        func() call // beyond what is prepared
	last        [][]byte    // of each so many requests that may have no outcome yet, the id of the last transaction
}

func (s *socketSession) close() (err error) {
	for _, c := range s.connections {
		err = errors.Join(err, c.Close())
	}
	return err
}

// submit has the clients make so many requests, each every so many-th.
func (s *socketSession) submit(ctx context.Context) (int, error) {
	if len(s.last) == inFlight {
		if err := s.oldest(ctx); err != nil {
			return 0, err
		}
	}
	for len(s.prepared) < s.requests {
		s.prepared = append(s.prepared, s.next())
	}
	calls, ids := s.prepared[:s.requests], make([][][]byte, s.requests)
	s.prepared = s.prepared[s.requests:]
	group, groupCtx := errgroup.WithContext(ctx)
	for first := range s.atOnce {
		group.Go(func() (err error) {
			for i := first; i < len(calls) && err == nil; i += s.atOnce {
				ids[i], err = calls[i].submit(groupCtx, s.connections[first%len(s.connections)])
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	all := slices.Concat(ids...)
	s.last = append(s.last, all[len(all)-1])
	return len(all), nil
}

func (c call) submit(ctx context.Context, client *gateway.Client) ([][]byte, error) {
	if c.signed != nil {
		return client.SubmitSigned(ctx, c.signed...)
	}
	return client.Submit(ctx, role, c.statements...)
}

func (s *socketSession) oldest(ctx context.Context) error {
	known, err := s.connections[0].Wait(ctx, uint32(doneLimit.Milliseconds()), s.last[0])
	if err != nil {
		return err
	}
	if len(known) == 0 || !known[0].Succeeded {
		return fmt.Errorf("a transaction has no outcome after %s, or failed: %v", doneLimit, known)
	}
	s.last = s.last[1:]
	return nil
}

func (s *socketSession) finish(ctx context.Context) error {
	for len(s.last) > 0 {
		if err := s.oldest(ctx); err != nil {
			return err
		}
	}
	return nil
}
