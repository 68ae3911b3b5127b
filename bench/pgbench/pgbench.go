// Package pgbench runs PostgreSQL's own load generator on a benchmark's workload and reads what it printed.
package pgbench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/workload"
)

// threads of pgbench: one for each of the two cores the figures are stated for.
const threads = 2

// Run is one run: prepared statements, one function call and one commit for each transaction.
type Run struct {
	Cluster           *harness.Cluster
	Database, Role    string
	Scripts           []string
	Clients, Seconds  int
	Customers         int
	Seed              uint64
	SynchronousCommit string
}

// Result is what it printed.
type Result struct {
	Rate      float64 // transactions per second, without the time to connect
	Processed int
	Failed    int // by deadlock; any other failure ends pgbench
}

// Scripts writes Smallbank's scripts into a directory and returns their paths.
func Scripts(dir string) ([]string, error) {
	var out []string
	for name, text := range workload.PgbenchScripts() {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

// Write writes scripts, by text with their weights, into a directory and returns how pgbench is told of them.
func Write(dir string, scripts map[string]int) ([]string, error) {
	var out []string
	for _, text := range slices.Sorted(maps.Keys(scripts)) {
		path := filepath.Join(dir, fmt.Sprintf("weighed%d.sql", len(out)))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("%s@%d", path, scripts[text]))
	}
	return out, nil
}

// Do runs it to its end.
func (r Run) Do(ctx context.Context) (Result, error) {
	args := []string{
		"-h", r.Cluster.SocketDir, "-p", fmt.Sprint(r.Cluster.Port), "-U", r.Role, "-n", "-M", "prepared",
		"-c", fmt.Sprint(r.Clients), "-j", fmt.Sprint(min(r.Clients, threads)), "-T", fmt.Sprint(r.Seconds),
		"-D", fmt.Sprintf("customers=%d", r.Customers), "--random-seed", fmt.Sprint(r.Seed),
	}
	for _, script := range r.Scripts {
		args = append(args, "-f", script)
	}
	cmd := exec.CommandContext(ctx, r.Cluster.Bin("pgbench"), append(args, r.Database)...)
	cmd.Env = []string{"PGOPTIONS=-c synchronous_commit=" + r.SynchronousCommit, "LC_ALL=C.UTF-8"}
	text, err := cmd.CombinedOutput()
	if err != nil {
		return Result{}, fmt.Errorf("pgbench: %w\n%s", err, text)
	}
	return read(string(text))
}

var (
	ratePattern      = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)
	processedPattern = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	failedPattern    = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
)

func read(text string) (Result, error) {
	rate, n, f := ratePattern.FindStringSubmatch(text), processedPattern.FindStringSubmatch(text), failedPattern.FindStringSubmatch(text)
	if rate == nil || n == nil || f == nil {
		return Result{}, fmt.Errorf("pgbench printed no result:\n%s", text)
	}
	var r Result
	var errs [3]error
	r.Rate, errs[0] = strconv.ParseFloat(rate[1], 64)
	r.Processed, errs[1] = strconv.Atoi(n[1])
	r.Failed, errs[2] = strconv.Atoi(f[1])
	if err := errors.Join(errs[:]...); err != nil {
		return Result{}, fmt.Errorf("read what pgbench printed: %w", err)
	}
	if r.Rate <= 0 || r.Processed == 0 {
		return Result{}, fmt.Errorf("pgbench processed nothing:\n%s", text)
	}
	return r, nil
}
