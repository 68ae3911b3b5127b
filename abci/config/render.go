package config

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed template.toml
var templateText string

var fileTemplate = template.Must(template.New(FileName).Funcs(template.FuncMap{
	"str":  quote,
	"strs": quoteAll,
	"map":  quoteMap,
	"dur":  func(d Duration) string { return quote(d.String()) },
}).Parse(templateText))

// Render writes the commented file of a configuration.
func Render(c Config) ([]byte, error) {
	var out bytes.Buffer
	if err := fileTemplate.Execute(&out, c); err != nil {
		return nil, fmt.Errorf("write %s: %w", FileName, err)
	}
	return out.Bytes(), nil
}

// quote writes a TOML basic string; Go's escapes of printable text are TOML's.
func quote(s string) string { return strconv.Quote(s) }

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quoteMap writes an inline table, by key.
func quoteMap(table map[string]string) string {
	pairs := make([]string, 0, len(table))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		pairs = append(pairs, quote(key)+" = "+quote(table[key]))
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}
