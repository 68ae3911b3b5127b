package smallbank

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
)

func TestLatenciesAreReadFromAllLogsOfARun(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "acme")
	write(t, prefix+".100", "0 1 3000 2 1700000000 1\n0 2 1000 0 1700000000 2\n")
	write(t, prefix+".100.1", "1 1 2000 5 1700000000 3\n1 2 failed 5 1700000000 4\n")
	l, err := ReadLatencies(prefix)
	must.Do(t, err)
	if len(l) != 3 || l.Quantile(0) != time.Millisecond || l.Quantile(0.5) != 2*time.Millisecond || l.Quantile(1) != 3*time.Millisecond {
		t.Fatalf("latencies %v", l)
	}
}

func TestTruncatedLogLineIsAnError(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "acme")
	write(t, prefix+".1", "0 1 3000\n")
	if _, err := ReadLatencies(prefix); err == nil {
		t.Fatal("a line of three fields was accepted")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestPlainResultIsReadFromTheReport(t *testing.T) {
	got, err := readPlainResult("number of transactions actually processed: 40/40\nnumber of failed transactions: 0 (0.000%)\nnumber of transactions retried: 3 (7.500%)\n")
	if err != nil || got != (PlainResult{Processed: 40, Retried: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := readPlainResult("number of transactions retried: 3 (7.500%)\n"); err == nil {
		t.Error("a report without the transactions processed was read")
	}
}
