package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"
)

// configureLimit bounds writing CometBFT's configuration.
const configureLimit = time.Minute

// startApp runs "chainify app", after it has written CometBFT's configuration.
func (n *Node) startApp(env []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), configureLimit)
	defer cancel()
	if _, err := n.Run(ctx, "app", "--configure"); err != nil {
		return err
	}
	return n.startNode("app", env)
}

// StartComet runs CometBFT beside the node, after an earlier one has ended: that one ends by itself
// when its application went.
func (n *Node) StartComet() (err error) {
	if err := n.waitComet(); err != nil {
		return err
	}
	n.comet, err = n.net.account.start(server{
		name: "comet-" + n.Name, dir: n.Home(), log: filepath.Join(n.net.Dir, n.Name, "comet.log"), pids: filepath.Join(n.net.Dir, "pids"),
		path: n.net.comet, args: []string{"start", "--home", n.Home()}, host: n.net.lan.host(n.Name),
	})
	return err
}

func (n *Node) waitComet() error {
	if n.comet == nil {
		return nil
	}
	select {
	case <-n.comet.done:
		return nil
	case <-time.After(nodeStopLimit):
		return fmt.Errorf("CometBFT of %s still runs:\n%s", n.Name, n.comet.tail(15))
	}
}

// stopComet ends CometBFT, if it has not ended with its application.
func (n *Node) stopComet() error {
	if n.comet == nil {
		return nil
	}
	return n.comet.stop(syscall.SIGTERM, nodeStopLimit)
}

// TakeComet has CometBFT in the node's process from its next start on, or beside it again.
func (n *Node) TakeComet(inner bool) { n.inner = inner }

// KillComet ends CometBFT at once.
func (n *Node) KillComet() error {
	if n.comet == nil {
		return errors.New("CometBFT is in the node's process")
	}
	n.comet.kill()
	return nil
}

// PIDs are the node's processes, which must have been started.
func (n *Node) PIDs() []int {
	if n.comet == nil || n.inner {
		return []int{n.NodePID()}
	}
	return []int{n.NodePID(), n.comet.PID()}
}
