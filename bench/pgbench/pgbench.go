// Package pgbench runs PostgreSQL's own load generator on a benchmark's workload and reads its
// output.
package pgbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/workload"
)

// threads of pgbench: one for each of the two cores the figures are stated for.
const threads = 2

// Lead is for how long pgbench runs before what counts: its sessions are new, and each of them
// first makes the plans of all scripts.
const Lead = 2 * time.Second

// Run is one run: prepared statements, one function call and one commit for each transaction.
type Run struct {
	Cluster           *harness.Cluster
	Database, Role    string
	Scripts           []string
	Clients, Seconds  int
	Customers         int
	Seed              uint64
	SynchronousCommit string
	Writes            string // chainify.writes; empty: as the server has it
	Isolation         string // default_transaction_isolation; empty: as the server has it
	Tries             int    // of a transaction that loses against another one; 0: one
	Led               func() // called when the lead is over; may be nil
}

// Result is what it printed.
type Result struct {
	Rate      float64 // transactions per second after the lead
	Processed int     // after the lead
	Led       int     // before
	Failed    int     // by deadlock, in all; any other failure ends pgbench
	Retries   int     // in all, where transactions are tried again
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

// Write writes scripts, by text with their weights, into a directory and returns how pgbench is
// told of them.
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
		"-c", fmt.Sprint(r.Clients), "-j", fmt.Sprint(min(r.Clients, threads)), "-T", fmt.Sprint(r.Seconds + int(Lead.Seconds())),
		"-P", fmt.Sprint(int(Lead.Seconds())), "-D", fmt.Sprintf("customers=%d", r.Customers), "--random-seed", fmt.Sprint(r.Seed),
	}
	if r.Tries > 0 {
		args = append(args, "--max-tries", fmt.Sprint(r.Tries))
	}
	for _, script := range r.Scripts {
		args = append(args, "-f", script)
	}
	cmd := exec.CommandContext(ctx, r.Cluster.Bin("pgbench"), append(args, r.Database)...)
	options := "-c synchronous_commit=" + r.SynchronousCommit
	if r.Writes != "" {
		options += " -c chainify.writes=" + r.Writes
	}
	if r.Isolation != "" {
		options += " -c default_transaction_isolation=" + r.Isolation
	}
	cmd.Env = []string{"PGOPTIONS=" + options, "LC_ALL=C.UTF-8"}
	var text strings.Builder
	led := 0
	err := eachLine(cmd, func(line string) {
		text.WriteString(line + "\n")
		if n, is := progress(line); is && led == 0 {
			led = n
			if r.Led != nil {
				r.Led()
			}
		}
	})
	if err != nil {
		return Result{}, fmt.Errorf("pgbench: %w\n%s", err, text.String())
	}
	return read(text.String(), led)
}

// eachLine runs a command and passes on what it writes while it does.
func eachLine(cmd *exec.Cmd, line func(string)) error {
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	done := make(chan error, 1)
	go func() { done <- errors.Join(cmd.Run(), in.Close()) }()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line(lines.Text())
	}
	return errors.Join(lines.Err(), out.CloseWithError(lines.Err()), <-done)
}

var (
	progressPattern  = regexp.MustCompile(`^progress: [0-9.]+ s, ([0-9.]+) tps`)
	ratePattern      = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)
	processedPattern = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	failedPattern    = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
	retriesPattern   = regexp.MustCompile(`(?m)^total number of retries: (\d+)`)
)

// progress is how many transactions the lead had, if that is what the line says.
func progress(line string) (transactions int, is bool) {
	found := progressPattern.FindStringSubmatch(line)
	if found == nil {
		return 0, false
	}
	rate, err := strconv.ParseFloat(found[1], 64)
	return max(1, int(rate*Lead.Seconds())), err == nil
}

// read takes from what was printed of the whole run what the lead had.
func read(text string, led int) (_ Result, err error) {
	rate, n, f := ratePattern.FindStringSubmatch(text), processedPattern.FindStringSubmatch(text), failedPattern.FindStringSubmatch(text)
	if rate == nil || n == nil || f == nil || led == 0 {
		return Result{}, fmt.Errorf("pgbench printed no result:\n%s", text)
	}
	all, errRate := strconv.ParseFloat(rate[1], 64)
	processed, errProcessed := strconv.Atoi(n[1])
	failed, errFailed := strconv.Atoi(f[1])
	if err := errors.Join(errRate, errProcessed, errFailed); err != nil {
		return Result{}, fmt.Errorf("read what pgbench printed: %w", err)
	}
	retries := 0
	if found := retriesPattern.FindStringSubmatch(text); found != nil { // not printed where there is one try
		if retries, err = strconv.Atoi(found[1]); err != nil {
			return Result{}, fmt.Errorf("read what pgbench printed: %w", err)
		}
	}
	took := float64(processed)/all - Lead.Seconds()
	if all <= 0 || processed <= led || took <= 0 {
		return Result{}, fmt.Errorf("pgbench processed nothing after its lead:\n%s", text)
	}
	return Result{Rate: float64(processed-led) / took, Processed: processed - led, Led: led, Failed: failed, Retries: retries}, nil
}
