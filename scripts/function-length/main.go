// Command function-length lists the functions of Go files below some folders that are longer than 70 lines. Tests and generated code may be.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const linesMax = 70

func main() {
	failed := false
	for _, folder := range os.Args[1:] {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			found, err := long(path, nil)
			for _, line := range found {
				fmt.Println(line)
			}
			failed = failed || len(found) > 0
			return err
		})
		if err != nil {
			fmt.Println(err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// long lists the long functions of a file; source replaces what it holds, unless nil.
func long(path string, source any) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	var out []string
	for _, d := range file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is {
			continue
		}
		first, last := files.Position(f.Pos()), files.Position(f.End())
		if lines := last.Line - first.Line + 1; lines > linesMax {
			out = append(out, fmt.Sprintf("%s:%d: function %s has %d lines, at most %d", path, first.Line, f.Name.Name, lines, linesMax))
		}
	}
	return out, nil
}
