package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cometbft/cometbft/rpc/client/http"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/baseline"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	stopLimit   = 20 * time.Second
	broadcasts  = 8    // connections of clients to each node that do not wait
	backlogMost = 6400 // transactions of all clients without an outcome, as many as ours have
)

// theirs is a network of the baseline, or of CometBFT alone when it has no databases.
type theirs struct {
	dir, binary string
	owners      []*harness.Organisation // of its databases; nil: CometBFT alone, set as Chainify's nodes set it
	homes       []string
	base        int // first of the ports, two for each node
	commands    []*exec.Cmd
	cfg         Config
}

func newTheirs(cfg Config, dir string, n int, owners []*harness.Organisation) (*theirs, error) {
	homes, err := baseline.Homes(dir, n, time.Now())
	if err != nil {
		return nil, err
	}
	base, err := harness.FreePorts(2 * n)
	return &theirs{dir: dir, binary: cfg.Baseline, owners: owners, homes: homes, base: base, cfg: cfg}, err
}

func (t *theirs) rpc(i int) string { return fmt.Sprintf("127.0.0.1:%d", t.base+2*i+1) }

func (t *theirs) start(ctx context.Context) error {
	t.commands = nil
	var peers []string // each node calls those before it: of two that call each other, one would hang up
	for i, home := range t.homes {
		address := fmt.Sprintf("127.0.0.1:%d", t.base+2*i)
		args := []string{"-home", home, "-p2p", address, "-rpc", t.rpc(i), "-peers", strings.Join(peers, ",")}
		if t.owners == nil {
			args = append(args, "-tuned")
		} else {
			args = append(args, "-dsn", t.owners[i].Cluster.DSN(plain, role))
		}
		if err := t.startNode(home, args); err != nil {
			return errors.Join(err, t.stop())
		}
		id, err := baseline.NodeID(home)
		if err != nil {
			return errors.Join(err, t.stop())
		}
		peers = append(peers, id+"@"+address)
	}
	if err := t.ready(ctx); err != nil {
		return errors.Join(err, t.stop())
	}
	return nil
}

func (t *theirs) startNode(home string, args []string) error {
	cmd, err := begun(filepath.Join(home, "node.log"), t.binary, args)
	if err != nil {
		return err
	}
	t.commands = append(t.commands, cmd)
	return nil
}

// begun starts a server that logs to a file and ends with this process.
func begun(logFile, binary string, args []string) (*exec.Cmd, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd, cmd.Start()
}

// ended asks servers to end, and kills those that do not.
func ended(commands []*exec.Cmd) error {
	var errs []error
	for _, cmd := range commands {
		errs = append(errs, cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, cmd := range commands {
		killed := time.AfterFunc(stopLimit, func() { _ = cmd.Process.Kill() })
		errs = append(errs, cmd.Wait())
		killed.Stop()
	}
	return errors.Join(errs...)
}

// ready submits a transaction to each node until it is executed.
func (t *theirs) ready(ctx context.Context) error {
	for i := range t.homes {
		err := harness.Poll(ctx, readyLimit, fmt.Sprintf("node %d of %s", i, t.dir), func(ctx context.Context) (bool, string, error) {
			client, err := t.client(i)
			if err != nil {
				return false, "", err
			}
			return t.commit(ctx, client, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *theirs) stop() error { return ended(t.commands) }

func (t *theirs) nodes() []int {
	var out []int
	for _, cmd := range t.commands {
		out = append(out, cmd.Process.Pid)
	}
	return out
}

func (t *theirs) vacuum(ctx context.Context) error {
	var errs []error
	for _, o := range t.owners {
		errs = append(errs, vacuum(ctx, o, plain, append(bankTables(), "baseline.state")))
	}
	return errors.Join(errs...)
}

func (t *theirs) databases() []int { return postmasters(t.owners) }

func (t *theirs) client(i int) (*http.HTTP, error) {
	return http.New("http://"+t.rpc(i%len(t.homes)), "/websocket")
}

// encode makes a transaction of calls, different from all others.
func encode(calls []workload.Call) ([]byte, error) {
	out := make([]baseline.Call, len(calls))
	for i, call := range calls {
		s := call.Statement(workload.Function)
		out[i] = baseline.Call{SQL: s.SQL, Args: s.Values}
	}
	return baseline.Encode(uint64(time.Now().UnixNano()), out)
}

// commit submits one transaction and waits until it is in a block; false with the reason when the
// node cannot.
func (t *theirs) commit(ctx context.Context, client *http.HTTP, calls []workload.Call) (bool, string, error) {
	raw, err := encode(calls)
	if err != nil {
		return false, "", err
	}
	result, err := client.BroadcastTxCommit(ctx, raw)
	switch {
	case err != nil:
		return false, err.Error(), nil
	case result.CheckTx.IsErr() || result.TxResult.IsErr():
		return false, result.CheckTx.Log + result.TxResult.Log, nil
	}
	return true, "", nil
}

// wait submits from some clients, spread over the nodes, each waiting for its block.
func (t *theirs) wait(clients int) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (load, error) {
		return waiting(ctx, clients, t.cfg.patient(clients), func(i int) (func(context.Context) error, error) {
			client, err := t.client(i)
			if err != nil {
				return nil, err
			}
			calls := t.cfg.stream(repetition, i)
			return func(ctx context.Context) error {
				ok, why, err := t.commit(ctx, client, calls.Block(1))
				if err == nil && !ok {
					err = errors.New(why)
				}
				return err
			}, nil
		})
	}
}

// asynchronous submits from all nodes' clients, so many transactions at a time; it is done when
// all databases have executed all.
func (t *theirs) asynchronous(each int) func(context.Context, int) (load, error) {
	return func(ctx context.Context, repetition int) (l load, err error) {
		c, err := newCounter(ctx, t.owners)
		if err != nil {
			return l, err
		}
		defer func() { err = errors.Join(err, c.close(ctx)) }()
		submitters := make([]submitter, broadcasts*len(t.homes))
		for i := range submitters {
			client, err := t.client(i)
			if err != nil {
				return l, err
			}
			submitters[i] = &broadcaster{client: client, calls: t.cfg.stream(repetition, i), each: each, counter: c}
		}
		return flood(ctx, submitters, t.cfg.Seconds, c.waitFor)
	}
}

// broadcaster is one client that submits by broadcast_tx_sync.
type broadcaster struct {
	client  *http.HTTP
	calls   *workload.Smallbank
	each    int // transactions of a submission
	counter *counter
}

func (b *broadcaster) submit(ctx context.Context) (int, error) {
	if err := b.counter.room(ctx, b.each); err != nil {
		return 0, err
	}
	raw, err := encode(b.calls.Block(b.each))
	if err != nil {
		return 0, err
	}
	result, err := b.client.BroadcastTxSync(ctx, raw)
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("refused with code %d: %s", result.Code, result.Log)
	}
	return b.each, err
}

func (b *broadcaster) finish(context.Context) error { return nil } // the counter waits for all of them
