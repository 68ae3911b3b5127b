package health

import (
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

func TestWhatIsWrongIsToldWorstFirst(t *testing.T) {
	well := func(change func(*wire.StatusResponse)) *wire.StatusResponse {
		s := &wire.StatusResponse{Organisation: "acme", State: "serving", Organisations: 4, Peers: 3, LastOrdered: 7, LastCommitted: 7}
		if change != nil {
			change(s)
		}
		return s
	}
	for name, c := range map[string]struct {
		status *wire.StatusResponse
		want   []string // what each line has, in their order
	}{
		"all is well":                        {well(nil), nil},
		"a block is being executed":          {well(func(s *wire.StatusResponse) { s.State, s.LastOrdered = "executing", 8 }), nil},
		"a node without a database":          {well(func(s *wire.StatusResponse) { s.State, s.LastCommitted = "ordering_only", 0 }), nil},
		"alone, with nobody to be connected": {well(func(s *wire.StatusResponse) { s.Organisations, s.Peers = 1, 0 }), nil},
		"no peers":                           {well(func(s *wire.StatusResponse) { s.Peers = 0 }), []string{"no other node is connected"}},
		"the database lags":                  {well(func(s *wire.StatusResponse) { s.LastOrdered = 9 }), []string{"2 blocks behind"}},
		"lag that the state explains":        {well(func(s *wire.StatusResponse) { s.State, s.LastOrdered = "catching_up", 99 }), []string{"catching up"}},
		"no database":                        {well(func(s *wire.StatusResponse) { s.State = "database_down" }), []string{"cannot be reached"}},
		"a machine that fails":               {well(func(s *wire.StatusResponse) { s.State, s.Reason = "failing", "54001" }), []string{"agree on: 54001"}},
		"a version that all know": {well(func(s *wire.StatusResponse) {
			s.Protocol = &wire.ProtocolStatus{InForce: 1, Known: 2, Next: 2, NextHeight: 9, Organisations: []*wire.ProtocolStatus_Knows{{Organisation: "bolt", Version: 2}, {Organisation: "cargo", Version: 3}}}
		}), nil},
		"a version that two may not know": {well(func(s *wire.StatusResponse) {
			s.Protocol = &wire.ProtocolStatus{InForce: 1, Known: 2, Next: 2, NextHeight: 9, Organisations: []*wire.ProtocolStatus_Knows{{Organisation: "away"}, {Organisation: "bolt", Version: 2}, {Organisation: "gone"}}}
		}), []string{"at height 9, and these were not heard to know it: away, gone"}},
		"nobody is heard, and no version comes": {well(func(s *wire.StatusResponse) {
			s.Protocol = &wire.ProtocolStatus{InForce: 1, Known: 1, Organisations: []*wire.ProtocolStatus_Knows{{Organisation: "away"}, {Organisation: "bolt", Version: 1}}}
		}), nil},
		"a version that two do not know": {well(func(s *wire.StatusResponse) {
			s.Protocol = &wire.ProtocolStatus{InForce: 1, Known: 1, Next: 2, NextHeight: 9, Organisations: []*wire.ProtocolStatus_Knows{{Organisation: "bolt", Version: 1}}}
		}), []string{"the node stops there", "at height 9, and the program of bolt knows versions up to 1"}},
		"recovery":                             {well(func(s *wire.StatusResponse) { s.State = "recovering" }), []string{"chainify.deviations"}},
		"another process signs":                {well(func(s *wire.StatusResponse) { s.State, s.Reason = "signed_elsewhere", "at order block 7" }), []string{"at order block 7"}},
		"excluded, and why":                    {well(func(s *wire.StatusResponse) { s.State, s.Reason = "excluded", "no checkpoint" }), []string{"(no checkpoint)"}},
		"a state that this version knows not":  {well(func(s *wire.StatusResponse) { s.State = "dreaming" }), []string{`"dreaming"`}},
		"outside, cut off and lagging at once": {well(func(s *wire.StatusResponse) { s.Outside, s.Peers, s.LastOrdered = true, 0, 20 }), []string{`"acme" takes no part`, "no other node", "13 blocks"}},
	} {
		got := Wrong(c.status)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %d lines", name, got, len(c.want))
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: line %d is %q, want %q in it", name, i, got[i], want)
			}
		}
	}
}
