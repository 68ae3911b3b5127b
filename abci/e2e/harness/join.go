package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/config"
)

// Outsider makes an organisation that is not in the genesis, beside a network whose nodes are made.
// It has a running cluster with the extension and the database, which prepare fills. Its home's
// node knows the genesis and the others. It starts no node. Part is what "chainify init" prints for
// it. The organisation becomes one of the network's; the operators of the others name its node.
func (n *Network) Outsider(ctx context.Context, name string, prepare, enabled func(*Organisation) error) (o *Organisation, part string, err error) {
	like := n.Organisations[0]
	ports, err := FreePorts(portsPerNode + 1)
	if err != nil {
		return nil, "", err
	}
	o = &Organisation{Node: Node{Name: name, net: n}, Cluster: &Cluster{
		instance: instance{Name: name, account: n.account, dir: filepath.Join(n.Dir, name), pidDir: like.Cluster.pidDir},
		Port:     ports + portsPerNode, SocketDir: like.Cluster.SocketDir, bin: like.Cluster.bin,
	}}
	if err := n.mkdir(name); err != nil {
		return nil, "", err
	}
	if err := errors.Join(o.SetClock(0), o.Cluster.Init(ctx)); err != nil {
		return nil, "", err
	}
	n.Organisations = append(n.Organisations, o) // from here on Close ends it
	if err := o.createDatabase(ctx); err != nil {
		return nil, "", err
	}
	if err := prepare(o); err != nil {
		return nil, "", err
	}
	if err := o.enableChainify(ctx); err != nil {
		return nil, "", err
	}
	if err := enabled(o); err != nil {
		return nil, "", err
	}
	if part, err = o.initAlone(ctx, like, ports); err != nil {
		return nil, "", err
	}
	return o, part, o.Named(true)
}

// Named has the other organisations' operators name the node, so that it is let in before its
// organisation is a member; or no node.
func (o *Organisation) Named(named bool) error {
	key, err := config.Home(o.Home()).NodeKey()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s  # %s\n", key.ID(), o.Name)
	if !named {
		text = ""
	}
	for _, other := range o.net.Organisations {
		if other != o {
			err = errors.Join(err, os.WriteFile(config.Home(other.Home()).Path("config", "admitted"), []byte(text), 0o644))
		}
	}
	return err
}

var (
	listens = regexp.MustCompile(`(?m)^listen\s*=\s*"(127|10\.77)\.[0-9.]+:\d+"`)
	peers   = regexp.MustCompile(`(?m)^peers\s*=\s*\[[^]]*\]`)
	peer    = regexp.MustCompile(`"[0-9a-f]{40}@[^"]*"`)
)

// initAlone makes a home by itself, with the settings of another's, the same genesis and all others
// as peers.
func (o *Organisation) initAlone(ctx context.Context, like *Organisation, port int) (part string, err error) {
	part, err = o.Run(ctx, "init", "--organisation", o.Name, "--address", loopback(port))
	if err == nil {
		err = o.settleLike(like, o.Name, "127.0.0.1", port)
	}
	if err != nil {
		return "", err
	}
	return part, o.configureNode()
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// settleLike gives a home the genesis and the settings of an organisation's, for another one or the
// same. It has an address and ports of its own, and as peers those of all homes.
func (n *Node) settleLike(like *Organisation, organisation, address string, port int) error {
	genesis, err := os.ReadFile(filepath.Join(like.Home(), "config", "genesis.json"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.Home(), "config", "genesis.json"), genesis, 0o644); err != nil {
		return err
	}
	all := slices.Clone(n.net.peers)
	for _, other := range n.net.Organisations {
		text, err := os.ReadFile(filepath.Join(other.Home(), "chainify.toml"))
		if err != nil {
			return err
		}
		all = append(all, peer.FindAllString(string(text), -1)...)
	}
	slices.Sort(all)
	text, err := os.ReadFile(filepath.Join(like.Home(), "chainify.toml"))
	if err != nil {
		return err
	}
	settings := strings.ReplaceAll(string(text), `"`+like.Name+`"`, `"`+organisation+`"`)
	settings = listens.ReplaceAllStringFunc(settings, func(was string) string {
		port++
		if strings.Contains(was, `"127.`) {
			return fmt.Sprintf(`listen = "%s"`, loopback(port-1))
		}
		return fmt.Sprintf(`listen = "%s:%d"`, address, port-1)
	})
	settings = peers.ReplaceAllLiteralString(settings, "peers = ["+strings.Join(slices.Compact(all), ", ")+"]")
	return os.WriteFile(filepath.Join(n.Home(), "chainify.toml"), []byte(settings), 0o600)
}

func (o *Organisation) createDatabase(ctx context.Context) error {
	if err := o.Cluster.Start(ctx); err != nil {
		return err
	}
	conn, err := o.Cluster.Connect(ctx, "postgres", "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{o.net.Database}.Sanitize())
	return err
}

// enableChainify does what an operator does to a running database: two settings, a restart, CREATE
// EXTENSION, and a role for the node.
func (o *Organisation) enableChainify(ctx context.Context) error {
	if err := o.Cluster.Configure(map[string]string{
		"shared_preload_libraries": "'chainify'",
		"chainify.node_socket":     quote(o.Socket()),
	}); err != nil {
		return err
	}
	if err := o.Cluster.Stop(); err != nil {
		return err
	}
	if err := o.Cluster.Start(ctx); err != nil {
		return err
	}
	return o.Exec(ctx, "postgres", "CREATE EXTENSION chainify; CREATE ROLE "+NodeRole+" LOGIN IN ROLE chainify_node")
}
