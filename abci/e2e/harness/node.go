package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	nodeStopLimit = 3 * time.Minute
	// portsPerNode is how many consecutive ports `chainify testnet` takes for each home.
	portsPerNode = 10
	// NodeRole is the login role of every node in its own database, a member of chainify_node.
	NodeRole = "chainify_login"
)

// Node is the process of one member.
type Node struct {
	Name string
	// Explorer is the address of its web page; empty: off.
	Explorer string
	home     string // that of a standby which took over; empty: named as the node
	program  string // empty: that of the network
	net      *Network
	node     *Process
	inner    bool     // CometBFT is in the node's process, although Config.CometBFT is set
	comet    *Process // CometBFT, where it is a process of its own (see Config.CometBFT); nil: it never ran
	signer   *Process // holds the node's validator key (see SeparateSigner); nil: the node does
}

// Home is the node's directory.
func (n *Node) Home() string { return filepath.Join(n.net.Dir, "nodes", n.machine()) }

// machine names what the node runs on: its host, its clock, its log and its socket.
func (n *Node) machine() string { return cmp.Or(n.home, n.Name) }

// Socket is where the node listens for its PostgreSQL.
func (n *Node) Socket() string { return filepath.Join(n.net.Dir, "run", n.machine()+".sock") }

func (n *Node) nodeLog() string { return filepath.Join(n.net.Dir, n.machine(), "node.log") }

// InitNodes makes keys, genesis and configuration of all nodes with `chainify testnet`.
func (n *Network) InitNodes(ctx context.Context) error {
	names := make([]string, len(n.Organisations))
	for i, o := range n.Organisations {
		names[i] = o.Name
	}
	base, err := FreePorts(portsPerNode * (len(names) + len(n.Orderers)))
	if err != nil {
		return err
	}
	args := []string{
		"testnet", "--organisations", strings.Join(names, ","), "--dir", filepath.Join(n.Dir, "nodes"),
		"--base-port", fmt.Sprint(base), "--consent", fmt.Sprint(n.consent),
	}
	// Tests choose what bounds they try. A former release knows no such options, and has none.
	if help, err := n.account.Run(ctx, n.Dir, n.chainify, "testnet", "--help"); err == nil && strings.Contains(help, "--order-blocks") {
		args = append(args, "--order-blocks", "0", "--block-client-max", "0", "--block-organisation-max", "0")
	}
	if n.blockTime > 0 {
		args = append(args, "--block-time-max", n.blockTime.String())
	}
	if n.snapshotEvery > 0 {
		args = append(args, "--snapshot-every", fmt.Sprint(n.snapshotEvery))
	}
	for _, o := range n.Orderers {
		args = append(args, "--ordering-only", o.Name)
	}
	if _, err := n.account.Run(ctx, n.Dir, n.chainify, args...); err != nil {
		return err
	}
	for _, o := range n.Organisations {
		if err := errors.Join(o.configureNode(), o.founded(n.age)); err != nil {
			return err
		}
	}
	for _, name := range n.smallNodes {
		_, dir := n.disks(name)
		if err := n.mountSmall(ctx, dir); err != nil {
			return err
		}
	}
	return n.useLan(base)
}

// founded has the genesis in the node's home be so old.
func (n *Node) founded(age time.Duration) error {
	path := filepath.Join(n.Home(), "config", "genesis.json")
	text, err := os.ReadFile(path)
	if err != nil || age == 0 {
		return err
	}
	at := time.Now().Add(-age).UTC().Truncate(24 * time.Hour) // the same in all homes
	text = regexp.MustCompile(`"genesis_time": "[^"]*"`).ReplaceAll(text, []byte(fmt.Sprintf(`"genesis_time": %q`, at.Format(time.RFC3339))))
	return os.WriteFile(path, text, 0o644)
}

// useLan gives every node the address of its host in place of the loopback one.
func (n *Network) useLan(base int) error {
	if n.lan == nil {
		return nil
	}
	var pairs []string
	for i, h := range n.lan.hosts {
		p := base + i*portsPerNode
		pairs = append(pairs, fmt.Sprintf("127.0.0.1:%d", p), fmt.Sprintf("%s:%d", h.address, p))
	}
	addresses := strings.NewReplacer(pairs...)
	for _, h := range n.lan.hosts {
		path := filepath.Join(n.Dir, "nodes", h.name, "chainify.toml")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(addresses.Replace(string(text))), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// configureNode points the node's configuration at its database, on all of its servers, and at its
// socket.
func (o *Organisation) configureNode() error {
	settings := map[string]any{"socket": o.Socket()}
	if o.MariaDB != nil {
		settings["dsn"] = o.MariaDB.DSN(o.net.Database, NodeRole)
	} else {
		settings["dsn"] = o.nodeDSN()
	}
	maps.Copy(settings, o.net.settings)
	return o.Configure(settings)
}

// ServersDSN names all of the organisation's servers, for a role in the network's database.
func (o *Organisation) ServersDSN(role string) string {
	hosts, ports := o.Cluster.SocketDir, fmt.Sprint(o.Cluster.Port)
	for _, s := range o.Standbys {
		hosts, ports = hosts+","+s.SocketDir, ports+","+fmt.Sprint(s.Port)
	}
	return fmt.Sprintf("host=%s port=%s dbname=%s user=%s", hosts, ports, o.net.Database, role)
}

// nodeDSN names the organisation's servers as its node reaches them.
func (o *Organisation) nodeDSN() string {
	dsn := o.ServersDSN(NodeRole)
	if o.net.databases == "" {
		return dsn
	}
	return strings.ReplaceAll(dsn, o.Cluster.SocketDir, o.net.databases) + " sslmode=disable"
}

// Configure gives settings of the node's file, each in the first section that has one of the name,
// other values: texts or numbers; the node takes them when it is started next.
func (n *Node) Configure(settings map[string]any) error {
	path := filepath.Join(n.Home(), "chainify.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for key, value := range settings {
		line := regexp.MustCompile(`(?m)^` + key + `\s*=.*$`)
		at := line.FindIndex(text)
		if at == nil {
			return fmt.Errorf("%s has no setting %s", path, key)
		}
		shown := fmt.Sprint(value)
		if text, ok := value.(string); ok {
			shown = strconv.Quote(text)
		}
		text = slices.Concat(text[:at[0]], []byte(key+" = "+shown), text[at[1]:])
	}
	// The user that runs the harness may speak to the socket.
	text = regexp.MustCompile(`(?m)^users = \[`).ReplaceAllLiteral(text, []byte(fmt.Sprintf("users = [\"%d\", ", os.Getuid())))
	return os.WriteFile(path, text, 0o600)
}

// Dial connects to an address as a process of the node's host would.
func (n *Node) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.net.lan.host(n.machine()).within(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Use has the node run another program from its next start on, with the commands of chainify that a
// node's start takes.
func (n *Node) Use(program string) error {
	n.program = filepath.Join(n.net.Dir, "bin", filepath.Base(program))
	return copyProgram(program, n.program)
}

// StartNode runs the node; it does not wait until it serves.
func (n *Node) StartNode() error { return n.StartNodeWith() }

// StartNodeWith is StartNode with variables beside the node's usual environment.
func (n *Node) StartNodeWith(env ...string) error {
	if n.net.comet != "" && !n.inner {
		return errors.Join(n.startApp(env), n.StartComet())
	}
	return n.startNode("start", env)
}

func (n *Node) startNode(command string, env []string) error {
	env = append(env, n.clockEnvironment()...)
	args := []string{command, "--home", n.Home()}
	if n.Explorer != "" {
		args = append(args, "--explorer="+n.Explorer)
	}
	p, err := n.net.account.start(server{
		name: "node-" + n.machine(), dir: n.Home(), log: n.nodeLog(), pids: filepath.Join(n.net.Dir, "pids"),
		path: cmp.Or(n.program, n.net.chainify), args: args, env: env, host: n.net.lan.host(n.machine()),
	})
	if err != nil {
		return err
	}
	n.node = p
	return nil
}

// StopNode ends the node as an operator would: a CometBFT beside it first, while its questions are
// answered.
func (n *Node) StopNode() error {
	if n.node == nil {
		return nil
	}
	return errors.Join(n.stopComet(), n.node.stop(syscall.SIGTERM, nodeStopLimit))
}

// KillNode ends the node at once.
func (n *Node) KillNode() {
	if n.node != nil {
		n.node.kill()
	}
}

// NodeRunning says whether the node's process runs.
func (n *Node) NodeRunning() bool { return n.node.Running() }

// NodeExit returns the exit code of the node's process, once it ended: -1 by a signal.
func (n *Node) NodeExit() (code int, ended bool) {
	if n.node == nil || n.node.Running() {
		return 0, false
	}
	return n.node.cmd.ProcessState.ExitCode(), true
}

// NodePID is the process id of the node, which must have been started.
func (n *Node) NodePID() int { return n.node.PID() }

// NodeTail gives the last lines of the node's log.
func (n *Node) NodeTail(lines int) string { return n.node.tail(lines) }

// PauseNode stops the node from running, but not its connections, until ResumeNode.
func (n *Node) PauseNode() error { return n.node.signalAll(syscall.SIGSTOP) }

// ResumeNode lets a paused node go on.
func (n *Node) ResumeNode() error { return n.node.signalAll(syscall.SIGCONT) }

// Tool runs a command of chainify that needs no home, as the node's user, and returns what it
// printed.
func (n *Node) Tool(ctx context.Context, args ...string) (string, error) {
	return n.net.account.Run(ctx, n.net.Dir, n.net.chainify, args...)
}

// Run runs a command of chainify on the node's home and returns what it printed.
func (n *Node) Run(ctx context.Context, command string, args ...string) (string, error) {
	cmd := n.net.account.Command(ctx, n.net.Dir, n.net.chainify, append([]string{command, "--home", n.Home()}, args...)...)
	cmd.Env = append(cmd.Env, n.clockEnvironment()...)
	return run(cmd)
}

// WaitServing waits until the node says that nothing is wrong with it: it votes and orders.
func (o *Orderer) WaitServing(ctx context.Context, limit time.Duration) error {
	return Poll(ctx, limit, "node of "+o.Name, func(ctx context.Context) (bool, string, error) {
		if !o.node.Running() {
			return false, "", fmt.Errorf("it ended:\n%s", o.node.tail(15))
		}
		if _, err := o.Run(ctx, "status"); err != nil {
			return false, err.Error(), nil
		}
		return true, "", nil
	})
}

// WaitServing waits until the node of this organisation says that it serves.
func (o *Organisation) WaitServing(ctx context.Context, limit time.Duration) error {
	return Poll(ctx, limit, "node of "+o.Name, func(ctx context.Context) (bool, string, error) {
		if !o.node.Running() {
			return false, "", fmt.Errorf("it ended:\n%s", o.node.tail(15))
		}
		state, err := o.State(ctx)
		if err != nil {
			return false, err.Error(), nil
		}
		return state == "serving" || state == "executing", "state is " + state, nil
	})
}

// State asks the node through its database, as any client can; beside a MariaDB through its socket.
func (o *Organisation) State(ctx context.Context) (string, error) {
	if o.MariaDB != nil {
		return o.stateOf(ctx)
	}
	var state *string
	if err := o.Scan(ctx, "SELECT state FROM chainify.status", &state); err != nil {
		return "", err
	}
	if state == nil {
		return "", errors.New("the node does not answer")
	}
	return *state, nil
}

// StartNodes starts all nodes and waits until each serves, at most limit; also those without a
// database: the others may order and agree before these listen.
func (n *Network) StartNodes(ctx context.Context, limit time.Duration) error {
	for _, o := range n.Orderers {
		if err := o.StartNode(); err != nil {
			return err
		}
	}
	if err := n.Each((*Organisation).start); err != nil {
		return err
	}
	for _, o := range n.Orderers {
		if err := o.WaitServing(ctx, limit); err != nil {
			return err
		}
	}
	return n.Each(func(o *Organisation) error { return o.WaitServing(ctx, limit) })
}

func (o *Organisation) start() error { return o.StartNode() }
