package order

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// ClientsMax bounds the keys of one organisation's clients.
const ClientsMax = 1_000

// Clients are the keys that clients sign their proposals with themselves, each for one role of its
// organisation. An organisation's gateway alone says who they are. Never changed: a change makes
// another one.
type Clients struct {
	of   map[string]organisationClients
	hash wire.Hash // of all changes so far
}

type organisationClients struct {
	Changes uint64            `json:"changes"` // accepted so far; they go on when the organisation leaves and comes back
	Roles   map[string]string `json:"roles"`   // by key, in hexadecimal digits
}

// clientsRecord is Clients as stored.
type clientsRecord struct {
	Hash wire.Hash                      `json:"hash"`
	Of   map[string]organisationClients `json:"of"`
}

// Record returns the clients' bytes for storing them; they are never hashed.
func (c *Clients) Record() ([]byte, error) { return json.Marshal(clientsRecord{c.hash, c.of}) }

// OpenClients makes clients again of their record; nil: none were ever registered.
func OpenClients(record []byte) (*Clients, error) {
	var m clientsRecord
	if record == nil {
		return &Clients{}, nil
	}
	if err := json.Unmarshal(record, &m); err != nil {
		return nil, fmt.Errorf("decode clients: %w", err)
	}
	return &Clients{of: m.Of, hash: m.Hash}, nil
}

// Client is a key with the role it may sign for.
type Client struct {
	Key  []byte
	Role string
}

// Of lists an organisation's clients by key, and how many changes led to them.
func (c *Clients) Of(organisation string) (list []Client, changes uint64) {
	o := c.of[organisation]
	for _, key := range slices.Sorted(maps.Keys(o.Roles)) {
		raw, err := hex.DecodeString(key)
		if err != nil {
			panic(fmt.Errorf("key %q of a client: %w", key, err)) // written by change
		}
		list = append(list, Client{raw, o.Roles[key]})
	}
	return list, o.Changes
}

// RoleOf is the role that a key may sign for.
func (c *Clients) RoleOf(organisation string, key []byte) (string, bool) {
	role, known := c.of[organisation].Roles[hex.EncodeToString(key)]
	return role, known
}

// clientChange is an opened change: its organisation signed it.
type clientChange struct {
	change *wire.ClientChange
	hash   wire.Hash
}

// openClient checks the signature over the bytes as they came, and then decodes them.
func (r *Registry) openClient(s *wire.SignedClientChange) (Tx, error) {
	head := wire.PeekClientChange(s.Change)
	if head.ChainID != r.record.ChainID {
		return Tx{}, refuse(CodeMalformed, "client change.chain_id: %q, want %q", head.ChainID, r.record.ChainID)
	}
	key, votes := r.GatewayKey(head.Organisation)
	if !votes {
		return Tx{}, refuse(CodeUnknown, "client change.organisation: %q is not in the registry, or only orders", head.Organisation)
	}
	if !wire.VerifyClientChange(key, r.record.ChainID, s) {
		return Tx{}, refuse(CodeSignature, "signed client change.signature: not by the gateway of %q", head.Organisation)
	}
	c, err := wire.DecodeClientChange(s.Change)
	if err != nil {
		return Tx{}, &Refusal{CodeMalformed, err}
	}
	return Tx{client: &clientChange{c, sha256.Sum256(s.Change)}}, nil
}

// accepts says why a change cannot be accepted now, or nil.
func (c *Clients) accepts(change *wire.ClientChange) error {
	o := c.of[change.Organisation]
	_, known := c.RoleOf(change.Organisation, change.Key)
	switch {
	case change.Sequence != o.Changes+1:
		return fmt.Errorf("client change %d of %q, want %d", change.Sequence, change.Organisation, o.Changes+1)
	case change.Role == "" && !known:
		return fmt.Errorf("organisation %q has no client with key %x", change.Organisation, change.Key)
	case change.Role != "" && !known && len(o.Roles) >= ClientsMax:
		return fmt.Errorf("organisation %q has %d clients already", change.Organisation, ClientsMax)
	}
	return nil
}

func (c *Clients) change(t *clientChange) *Clients {
	next := &Clients{of: maps.Clone(c.of), hash: sha256.Sum256(slices.Concat([]byte("chainify/clients/1"), c.hash[:], t.hash[:]))}
	if next.of == nil {
		next.of = map[string]organisationClients{}
	}
	o := organisationClients{Changes: t.change.Sequence, Roles: maps.Clone(c.of[t.change.Organisation].Roles)}
	if o.Roles == nil {
		o.Roles = map[string]string{}
	}
	if key := hex.EncodeToString(t.change.Key); t.change.Role == "" {
		delete(o.Roles, key)
	} else {
		o.Roles[key] = t.change.Role
	}
	next.of[t.change.Organisation] = o
	return next
}

// staying are those of the organisations that stay; those of others have to be registered anew when
// they come back.
func (c *Clients) staying(r *Registry) *Clients {
	next := &Clients{of: map[string]organisationClients{}, hash: c.hash}
	for name, o := range c.of {
		if known, _ := r.Knows(name); !known {
			o.Roles = nil
		}
		next.of[name] = o
	}
	return next
}

// takeClients takes the changes of clients from first on and returns the index of the first bundle.
// One that is stale has result code 1 and changes nothing.
func (s *State) takeClients(b Block, first int, result *Result) int {
	for ; first < len(b.Txs) && b.Txs[first].client != nil; first++ {
		if t := b.Txs[first].client; s.clients.accepts(t.change) != nil {
			result.Codes[first] = CodeNothingLive
		} else {
			s.clients = s.clients.change(t)
		}
	}
	return first
}

// vouched reports whether the gateway vouches for the client, or its key is registered for the
// role.
func (s *State) vouched(t transaction) bool {
	if len(t.key) == 0 {
		return true
	}
	role, known := s.clients.RoleOf(t.organisation, t.key)
	return known && role == t.role
}

// Clients returns who signs proposals of its own.
func (s *State) Clients() *Clients { return s.clients }
