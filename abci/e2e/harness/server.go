package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Server is an organisation's database server, of either engine.
type Server interface {
	Init(ctx context.Context) error  // makes the data directory
	Start(ctx context.Context) error // waits until the server accepts connections
	Stop() error                     // as an operator would
	StopNow() error                  // as after a crash: nothing is written, the next start recovers
	Kill()                           // with all its processes, at once
	Pause() error                    // keeps its processes from running until Resume
	Resume() error
	Running() bool
	PID() int              // of the process that Start began
	Tail(lines int) string // of its log
	CopyData(ctx context.Context) error
	RestoreData(ctx context.Context) error
}

// Server is the organisation's, of whichever engine.
func (o *Organisation) Server() Server {
	if o.MariaDB != nil {
		return o.MariaDB
	}
	return o.Cluster
}

func (o *Organisation) instance() *instance {
	if o.MariaDB != nil {
		return &o.MariaDB.instance
	}
	return &o.Cluster.instance
}

// instance is what servers of both engines are: a directory with the data, and a process.
type instance struct {
	Name    string
	account Account
	dir     string
	pidDir  string
	process *Process
}

func (i *instance) data() string { return filepath.Join(i.dir, "data") }

// Kill ends the server and all its processes at once.
func (i *instance) Kill() {
	if i.process != nil {
		i.process.kill()
	}
}

// Pause stops the server and all its processes from running until Resume.
func (i *instance) Pause() error { return i.process.signalAll(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (i *instance) Resume() error { return i.process.signalAll(syscall.SIGCONT) }

// Running says whether the server's first process runs.
func (i *instance) Running() bool { return i.process.Running() }

// PID is the process id of the server's first process; it must have been started.
func (i *instance) PID() int { return i.process.PID() }

// Tail gives the last lines of the server's log.
func (i *instance) Tail(lines int) string { return i.process.tail(lines) }

// CopyData copies the data directory as a power cut at this moment would leave it: all processes
// rest meanwhile.
func (i *instance) CopyData(ctx context.Context) (err error) {
	if err := i.Pause(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Resume()) }()
	if err := os.RemoveAll(i.copied()); err != nil {
		return err
	}
	_, err = i.account.Run(ctx, i.dir, "cp", "-a", i.data(), i.copied())
	return err
}

// RestoreData puts what was copied in place of the data directory. The server must not run.
func (i *instance) RestoreData(ctx context.Context) error {
	if i.Running() {
		return fmt.Errorf("restore data of %s: it runs", i.Name)
	}
	// contents, not the directory: that may be a disk of its own
	_, err := i.account.Run(ctx, i.dir, "bash", "-c", `find data -mindepth 1 -delete && cp -a copied/. data/ && rm -rf copied data/postmaster.pid`)
	return err
}

func (i *instance) copied() string { return filepath.Join(i.dir, "copied") }
