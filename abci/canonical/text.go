package canonical

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	dateLayout  = "2006-01-02"
	clockLayout = "15:04:05"
	daySeconds  = 86_400
)

// ParseText reads a value of a logical type from the text that travels: PostgreSQL's output under
// the settings of a block. It returns ErrValue for other texts.
func ParseText(logical, text string) (Value, error) {
	tag, err := TypeTag(logical)
	if err != nil {
		return Value{}, err
	}
	v := Value{Tag: tag}
	ok := true
	switch tag {
	case Boolean:
		v.Number, ok = map[string]int64{"t": 1, "true": 1, "f": 0, "false": 0}[text]
	case Integer:
		v.Number, err = strconv.ParseInt(text, 10, map[string]int{"smallint": 16, "integer": 32, "bigint": 64}[logical])
		ok = err == nil
	case Float:
		v.Float, err = strconv.ParseFloat(text, 64)
		ok = err == nil && !math.IsNaN(v.Float) && !math.IsInf(v.Float, 0) && !strings.Contains(text, "_") && !(v.Float == 0 && significant(text))
	case Bytea:
		var raw []byte
		raw, err = hex.DecodeString(strings.TrimPrefix(text, `\x`))
		v.Text, ok = string(raw), err == nil && strings.HasPrefix(text, `\x`)
	case UUID:
		v.Text, ok = parseUUID(text)
	case Date:
		day, err := time.Parse(dateLayout, text)
		v.Number, ok = day.Unix()/daySeconds, err == nil && day.Year() >= 1
	case Time:
		v.Number, ok = parseClock(text)
	case Timestamp, TimestampTZ:
		if zone := strings.TrimSuffix(text, "+00"); tag == TimestampTZ {
			text = zone
		}
		v.Number, ok = parseMoment(text)
	case Numeric:
		_, err = appendDecimal(nil, text)
		v.Text, ok = text, err == nil && !strings.Contains(text, "N") && !strings.Contains(text, "I") && hasScale(text)
	case JSON:
		canonical, err := appendJSON(nil, text)
		v.Text, ok = string(canonical), err == nil
	default: // Text
		v.Text, ok = text, utf8.ValidString(text) && !strings.Contains(text, "\x00")
	}
	if !ok {
		return Value{}, wrong("%.40q as %s", text, logical)
	}
	return v, nil
}

// significant tells whether a number's text has a digit other than zero before its exponent. One
// that is zero all the same is too small for its type.
func significant(text string) bool {
	exponent, digits := "eE", "123456789"
	if strings.ContainsAny(text, "xX") {
		exponent, digits = "pP", "123456789abcdefABCDEF"
	}
	if at := strings.IndexAny(text, exponent); at >= 0 {
		text = text[:at]
	}
	return strings.ContainsAny(text, digits)
}

// FormatText is the text of a value that ParseText, or AppendRow of the same type, gave.
func FormatText(logical string, v *Value) string {
	switch v.Tag {
	case Boolean:
		return map[int64]string{0: "f", 1: "t"}[v.Number]
	case Integer:
		return strconv.FormatInt(v.Number, 10)
	case Float:
		return strconv.FormatFloat(v.Float, 'g', -1, 64)
	case Bytea:
		return `\x` + hex.EncodeToString([]byte(v.Text))
	case UUID:
		return FormatUUID(v.Text)
	case Date:
		return time.Unix(v.Number*daySeconds, 0).UTC().Format(dateLayout)
	case Time:
		return FormatClock(v.Number)
	case Timestamp:
		return FormatMoment(v.Number)
	case TimestampTZ:
		return FormatMoment(v.Number) + "+00"
	case Numeric:
		return padded(logical, v.Text)
	default:
		return v.Text
	}
}

// Fits tells whether a column of a type takes a value without an error: numerics by the digits that
// rounding leaves, texts by their characters but trailing blanks. Values of other types always fit.
func Fits(logical string, v *Value) bool {
	if length, ok := arguments(logical, "varchar", 1); ok {
		cut := strings.TrimRight(v.Text, " ")
		return utf8.RuneCountInString(cut) <= length[0]
	}
	size, ok := arguments(logical, "numeric", 2)
	if !ok {
		return true
	}
	canonical, err := appendDecimal(nil, v.Text)
	if err != nil {
		return false
	}
	integer, fraction, _ := strings.Cut(strings.TrimPrefix(string(canonical), "-"), ".")
	integer = strings.TrimLeft(integer, "0")
	most := size[0] - size[1]
	nines := len(integer) == most && strings.Trim(integer, "9") == ""
	roundsUp := len(fraction) > size[1] && strings.Trim(fraction[:size[1]], "9") == "" && fraction[size[1]] >= '5'
	return len(integer) <= most && !(nines && roundsUp)
}

// padded adds the zeros behind the point that the type has.
func padded(logical, text string) string {
	size, ok := arguments(logical, "numeric", 2)
	if !ok || size[1] == 0 {
		return text
	}
	integer, fraction, _ := strings.Cut(text, ".")
	return integer + "." + fraction + strings.Repeat("0", max(0, size[1]-len(fraction)))
}

// FormatUUID spells 16 bytes in groups.
func FormatUUID(raw string) string {
	h := hex.EncodeToString([]byte(raw))
	if len(h) != 2*uuidBytes {
		return h
	}
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func parseUUID(text string) (string, bool) {
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	return string(raw), err == nil && len(raw) == uuidBytes && FormatUUID(string(raw)) == text
}

// FormatClock is a time of the day, 24:00:00 included.
func FormatClock(micros int64) string {
	seconds := micros / 1_000_000
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60) + fractionOf(micros%1_000_000)
}

// FormatMoment is a timestamp without a zone.
func FormatMoment(micros int64) string {
	moment := time.UnixMicro(micros).UTC()
	return moment.Format(dateLayout+" "+clockLayout) + fractionOf(int64(moment.Nanosecond()/1000))
}

func fractionOf(micros int64) string {
	if micros == 0 {
		return ""
	}
	return "." + strings.TrimRight(fmt.Sprintf("%06d", micros), "0")
}

func parseClock(text string) (int64, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if whole == "24:00:00" {
		return dayMicros, strings.Trim(fraction, "0") == ""
	}
	clock, err := time.Parse(clockLayout, text)
	if err != nil || len(whole) != len(clockLayout) || len(fraction) > 6 {
		return 0, false
	}
	return clock.Sub(clock.Truncate(24 * time.Hour)).Microseconds(), true
}

func parseMoment(text string) (int64, bool) {
	_, fraction, _ := strings.Cut(text, ".")
	moment, err := time.Parse(dateLayout+" "+clockLayout, text)
	return moment.UnixMicro(), err == nil && moment.Year() >= 1 && len(fraction) <= 6 && !strings.Contains(text, ",")
}
