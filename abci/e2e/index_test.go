package e2e

import (
	"testing"
)

// A row takes another place, of which the primary key's index does not hear.
const damageIndex = `UPDATE pg_index SET indislive = false, indisready = false WHERE indexrelid = 'checking_pkey'::regclass;
	UPDATE pg_class SET relhasindex = true WHERE oid = 'checking'::regclass;
	WITH gone AS (DELETE FROM checking WHERE custid = 1 RETURNING *) INSERT INTO checking SELECT * FROM gone;
	UPDATE pg_index SET indislive = true, indisready = true WHERE indexrelid = 'checking_pkey'::regclass;
	UPDATE pg_class SET relhasindex = true WHERE oid = 'checking'::regclass`

// A row that its index misses makes one organisation deviate whose rows are all as agreed. It
// builds the index anew, names it and goes on, whether a block or the scrubber comes by.
func TestABrokenIndexIsBuiltAnew(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := indexedNetwork(ctx, t)
	good, odd := net.Organisations[0], net.Organisations[3]
	// On a busy machine a pass of the scrubber's own comes before the block.
	must(t, odd.Exec(ctx, "postgres", "ALTER SYSTEM SET chainify.scrub_rate = 0"))
	must(t, odd.Exec(ctx, "postgres", "SELECT pg_reload_conf()"))
	deposits(ctx, t, good, 3)
	caughtUp(ctx, t, net, odd)
	for i, c := range []struct {
		foundBy string
		find    func()
	}{
		{"block", func() { deposits(ctx, t, good, 2) }},
		{"scrubber", func() { must(t, odd.Exec(ctx, "postgres", "SELECT chainify_node.scrub('checking')")) }},
	} {
		// A pass that finds all well: what is found again after its repair, with none in between,
		// waits for a minute.
		if i > 0 {
			must(t, odd.Exec(ctx, "postgres", "SELECT chainify_node.scrub('checking')"))
		}
		damage(ctx, t, odd, damageIndex)
		c.find()
		caughtUp(ctx, t, net, odd)
		cured(ctx, t, odd, "reindex")
		var index, foundBy string
		must(t, odd.Scan(ctx, `SELECT coalesce(key->>'index', ''), found_by FROM chainify.deviations
			ORDER BY id DESC, key->>'index' = 'public.checking_pkey' DESC LIMIT 1`, &index, &foundBy))
		if index != "public.checking_pkey" || foundBy != c.foundBy {
			t.Errorf("the %s found %q, want that the %s finds public.checking_pkey", foundBy, index, c.foundBy)
		}
		state(ctx, t, odd, "serving")
	}
	checkVerified(ctx, t, odd)
	checkSameTransactions(ctx, t, net)
}
