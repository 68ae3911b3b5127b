package accuse_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// An error of this node's database, disk or network accuses nobody, whatever it is wrapped in.
func TestALocalErrorAccusesNobody(t *testing.T) {
	for _, local := range []error{
		&pgconn.PgError{Code: "25006"}, &pgconn.PgError{Code: "53100"}, &pgconn.PgError{Code: "53200"},
		&fs.PathError{Op: "write", Path: "data", Err: syscall.ENOSPC}, syscall.EIO, context.DeadlineExceeded,
	} {
		for name, err := range map[string]error{
			"alone": local, "in words": fmt.Errorf("take rows: %w", local),
			"beside a proof": fmt.Errorf("%w: %w", accuse.ErrFalse, local), "joined": errors.Join(accuse.ErrFalse, local),
			"deep": fmt.Errorf("block 7: %w", fmt.Errorf("%w: %w", accuse.ErrFalse, fmt.Errorf("read: %w", local))),
		} {
			if a, accused := accuse.FalseTold("bolt", 7, err); accused || a.Organisation() != "" {
				t.Errorf("%v, %s: %+v", local, name, a)
			}
		}
	}
	if a, accused := accuse.FalseTold("bolt", 7, fmt.Errorf("adopt: %w: 3 changes are missing", accuse.ErrFalse)); !accused || a.Organisation() != "bolt" {
		t.Errorf("a proof: %t, %+v", accused, a)
	}
}

// Nobody is accused without the proof of it.
func TestAnAccusationNeedsItsProof(t *testing.T) {
	key := wire.Key{Number: 7}
	one, other := wire.NewStuckVote(key, 1), wire.NewStuckVote(key, 2)
	if _, accused := accuse.TwoVotes("bolt", one, one); accused {
		t.Error("the same vote twice")
	}
	if _, accused := accuse.TwoVotes("bolt", one, wire.NewStuckVote(wire.Key{Number: 8}, 2)); accused {
		t.Error("votes on two executions")
	}
	a, accused := accuse.TwoVotes("bolt", one, other)
	if !accused {
		t.Error("two votes on one execution accuse nobody")
	}
	if _, accused := accuse.RefutedBy("bolt", 7, "bolt"); accused {
		t.Error("an organisation refutes itself")
	}
	if _, accused := accuse.RefutedBy("bolt", 7, ""); accused {
		t.Error("nobody refutes an organisation")
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	accuse.Accusation{}.Log(log)
	if out.Len() > 0 {
		t.Errorf("nobody is accused, and the log says %s", &out)
	}
	if a.Log(log, "block", 7); !strings.Contains(out.String(), "organisation=bolt block=7") {
		t.Errorf("the log says %s", &out)
	}
}

// blame are words that say of somebody that he did wrong.
var blame = regexp.MustCompile(`(?i)\b(lie[sd]?|lying|liar|false|contradict\w*|cheat\w*|forge[sd]?|twice|malicious|attack\w*|too much|does not count)\b`)

// writes are the methods that write a line of the log, of slog and of peers.Conduct.
var writes = map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true, "Log": true, "LogAttrs": true}

// about are lines with such a word that accuse nobody, each with the reason.
var about = map[string]string{
	"evidence of an attack on the headers of the order": "CometBFT's light client names nobody; the evidence is in the line",
	"live vote does not count":                          "nobody is named: the vote is of no validator that counts",
}

// No other file of the node writes a line that blames somebody.
func TestNobodyElseLogsBlame(t *testing.T) {
	root, files := "..", 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(path)
		if d.IsDir() && (name == "../e2e" || name == "../model" || name == "../accuse" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, line := range blamed(t, name, text) {
			t.Errorf("%s: a line of the log blames somebody: let package accuse say it", line)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files, %v", files, err)
	}
	if found := blamed(t, "bad.go", []byte("package p\nfunc f() { log.Warn(\"an organisation lied\", \"organisation\", o); log.Info(\"ok\", \"says\", \"false\") }")); len(found) != 1 {
		t.Errorf("a line that blames is found %d times", len(found))
	}
}

// blamed are the places of a file whose lines of the log blame somebody.
func blamed(t *testing.T, name string, text []byte) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, 0)
	must.Do(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !writes[method.Sel.Name] {
			return true
		}
		for _, argument := range call.Args[:min(len(call.Args), 3)] { // the message is among these
			literal, ok := argument.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			message, err := strconv.Unquote(literal.Value)
			if err == nil && blame.MatchString(message) && about[message] == "" {
				found = append(found, fmt.Sprintf("%s: %q", files.Position(call.Pos()), message))
			}
			break
		}
		return true
	})
	return found
}
