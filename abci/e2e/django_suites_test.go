package e2e

import (
	"errors"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// djangoTests are those of Django's own tests of sessions and users that use a database.
var djangoTests = []string{
	"sessions_tests", "auth_tests.test_admin_multidb", "auth_tests.test_auth_backends", "auth_tests.test_basic", "auth_tests.test_context_processors",
	"auth_tests.test_decorators", "auth_tests.test_forms", "auth_tests.test_login", "auth_tests.test_management", "auth_tests.test_middleware",
	"auth_tests.test_migrations", "auth_tests.test_mixins", "auth_tests.test_models", "auth_tests.test_remote_user", "auth_tests.test_signals",
	"auth_tests.test_templates", "auth_tests.test_tokens", "auth_tests.test_views",
}

// Django's own tests of sessions and users pass in a database whose tables are on the ledger. Most
// roll back what they did, as Django has them. Those of sessions commit it too.
func TestDjangosOwnTestsPass(t *testing.T) {
	dir := applications(t, "django")
	applications(t, "suites")
	t.Parallel()
	ctx := underTest(t)
	project, err := filepath.Abs("applications/django")
	must(t, err)
	django := func(o *harness.Organisation, args ...string) (string, error) {
		return runs(ctx, o, "owner", []string{"PYTHONPATH=" + project + ":" + filepath.Join(dir, "suites", "tests"), "DJANGO_SETTINGS_MODULE=suite_settings"},
			filepath.Join(dir, "python", "bin", "python"), append([]string{"-m", "django"}, args...)...)
	}
	fill := copied(ctx, t, func(o *harness.Organisation) error {
		_, err := django(o, "migrate", "--run-syncdb", "-v0")
		return err
	})
	net := applicationNetwork(ctx, t, func(o *harness.Organisation) error {
		return errors.Join(o.Exec(ctx, "postgres", "CREATE ROLE owner LOGIN; GRANT CREATE ON SCHEMA public TO owner"), fill(o))
	})
	// The tests set sequences, which only their owner may.
	must(t, net.Each(func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "GRANT chainify_client TO owner; ALTER ROLE owner SET chainify.writes = 'effects'")
	}))
	acme := net.Organisation("acme")
	ran := regexp.MustCompile(`Ran (\d+) tests in [0-9.]+s`)
	for _, c := range []struct {
		runner string
		labels []string
	}{
		{"runners.RollingBackRunner", djangoTests},
		{"runners.CommittingRunner", []string{"sessions_tests.tests.DatabaseSessionTests"}},
	} {
		out, err := django(acme, append([]string{"test", "--keepdb", "--noinput", "--testrunner", c.runner}, c.labels...)...)
		must(t, err)
		t.Logf("%s: %s", c.runner, ran.FindString(out))
	}
	checkTables(ctx, t, net)
	// Each test of sessions that commits saves one.
	if got := ledgered(ctx, t, acme); got < 70 {
		t.Errorf("%d transactions on the ledger, want at least 70", got)
	}
}
