package postgres

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Bounds of what one attempt to connect takes: all servers of the DSN have their turn within
// hostsLimit, which is less than what effects gives Position.
const (
	hostsMax       = 5
	hostsLimit     = 12 * time.Second
	connectLimit   = 5 * time.Second // of the only server
	connectLimitOf = 2 * time.Second // of one among several
	markBytes      = 16
	epochMax       = math.MaxInt64 / 2
)

// Server is one of the organisation's servers, under the epoch in which the node went over to it.
// The mark is random: a server that has it has all that the node did before the epoch.
type Server struct {
	Epoch    uint64 `json:"epoch"`
	Mark     []byte `json:"mark"`
	System   int64  `json:"system_identifier"`
	Timeline uint32 `json:"timeline"`
	Host     string `json:"host"` // as the DSN has it, with the port
}

// Followed is a node's stored knowledge of the server with its database.
type Followed struct {
	Known Server `json:"known"` // Epoch 0: none yet
	// Next was kept before the server was told; it counts from when a server has its mark.
	Next *Server `json:"next,omitempty"`
	// Accept is the operator's word: the next server that can be reached is the one to follow.
	Accept bool `json:"accept,omitempty"`
}

// Memory keeps, over restarts, which server the node follows.
type Memory interface {
	// Followed reads it; nothing was kept: the zero value.
	Followed() (Followed, error)
	// Follow returns when the disk holds it.
	Follow(f Followed) error
}

// processMemory lasts as long as the process.
type processMemory struct {
	mu sync.Mutex
	is Followed
}

func (m *processMemory) Followed() (Followed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.is, nil
}

func (m *processMemory) Follow(f Followed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.is = f
	return nil
}

// ErrLeftBehind: the server is no longer the organisation's; the node followed another one since.
var ErrLeftBehind = errors.New("the server was left behind")

// host is one server of the DSN.
type host struct {
	name   string // host:port
	config *pgx.ConnConfig
}

// hostsOf are the servers that a DSN names, each with the ways to reach it.
func hostsOf(c *pgx.ConnConfig) ([]host, error) {
	ways := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	var hosts []host
	for _, way := range ways {
		name := net.JoinHostPort(way.Host, strconv.Itoa(int(way.Port)))
		if last := len(hosts) - 1; last >= 0 && hosts[last].name == name {
			of := hosts[last].config
			of.Fallbacks = append(of.Fallbacks, way)
			continue
		}
		one := c.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = way.Host, way.Port, way.TLSConfig, nil
		hosts = append(hosts, host{name, one})
	}
	if len(hosts) > hostsMax {
		return nil, fmt.Errorf("%d hosts, at most %d are possible", len(hosts), hostsMax)
	}
	for _, h := range hosts {
		limit := connectLimit
		if len(hosts) > 1 {
			limit = connectLimitOf
		}
		if set := h.config.ConnectTimeout; set > 0 {
			limit = set
		}
		h.config.ConnectTimeout = min(limit, hostsLimit/time.Duration(len(hosts)))
	}
	return hosts, nil
}

// inOrder has the server first that the node follows: another one has its turn only when that
// cannot go on. After the operator's word their order in the DSN counts.
func inOrder(hosts []host, f Followed) []host {
	if f.Accept {
		return hosts
	}
	rank := func(h host) int {
		switch {
		case f.Next != nil && h.name == f.Next.Host:
			return 0
		case h.name == f.Known.Host:
			return 1
		}
		return 2
	}
	sorted := slices.Clone(hosts)
	slices.SortStableFunc(sorted, func(a, b host) int { return rank(a) - rank(b) })
	return sorted
}

// answering is a server's answer about itself. A false answer costs a detour: the node compares
// blocks with their certificates on each server.
type answering struct {
	Server
	SupersededBy uint64
	Standby      bool
	LastBlock    uint64
}

// querier is a connection or a pool of them.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// askServer reads which server a connection leads to.
func askServer(ctx context.Context, conn querier, name string) (answering, error) {
	var epoch, superseded *int64
	var timeline int32
	var block int64
	is := answering{Server: Server{Host: name}}
	err := conn.QueryRow(ctx, `SELECT epoch, mark, superseded_by, system_identifier, timeline, standby, last_block FROM chainify_node.server()`).
		Scan(&epoch, &is.Mark, &superseded, &is.System, &timeline, &is.Standby, &block)
	if err != nil {
		return answering{}, fmt.Errorf("ask which server this is: %w", err)
	}
	is.Timeline, is.LastBlock = uint32(timeline), uint64(block)
	for _, e := range []struct {
		from *int64
		to   *uint64
	}{{epoch, &is.Epoch}, {superseded, &is.SupersededBy}} {
		if e.from == nil {
			continue
		}
		if *e.from < 1 || *e.from > epochMax {
			return answering{}, fmt.Errorf("the server's epoch %d is not possible", *e.from)
		}
		*e.to = uint64(*e.from)
	}
	return is, nil
}

// same: nothing happened to the server since the node went over to it.
func (s Server) same(is Server) bool {
	return bytes.Equal(s.Mark, is.Mark) && s.System == is.System && s.Timeline == is.Timeline && s.Host == is.Host
}

// byEpoch has the server of the latest epoch first, for a node that knows none.
func byEpoch(hosts []host, seen []Seen) []host {
	epochs := map[string]uint64{}
	for _, s := range seen {
		if s.Err == nil && !s.Standby {
			epochs[s.Name] = s.Epoch
		}
	}
	sorted := slices.Clone(hosts)
	slices.SortStableFunc(sorted, func(a, b host) int { return cmp.Compare(epochs[b.name], epochs[a.name]) })
	return sorted
}

// judge says whether the node can go on with a server, and whether it goes over to it with that.
// It never goes back to a server of an earlier epoch without the operator's word (R14).
//
// A server with the newest mark has all that the node did before the newest epoch. It is the same
// one, a promoted standby, or a copy. One with an earlier mark is a primary that was left behind,
// or a backup of before: nothing tells them apart. Beside others, a server where the node never was
// is not the one to go on with while the right one is away.
func (f Followed) judge(is answering, others bool) (goesOver bool, err error) {
	newest := f.Known
	if f.Next != nil && bytes.Equal(f.Next.Mark, is.Mark) {
		newest = *f.Next
	}
	const mend = "docs/operator/failover.md says how it becomes a standby; to go on with it, run chainify accept-server"
	switch {
	case f.Accept:
		return true, nil
	case is.SupersededBy > 0:
		return false, fmt.Errorf("%w: it was told so in epoch %d, its own is %d: %s", ErrLeftBehind, is.SupersededBy, is.Epoch, mend)
	case newest.Epoch == 0: // a new home
		return true, nil
	case is.Epoch == 0 && others:
		return false, fmt.Errorf("%w: the node was never there, it follows %s since epoch %d: %s", ErrLeftBehind, newest.Host, newest.Epoch, mend)
	case is.Epoch == 0: // an empty database, or a restored dump
		return true, nil
	case !bytes.Equal(newest.Mark, is.Mark) && is.Epoch < newest.Epoch:
		return false, fmt.Errorf("%w: it is of epoch %d and timeline %d, the node has followed %s since epoch %d: %s",
			ErrLeftBehind, is.Epoch, is.Timeline, newest.Host, newest.Epoch, mend)
	case !bytes.Equal(newest.Mark, is.Mark):
		return false, fmt.Errorf("%w: another node followed it in epoch %d, this one knows epoch %d of %s: two nodes never share keys or a database; %s",
			ErrLeftBehind, is.Epoch, newest.Epoch, newest.Host, mend)
	case newest.System == is.System && is.Timeline < newest.Timeline:
		return false, fmt.Errorf("%w: its timeline is %d, it was %d in the same epoch: %s", ErrLeftBehind, is.Timeline, newest.Timeline, mend)
	}
	return !newest.same(is.Server), nil
}

// next is the server's name from the moment on in which the node goes over to it.
func (f Followed) next(is answering) *Server {
	s := is.Server
	s.Epoch = max(f.Known.Epoch, is.Epoch, is.SupersededBy) + 1
	if f.Next != nil {
		s.Epoch = max(s.Epoch, f.Next.Epoch+1)
	}
	s.Mark = make([]byte, markBytes)
	_, _ = rand.Read(s.Mark) // never fails
	return &s
}

// follow makes sure that the server of a new block connection is the one to go on with, and goes
// over to it where it is another than before. The node keeps the step before the server does, so
// that no crash between the two leaves a server that the node does not know.
func (b *Backend) follow(ctx context.Context, conn *pgx.Conn, name string, f Followed) (Server, error) {
	is, err := askServer(ctx, conn, name)
	if err != nil {
		return Server{}, err
	}
	goesOver, err := f.judge(is, len(b.hosts) > 1)
	if err != nil {
		return Server{}, err
	}
	if !goesOver {
		if f.Next == nil || !bytes.Equal(f.Next.Mark, is.Mark) {
			return f.Known, nil
		}
		return *f.Next, b.cfg.Memory.Follow(Followed{Known: *f.Next})
	}
	f.Next = f.next(is)
	if err := b.cfg.Memory.Follow(f); err != nil {
		return Server{}, fmt.Errorf("keep which server is followed: %w", err)
	}
	together := &pgx.Batch{}
	together.Queue(beginBlock)
	together.Queue(`SET LOCAL synchronous_commit = local`) // on this disk, whatever the blocks' is
	together.Queue(`SELECT chainify_node.take_server($1, $2, $3, $4)`, b.cfg.ChainID, b.cfg.Organisation, int64(f.Next.Epoch), f.Next.Mark)
	together.Queue(`COMMIT`)
	if err := conn.SendBatch(ctx, together).Close(); err != nil {
		return Server{}, fmt.Errorf("go over to the server: %w", err)
	}
	return *f.Next, b.cfg.Memory.Follow(Followed{Known: *f.Next})
}

// pin is the server that the node's database is on, once a block connection was there.
type pin struct {
	host   host
	server Server
}

// toPinned leads a connection beside that for blocks to the same server.
func (b *Backend) toPinned(_ context.Context, c *pgx.ConnConfig) error {
	at := b.at.Load()
	if at == nil {
		return errNotConnected
	}
	to := at.host.config
	c.Host, c.Port, c.TLSConfig, c.Fallbacks, c.ConnectTimeout = to.Host, to.Port, to.TLSConfig, to.Fallbacks, to.ConnectTimeout
	return nil
}

// isPinned makes sure of it: another server may answer at the same address.
func (b *Backend) isPinned(ctx context.Context, conn *pgx.Conn) error {
	at := b.at.Load()
	if at == nil {
		return errNotConnected
	}
	is, err := askServer(ctx, conn, at.host.name)
	if err == nil && !at.server.same(is.Server) {
		err = fmt.Errorf("%w: the connection for blocks leads to another", ErrLeftBehind)
	}
	return err
}

// session connects beside the connection for blocks, to the same server.
func (b *Backend) session(ctx context.Context) (*pgx.Conn, error) {
	c := b.config.Copy()
	if err := b.toPinned(ctx, c); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := b.isPinned(ctx, conn); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}
