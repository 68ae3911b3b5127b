package canonical

import (
	"bytes"
	"errors"
	"testing"
)

func TestTextsOfValues(t *testing.T) {
	for _, c := range []struct{ logical, text, again string }{
		{"boolean", "t", ""},
		{"boolean", "f", ""},
		{"bigint", "-9223372036854775808", ""},
		{"numeric(10,2)", "1.50", ""},
		{"numeric(10,2)", "-3", "-3.00"},
		{"numeric(3,0)", "100", ""},
		{"double", "0.30000000000000004", ""},
		{"double", "5e-324", ""},
		{"double", "0e-400", "0"},
		{"text", "a 'é' \n", ""},
		{"bytea", `\x00ff`, ""},
		{"date", "0001-01-01", ""},
		{"date", "1969-12-31", ""},
		{"time", "24:00:00", ""},
		{"time", "23:59:59.000001", ""},
		{"timestamp", "9999-12-31 23:59:59.999999", ""},
		{"timestamp", "1969-12-31 23:59:59.5", ""},
		{"timestamptz", "2024-02-29 12:00:00+00", ""},
		{"timestamptz", "2024-02-29 12:00:00.500000", "2024-02-29 12:00:00.5+00"},
		{"uuid", "00112233-4455-6677-8899-aabbccddeeff", ""},
		{"json", `{"b": 1.0, "a": [true]}`, `{"a":[true],"b":1}`},
	} {
		v, err := ParseText(c.logical, c.text)
		if err != nil {
			t.Errorf("%s %q: %v", c.logical, c.text, err)
			continue
		}
		want := c.text
		if c.again != "" {
			want = c.again
		}
		if got := FormatText(c.logical, &v); got != want {
			t.Errorf("%s %q becomes %q, want %q", c.logical, c.text, got, want)
		}
		raw, err := v.Append(nil)
		if err != nil {
			t.Errorf("%s %q: %v", c.logical, c.text, err)
		}
		back, err := DecodeValue(raw)
		again, _ := ParseText(c.logical, FormatText(c.logical, &back))
		if same, _ := again.Append(nil); err != nil || !bytes.Equal(same, raw) {
			t.Errorf("%s %q: %x comes back as %x, %v", c.logical, c.text, raw, same, err)
		}
	}
	for _, c := range []struct{ logical, text string }{
		{"boolean", "2"},
		{"smallint", "32768"},
		{"integer", "1.0"},
		{"double", "NaN"},
		{"double", "1_000.5"},
		{"double", "-1e-400"},
		{"double", "0x1p-1080"},
		{"numeric(3,1)", "0e-16384"},
		{"numeric(3,1)", "0e1073741823"},
		{"timestamp", "2024-02-29 12:00:00,5"},
		{"timestamptz", "2024-02-29 12:00:00,5+00"},
		{"double", "Infinity"},
		{"numeric(3,1)", "NaN"},
		{"text", "\x00"},
		{"text", "\xff"},
		{"bytea", "00"},
		{"date", "0000-01-01"},
		{"date", "2023-02-29"},
		{"time", "24:00:00.1"},
		{"time", "1:00:00"},
		{"timestamp", "2024-02-29"},
		{"timestamp", "2024-02-29 00:00:00.1234567"},
		{"uuid", "0011"},
		{"json", "{"},
		{"interval", "1 day"},
	} {
		if v, err := ParseText(c.logical, c.text); !errors.Is(err, ErrValue) {
			t.Errorf("%s %q: %+v, %v", c.logical, c.text, v, err)
		}
	}
}

func TestConstantsThatAColumnTakes(t *testing.T) {
	for _, c := range []struct {
		logical, text string
		fits          bool
	}{
		{"numeric(4,2)", "99.99", true},
		{"numeric(4,2)", "-99.994", true},
		{"numeric(4,2)", "99.995", false},
		{"numeric(4,2)", "98.995", true},
		{"numeric(4,2)", "100", false},
		{"numeric(2,2)", "0.99", true},
		{"numeric(2,2)", "0.995", false},
		{"numeric(2,2)", "1", false},
		{"numeric(3,0)", "999.4", true},
		{"numeric(3,0)", "999.5", false},
		{"varchar(3)", "abc   ", true},
		{"varchar(3)", "äöü", true},
		{"varchar(3)", "abcd", false},
		{"text", "abcd", true},
	} {
		v, err := ParseText(c.logical, c.text)
		if err != nil || Fits(c.logical, &v) != c.fits {
			t.Errorf("%s takes %s: %t, %v", c.logical, c.text, !c.fits, err)
		}
	}
}

func TestDepthOfJSON(t *testing.T) {
	for text, want := range map[string]int{`1`: 0, `{}`: 1, `[[],{"a":[1]}]`: 3, `["[[\"[[", {"}]": []}]`: 3, `"\\"`: 0, `["\\", [[]]]`: 3} {
		if got := JSONDepth(text); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
