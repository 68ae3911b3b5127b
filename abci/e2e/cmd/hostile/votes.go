package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// voter executes every block and votes for something else: one lie after the other.
type voter struct {
	abci.Application
	own   string
	log   *slog.Logger
	next  int
	heard []byte // the last vote of another organisation
	voted []byte // the last true vote of its own
}

// lies are what it votes instead of what came of the block; nil where it has nothing to say so
// with.
var lies = []struct {
	name string
	make func(v *voter, honest wire.EffectVote) []byte
}{
	{"another hash", func(v *voter, honest wire.EffectVote) []byte {
		var hash wire.Hash
		_, _ = rand.Read(hash[:]) // it never fails
		return wire.NewEffectsVote(honest.Key(), v.own, hash).Encode()
	}},
	{"the vote of another", func(v *voter, _ wire.EffectVote) []byte { return v.heard }},
	{"the vote before", func(v *voter, _ wire.EffectVote) []byte { return v.voted }},
	{"stuck", func(_ *voter, honest wire.EffectVote) []byte { return wire.NewStuckVote(honest.Key(), 0).Encode() }},
	{"nothing", func(*voter, wire.EffectVote) []byte { return []byte{} }},
}

// ExtendVote lies about the effects whenever there are any.
func (v *voter) ExtendVote(ctx context.Context, req *abci.RequestExtendVote) (*abci.ResponseExtendVote, error) {
	res, err := v.Application.ExtendVote(ctx, req)
	if err != nil || len(res.VoteExtension) == 0 {
		return res, err
	}
	honest, err := wire.DecodeEffectVote(res.VoteExtension)
	if err != nil {
		return nil, err
	}
	for range lies {
		lie := lies[v.next%len(lies)]
		v.next++
		if raw := lie.make(v, honest); raw != nil && !bytes.Equal(raw, res.VoteExtension) {
			v.log.Info("hostile vote", "how", lie.name, "height", req.Height)
			v.voted = res.VoteExtension
			return &abci.ResponseExtendVote{VoteExtension: raw}, nil
		}
	}
	return res, nil
}

// VerifyVoteExtension hears what others vote.
func (v *voter) VerifyVoteExtension(ctx context.Context, req *abci.RequestVerifyVoteExtension) (*abci.ResponseVerifyVoteExtension, error) {
	if len(req.VoteExtension) > 0 {
		v.heard = req.VoteExtension
	}
	return v.Application.VerifyVoteExtension(ctx, req)
}
