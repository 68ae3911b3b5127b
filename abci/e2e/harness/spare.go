package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/chainify-db/chainify/abci/config"
)

// AddSpare makes a standby for the organisation's node and starts it: a second node, which keeps
// the order. The organisation's own node vouches for it.
func (o *Organisation) AddSpare(ctx context.Context) (*Node, error) {
	port, err := FreePorts(portsPerNode)
	if err != nil {
		return nil, err
	}
	s := &Node{Name: o.Name + "-spare", net: o.net}
	if err := o.net.mkdir(s.Name); err != nil {
		return nil, err
	}
	if _, err := s.Run(ctx, "init", "--standby", "--organisation", o.Name, "--address", loopback(port)); err != nil {
		return nil, err
	}
	if err := s.settleLike(o, o.Name, port); err != nil {
		return nil, err
	}
	if err := s.Configure(map[string]any{"socket": s.Socket()}); err != nil {
		return nil, err
	}
	key, err := config.Home(s.Home()).NodeKey()
	if err != nil {
		return nil, err
	}
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

// TakeOver has a standby take the place of the organisation's node, which was lost.
func (o *Organisation) TakeOver(ctx context.Context, spare *Node, copied string) error {
	if err := spare.StopNode(); err != nil {
		return err
	}
	if _, err := spare.Run(ctx, "take-over", "--from", copied); err != nil {
		return err
	}
	err := spare.Configure(map[string]any{"socket": o.Socket()})
	o.home = spare.Name
	return errors.Join(err, o.StartNode())
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
