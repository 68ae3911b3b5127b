package main

import (
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

func TestAChangeOfClientsIsIn(t *testing.T) {
	key, other := []byte("key"), []byte("other")
	clerk := &wire.ClientsResponse_Client{Key: key, Role: "clerk"}
	teller := &wire.ClientsResponse_Client{Key: other, Role: "teller"}
	for name, c := range map[string]struct {
		changes uint64
		clients []*wire.ClientsResponse_Client
		role    string
		in      bool
		refused bool
	}{
		"no block holds it":       {4, []*wire.ClientsResponse_Client{clerk}, "clerk", false, false},
		"added":                   {5, []*wire.ClientsResponse_Client{clerk, teller}, "clerk", true, false},
		"added, and others since": {9, []*wire.ClientsResponse_Client{clerk, teller}, "clerk", true, false},
		"for another role":        {5, []*wire.ClientsResponse_Client{clerk}, "teller", false, true},
		"another key was added":   {5, []*wire.ClientsResponse_Client{teller}, "clerk", false, true},
		"removed":                 {5, []*wire.ClientsResponse_Client{teller}, "", true, false},
		"another was removed":     {5, []*wire.ClientsResponse_Client{clerk}, "", false, true},
	} {
		in, err := isIn(&wire.ClientsResponse{Changes: c.changes, Clients: c.clients}, &wire.ClientChange{Sequence: 5, Key: key, Role: c.role})
		if in != c.in || (err != nil) != c.refused {
			t.Errorf("%s: %t, %v", name, in, err)
		}
	}
}
