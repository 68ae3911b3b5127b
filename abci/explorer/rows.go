package explorer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// shownMax bounds the bytes of a value on a page.
const shownMax = 2_000

// value is a column's value on a page.
type value struct {
	Text string
	Null bool
	None bool // there is no row
	Cut  int  // bytes left out
}

// cell is one column of a row, before and after.
type cell struct {
	Column        string
	Key, Changed  bool
	Before, After value
}

// compare shows two states of a row column by column, those of the key first. A state that is no
// JSON object, as of a row that is not there, has no values; columns that were dropped and hold
// nothing are left out.
func compare(key []string, before, after json.RawMessage) []cell {
	old, now := columns(before), columns(after)
	names := make([]string, 0, len(now))
	for name := range now {
		names = append(names, name)
	}
	for name := range old {
		if _, there := now[name]; !there {
			names = append(names, name)
		}
	}
	place := func(name string) int {
		if i := slices.Index(key, name); i >= 0 {
			return i
		}
		return len(key)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var cells []cell
	for _, name := range names {
		c := cell{Column: name, Key: slices.Contains(key, name), Before: shown(old, name), After: shown(now, name)}
		c.Changed = !bytes.Equal(old[name], now[name])
		if strings.HasPrefix(name, "_dropped_") && (c.Before.Null || c.Before.None) && (c.After.Null || c.After.None) {
			continue
		}
		cells = append(cells, c)
	}
	return cells
}

// columns are the values of a row, as JSON; nil when it is none.
func columns(row json.RawMessage) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	if json.Unmarshal(row, &out) != nil {
		return nil
	}
	return out
}

func shown(row map[string]json.RawMessage, column string) value {
	raw, there := row[column]
	if !there {
		return value{None: true}
	}
	return valueOf(raw)
}

// valueOf shows a JSON value as SQL would print it, shortened.
func valueOf(raw json.RawMessage) value {
	if raw == nil || string(raw) == "null" {
		return value{Null: true}
	}
	text := string(raw)
	if raw[0] == '"' && json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return shorten(text)
}

func shorten(text string) value { return shortenTo(text, shownMax) }

// shortenTo leaves out what is beyond so many bytes, at the start of a character.
func shortenTo(text string, limit int) value {
	if len(text) <= limit {
		return value{Text: text}
	}
	end := limit
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return value{Text: text[:end], Cut: len(text) - end}
}

// keyOf are the values of a row's key as chainify.history takes them; false where JSON does not say
// them as SQL does.
func keyOf(key []string, row json.RawMessage) ([]string, bool) {
	values := columns(row)
	out := make([]string, len(key))
	for i, name := range key {
		raw := values[name]
		switch {
		case len(raw) == 0 || string(raw) == "null" || raw[0] == '{' || raw[0] == '[':
			return nil, false
		case raw[0] != '"':
			out[i] = string(raw)
		case json.Unmarshal(raw, &out[i]) != nil:
			return nil, false
		}
	}
	return out, len(key) > 0
}
