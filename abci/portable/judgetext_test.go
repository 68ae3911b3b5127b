package portable

import (
	"errors"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

// JudgeText refuses a text for what Judge would refuse it, and leaves to Judge what the ledger
// decides.
func TestATextAloneIsJudged(t *testing.T) {
	for text, want := range map[string]bool{
		"UPDATE nowhere SET a = 1":            true,
		"CALL nothing(1)":                     true,
		"UPDATE stock SET name = lower(name)": false,
		"SELECT 1; SELECT 2":                  false,
		"INSERT INTO stock VALUES (now(), 1)": false,
	} {
		err := JudgeText(wire.Kind_KIND_SQL, text)
		var refusal *Refusal
		if (err == nil) != want || err != nil && (!errors.As(err, &refusal) || refusal.SQLState != RefusedState) {
			t.Errorf("%s: %v", text, err)
		}
		if judged := (Ledger{}).Judge(&wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: text}); err != nil && judged.Error() != err.Error() {
			t.Errorf("%s: in a block it is refused for %v, before it for %v", text, judged, err)
		}
	}
	if err := JudgeText(wire.Kind_KIND_DEPLOY, "CREATE TABLE t (id int)"); err == nil {
		t.Error("a DEPLOY of one engine passes")
	}
	if err := JudgeText(wire.Kind_KIND_EFFECTS, ""); err != nil {
		t.Errorf("EFFECTS have no text: %v", err)
	}
}
