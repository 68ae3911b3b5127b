package smallbank

import (
	"context"
	"errors"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Open takes a network of empty clusters to one that serves. It fills the bank in each
// organisation, enables Chainify, starts all nodes and attaches the tables. It calls prepare for
// each organisation before its node starts. A node may take as long as limit to serve.
func (b Bank) Open(ctx context.Context, net *harness.Network, limit time.Duration, prepare func(*harness.Organisation) error) error {
	if err := net.StartDatabases(ctx); err != nil {
		return err
	}
	if err := net.Each(func(o *harness.Organisation) error { return b.Create(ctx, o) }); err != nil {
		return err
	}
	if err := net.EnableChainify(ctx); err != nil {
		return err
	}
	if err := net.Each(func(o *harness.Organisation) error {
		return errors.Join(b.CreateRoles(ctx, o), prepare(o))
	}); err != nil {
		return err
	}
	if err := net.InitNodes(ctx); err != nil {
		return err
	}
	if err := net.StartNodes(ctx, limit); err != nil {
		return err
	}
	return b.attach(ctx, net.Organisations[0])
}
