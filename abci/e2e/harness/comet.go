package harness

import (
	"context"
	"errors"
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

// cometStarts bounds how often CometBFT is started after one that was killed, and cometSettles how
// long it has to run.
const (
	cometStarts  = 5
	cometSettles = 2 * time.Second
)

// StartComet runs CometBFT beside the node, after an earlier one has ended. That one ends by itself
// when its application went. One that was asking then may wait for ever: it is killed and started
// again, as by a service manager. Until the application has seen that it is gone, its sockets are
// in the way of the next.
func (n *Node) StartComet() error {
	if n.cometEnds() {
		return n.startComet()
	}
	n.comet.kill()
	for range cometStarts {
		if err := n.startComet(); err != nil {
			return err
		}
		select {
		case <-n.comet.done:
		case <-time.After(cometSettles):
			return nil
		}
	}
	return errors.New("CometBFT ends again and again:\n" + n.comet.tail(5))
}

func (n *Node) startComet() (err error) {
	n.comet, err = n.net.account.start(server{
		name: "comet-" + n.machine(), dir: n.Home(), log: filepath.Join(n.net.Dir, n.machine(), "comet.log"), pids: filepath.Join(n.net.Dir, "pids"),
		path: n.net.comet, args: []string{"start", "--home", n.Home()}, host: n.net.lan.host(n.machine()),
	})
	return err
}

// cometEnds waits until an earlier CometBFT has ended; false: it did not in time.
func (n *Node) cometEnds() bool {
	if n.comet == nil {
		return true
	}
	select {
	case <-n.comet.done:
		return true
	case <-time.After(nodeStopLimit):
		return false
	}
}

// stopComet ends CometBFT, if it has not ended by itself.
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
