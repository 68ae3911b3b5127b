package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chainify-db/chainify/abci/config"
)

// portsBeforePeers are those that the configuration names before the one for other nodes.
const portsBeforePeers = 2

// AddSpare makes a standby for the organisation's node and starts it: a second node, which keeps
// the order. The organisation's own node vouches for it.
func (o *Organisation) AddSpare(ctx context.Context) (*Node, error) {
	s := &Node{Name: o.Name + "-spare", net: o.net}
	if n := len(o.spares); n > 0 {
		s.Name = fmt.Sprintf("%s-%d", s.Name, n+1)
	}
	if err := errors.Join(o.net.mkdir(s.Name), s.SetClock(0)); err != nil {
		return nil, err
	}
	address, port, err := s.address()
	if err != nil {
		return nil, err
	}
	at := fmt.Sprintf("%s:%d", address, port+portsBeforePeers)
	if _, err := s.Run(ctx, "init", "--standby", "--organisation", o.Name, "--address", at); err != nil {
		return nil, err
	}
	if err := s.settleLike(o, o.Name, address, port); err != nil {
		return nil, err
	}
	if err := s.Configure(map[string]any{"socket": s.Socket()}); err != nil {
		return nil, err
	}
	key, err := config.Home(s.Home()).NodeKey()
	if err != nil {
		return nil, err
	}
	o.net.peers = append(o.net.peers, fmt.Sprintf("%q", string(key.ID())+"@"+at))
	vouch, err := o.Run(ctx, "vouch", string(key.ID()))
	if err == nil {
		err = os.WriteFile(config.Home(s.Home()).Path("config", "vouch"), []byte(vouch), 0o644)
	}
	if err != nil {
		return nil, err
	}
	o.spares = append(o.spares, s) // from here on Close ends it
	return s, s.StartNode()
}

// address is where a further node listens: at a host of its own, where nodes have hosts.
func (n *Node) address() (host string, port int, err error) {
	if port, err = FreePorts(portsPerNode); err != nil || n.net.lan == nil {
		return "127.0.0.1", port, err
	}
	host, err = n.net.lan.Add(n.Name)
	return host, port, err
}

// LoseNode is what a machine that is lost leaves: nothing of the node's home but a copy of its
// keys, made before. It returns the copy.
func (o *Organisation) LoseNode() (copied string, err error) {
	copied = filepath.Join(o.net.Dir, o.Name, "backup")
	if err := os.CopyFS(filepath.Join(copied, "config"), os.DirFS(filepath.Join(o.Home(), "config"))); err != nil {
		return "", err
	}
	o.KillNode()
	return copied, os.RemoveAll(o.Home())
}

// Leave has the organisation's machine go on without it, from its node to its home. The
// organisation has no node until a standby takes over. Close ends this one, too.
func (o *Organisation) Leave() *Node {
	left := o.Node
	o.spares = append(o.spares, &left)
	o.node, o.comet = nil, nil
	return &left
}

// TakeOver has a standby take the place of the organisation's node, which was lost. PostgreSQL is
// told of its socket.
func (o *Organisation) TakeOver(ctx context.Context, spare *Node, from string, flags ...string) error {
	if err := spare.StopNode(); err != nil {
		return err
	}
	if _, err := spare.Run(ctx, "take-over", append([]string{"--from", from}, flags...)...); err != nil {
		return err
	}
	return o.Succeed(ctx, spare)
}

// Succeed starts a standby that took over, as the organisation's node, and tells PostgreSQL.
func (o *Organisation) Succeed(ctx context.Context, spare *Node) error {
	return errors.Join(o.StartAs(spare), o.TellSocket(ctx))
}

// StartAs starts a standby that took over, as the organisation's node.
func (o *Organisation) StartAs(spare *Node) error {
	o.home = spare.Name
	return o.StartNode()
}

// TellSocket tells the organisation's PostgreSQL of the node's socket.
func (o *Organisation) TellSocket(ctx context.Context) error {
	return o.SetSystem(ctx, promoteLimit, "chainify.node_socket", o.Socket())
}

// LoseData is what a lost volume leaves of a node that does not run: its keys, and a last signature
// as the chart writes one for a validator that never signed.
func (n *Node) LoseData() error {
	data := config.Home(n.Home()).Data()
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := n.net.mkdir(filepath.Join("nodes", filepath.Base(n.Home()), "data")); err != nil {
		return err
	}
	state := filepath.Join(data, "priv_validator_state.json")
	if err := os.WriteFile(state, []byte(`{"height":"0","round":0,"step":0}`+"\n"), 0o600); err != nil {
		return err
	}
	return n.net.account.Own(state)
}
