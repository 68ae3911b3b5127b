package explorer

import (
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
)

// sought is what the text of the search box may name; several may be set, the first that there is
// wins.
type sought struct {
	block int64 // 0: no number
	hash  []byte
	table string // with key: of a row; without: of a table
	key   []string
}

// parseSearch reads a block's number, the hexadecimal id of a transaction or hash of a block, or
// TABLE, TABLE/KEY, TABLE/KEY/KEY.
func parseSearch(text string) sought {
	text = strings.TrimSpace(text)
	var s sought
	if n, err := strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 64); err == nil && n > 0 {
		s.block = n
	}
	digits := strings.TrimPrefix(strings.TrimPrefix(text, `\x`), "0x")
	if raw, err := hex.DecodeString(digits); err == nil && len(raw) == 32 {
		s.hash = raw
	}
	s.table, text, _ = strings.Cut(text, "/")
	if text != "" {
		s.key = strings.Split(text, "/")
	}
	return s
}

// tableNamed finds a table by its name, with or without its schema; public comes first. Tables that
// left the ledger come last.
func tableNamed(tables []LedgerTable, name string) (LedgerTable, bool) {
	for _, matches := range []func(LedgerTable) bool{
		func(t LedgerTable) bool { return t.Name == name },
		func(t LedgerTable) bool { return t.Name == "public."+name },
		func(t LedgerTable) bool { return name != "" && strings.HasSuffix(t.Name, "."+name) },
	} {
		for _, current := range []bool{true, false} {
			for _, t := range tables {
				if t.Current == current && matches(t) {
					return t, true
				}
			}
		}
	}
	return LedgerTable{}, false
}

// rowAddress is the page of a row.
func rowAddress(path, table string, key []string) string {
	q := url.Values{"table": {table}}
	if len(key) > 0 {
		q["key"] = key
	}
	return path + "?" + q.Encode()
}
