package e2e

import (
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// One organisation deploys a table, a function and rights; another uses them; the definitions are
// the same everywhere.
func TestDefinitionsReachEveryOrganisation(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	must(t, net.Each(func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "GRANT CREATE ON SCHEMA public TO dba")
	}))
	one, another := net.Organisations[0], net.Organisations[1]

	must(t, one.Exec(ctx, "dba", `SELECT chainify.deploy($$
		CREATE TABLE loans (id bigint PRIMARY KEY, custid bigint NOT NULL, amount numeric(12,2) NOT NULL CHECK (amount > 0));
		CREATE FUNCTION debt(c bigint) RETURNS numeric LANGUAGE sql STABLE AS 'SELECT coalesce(sum(amount), 0) FROM loans WHERE custid = c';
		GRANT SELECT, INSERT, UPDATE ON loans TO bank;
		GRANT EXECUTE ON FUNCTION debt(bigint) TO bank$$)`))
	must(t, another.Exec(ctx, "bank", "SELECT chainify.execute('INSERT INTO loans SELECT 1, 7, 100 - debt(7)')"))
	must(t, one.Exec(ctx, "dba", "SELECT chainify.deploy('ALTER TABLE loans ADD COLUMN due date NOT NULL DEFAULT now()::date, ALTER COLUMN amount TYPE numeric(14,2)')"))
	must(t, another.Exec(ctx, "bank", "SELECT chainify.execute('UPDATE loans SET amount = amount - 1 WHERE id = 1')"))
	if err := another.Exec(ctx, "dba", "SELECT chainify.deploy('DROP TABLE loans; DROP TABLE missing')"); err == nil {
		t.Error("a deployment that fails in its second statement raised nothing")
	}

	waitSame(ctx, t, net.Organisations, 1)
	for _, o := range net.Organisations {
		var amount, findings string
		must(t, o.Scan(ctx, "SELECT amount::text FROM loans WHERE id = 1 AND debt(7) = amount", &amount))
		if amount != "99.00" {
			t.Errorf("%s: amount %s, want 99.00", o.Name, amount)
		}
		storesCertificates(ctx, t, o)
		must(t, o.Scan(ctx, `SELECT coalesce(string_agg(v::text, '; '), '') FROM (SELECT what || detail FROM chainify.verify_ledger()
			UNION ALL SELECT what || found::text FROM chainify.verify_table('loans')) v`, &findings))
		if findings != "" {
			t.Errorf("%s: verification finds %s", o.Name, findings)
		}
		if err := o.Exec(ctx, "postgres", "CREATE OR REPLACE FUNCTION debt(c bigint) RETURNS numeric LANGUAGE sql AS 'SELECT 0.0'"); err == nil {
			t.Errorf("%s: a deployed function was replaced without the ledger", o.Name)
		}
		checkVerified(ctx, t, o)
	}
}
