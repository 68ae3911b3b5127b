package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/faults"
)

const (
	childCommand = "child"
	// runSlack is what set-up and examination of a run may take beside its load and twice the time
	// to settle.
	runSlack = 10 * time.Minute
	endLimit = time.Minute // for a child that was asked to end
)

// one runs a manifest in a child of this program. Run by root the child is the first process of
// namespaces of its own (processes, mounts, network): when it ends, however it does, so does
// everything that it started.
func (o options) one(ctx context.Context, m faults.Manifest) faults.Report {
	failed := func(err error) faults.Report {
		return faults.Report{Manifest: m.Name, Seed: m.Seed, Organisations: m.Organisations, OrderingOnly: m.OrderingOnly, Error: err.Error(), Repeat: o.repeat(m)}
	}
	path, err := m.Save(o.Dir)
	if err != nil {
		return failed(err)
	}
	result := filepath.Join(o.Dir, m.Name+".json")
	_ = os.Remove(result)
	limit := time.Duration(m.Duration) + 2*o.Settle + runSlack
	for _, f := range m.Faults {
		limit = max(limit, time.Duration(f.At)+time.Duration(f.For)+2*o.Settle+runSlack)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := []string{
		childCommand, "-pg", o.PG, "-chainify", o.Chainify, "-chainify-clock", o.ChainifyClock, "-scripts", o.Scripts, "-dir", o.Dir, "-settle", o.Settle.String(),
		"-child-report", result, fmt.Sprintf("-v=%t", o.verbose), fmt.Sprintf("-keep=%t", o.Keep), path,
	}
	runErr := runChild(ctx, args)
	text, err := os.ReadFile(result)
	if err != nil {
		return failed(errors.Join(runErr, err))
	}
	var report faults.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return failed(err)
	}
	if runErr != nil && report.Error == "" {
		report.Error, report.Passed = runErr.Error(), false
	}
	report.Repeat = o.repeat(m)
	return report
}

// repeat is the command that runs the same manifest again.
func (o options) repeat(m faults.Manifest) string {
	clock := ""
	if o.ChainifyClock != "" {
		clock = " -chainify-clock " + o.ChainifyClock
	}
	return fmt.Sprintf("%s run -v -pg %s -chainify %s%s -scripts %s -dir %s %s", os.Args[0], o.PG, o.Chainify, clock, o.Scripts, o.Dir, filepath.Join(o.Dir, m.Name+".toml"))
}

// runChild runs this program with namespaces of its own where they may be made, else without.
func runChild(ctx context.Context, args []string) error {
	namespaces := uintptr(syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET)
	if os.Geteuid() != 0 {
		namespaces = 0
	}
	cmd, err := startChild(ctx, args, namespaces)
	if errors.Is(err, syscall.EPERM) && namespaces != 0 { // root of a container
		cmd, err = startChild(ctx, args, 0)
	}
	if err != nil {
		return err
	}
	return cmd.Wait()
}

func startChild(ctx context.Context, args []string, namespaces uintptr) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	if namespaces != 0 {
		cmd.Env = append(os.Environ(), faults.Isolated+"=1")
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endLimit
	return cmd, cmd.Start()
}

// child runs one manifest and leaves its report.
func (o options) child(ctx context.Context, path string) error {
	if os.Getenv(faults.Isolated) != "" {
		if err := furnish(); err != nil {
			return fmt.Errorf("set up namespaces: %w", err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	m, err := faults.Parse(text)
	if err != nil {
		return err
	}
	opt := o.Options
	opt.Dir = filepath.Join(o.Dir, m.Name)
	opt.Log = func(format string, args ...any) {
		if o.verbose {
			fmt.Printf(format+"\n", args...)
		}
	}
	report, err := faults.Run(ctx, opt, m)
	if err != nil {
		report.Error, report.Passed = err.Error(), false
	}
	return report.Write(o.report)
}

// furnish makes new namespaces usable: mounts that nobody else sees, /proc of the processes here, a
// loopback interface.
func furnish() error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("ip link set lo up: %w: %s", err, out)
	}
	return nil
}
