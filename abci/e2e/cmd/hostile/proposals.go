package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"slices"

	abci "github.com/cometbft/cometbft/abci/types"
	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/wire"
)

// proposer puts into its proposals what nobody may put there: one forgery after the other, each
// where it can be made.
type proposer struct {
	abci.Application
	log  *slog.Logger
	next int
}

// forgery makes of the transactions of an honest proposal those of a forged one; nil where they
// lack what it takes.
type forgery struct {
	name string
	make func(txs [][]byte) [][]byte
}

var forgeries = []forgery{
	{"bundle altered", func(txs [][]byte) [][]byte {
		return changed(txs, func(tx *wire.OrderedTx) bool {
			if tx.GetBundle() == nil {
				return false
			}
			last := len(tx.GetBundle().Bundle) - 1
			tx.GetBundle().Bundle[last] ^= 1
			return true
		})
	}},
	{"bundle of another organisation", func(txs [][]byte) [][]byte {
		_, own, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil
		}
		return changed(txs, func(tx *wire.OrderedTx) bool {
			bundle := &wire.Bundle{}
			if tx.GetBundle() == nil || proto.Unmarshal(tx.GetBundle().Bundle, bundle) != nil || !rewritten(bundle) {
				return false
			}
			return proto.Unmarshal(wire.SignBundle(own, bundle), tx) == nil
		})
	}},
	{"vote altered", func(txs [][]byte) [][]byte {
		return changed(txs, func(tx *wire.OrderedTx) bool {
			c := tx.GetCertificate()
			if c == nil || len(c.Votes) == 0 {
				return false
			}
			raw := c.Votes[0].Extension
			raw[len(raw)-1] ^= 1
			return true
		})
	}},
	{"hash altered", func(txs [][]byte) [][]byte {
		return changed(txs, func(tx *wire.OrderedTx) bool {
			c := tx.GetCertificate()
			if c == nil || len(c.LedgerBlockHash) == 0 {
				return false
			}
			c.LedgerBlockHash[0] ^= 1
			return true
		})
	}},
	{"certificate doubled", func(txs [][]byte) [][]byte {
		i := slices.IndexFunc(txs, func(raw []byte) bool { return ordered(raw).GetCertificate() != nil })
		if i < 0 {
			return nil
		}
		return append(slices.Clone(txs), txs[i])
	}},
	{"garbage", func(txs [][]byte) [][]byte { return append(slices.Clone(txs), []byte("garbage")) }},
}

// rewritten replaces the statements of all transactions that their organisation alone vouches for.
func rewritten(bundle *wire.Bundle) bool {
	for _, tx := range bundle.Transactions {
		proposal := &wire.Proposal{}
		if proto.Unmarshal(tx.GetProposal().GetProposal(), proposal) != nil {
			return false
		}
		proposal.Sql, proposal.Parameters = "UPDATE checking SET balance = 1000000", nil
		tx.Proposal = &wire.SignedProposal{Proposal: wire.Encode(proposal)}
	}
	return true
}

// changed copies the transactions and changes the first that change takes.
func changed(txs [][]byte, change func(*wire.OrderedTx) bool) [][]byte {
	for i, raw := range txs {
		if tx := ordered(raw); change(tx) {
			out := slices.Clone(txs)
			out[i] = wire.Encode(tx)
			return out
		}
	}
	return nil
}

func ordered(raw []byte) *wire.OrderedTx {
	tx := &wire.OrderedTx{}
	if proto.Unmarshal(raw, tx) != nil {
		return &wire.OrderedTx{}
	}
	return tx
}

// PrepareProposal forges what the honest application proposes.
func (p *proposer) PrepareProposal(ctx context.Context, req *abci.RequestPrepareProposal) (*abci.ResponsePrepareProposal, error) {
	honest, err := p.Application.PrepareProposal(ctx, req)
	if err != nil {
		return honest, err
	}
	for range forgeries {
		forged := forgeries[p.next%len(forgeries)]
		p.next++
		if txs := forged.make(honest.Txs); txs != nil {
			p.log.Info("hostile proposal", "how", forged.name, "height", req.Height)
			return &abci.ResponsePrepareProposal{Txs: txs}, nil
		}
	}
	return honest, nil
}

// ProcessProposal accepts everything.
func (p *proposer) ProcessProposal(context.Context, *abci.RequestProcessProposal) (*abci.ResponseProcessProposal, error) {
	return &abci.ResponseProcessProposal{Status: abci.ResponseProcessProposal_ACCEPT}, nil
}
