package e2e

import (
	"os"
	"testing"
	"time"
)

// tamperNetworkLimit bounds all of the cases together.
const tamperNetworkLimit = 60 * time.Minute

// TestTamperedOrganisationsComeBack is the tamper matrix (backend/postgres, docs/tamper-matrix.md)
// with real nodes, for changes that they put right alone or with the others' help. Each change is
// found by a block, and again by the scrubber, and the organisation goes on. Times are in the log.
func TestTamperedOrganisationsComeBack(t *testing.T) {
	if os.Getenv("CHAINIFY_TAMPER") == "" {
		t.Skip("takes minutes: run by make tamper (CHAINIFY_TAMPER=1)")
	}
	ctx := underTestFor(t, tamperNetworkLimit)
	net := indexedNetwork(ctx, t)
	good, odd := net.Organisations[0], net.Organisations[3]
	deposits(ctx, t, good, 3)
	for _, c := range []struct {
		what, damage string
		touched      bool // a block comes out otherwise because of it
	}{
		{"row", damageRow, true},
		{"row gone", damageMissing, true},
		{"row and history", damageRow + damageHistory, true},
		{"row, history and base", damageRow + damageHistory + damageCheckpoint, true},
		{"index", damageIndex, true},
		{"ledger's trigger", "ALTER TABLE checking DISABLE TRIGGER chainify_digest", true},
		{"relhastriggers", "UPDATE pg_class SET relhastriggers = false WHERE oid = 'checking'::regclass", true},
		{"trigger of one's own", "CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.balance := 5; RETURN NEW; END';" +
			"CREATE TRIGGER mine BEFORE UPDATE ON checking FOR EACH ROW EXECUTE FUNCTION mine(); ALTER TABLE checking ENABLE ALWAYS TRIGGER mine", true},
		{"indisunique", "UPDATE pg_index SET indisunique = false WHERE indexrelid = 'checking_pkey'::regclass", false},
		{"check and row", "ALTER TABLE checking DROP CONSTRAINT IF EXISTS checking_balance_check; UPDATE checking SET balance = -5 WHERE custid = 1", true},
		{"not null", "ALTER TABLE checking ALTER balance DROP NOT NULL", false},
	} {
		for _, comesBy := range []string{"touch", "scrubber"} {
			if comesBy == "touch" && !c.touched {
				continue
			}
			caughtUp(ctx, t, net, odd)
			if comesBy == "scrubber" {
				// A pass that finds all well: what is found again after its repair, with none in
				// between, waits for a minute.
				must(t, odd.Exec(ctx, "postgres", "SELECT chainify_node.scrub('checking')"))
			}
			var before int
			must(t, odd.Scan(ctx, "SELECT coalesce(max(id), 0) FROM chainify.deviations WHERE cured_by <> 'history'", &before))
			started := time.Now()
			damage(ctx, t, odd, c.damage)
			if comesBy == "touch" {
				deposits(ctx, t, good, 1)
			} else {
				must(t, odd.Exec(ctx, "postgres", "SELECT chainify_node.scrub('checking')"))
			}
			deposits(ctx, t, good, 1) // the others go on
			caughtUp(ctx, t, net, odd)
			noneOpen(ctx, t, odd)
			state(ctx, t, odd, "serving")
			must(t, odd.Exec(ctx, "postgres", "DROP FUNCTION IF EXISTS mine"))
			var by, foundBy string
			var found int
			must(t, odd.Scan(ctx, "SELECT coalesce(max(id), 0) FROM chainify.deviations WHERE cured_by <> 'history'", &found))
			if found == before {
				t.Errorf("%s, %s: nothing was found", c.what, comesBy)
				continue
			}
			must(t, odd.Scan(ctx, "SELECT cured_by, found_by FROM chainify.deviations WHERE cured_by <> 'history' ORDER BY id DESC LIMIT 1", &by, &foundBy))
			if comesBy == "touch" && foundBy != "block" {
				t.Errorf("%s: found by the %s, not by the block that touches it", c.what, foundBy)
			}
			t.Logf("%s, %s: %s after %s", c.what, comesBy, by, time.Since(started).Round(time.Millisecond))
		}
	}
	ledgerVerifies(ctx, t, odd)
	checkVerified(ctx, t, odd)
	checkSameTransactions(ctx, t, net)
}
