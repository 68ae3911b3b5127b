package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

// illAmong expects of these findings that so many checks, and no others, are warned of.
func illAmong(t *testing.T, about string, findings []Finding, checks string) {
	t.Helper()
	var got []string
	for _, f := range findings {
		if f.Level != Fine {
			got = append(got, f.Check)
		}
		if (f.Level == Fine) != (f.Mend == "") || f.Found == "" {
			t.Errorf("%s: half a finding: %+v", about, f)
		}
	}
	if strings.Join(got, ", ") != checks {
		t.Errorf("%s: %q, want %q", about, strings.Join(got, ", "), checks)
	}
}

func TestRulesThatLetOneHarmAllAreNamed(t *testing.T) {
	power := func(of ...int64) map[string]int64 {
		out := map[string]int64{}
		for i, p := range of {
			out[fmt.Sprintf("org%d", i)] = p
		}
		return out
	}
	for about, c := range map[string]struct {
		rules agreed
		ill   string
	}{
		"four as they should be":  {agreed{4, 3, power(10, 10, 10, 10), 2000, 1000}, ""},
		"no shares, no snapshots": {agreed{4, 3, power(10, 10, 10, 10), 0, 0}, "shares of a block, snapshots"},
		"consent of all":          {agreed{4, 4, power(10, 10, 10, 10), 1, 1}, "consent"},
		"consent of half":         {agreed{4, 2, power(10, 10, 10, 10), 1, 1}, "consent"},
		"three, and one orders":   {agreed{3, 2, power(10, 10, 10, 10), 1, 1}, ""},
		"three":                   {agreed{3, 2, power(10, 10, 10), 1, 1}, "voting power"},
		"one with much power":     {agreed{4, 3, power(20, 10, 10, 10), 1, 1}, "voting power"},
		"alone":                   {agreed{1, 1, power(10), 0, 0}, ""},
	} {
		illAmong(t, about, judgeAgreed(c.rules), c.ill)
	}
	if needed := (agreed{power: power(20, 10, 10, 10)}).indispensable(); strings.Join(needed, " ") != "org0" {
		t.Errorf("needed: %q, want org0", needed)
	}
}

func TestRulesAreThoseInForceOrOfTheFounding(t *testing.T) {
	p := newPatient(t)
	founded, told := readAgreed(p.home, nil)
	if !told || founded.members != 1 || founded.consent != 1 || founded.power["acme"] != 10 {
		t.Errorf("by the genesis: %+v, %t", founded, told)
	}
	running := &wire.RegistryResponse{Consent: 2, SnapshotEvery: 9, BlockShares: &wire.BlockShares{Organisation: 7}, Organisations: []*wire.Member{
		{Organisation: "acme", Validators: []*wire.ValidatorPower{{Power: 3}, {Power: 4}}}, {Organisation: "notary", OrderingOnly: true, Validators: []*wire.ValidatorPower{{Power: 1}}},
	}}
	now, told := readAgreed(p.home, running)
	if !told || now.members != 1 || now.consent != 2 || now.power["acme"] != 7 || now.power["notary"] != 1 || now.organisation != 7 || now.snapshots != 9 {
		t.Errorf("by the node: %+v, %t", now, told)
	}
	if _, told := readAgreed(config.Home(t.TempDir()), nil); told {
		t.Error("a home without a genesis tells rules")
	}
}

func TestChoicesOfTheHomeAreNamed(t *testing.T) {
	p := newPatient(t)
	safe := p.config
	safe.Retention.OrderBlocks, safe.Retention.HistoryBlocks, safe.Network.StrictAddresses = 200_000, 1_000_000, true
	illAmong(t, "safe", judgeChoices(p.home, safe), "")
	for ill, change := range map[string]func(*config.Config){
		"order blocks":     func(c *config.Config) { c.Retention.OrderBlocks = 0 },
		"old blocks":       func(c *config.Config) { c.Retention.HistoryBlocks = 0 },
		"snapshots kept":   func(c *config.Config) { c.Retention.Snapshots = 0 },
		"durability":       func(c *config.Config) { c.Database.SynchronousCommit = "off" },
		"recovery steps":   func(c *config.Config) { c.Recovery.Steps = c.Recovery.Steps[1:] },
		"last step":        func(c *config.Config) { c.Recovery.FullBlocksMax = -1 },
		"strict addresses": func(c *config.Config) { c.Network.StrictAddresses = false },
		"metrics":          func(c *config.Config) { c.Metrics.Listen = "0.0.0.0:26660" },
	} {
		c := safe
		change(&c)
		illAmong(t, ill, judgeChoices(p.home, c), ill)
	}
	for listen, says := range map[string]string{"": "is off", "127.0.0.1:1": "every account of this machine"} {
		if f := judgeHTTP(config.HTTP{Listen: listen}); !strings.Contains(f.Found, says) {
			t.Errorf("HTTP at %q: %+v", listen, f)
		}
	}
}

// Rules of the ledger are named with what would end them, and are fine once they were set.
func TestRulesOfTheLedgerAreNamed(t *testing.T) {
	many := strings.Fields(strings.Repeat("role ", 12))
	if f := judgeLedgerRules("free", "strict", many)[2]; !strings.HasSuffix(f.Found, "role and 2 more") {
		t.Errorf("twelve roles: %+v", f)
	}
	illAmong(t, "an open ledger", judgeLedgerRules("free", "detect", many), "deploys, determinism, roles of organisations")
	p := newPatient(t)
	p.withDatabase()
	p.exec("bank", `CREATE ROLE clerk IN ROLE chainify_client; CREATE ROLE dba IN ROLE chainify_admin; CREATE ROLE nobody`)
	look := func() []Finding {
		conn, err := p.cluster.Connect(p.Context(), "bank", "chainify_login")
		p.must(err)
		defer conn.Close(p.Context())
		return examineLedgerRules(p.Context(), conn)
	}
	found := look()
	illAmong(t, "as installed", found, "deploys, roles of organisations")
	if !strings.HasSuffix(found[2].Found, "act as clerk, dba") {
		t.Errorf("roles: %+v", found[2])
	}
	p.exec("bank", `SET chainify.guard = off; INSERT INTO chainify_ledger.setting VALUES ('deploys', 'agreed');
		INSERT INTO chainify_ledger.role_organisation VALUES ('clerk', 'acme'), ('dba', 'acme')`)
	illAmong(t, "as agreed", look(), "")
	if _, told := p.examine()["deploys"]; told {
		t.Error("an organisation that is alone is warned of the others")
	}
}
