package explorer

import (
	"encoding/hex"
	"fmt"
	"html/template"
	"reflect"
	"strconv"
	"strings"
	"time"
)

const shortHash = 12 // hexadecimal digits of a hash in a table

var functions = template.FuncMap{
	"hex":            hex.EncodeToString,
	"short":          func(raw []byte) string { return hex.EncodeToString(raw)[:min(shortHash, 2*len(raw))] },
	"time":           func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") },
	"machine":        func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"took":           took,
	"number":         number,
	"plural":         plural,
	"row":            func(table string, key []string) string { return rowAddress("/rows", table, key) },
	"receipt":        func(table string, key []string) string { return rowAddress("/receipts", table, key) },
	"asset":          asset,
	"decimals":       func(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) },
	"mebibytes":      func(bytes *int64) string { return fmt.Sprintf("%.1f MiB", float64(*bytes)/(1<<20)) },
	"percent":        func(part *float64) string { return fmt.Sprintf("%.0f %%", 100**part) },
	"verb":           verb,
	"shorten":        shorten,
	"statementShown": func() int { return statementShown },
	"shortenTo":      shortenTo,
	"deref":          deref,
	"add":            add,
	"before":         func(first int) int { return max(0, first-pageTransactions) },
	"stripWidth":     func(strip []mark) int { return len(strip) * markWidth },
	"markX":          func(place int) int { return place * markWidth },
	"verdict":        func(verdict string) string { return verdictWords[verdict] },
	"bars":           func(c chart, top, said string) bars { return bars{c, top, said} },
}

// markWidth is the place of a block in a strip of votes.
const markWidth = 9

var verdictWords = map[string]string{
	"agrees": "agreed", "differs": "other effects", "stuck": "got stuck", "silent": "not in the certificate", "open": "not certified yet",
}

// bars is a chart with what its upper edge is and what it shows, in words.
type bars struct {
	Chart     chart
	Top, Said string
}

// Newest is the block of the last bar.
func (b bars) Newest() int64 { return b.Chart.Bars[len(b.Chart.Bars)-1].Block }

// deref is what a pointer points to; for nil the zero value.
func deref(pointer any) any {
	v := reflect.ValueOf(pointer)
	if v.Kind() != reflect.Pointer {
		return pointer
	}
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem()).Interface()
	}
	return v.Elem().Interface()
}

func add(n any, more int) string { return fmt.Sprint(reflect.ValueOf(n).Int() + int64(more)) }

// took writes seconds as a person says them.
func took(seconds float64) string {
	switch {
	case seconds < 0.0095:
		return fmt.Sprintf("%.1f ms", seconds*1000)
	case seconds < 0.995:
		return fmt.Sprintf("%.0f ms", seconds*1000)
	case seconds < 60:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%.1f h", seconds/3600)
	}
	return fmt.Sprintf("%.0f days", seconds/86400)
}

// number writes an integer with its thousands apart.
func number(v any) string {
	text := fmt.Sprint(v)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	var out []string
	for len(text) > 3 {
		out = append([]string{text[len(text)-3:]}, out...)
		text = text[:len(text)-3]
	}
	return sign + strings.Join(append([]string{text}, out...), ",")
}

func plural(n any, one, many string) string {
	if fmt.Sprint(n) == "1" {
		return "1 " + one
	}
	return number(n) + " " + many
}

// verb is an operation of the history in words.
func verb(operation string) string {
	switch operation {
	case "I":
		return "inserted"
	case "U":
		return "updated"
	case "D":
		return "deleted"
	}
	return operation
}
