package order_test

import (
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/wire"
)

func thousand(c *ordertest.Consortium, from uint64) []byte {
	proposals := make([]*wire.Proposal, 1000)
	for i := range proposals {
		proposals[i] = c.Proposal(0, from+uint64(i), 1000)
	}
	return c.Bundle(0, proposals...)
}

// BenchmarkOpen is what a node does once with a bundle of 1,000 transactions.
func BenchmarkOpen(b *testing.B) {
	c := ordertest.New(4, 0)
	registry, raw := c.Registry(b), thousand(c, 0)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := registry.Open(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApply is what an order block with 4,000 transactions costs once its bundles are open,
// BenchmarkApplyShares the same where clients and organisations have shares.
func BenchmarkApply(b *testing.B) { benchmarkApply(b, 0) }

func BenchmarkApplyShares(b *testing.B) { benchmarkApply(b, 4000) }

func benchmarkApply(b *testing.B, share int) {
	c := ordertest.New(4, 0)
	c.Genesis.Parameters.BlockClientMax, c.Genesis.Parameters.BlockOrganisationMax = share, share
	registry := c.Registry(b)
	block := order.Block{Height: 1}
	for i := range uint64(4) {
		tx, err := registry.Open(thousand(c, 1000*i))
		if err != nil {
			b.Fatal(err)
		}
		block.Txs = append(block.Txs, tx)
	}
	state := registry.Genesis(1)
	for b.Loop() {
		if _, _, err := state.Apply(block); err != nil {
			b.Fatal(err)
		}
	}
}
