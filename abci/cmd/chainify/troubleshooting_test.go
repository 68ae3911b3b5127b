package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/metrics"
	"github.com/chainify-db/chainify/abci/must"
)

// docs/operator/troubleshooting.md has a row for each SQLSTATE of the ledger's own and of the node,
// each state, each alert and each exit code, and none for what the code no longer has.
func TestTroubleshootingIsComplete(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	rows := firstCells(t, filepath.Join(root, "docs", "operator", "troubleshooting.md"))
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	own := regexp.MustCompile(`"(CH\d{3})"`)
	ofNode := regexp.MustCompile(`(?:State\w+\s*=\s*|SQLState:\s*)"([0-9][0-9A-Z]{4})"`)
	ofConnection := regexp.MustCompile(`b?"(08[0-9A-Z]{3}|57P03|57014)"`)
	codes := slices.Concat(
		findAll(t, own, root, "extension/src", "crates", "abci"),
		findAll(t, ofNode, root, "abci/gateway"),
		findAll(t, ofConnection, root, "extension/src/submission"),
	)
	for section, want := range map[string][]string{
		"SQLSTATEs":  codes,
		"States":     metrics.States,
		"Alerts":     findAll(t, alerts, root, "helm/chainify/files/alerts.yaml"),
		"Exit codes": exitCodes(t),
	} {
		if len(want) < 4 {
			t.Errorf("%s: the code has %q", section, want)
		}
		for _, name := range want {
			if !slices.Contains(rows[section], name) {
				t.Errorf("%s: no row for %s", section, name)
			}
		}
		for _, name := range rows[section] {
			if !slices.Contains(want, name) {
				t.Errorf("%s: a row for %s, which the code does not have", section, name)
			}
		}
	}
}

// firstCells gives the first cell of each row of a document's tables, by heading.
func firstCells(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Do(t, err)
	cells, heading, body := map[string][]string{}, "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimPrefix(line, "## ")
		case strings.HasPrefix(line, "|---"):
			body = true
		case !strings.HasPrefix(line, "|"):
			body = false
		case body:
			cell := strings.Trim(strings.Split(line, "|")[1], " `")
			if slices.Contains(cells[heading], cell) {
				t.Errorf("%s: two rows for %s", heading, cell)
			}
			cells[heading] = append(cells[heading], cell)
		}
	}
	return cells
}

// findAll gives what a pattern's group finds in sources that are no tests.
func findAll(t *testing.T, pattern *regexp.Regexp, root string, places ...string) []string {
	t.Helper()
	found := map[string]bool{}
	for _, place := range places {
		err := filepath.WalkDir(filepath.Join(root, place), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && slices.Contains([]string{"tests", "e2e", "target"}, entry.Name()):
				return fs.SkipDir
			case entry.IsDir() || !slices.Contains([]string{".rs", ".go", ".yaml"}, filepath.Ext(path)) || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			text, err := os.ReadFile(path)
			for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
				found[match[1]] = true
			}
			return err
		})
		must.Do(t, err)
	}
	return slices.Collect(maps.Keys(found))
}

// exitCodes are the values of the constants exit… of main.go.
func exitCodes(t *testing.T) (codes []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, 0)
	must.Do(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "exit") {
			if value, number := spec.Values[0].(*ast.BasicLit); number && value.Kind == token.INT {
				codes = append(codes, value.Value)
			}
		}
		return true
	})
	return codes
}

// Each question of the page for a review board has an answer, says what is not there, and names a
// figure and a test.
func TestEachQuestionOfAReviewBoardIsAnsweredWhole(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "review-board.md"))
	must.Do(t, err)
	questions := strings.Split(string(text), "\n## ")[1:]
	if len(questions) != 12 {
		t.Errorf("%d questions, want 12", len(questions))
	}
	for _, question := range questions {
		heading, rest, _ := strings.Cut(question, "\n")
		for _, part := range []string{"Answer", "Not there", "Figure", "Test"} {
			if strings.Count("\n"+rest, "\n**"+part+".** ") != 1 {
				t.Errorf("%s: not one paragraph that begins with **%s.**", heading, part)
			}
		}
	}
}
