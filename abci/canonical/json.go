package canonical

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// appendJSON appends the canonical text of a JSON text (spec/formats.md, "Canonical JSON").
// encoding/json does not do: it reads numbers as doubles, and replaces half a surrogate pair.
func appendJSON(out []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return nil, wrong("JSON is not UTF-8")
	}
	p := parser{text: text}
	p.space()
	out, ok := p.value(out, 0)
	p.space()
	if !ok || p.at != len(text) {
		return nil, wrong("no JSON at byte %d", p.at)
	}
	return out, nil
}

// parser reads JSON and appends what it read in its canonical form. Its methods are false at what
// is no JSON.
type parser struct {
	text string
	at   int
}

func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0 // a zero byte is no part of JSON outside of strings, nor inside
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\n\r", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) skip(text string) bool {
	found := strings.HasPrefix(p.text[p.at:], text)
	if found {
		p.at += len(text)
	}
	return found
}

func (p *parser) value(out []byte, depth int) ([]byte, bool) {
	switch c := p.peek(); {
	case (c == '{' || c == '[') && depth == jsonDepthMax:
		return nil, false
	case c == '{':
		return p.object(out, depth)
	case c == '[':
		return p.array(out, depth)
	case c == '"':
		text, ok := p.string()
		return appendString(out, text), ok
	case c == '-' || isDigit(c):
		return p.number(out)
	}
	for _, word := range []string{"null", "true", "false"} {
		if p.skip(word) {
			return append(out, word...), true
		}
	}
	return nil, false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (p *parser) digits() bool {
	from := p.at
	for isDigit(p.peek()) {
		p.at++
	}
	return p.at > from
}

func (p *parser) number(out []byte) ([]byte, bool) {
	from := p.at
	p.skip("-")
	ok := p.skip("0") || p.digits() // after a zero nothing but a point or an exponent follows
	if ok && p.skip(".") {
		ok = p.digits()
	}
	if ok && (p.skip("e") || p.skip("E")) {
		if !p.skip("+") {
			p.skip("-")
		}
		ok = p.digits()
	}
	if !ok {
		return nil, false
	}
	out, err := appendDecimal(out, p.text[from:p.at])
	return out, err == nil
}

func (p *parser) string() (string, bool) {
	if !p.skip(`"`) {
		return "", false
	}
	var text strings.Builder
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return text.String(), true
		case c < 0x20:
			return "", false
		case c == '\\':
			p.at++
			r, ok := p.escape()
			if !ok {
				return "", false
			}
			text.WriteRune(r)
		default:
			text.WriteByte(c)
			p.at++
		}
	}
	return "", false
}

// escape reads what follows a backslash.
func (p *parser) escape() (rune, bool) {
	const letters, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if p.skip("u") {
		return p.unicode()
	}
	at := strings.IndexByte(letters, p.peek())
	if p.at == len(p.text) || at < 0 {
		return 0, false
	}
	p.at++
	return rune(meanings[at]), true
}

func (p *parser) unicode() (rune, bool) {
	unit, ok := p.hex4()
	switch {
	case !ok || unit >= 0xDC00 && unit <= 0xDFFF:
		return 0, false
	case unit < 0xD800 || unit > 0xDBFF:
		return unit, true
	case !p.skip(`\u`):
		return 0, false
	}
	low, ok := p.hex4()
	return 0x10000 + (unit-0xD800)<<10 + (low - 0xDC00), ok && low >= 0xDC00 && low <= 0xDFFF
}

func (p *parser) hex4() (unit rune, ok bool) {
	if len(p.text)-p.at < 4 {
		return 0, false
	}
	for range 4 {
		digit := strings.IndexByte("0123456789abcdef", p.text[p.at]|0x20)
		if digit < 0 || p.text[p.at] < '0' { // |0x20 makes digits of some control characters
			return 0, false
		}
		unit = unit<<4 + rune(digit)
		p.at++
	}
	return unit, true
}

// items reads an opening bracket, items between commas, and the closing bracket.
func (p *parser) items(closing string, item func() bool) bool {
	p.at++
	p.space()
	if p.skip(closing) {
		return true
	}
	for {
		if !item() {
			return false
		}
		p.space()
		if !p.skip(",") {
			return p.skip(closing)
		}
		p.space()
	}
}

func (p *parser) array(out []byte, depth int) ([]byte, bool) {
	out = append(out, '[')
	first := true
	ok := p.items("]", func() (ok bool) {
		if !first {
			out = append(out, ',')
		}
		first = false
		out, ok = p.value(out, depth+1)
		return ok
	})
	return append(out, ']'), ok
}

type member struct {
	key   string
	value []byte
}

func (p *parser) object(out []byte, depth int) ([]byte, bool) {
	var members []member
	ok := p.items("}", func() bool {
		key, ok := p.string()
		p.space()
		if !ok || !p.skip(":") {
			return false
		}
		p.space()
		value, ok := p.value(nil, depth+1)
		members = append(members, member{key, value})
		return ok
	})
	if !ok {
		return nil, false
	}
	slices.SortStableFunc(members, func(a, b member) int { return compareUTF16(a.key, b.key) })
	out = append(out, '{')
	written := 0
	for i, m := range members {
		if i+1 < len(members) && members[i+1].key == m.key {
			continue // the last of equal keys counts
		}
		if written > 0 {
			out = append(out, ',')
		}
		written++
		out = append(append(appendString(out, m.key), ':'), m.value...)
	}
	return append(out, '}'), true
}

// JSONDepth is how deep arrays and objects nest in a JSON text. Cost: linear.
func JSONDepth(text string) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// compareUTF16 orders texts by their UTF-16 code units: surrogates stand below E000.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb {
			return cmp.Compare(utf16Rank(ra), utf16Rank(rb))
		}
		a, b = a[na:], b[nb:]
	}
	return cmp.Compare(len(a), len(b))
}

func utf16Rank(r rune) rune {
	if r >= 0xE000 && r <= 0xFFFF {
		return r + utf8.MaxRune
	}
	return r
}

func appendString(out []byte, text string) []byte {
	const hex, short = "0123456789abcdef", "btn_fr" // 08 to 0D; 0B has no short form
	out = append(out, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c >= 0x20:
			out = append(out, c)
		case c >= 0x08 && c <= 0x0D && c != 0x0B:
			out = append(out, '\\', short[c-0x08])
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(out, '"')
}
