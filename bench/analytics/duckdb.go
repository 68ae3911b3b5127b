package analytics

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// duck is DuckDB in a process of its own, which answers one line of JSON with one.
type duck struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

type duckAnswer struct {
	Version string  `json:"version"`
	MS      float64 `json:"ms"`
	Rows    int     `json:"rows"`
	Error   string  `json:"error"`
}

// duckDB starts DuckDB with one thread and the rows of TPC-H in memory.
func (b *bench) duckDB(ctx context.Context) (*duck, error) {
	command := exec.CommandContext(ctx, b.Python, b.DuckDB)
	command.Stderr = os.Stderr
	in, errIn := command.StdinPipe()
	out, errOut := command.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	d := &duck{command, in, bufio.NewReader(out)}
	script, err := os.ReadFile(b.TPCH)
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	tables, _, _ := strings.Cut(statements(string(script)), "CREATE TABLE test.tpch")
	for _, table := range tpchTables {
		tables += fmt.Sprintf("COPY %s FROM '%s' (HEADER);\n", table, b.file(table))
	}
	answer, err := d.say(tables)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load DuckDB: %w", err), d.close())
	}
	b.report.Versions["duckdb"] = answer.Version
	return d, nil
}

// say has statements executed.
func (d *duck) say(sql string) (answer duckAnswer, err error) {
	line, err := json.Marshal(sql)
	if err != nil {
		return answer, err
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		return answer, err
	}
	told, err := d.out.ReadBytes('\n')
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(told, &answer); err != nil {
		return answer, err
	}
	if answer.Error != "" {
		return answer, errors.New(answer.Error)
	}
	return answer, nil
}

// ask runs a query. The time is that of DuckDB, its rows fetched. Rows are counted alone.
func (d *duck) ask(_ context.Context, sql string) ([]string, time.Duration, error) {
	answer, err := d.say(sql)
	return make([]string, answer.Rows), time.Duration(answer.MS * float64(time.Millisecond)), err
}

func (d *duck) close() error { return errors.Join(d.in.Close(), d.command.Wait()) }
