package main

import (
	"strings"
	"testing"
)

func TestCancelCommand(t *testing.T) {
	d := openDoor(t)
	id := "03" + strings.Repeat("00", 31)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"7 3", exitOK, "this organisation votes that transaction 3 of block 7 does not end\n"},
		{"7 3 --json", exitOK, "{\n  \"block\": 7,\n  \"index\": 3\n}\n"},
		{id, exitOK, "transaction 3 of block 7"},
		{`\x` + id, exitOK, "transaction 3 of block 7"},
		{"8 3", exitFailed, "the transaction is not under way here"},
		{"0 3", exitUsage, `"0" is no number from 1 on`},
		{"7 -- -3", exitUsage, `"-3" is no number from 0 on`},
		{"7", exitUsage, "is no transaction id"},
		{id + "00", exitUsage, "is no transaction id"},
		{"", exitUsage, "accepts between 1 and 2 arg(s)"},
	} {
		code, out, errs := call("", append([]string{"cancel", "--socket", d.path}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("cancel %s: code %d, want %d: %s%s", c.args, code, c.code, out, errs)
		}
	}
	if code, _, errs := call("", "cancel", "--socket", d.path+"x", "7", "3"); code != exitUnreachable {
		t.Errorf("code %d: %s", code, errs)
	}
}
