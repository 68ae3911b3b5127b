package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// marker is the file by which the harness knows a directory as its own before it deletes it.
const marker = ".chainify-network"

// Config describes a network to be made.
type Config struct {
	Dir           string // everything is kept under it; emptied first when an earlier network made it
	PG            string // prefix of a PostgreSQL tree with the extension: PG/lib/postgresql/MAJOR, PG/share/postgresql/MAJOR
	Chainify      string // the node's binary; empty when no node will be started
	CometBFT      string // CometBFT's own binary, which runs beside "chainify app"; empty: it is in the node's process
	Database      string // made in every cluster
	Organisations []string
	MariaDB       []string       // those of them that keep a MariaDB; the others keep a PostgreSQL
	OtherPG       []string       // trees of other majors: the organisations take PG and these in turn
	OrderingOnly  []string       // organisations beside these that have no database
	Consent       int            // how many of the first must report the same effects; 0: the default
	SnapshotEvery int            // order blocks from one snapshot of the order to the next; 0: the default
	BlockTime     time.Duration  // how long the SQL transactions of a block may run; 0: the default
	Age           time.Duration  // of the chain when it begins: a clock behind its genesis has a node wait
	Settings      map[string]any // of every node (see Node.Configure)
	Lan           bool           // give every node a host of its own, which can be cut off (see Lan)
	Apart         bool           // as Lan, and the nodes reach their databases, which have another host, over the network
	Distant       bool           // give every node a host of its own, at a distance that can be set (see SetDistance)
	Clocks        bool           // the binary is built so that the nodes' clocks can be set (see SetClock)
	// Members whose database or whose node is on a small disk, which can be filled.
	SmallDatabases, SmallNodes []string
}

// Network is a set of organisations on this machine.
type Network struct {
	Organisations []*Organisation
	Orderers      []*Orderer // have no database
	consent       int
	blockTime     time.Duration
	age           time.Duration
	snapshotEvery int
	settings      map[string]any
	databases     string   // address of their host; empty: nodes reach them by Unix sockets
	peers         []string // standbys of nodes, by id and address
	lan           *Lan     // nil: all nodes on the loopback interface
	smallNodes    []string
	clocks        bool
	mounts        []string // small disks that are mounted
	Dir           string
	Database      string
	account       Account
	chainify      string // copies of the binaries that the account can reach
	comet         string // empty: CometBFT is in the nodes' processes
	closeOnce     sync.Once
}

// Organisation is one member: its database and its node.
type Organisation struct {
	Node
	Cluster  *Cluster   // nil: it keeps a MariaDB
	MariaDB  *MariaDB   // nil: it keeps a PostgreSQL
	Standbys []*Cluster // copies of it that follow it, or followed it (see AddStandby)
	spares   []*Node    // standbys of its node (see AddSpare)
}

// Orderer is a member without a database: its node only orders.
type Orderer struct{ Node }

// New ends what an earlier run left in the directory, empties it, and makes one empty server each;
// it starts nothing. The caller ends the network with Close.
func New(ctx context.Context, cfg Config) (*Network, error) {
	account, err := ServerAccount()
	if err != nil {
		return nil, err
	}
	if err := takeDirectory(ctx, cfg.Dir, account); err != nil {
		return nil, err
	}
	n := &Network{Dir: cfg.Dir, Database: cfg.Database, account: account, chainify: filepath.Join(cfg.Dir, "bin", "chainify"), consent: cfg.Consent, blockTime: cfg.BlockTime, age: cfg.Age, snapshotEvery: cfg.SnapshotEvery, settings: cfg.Settings, smallNodes: cfg.SmallNodes, clocks: cfg.Clocks}
	for _, sub := range slices.Concat([]string{"bin", "run", "pids", "nodes"}, cfg.Organisations, cfg.OrderingOnly) {
		if err := n.mkdir(sub); err != nil {
			return nil, err
		}
	}
	for _, name := range cfg.OrderingOnly {
		n.Orderers = append(n.Orderers, &Orderer{Node{Name: name, net: n}})
	}
	for _, name := range slices.Concat(cfg.Organisations, cfg.OrderingOnly) {
		if err := (&Node{Name: name, net: n}).SetClock(0); err != nil {
			return nil, err
		}
	}
	if cfg.Chainify != "" {
		if err := copyProgram(cfg.Chainify, n.chainify); err != nil {
			return nil, fmt.Errorf("copy the node's binary: %w", err)
		}
	}
	if cfg.CometBFT != "" {
		n.comet = filepath.Join(cfg.Dir, "bin", "cometbft")
		if err := copyProgram(cfg.CometBFT, n.comet); err != nil {
			return nil, fmt.Errorf("copy CometBFT's binary: %w", err)
		}
	}
	switch hosts := slices.Concat(cfg.Organisations, cfg.OrderingOnly); {
	case cfg.Distant:
		n.lan, err = NewDistantLan(hosts)
	case cfg.Lan || cfg.Apart:
		n.lan, err = NewLan(hosts)
	}
	if err == nil && cfg.Apart {
		n.databases, err = n.lan.Join()
	}
	if err != nil {
		return nil, err
	}
	base, err := FreePorts(len(cfg.Organisations))
	if err != nil {
		return nil, err
	}
	for i := range cfg.Organisations {
		n.Organisations = append(n.Organisations, n.organisation(cfg, i, base+i))
	}
	if err := n.initServers(ctx); err != nil {
		return nil, err
	}
	for _, o := range n.Organisations {
		if cfg.Apart {
			if err := o.Cluster.admit(); err != nil {
				return nil, err
			}
		}
		if slices.Contains(cfg.SmallDatabases, o.Name) {
			if err := n.smallDatabase(ctx, o); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// initServers makes the data directories. initdb runs once for each PostgreSQL tree; the other
// clusters of the tree are copies.
func (n *Network) initServers(ctx context.Context) error {
	first := map[string]*Cluster{} // by the directory of its programs
	for _, o := range n.Organisations {
		c := o.Cluster
		if o.MariaDB != nil || first[c.bin] != nil {
			continue
		}
		if err := c.Init(ctx); err != nil {
			return err
		}
		first[c.bin] = c
	}
	return n.Each(func(o *Organisation) error {
		switch {
		case o.MariaDB != nil:
			return o.MariaDB.Init(ctx)
		case first[o.Cluster.bin] == o.Cluster:
			return nil
		default:
			return o.Cluster.InitAs(ctx, first[o.Cluster.bin])
		}
	})
}

// organisation describes a member and its database of either engine.
func (n *Network) organisation(cfg Config, i, port int) *Organisation {
	name, tree := cfg.Organisations[i], cfg.tree(i)
	o := &Organisation{Node: Node{Name: name, net: n}}
	run := filepath.Join(cfg.Dir, "run")
	at := instance{Name: name, account: n.account, dir: filepath.Join(cfg.Dir, name), pidDir: filepath.Join(cfg.Dir, "pids")}
	if slices.Contains(cfg.MariaDB, name) {
		o.MariaDB = &MariaDB{instance: at, Socket: filepath.Join(run, name+".mysql")}
		return o
	}
	o.Cluster = &Cluster{instance: at, Port: port, SocketDir: run, bin: programs(tree)}
	return o
}

// tree is that of the i-th organisation.
func (cfg Config) tree(i int) string {
	if i %= 1 + len(cfg.OtherPG); i > 0 {
		return cfg.OtherPG[i-1]
	}
	return cfg.PG
}

// programs is where a tree has those of PostgreSQL, of whatever major.
func programs(tree string) string {
	found, err := filepath.Glob(filepath.Join(tree, "lib", "postgresql", "*", "bin"))
	if err != nil || len(found) != 1 {
		return filepath.Join(tree, "bin")
	}
	return found[0]
}

// smallDatabase puts a server that was just made on a small disk, which PostgreSQL's log must leave
// some of: that of a MariaDB has its size.
func (n *Network) smallDatabase(ctx context.Context, o *Organisation) error {
	dir, _ := n.disks(o.Name)
	if err := n.mountSmall(ctx, dir); err != nil || o.MariaDB != nil {
		return err
	}
	return o.Cluster.Configure(map[string]string{"max_wal_size": "'96MB'", "min_wal_size": "'32MB'"})
}

// takeDirectory makes dir an empty directory of the account. It deletes only what an earlier
// network made.
func takeDirectory(ctx context.Context, dir string, account Account) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, marker)); err != nil {
			return fmt.Errorf("%s is not empty and not a network of an earlier run: choose another directory", dir)
		}
		if err := killLeftovers(filepath.Join(dir, "pids")); err != nil {
			return fmt.Errorf("end what an earlier run left: %w", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, marker), []byte("made and deleted by abci/e2e/harness\n"), 0o644); err != nil {
		return err
	}
	if err := account.Own(dir); err != nil {
		return err
	}
	if _, err := account.Run(ctx, "/", "test", "-w", dir); err != nil {
		return fmt.Errorf("servers run as user %s, who cannot reach %s: choose a directory outside of a private home", account.Name, dir)
	}
	return nil
}

func (n *Network) mkdir(sub string) error {
	path := filepath.Join(n.Dir, sub)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return n.account.Own(path)
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	made := to + ".new" // another node may run the program that is there
	out, err := os.OpenFile(made, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(made, to)
}

// Each calls do for all organisations at once and joins their errors.
func (n *Network) Each(do func(*Organisation) error) error {
	errs := make([]error, len(n.Organisations))
	var wg sync.WaitGroup
	for i, o := range n.Organisations {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := do(o); err != nil {
				errs[i] = fmt.Errorf("%s: %w", o.Name, err)
			}
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Organisation finds one by name; nil when there is none.
func (n *Network) Organisation(name string) *Organisation {
	for _, o := range n.Organisations {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// Divide cuts the network into parts, see Lan; without an argument it is made whole. The network
// must have a Lan.
func (n *Network) Divide(groups ...[]string) error { return n.lan.Divide(groups...) }

// SetDistance has each message between nodes take a time, one way. The network must be Distant.
func (n *Network) SetDistance(oneWay time.Duration) { n.lan.SetDistance(oneWay) }

// Close ends all nodes, then all clusters. Logs and data stay in the directory.
func (n *Network) Close() error {
	var err error
	n.closeOnce.Do(func() {
		nodes := n.Each(func(o *Organisation) error {
			err := errors.Join(o.StopNode(), o.StopSigner())
			for _, s := range o.spares {
				err = errors.Join(err, s.StopNode())
			}
			return err
		})
		for _, o := range n.Orderers {
			nodes = errors.Join(nodes, o.StopNode())
		}
		clusters := n.Each(func(o *Organisation) error {
			err := o.Server().Stop()
			for _, s := range o.Standbys {
				err = errors.Join(err, s.Stop())
			}
			return err
		})
		err = errors.Join(nodes, clusters, n.unmount(), n.lan.Close())
	})
	return err
}

// Remove deletes the directory after Close.
func (n *Network) Remove() error { return os.RemoveAll(n.Dir) }

// Logs lists the log files, to find out what went wrong.
func (n *Network) Logs() []string {
	var out []string
	for _, o := range n.Organisations {
		if o.MariaDB != nil {
			out = append(out, filepath.Join(o.MariaDB.dir, "mariadb.log"), o.nodeLog())
			continue
		}
		for _, c := range append([]*Cluster{o.Cluster}, o.Standbys...) {
			out = append(out, filepath.Join(c.dir, "postgres.log"))
		}
		out = append(out, o.nodeLog())
		for _, s := range o.spares {
			out = append(out, s.nodeLog())
		}
	}
	for _, o := range n.Orderers {
		out = append(out, o.nodeLog())
	}
	return out
}
