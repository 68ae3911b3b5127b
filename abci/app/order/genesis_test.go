package order_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
)

func TestGenesisRoundTrip(t *testing.T) {
	c := ordertest.New(3, 2)
	raw, err := json.Marshal(c.Genesis)
	must.Do(t, err)
	g, err := order.ParseGenesis(raw)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(g)
	if err != nil || !bytes.Equal(raw, again) {
		t.Errorf("%s, %v; want %s", again, err, raw)
	}
}

func TestGenesisRefusalsNameTheField(t *testing.T) {
	for want, change := range map[string]func(*order.Genesis){
		"organisations: 0 of them": func(g *order.Genesis) { g.Organisations = nil },
		"consent: 4 of 3":          func(g *order.Genesis) { g.Consent = 4 },
		"organisations: all of them only order": func(g *order.Genesis) {
			for i := range g.Organisations {
				g.Organisations[i].OrderingOnly = true
			}
		},
		"consent: 3 of 2":                                                            func(g *order.Genesis) { g.Consent, g.Organisations[2].OrderingOnly = 3, true },
		"consent: -1 of 3":                                                           func(g *order.Genesis) { g.Consent = -1 },
		"parameters.effect_round_timeout_ms: 60001":                                  func(g *order.Genesis) { g.Parameters.EffectRoundTimeoutMS = 60_001 },
		"parameters.effect_rounds_max: -1":                                           func(g *order.Genesis) { g.Parameters.EffectRoundsMax = -1 },
		"parameters.block_client_max: -1":                                            func(g *order.Genesis) { g.Parameters.BlockClientMax = -1 },
		"parameters.block_organisation_max: 1000001":                                 func(g *order.Genesis) { g.Parameters.BlockOrganisationMax = 1_000_001 },
		"parameters.block_transactions_max: 1000001":                                 func(g *order.Genesis) { g.Parameters.BlockTransactionsMax = 1_000_001 },
		"organisations[1].name: organisation: \"X\"":                                 func(g *order.Genesis) { g.Organisations[1].Name = "X" },
		"organisations[1].name: the same as organisations[0].name":                   func(g *order.Genesis) { g.Organisations[1].Name = "o0" },
		"organisations[2].gateway_key: 1 bytes":                                      func(g *order.Genesis) { g.Organisations[2].GatewayKey = []byte{1} },
		"organisations[2].validators: none":                                          func(g *order.Genesis) { g.Organisations[2].Validators = nil },
		"organisations[2].validators[0]: 0 bytes":                                    func(g *order.Genesis) { g.Organisations[2].Validators[0] = nil },
		"organisations[2].validators[0]: the same as organisations[1].validators[0]": func(g *order.Genesis) { g.Organisations[2].Validators[0] = g.Organisations[1].Validators[0] },
		"organisations[0].validators[0]: the same as organisations[0].gateway_key":   func(g *order.Genesis) { g.Organisations[0].GatewayKey = g.Organisations[0].Validators[0] },
	} {
		c := ordertest.New(3, 0)
		change(&c.Genesis)
		if err := c.Genesis.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s…", err, want)
		}
	}
	for name, text := range map[string]string{
		"unknown field": `{"organisations":[],"concent":3}`,
		"two documents": `{} {}`,
		"not JSON":      `organisations`,
		"empty":         ``,
	} {
		if _, err := order.ParseGenesis([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestEveryValidatorBelongsToAnOrganisation(t *testing.T) {
	for want, change := range map[string]func(*ordertest.Consortium){
		"belongs to no organisation": func(c *ordertest.Consortium) {
			c.Validators = append(c.Validators, order.Validator{Key: bytes.Repeat([]byte{9}, 32), Power: 1})
		},
		"is not among the genesis validators": func(c *ordertest.Consortium) { c.Validators = c.Validators[1:] },
		"want a positive power":               func(c *ordertest.Consortium) { c.Validators[0].Power = 0 },
	} {
		c := ordertest.New(3, 0)
		change(c)
		if _, err := order.NewRegistry(ordertest.ChainID, &c.Genesis, c.Validators); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want …%s…", err, want)
		}
	}
}

// The registry is in the AppHash: nodes with different rules must not agree by accident.
func TestAppHashCoversTheRegistry(t *testing.T) {
	hash := func(change func(*ordertest.Consortium)) [32]byte {
		c := ordertest.New(3, 0)
		change(c)
		return c.Registry(t).Genesis(1).AppHash()
	}
	same := hash(func(*ordertest.Consortium) {})
	if again := hash(func(c *ordertest.Consortium) {
		o := c.Genesis.Organisations
		o[0], o[2] = o[2], o[0]
	}); again != same {
		t.Error("the order of organisations in the genesis changes the AppHash")
	}
	for name, change := range map[string]func(*ordertest.Consortium){
		"consent":    func(c *ordertest.Consortium) { c.Genesis.Consent = 2 },
		"timeout":    func(c *ordertest.Consortium) { c.Genesis.Parameters.EffectRoundTimeoutMS = 1 },
		"rounds":     func(c *ordertest.Consortium) { c.Genesis.Parameters.EffectRoundsMax = 1 },
		"block":      func(c *ordertest.Consortium) { c.Genesis.Parameters.BlockTransactionsMax = 1 },
		"time":       func(c *ordertest.Consortium) { c.Genesis.Parameters.BlockTimeMaxMS = 1 },
		"client":     func(c *ordertest.Consortium) { c.Genesis.Parameters.BlockClientMax = 1 },
		"share":      func(c *ordertest.Consortium) { c.Genesis.Parameters.BlockOrganisationMax = 1 },
		"deploys":    func(c *ordertest.Consortium) { c.Genesis.Parameters.DeployTimeMaxMS = 1 },
		"name":       func(c *ordertest.Consortium) { c.Genesis.Organisations[0].Name = "other" },
		"gateway":    func(c *ordertest.Consortium) { c.Genesis.Organisations[0].GatewayKey = make([]byte, 32) },
		"ordering":   func(c *ordertest.Consortium) { c.Genesis.Consent = 2; c.OrderOnly(1) },
		"power":      func(c *ordertest.Consortium) { c.Validators[0].Power = 11 },
		"validators": func(c *ordertest.Consortium) { *c = *ordertest.New(4, 3) },
	} {
		if hash(change) == same {
			t.Errorf("another %s gives the same AppHash", name)
		}
	}
}
