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
	"str":   quote,
	"strs":  quoteAll,
	"map":   quoteMap,
	"dur":   func(d Duration) string { return quote(d.String()) },
	"tuned": tuned[Duration],
	"flag":  tuned[bool],
}).Parse(templateText))

// Render writes the commented file of a configuration.
func Render(c Config) ([]byte, error) {
	var out bytes.Buffer
	mode := c
	if err := mode.Tune(c.Mode); err != nil {
		return nil, err
	}
	if err := fileTemplate.Execute(&out, struct {
		Config
		OfMode Config
	}{c, mode}); err != nil {
		return nil, fmt.Errorf("write %s: %w", FileName, err)
	}
	return out.Bytes(), nil
}

// tuned writes a setting that the mode decides: as a comment, unless it has another value.
func tuned[T Duration | bool](key string, value, ofMode T) string {
	line := fmt.Sprintf("%s = %v", key, value)
	if d, ok := any(value).(Duration); ok {
		line = key + " = " + quote(d.String())
	}
	if value == ofMode {
		return "# " + line
	}
	return line
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
