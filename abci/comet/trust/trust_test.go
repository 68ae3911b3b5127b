package trust

import (
	"testing"

	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/types"
)

// The proposer priorities are as most organisations tell them, however many nodes one of them has
// that tell another thing, or nothing.
func TestAnOrganisationHasOneVoiceAboutProposerPriorities(t *testing.T) {
	priorities := func(steps int32) *types.ValidatorSet {
		set := types.NewValidatorSet([]*types.Validator{
			types.NewValidator(cmted25519.GenPrivKeyFromSecret([]byte("one")).PubKey(), 10), types.NewValidator(cmted25519.GenPrivKeyFromSecret([]byte("two")).PubKey(), 7),
		})
		set.IncrementProposerPriority(steps)
		return set
	}
	right, wrong := priorities(1), priorities(2)
	says := func(set *types.ValidatorSet, voices ...string) (out []prioritiesTold) {
		for _, voice := range voices {
			out = append(out, prioritiesTold{voice: voice, set: set})
		}
		return out
	}
	silent := func(voices ...string) []prioritiesTold { return says(nil, voices...) }
	without := func(voices ...string) []prioritiesTold {
		out := silent(voices...)
		for i := range out {
			out[i].none = true
		}
		return out
	}
	for what, c := range map[string]struct {
		told [][]prioritiesTold
		want *types.ValidatorSet
	}{
		"all agree":                        {[][]prioritiesTold{says(right, "acme", "bolt", "cargo")}, right},
		"one voice tells often":            {[][]prioritiesTold{says(right, "acme", "cargo"), says(wrong, "bolt", "bolt", "bolt", "bolt")}, right},
		"half of the nodes contradict":     {[][]prioritiesTold{says(right, "acme", "cargo", "delta"), says(wrong, "bolt", "bolt", "bolt")}, right},
		"half of the nodes are silent":     {[][]prioritiesTold{says(right, "acme", "cargo"), silent("bolt", "bolt", "bolt", "bolt")}, right},
		"one voice contradicts itself":     {[][]prioritiesTold{says(right, "acme", "cargo"), says(wrong, "bolt"), says(right, "bolt"), says(wrong, "bolt")}, right},
		"a voice beside silent ones":       {[][]prioritiesTold{says(wrong, "bolt", "bolt", "bolt"), silent("acme", "cargo")}, nil},
		"others do not have the block":     {[][]prioritiesTold{says(right, "acme"), without("bolt", "cargo", "delta")}, right},
		"a node of a voice has no block":   {[][]prioritiesTold{without("acme"), says(right, "acme")}, right},
		"half of the voices tell another":  {[][]prioritiesTold{says(right, "acme"), says(wrong, "bolt")}, nil},
		"one alone, that contradicts":      {[][]prioritiesTold{says(right, "acme"), says(wrong, "acme")}, nil},
		"nobody is there":                  {nil, nil},
		"nobody tells":                     {[][]prioritiesTold{silent("acme")}, nil},
		"most contradict themselves at it": {[][]prioritiesTold{says(right, "acme", "bolt", "cargo"), says(wrong, "bolt", "cargo")}, nil},
	} {
		var told []prioritiesTold
		for _, some := range c.told {
			told = append(told, some...)
		}
		if got := mostTell(told); got != c.want {
			t.Error(what)
		}
	}
}
