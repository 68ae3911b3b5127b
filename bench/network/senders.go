package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/greedy"
	"github.com/chainify-db/chainify/bench/machine"
)

// SendersCommand has this program send what greedy members send, as [Senders].
const SendersCommand = "senders"

// Senders reads the options of an attack, prepares it, says so by a line, sends from the next input
// until the input ends, and writes the counts.
func Senders(ctx context.Context, in io.Reader, out io.Writer) error {
	var options greedy.Options
	input := json.NewDecoder(in)
	if err := input.Decode(&options); err != nil {
		return fmt.Errorf("read the options of the senders: %w", err)
	}
	attack, err := greedy.Connect(ctx, options)
	if err != nil {
		return err
	}
	defer attack.Close()
	if err := attack.Prepare(ctx); err != nil {
		return err
	}
	answers := json.NewEncoder(out)
	var begin bool
	if err := errors.Join(answers.Encode(true), input.Decode(&begin)); err != nil {
		return err
	}
	sending, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	attack.Run(sending)
	return answers.Encode(attack.Counts())
}

// apart is the senders as a process of their own. It gets the processor time that nobody else
// wants: the greedy members have machines of their own, and share this one only to be measured.
type apart struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
	before  time.Duration
}

// startApart starts the process, and waits until all that is sent is made.
func startApart(ctx context.Context, options greedy.Options) (_ *apart, err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &apart{cmd: exec.CommandContext(ctx, "chrt", "--idle", "0", own, SendersCommand)}
	a.cmd.Stderr = os.Stderr
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the senders: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.cmd.Process.Kill(), a.cmd.Wait())
		}
	}()
	// A kernel that has this file gives each session a share of the processors.
	group := fmt.Sprintf("/proc/%d/autogroup", a.cmd.Process.Pid)
	if err := os.WriteFile(group, []byte("19"), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	a.answers = json.NewDecoder(out)
	var ready bool
	return a, errors.Join(json.NewEncoder(a.in).Encode(options), a.answers.Decode(&ready))
}

// begin has the process send.
func (a *apart) begin() (err error) {
	if a.before, err = machine.TreeCPU(a.cmd.Process.Pid); err != nil {
		return err
	}
	return json.NewEncoder(a.in).Encode(true)
}

// end stops the process. It gives what was sent, and the processor time for it.
func (a *apart) end() (counts map[greedy.Kind]greedy.Count, used time.Duration, err error) {
	used, err = machine.TreeCPU(a.cmd.Process.Pid)
	err = errors.Join(err, a.in.Close(), a.answers.Decode(&counts), a.cmd.Wait())
	return counts, used - a.before, err
}
