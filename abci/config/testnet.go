package config

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PortsPerHome is how many consecutive ports a home of Testnet takes. The first four, in this
// order, are for other nodes, HTTP, CometBFT's RPC when it is switched on, and metrics. The rest
// stays free for later.
const PortsPerHome = 10

// Testnet describes homes for a network on one machine.
type Testnet struct {
	Dir           string
	Organisations []string
	OrderingOnly  []string // organisations beside these, without a database
	ChainID       string
	BasePort      int
	// DSNTemplate is the database of each, with {organisation} and {index} (from 0) replaced.
	// Empty: no database.
	DSNTemplate string
	// HostTemplate is the name under which the others reach each node, replaced likewise. Each is
	// on a host, or in a container, of its own, and takes the same ports on all addresses. HTTP
	// stays on loopback. Empty: all on this machine's loopback.
	HostTemplate string
	Mode         Mode     // of each node; empty: the default
	Socket       string   // of each node; empty: in its home
	Users        []string // may connect to it; empty: the usual ones
	Powers       []int64  // of the validators; empty: all the same
	Consent      int
	Times        Times // of a block
	Shares       Shares
	// SnapshotEvery is the number of order blocks from one snapshot of the order to the next; 0:
	// none are made.
	SnapshotEvery int
	OrderBlocks   int // that each node keeps; 0: all
	Now           time.Time
}

// Create makes a home for each organisation under Dir and gives all of them the common genesis. It
// returns the homes.
func (t Testnet) Create() ([]Home, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	names := t.names()
	homes, parts, configs := make([]Home, len(names)), make([]Part, len(names)), make([]Config, len(names))
	for i, name := range names {
		homes[i] = Home(filepath.Join(t.Dir, name))
		configs[i] = t.config(i)
		if err := homes[i].Create(configs[i]); err != nil {
			return nil, err
		}
		part, err := homes[i].Part(name, t.address(i))
		if err != nil {
			return nil, err
		}
		if len(t.Powers) > 0 {
			part.Power = t.Powers[i]
		}
		part.OrderingOnly = i >= len(t.Organisations)
		parts[i] = part
	}
	parameters := t.Shares.In(t.Times.Parameters())
	parameters.SnapshotEvery = t.SnapshotEvery
	genesis, err := Founding{ChainID: t.ChainID, Time: t.Now, Consent: t.Consent, Parameters: parameters, Parts: parts}.Genesis()
	if err != nil {
		return nil, err
	}
	for i, home := range homes {
		if err := writeNew(home.Genesis(), genesis, 0o644); err != nil {
			return nil, err
		}
		for j, other := range parts {
			if j != i {
				configs[i].Network.Peers = append(configs[i].Network.Peers, other.Node)
			}
		}
		if err := home.rewrite(configs[i]); err != nil {
			return nil, err
		}
	}
	return homes, nil
}

// names lists the organisations, those that only order last.
func (t Testnet) names() []string { return slices.Concat(t.Organisations, t.OrderingOnly) }

func (t Testnet) check() error {
	names := t.names()
	n := len(names)
	if err := new(Config).Tune(t.mode()); err != nil {
		return fmt.Errorf("testnet: %w", err)
	}
	if len(t.Organisations) == 0 {
		return fmt.Errorf("testnet: no organisation")
	}
	if last := t.BasePort + n*PortsPerHome - 1; t.BasePort < 1 || last > 65535 {
		return fmt.Errorf("testnet: ports %d to %d are not all between 1 and 65535", t.BasePort, last)
	}
	if len(t.Powers) != 0 && len(t.Powers) != n {
		return fmt.Errorf("testnet: %d powers for %d organisations", len(t.Powers), n)
	}
	for i, p := range t.Powers {
		if p < 1 || p > powerMax {
			return fmt.Errorf("testnet: power %d is %d, want 1 to %d", i, p, powerMax)
		}
	}
	for i, name := range names {
		if slices.Index(names, name) != i {
			return fmt.Errorf("testnet: organisation %q is named twice", name)
		}
	}
	return nil
}

func (t Testnet) config(i int) Config {
	name := t.names()[i]
	c := Default(name)
	c.take(t.mode())
	port := t.port(i)
	if i < len(t.Organisations) {
		c.Database.DSN = t.fill(t.DSNTemplate, i)
	}
	c.Network.Listen, c.HTTP.Listen, c.Metrics.Listen = loopback(port), loopback(port+1), loopback(port+3)
	if t.HostTemplate != "" {
		c.Network.Listen, c.Metrics.Listen = everywhere(port), everywhere(port+3)
	}
	if t.Socket != "" {
		c.Clients.Socket = t.Socket
	}
	if len(t.Users) > 0 {
		c.Clients.Users = t.Users
	}
	c.Network.StrictAddresses, c.Retention.OrderBlocks = false, int64(t.OrderBlocks)
	return c
}

func (t Testnet) mode() Mode { return cmp.Or(t.Mode, Balanced) }

// address is where the other nodes reach home i.
func (t Testnet) address(i int) string {
	if t.HostTemplate == "" {
		return loopback(t.port(i))
	}
	return net.JoinHostPort(t.fill(t.HostTemplate, i), strconv.Itoa(t.port(i)))
}

func (t Testnet) port(i int) int {
	if t.HostTemplate != "" {
		return t.BasePort
	}
	return t.BasePort + i*PortsPerHome
}

func (t Testnet) fill(template string, i int) string {
	return strings.NewReplacer("{organisation}", t.names()[i], "{index}", strconv.Itoa(i)).Replace(template)
}

func everywhere(port int) string { return net.JoinHostPort("0.0.0.0", strconv.Itoa(port)) }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
