package e2e

import (
	"path/filepath"
	"testing"
)

// A program with Prisma's client works at all organisations at once: interactive transactions,
// nested writes, rows in bulk.
func TestPrismaRunsUnmodified(t *testing.T) {
	dir := applications(t, "prisma")
	t.Parallel()
	ctx := underTest(t)
	net := applicationNetwork(ctx, t, withAccounts(ctx))
	everywhere(ctx, t, net, "node", filepath.Join(dir, "prisma", "entities.js"))
	checkAccounts(ctx, t, net)
}
