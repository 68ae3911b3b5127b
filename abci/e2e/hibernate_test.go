package e2e

import (
	"path/filepath"
	"testing"
)

// A Java program with Hibernate's entities works at all organisations at once: version columns,
// pessimistic locks, generated keys, batches.
func TestHibernateRunsUnmodified(t *testing.T) {
	dir := filepath.Join(applications(t, "hibernate"), "hibernate")
	t.Parallel()
	ctx := underTest(t)
	net := applicationNetwork(ctx, t, withAccounts(ctx))
	everywhere(ctx, t, net, "java", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(dir, "lib")+"/*:"+filepath.Join(dir, "classes"), "Entities")
	checkAccounts(ctx, t, net)
}
