package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// An organisation makes parts of its own on an agreed table, behind the guard. An index and a
// condition refuse rows which the others take, and a trigger changes them. They decide nothing,
// neither after its server was killed nor in a renewed session. They are gone before the next
// block, and the database names them. Nobody is excluded. The others name an extension that the
// organisation has alone.
func TestPartsOfOnesOwnDecideNothing(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	good, away, odd := net.Organisations[0], net.Organisations[1], net.Organisations[3]
	deposits(ctx, t, good, 2)
	caughtUp(ctx, t, net, odd)
	behind := func() {
		t.Helper()
		var next int64
		must(t, odd.Scan(ctx, "SELECT balance + 1 FROM checking WHERE custid = 1", &next))
		damage(ctx, t, odd, fmt.Sprintf(`CREATE OR REPLACE FUNCTION public.own() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.balance := 0; RETURN NEW; END';
			CREATE TRIGGER own BEFORE UPDATE ON public.checking FOR EACH ROW EXECUTE FUNCTION public.own();
			CREATE INDEX own_index ON public.checking ((CASE WHEN custid = 1 THEN 1 / (balance - %d) END));
			ALTER TABLE public.checking ADD CONSTRAINT own_condition CHECK (balance < 0) NOT VALID`, next))
	}
	behind()
	withItsVote(ctx, t, net, good, away, odd)

	behind()
	damage(ctx, t, odd, "CREATE EXTENSION pg_trgm")
	votesAfterRestarts(ctx, t, net, good, away, odd)

	state(ctx, t, odd, "serving")
	var left int
	must(t, odd.Scan(ctx, `SELECT (SELECT count(*) FROM pg_trigger WHERE tgname = 'own') + (SELECT count(*) FROM pg_class WHERE relname = 'own_index')
		+ (SELECT count(*) FROM pg_constraint WHERE conname = 'own_condition')`, &left))
	if left > 0 {
		t.Errorf("%d parts are left", left)
	}
	for _, part := range []string{"trigger own", "own_index", "own_condition"} {
		var named int
		must(t, odd.Scan(ctx, "SELECT count(*) FROM chainify.deviations d WHERE d::text LIKE '%"+part+"%' AND cured_by IS NOT NULL", &named))
		if named != 2 {
			t.Errorf("%d deviations name %s, 2 were wanted", named, part)
		}
	}
	must(t, harness.Poll(ctx, catchUpLimit, "another organisation to name an extension that it does not have", func(ctx context.Context) (bool, string, error) {
		said, _ := good.Run(ctx, "status") // it fails when it has a problem to tell of
		return strings.Contains(said, "pg_trgm 1.6"), said, nil
	}))
	saysNothingOf(t, net, odd, "told what is false", "effects deviate", "excluded")
	checkVerified(ctx, t, odd)
	checkSameTransactions(ctx, t, net)
}
