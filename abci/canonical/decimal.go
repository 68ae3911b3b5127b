package canonical

import "strings"

// Digits before and after the decimal point that a number may have. They keep a short text such as
// 1e999999999 from becoming a long one.
const (
	integerDigitsMax  = 131_072
	fractionDigitsMax = 16_383
	exponentFar       = 1_000_000_000_000_000 // beyond, the bounds on digits decide anyway
)

// appendDecimal appends the canonical text of a number, with or without an exponent.
func appendDecimal(out []byte, text string) ([]byte, error) {
	switch text {
	case "NaN", "Infinity", "-Infinity":
		return append(out, text...), nil
	}
	unsigned, negative := strings.CutPrefix(text, "-")
	if !negative {
		unsigned = strings.TrimPrefix(unsigned, "+")
	}
	mantissa, exponent := unsigned, int64(0)
	if at := strings.IndexAny(unsigned, "eE"); at >= 0 {
		var ok bool
		if exponent, ok = exponentOf(unsigned[at+1:]); !ok {
			return nil, wrong("no number")
		}
		mantissa = unsigned[:at]
	}
	integer, fraction, _ := strings.Cut(mantissa, ".")
	digits := integer + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return nil, wrong("no number")
	}
	significant := strings.TrimLeft(digits, "0")
	// The point stands before this digit of the significant ones, which may be outside of them.
	point := int64(len(integer)) + exponent - int64(len(digits)-len(significant))
	significant = strings.TrimRight(significant, "0")
	count := int64(len(significant))
	switch {
	case count == 0:
		return append(out, '0'), nil
	case point > integerDigitsMax || count-point > fractionDigitsMax:
		return nil, wrong("number with too many digits")
	}
	if negative {
		out = append(out, '-')
	}
	switch {
	case point <= 0:
		out = append(append(out, '0', '.'), strings.Repeat("0", int(-point))...)
		return append(out, significant...), nil
	case point >= count:
		return append(append(out, significant...), strings.Repeat("0", int(point-count))...), nil
	}
	out = append(append(out, significant[:point]...), '.')
	return append(out, significant[point:]...), nil
}

// DecimalText is the canonical text of a number, without an exponent.
func DecimalText(text string) (string, error) {
	out, err := appendDecimal(nil, text)
	return string(out), err
}

// exponentBeyond is the first exponent that PostgreSQL does not read, of a zero either.
const exponentBeyond = 1<<30 - 1

// hasScale tells whether PostgreSQL has a number with all the zeros of a text, which count for
// nothing in the canonical one.
func hasScale(text string) bool {
	mantissa, exponent := text, int64(0)
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa = text[:at]
		exponent, _ = exponentOf(text[at+1:])
	}
	_, fraction, _ := strings.Cut(mantissa, ".")
	return int64(len(fraction))-exponent <= fractionDigitsMax && exponent < exponentBeyond && exponent > -exponentBeyond
}

// exponentOf is the number after the e, not farther from zero than exponentFar.
func exponentOf(text string) (exponent int64, ok bool) {
	digits, negative := strings.CutPrefix(text, "-")
	if !negative {
		digits = strings.TrimPrefix(digits, "+")
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	for i := range len(digits) {
		exponent = min(exponent*10+int64(digits[i]-'0'), exponentFar)
	}
	if negative {
		exponent = -exponent
	}
	return exponent, true
}

// decimalWords bounds the digits that MariaDB computes with, in words of nine on each side of the
// point. It drops those behind, and no error tells.
const (
	decimalWords = 9
	wordDigits   = 9
)

// Held tells whether MariaDB computes with so many digits before and behind the point.
func Held(integer, fraction int) bool {
	words := func(digits int) int { return (digits + wordDigits - 1) / wordDigits }
	return words(max(integer, 1))+words(fraction) <= decimalWords
}

// DigitsOf are the digits of a number before and behind the point.
func DigitsOf(v *Value) (integer, fraction int) {
	text, _ := DecimalText(v.Text) // it was read before
	before, behind, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	return len(strings.TrimLeft(before, "0")), len(behind)
}

// ComparesDigits tells whether a numeric column compares with all digits of a constant. One that is
// beyond the column is decided by those before the point.
func ComparesDigits(logical string, v *Value) bool {
	precision, scale := Digits(logical)
	integer, fraction := DigitsOf(v)
	return integer > precision-scale || Held(integer, fraction)
}
