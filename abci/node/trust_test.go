package node

import (
	"testing"

	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/types"
)

// The turns to propose are as most organisations tell them, however many nodes one of them has that
// tell another thing, or nothing.
func TestAnOrganisationHasOneVoiceAboutTurns(t *testing.T) {
	turns := func(steps int32) *types.ValidatorSet {
		set := types.NewValidatorSet([]*types.Validator{
			types.NewValidator(cmted25519.GenPrivKeyFromSecret([]byte("one")).PubKey(), 10), types.NewValidator(cmted25519.GenPrivKeyFromSecret([]byte("two")).PubKey(), 7),
		})
		set.IncrementProposerPriority(steps)
		return set
	}
	right, wrong := turns(1), turns(2)
	says := func(set *types.ValidatorSet, voices ...string) (out []turnsTold) {
		for _, voice := range voices {
			out = append(out, turnsTold{voice: voice, turns: set})
		}
		return out
	}
	silent := func(voices ...string) []turnsTold { return says(nil, voices...) }
	without := func(voices ...string) []turnsTold {
		out := silent(voices...)
		for i := range out {
			out[i].none = true
		}
		return out
	}
	for what, c := range map[string]struct {
		told [][]turnsTold
		want *types.ValidatorSet
	}{
		"all agree":                        {[][]turnsTold{says(right, "acme", "bolt", "cargo")}, right},
		"one voice tells often":            {[][]turnsTold{says(right, "acme", "cargo"), says(wrong, "bolt", "bolt", "bolt", "bolt")}, right},
		"half of the nodes contradict":     {[][]turnsTold{says(right, "acme", "cargo", "delta"), says(wrong, "bolt", "bolt", "bolt")}, right},
		"half of the nodes are silent":     {[][]turnsTold{says(right, "acme", "cargo"), silent("bolt", "bolt", "bolt", "bolt")}, right},
		"one voice contradicts itself":     {[][]turnsTold{says(right, "acme", "cargo"), says(wrong, "bolt"), says(right, "bolt"), says(wrong, "bolt")}, right},
		"a voice beside silent ones":       {[][]turnsTold{says(wrong, "bolt", "bolt", "bolt"), silent("acme", "cargo")}, nil},
		"others do not have the block":     {[][]turnsTold{says(right, "acme"), without("bolt", "cargo", "delta")}, right},
		"a node of a voice has no block":   {[][]turnsTold{without("acme"), says(right, "acme")}, right},
		"half of the voices tell another":  {[][]turnsTold{says(right, "acme"), says(wrong, "bolt")}, nil},
		"one alone, that contradicts":      {[][]turnsTold{says(right, "acme"), says(wrong, "acme")}, nil},
		"nobody is there":                  {nil, nil},
		"nobody tells":                     {[][]turnsTold{silent("acme")}, nil},
		"most contradict themselves at it": {[][]turnsTold{says(right, "acme", "bolt", "cargo"), says(wrong, "bolt", "cargo")}, nil},
	} {
		var told []turnsTold
		for _, some := range c.told {
			told = append(told, some...)
		}
		if got := mostTell(told); got != c.want {
			t.Error(what)
		}
	}
}
