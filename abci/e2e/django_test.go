package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// djangoPurchases is the number of purchases that all organisations make by page: PURCHASES of
// flows.py, each of one piece.
const djangoPurchases = 4 * 6

// A Django project's admin pages, sessions, passwords and models work at all organisations at once.
// Its first migrations are made before its tables are on the ledger, and a later one through it.
func TestDjangoRunsUnmodified(t *testing.T) {
	dir := applications(t, "django")
	t.Parallel()
	ctx := underTest(t)
	project, err := filepath.Abs("applications/django")
	must(t, err)
	manage := func(o *harness.Organisation, role string, args ...string) (string, error) {
		return runs(ctx, o, role, nil, filepath.Join(dir, "python", "bin", "python"), append([]string{filepath.Join(project, "manage.py")}, args...)...)
	}
	fill := copied(ctx, t, func(o *harness.Organisation) error {
		for _, upTo := range [][]string{{"auth"}, {"admin"}, {"sessions"}, {"shop", "0001"}} {
			if _, err := manage(o, "owner", append([]string{"migrate", "-v0"}, upTo...)...); err != nil {
				return err
			}
		}
		return o.Exec(ctx, "owner", "INSERT INTO shop_product (name, code, stock, price, facts, changed) VALUES ('of all', gen_random_uuid(), 1000, 1, '{}', now())")
	})
	net := applicationNetwork(ctx, t, func(o *harness.Organisation) error {
		return errors.Join(o.Exec(ctx, "postgres", "CREATE ROLE owner LOGIN; GRANT CREATE ON SCHEMA public TO owner"), fill(o))
	})
	must(t, net.Each(func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "GRANT owner TO dba; GRANT CREATE ON SCHEMA public TO dba")
	}))
	acme := net.Organisation("acme")
	migrate(ctx, t, acme, manage)
	tip, err := acme.Tip(ctx)
	must(t, err)
	for _, o := range net.Organisations {
		reaches(ctx, t, o, tip.Number, catchUpLimit)
	}
	everywhere(ctx, t, net, filepath.Join(dir, "python", "bin", "python"), filepath.Join(project, "flows.py"))
	checkTables(ctx, t, net)
	for _, o := range net.Organisations {
		var stock, purchases, users int
		must(t, o.Scan(ctx, `SELECT (SELECT 1000 - stock FROM shop_product WHERE id = 1), (SELECT count(*) FROM shop_purchase WHERE product_id = 1),
			(SELECT count(*) FROM auth_user)`, &stock, &purchases, &users))
		if stock != djangoPurchases || purchases != djangoPurchases || users != len(net.Organisations) {
			t.Errorf("%s: %d pieces sold in %d purchases, want %d; %d users", o.Name, stock, purchases, djangoPurchases, users)
		}
	}
}

// migrate makes the project's second migration through the ledger: its SQL is deployed, and Django
// is told that it is done. Django's own migrate is refused.
func migrate(ctx context.Context, t *testing.T, o *harness.Organisation, manage func(*harness.Organisation, string, ...string) (string, error)) {
	t.Helper()
	if _, err := manage(o, "app", "migrate", "-v0", "shop", "0002"); err == nil || !strings.Contains(err.Error(), "is on the ledger") {
		t.Fatalf("migrate of a table on the ledger: %v", err)
	}
	sql, err := manage(o, "app", "sqlmigrate", "shop", "0002")
	must(t, err)
	sql = strings.NewReplacer("BEGIN;", "", "COMMIT;", "").Replace(sql)
	conn, err := o.Cluster.Connect(ctx, database, "dba")
	must(t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	run(ctx, t, conn, "SELECT chainify.deploy($1::text)", sql+"GRANT SELECT, INSERT, UPDATE, DELETE ON shop_review TO app")
	_, err = manage(o, "app", "migrate", "--fake", "-v0", "shop", "0002")
	must(t, err)
}
