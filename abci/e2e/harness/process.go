package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Account is the operating-system user that servers run as: PostgreSQL refuses root.
type Account struct {
	Name string
	uid  uint32
	gid  uint32
	// other is set when servers run as somebody else than this process.
	other bool
}

// ServerAccount is this process's own user, or postgres when that is root.
func ServerAccount() (Account, error) {
	if os.Geteuid() != 0 {
		u, err := user.Current()
		if err != nil {
			return Account{}, fmt.Errorf("find current user: %w", err)
		}
		return Account{Name: u.Username, uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return Account{}, fmt.Errorf("PostgreSQL does not run as root and there is no user postgres: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return Account{}, fmt.Errorf("user id of postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return Account{}, fmt.Errorf("group id of postgres: %w", err)
	}
	return Account{Name: u.Username, uid: uint32(uid), gid: uint32(gid), other: true}, nil
}

// Own makes the account the owner of a file or directory.
func (a Account) Own(path string) error {
	if !a.other {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// Command prepares a command of this account in its own process group, so that Ctrl-C at the
// terminal reaches the harness alone and the harness decides in which order things end.
func (a Account) Command(ctx context.Context, dir, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return cmd
}

// environment is what servers inherit: nothing that moves PostgreSQL clients elsewhere, and no
// RUST_BACKTRACE, with which a Rust extension adds stack traces to its error messages.
func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "PG") || strings.HasPrefix(kv, "RUST_") || strings.HasPrefix(kv, "LC_") || strings.HasPrefix(kv, "LANG") {
			continue
		}
		env = append(env, kv)
	}
	return append(env, "LC_ALL=C.UTF-8")
}

// Run runs a command of the account to its end and gives its output in the error.
func (a Account) Run(ctx context.Context, dir, path string, args ...string) (string, error) {
	return run(a.Command(ctx, dir, path, args...))
}

func run(cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err, out)
	}
	return string(out), nil
}

// Process is a server that the harness started. Its goroutine ends when the process does.
type Process struct {
	Name string
	Log  string // path of what it printed
	cmd  *exec.Cmd
	done chan struct{}
	pids string // file that names it for a later run
}

// server is the input of start.
type server struct {
	name string
	dir  string
	log  string // what it prints is appended
	pids string // directory in which its process id is left
	path string
	args []string
	env  []string // beside the environment of all servers
	host *host    // where its network is; nil: where the harness is
}

// start runs a server.
func (a Account) start(s server) (*Process, error) {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	defer log.Close()
	cmd := a.Command(context.Background(), s.dir, s.path, s.args...)
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := s.host.within(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	p := &Process{Name: s.name, Log: s.log, cmd: cmd, done: make(chan struct{}), pids: filepath.Join(s.pids, s.name)}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	if err := writePid(p.pids, cmd.Process.Pid); err != nil {
		p.kill()
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	return p, nil
}

// Running says whether the process has not ended yet.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// quitLimit is how long a process that does not end gets to say where it stands, as a node does on
// SIGQUIT.
const quitLimit = 5 * time.Second

// stop asks the process to end with a signal and kills it when it has not within the limit.
func (p *Process) stop(sig syscall.Signal, limit time.Duration) error {
	if !p.Running() {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
		_ = os.Remove(p.pids)
		return nil
	case <-time.After(limit):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-p.done:
		case <-time.After(quitLimit):
		}
		p.kill()
		return fmt.Errorf("stop %s: still running after %s, killed", p.Name, limit)
	}
}

// kill ends the process and its children at once, as a power cut would, and waits until they are
// gone.
func (p *Process) kill() {
	if p.Running() {
		killTree(p.cmd.Process.Pid)
		<-p.done
	}
	_ = os.Remove(p.pids)
}

// signalAll signals the process and its children; the parent first, so that it starts no further
// child.
func (p *Process) signalAll(sig syscall.Signal) error {
	if !p.Running() {
		return fmt.Errorf("%s does not run", p.Name)
	}
	if err := syscall.Kill(p.PID(), sig); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	for _, kid := range children(p.PID()) {
		_ = syscall.Kill(kid, sig) // it may have ended since
	}
	return nil
}

// tailBytesMax shortens the lines that tail gives: one may hold the stacks of all goroutines.
const tailBytesMax = 400

// tail gives the last lines of the log, for an error message.
func (p *Process) tail(lines int) string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		if len(line) > tailBytesMax {
			all[i] = line[:tailBytesMax] + "…"
		}
	}
	return strings.Join(all, "\n")
}
