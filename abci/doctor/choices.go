package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

// Choices that are allowed, and less safe than others; docs/operator/defaults.md gives the reasons.

// rolesNamed is how many roles a finding names.
const rolesNamed = 10

// agreed are the consortium's rules: those in force, of a node that runs, or those of the founding.
type agreed struct {
	members      int // with a database
	consent      int
	power        map[string]int64
	organisation int // transactions of one in a block; 0: as many as it holds
	snapshots    int // order blocks from one to the next; 0: there are none
}

// readAgreed gives the rules; false where neither node nor genesis tells them.
func readAgreed(home config.Home, running *wire.RegistryResponse) (agreed, bool) {
	if running != nil {
		a := agreed{consent: int(running.Consent), power: map[string]int64{}, organisation: int(running.BlockShares.GetOrganisation()), snapshots: int(running.SnapshotEvery)}
		for _, m := range running.Organisations {
			if !m.OrderingOnly {
				a.members++
			}
			for _, v := range m.Validators {
				a.power[m.Organisation] += int64(v.Power) // at most the total of CometBFT, 2^60
			}
		}
		return a, true
	}
	doc, state, err := home.LoadGenesis()
	if err != nil {
		return agreed{}, false
	}
	a := agreed{consent: state.ConsentIn(0), power: map[string]int64{}, organisation: state.Parameters.BlockOrganisationMax, snapshots: state.Parameters.SnapshotEvery}
	for _, o := range state.Organisations {
		if !o.OrderingOnly {
			a.members++
		}
	}
	for _, v := range doc.Validators {
		a.power[v.Name] += v.Power
	}
	return a, true
}

// indispensable are organisations without which nothing is ordered.
func (a agreed) indispensable() []string {
	var total int64
	for _, power := range a.power {
		total += power
	}
	var out []string
	for _, name := range sorted(a.power) {
		if 3*(total-a.power[name]) <= 2*total {
			out = append(out, name)
		}
	}
	return out
}

// judgeAgreed names choices of the consortium that let one organisation harm the others. One that
// is alone has none to harm.
func judgeAgreed(a agreed) []Finding {
	if a.members < 2 {
		return nil
	}
	needed := a.indispensable()
	return apply([]rule{
		{
			"shares of a block", a.organisation == 0, Warn, "one organisation may fill each block of the order",
			"chainify governance propose --block-organisation-max 2000 --block-client-max 500: docs/operator/members.md.",
		},
		{
			"consent", a.consent == a.members || 2*a.consent <= a.members, Warn,
			fmt.Sprintf("%d of %d organisations have to agree: %s", a.consent, a.members, map[bool]string{true: "one that is away stops every block", false: "two groups with other data could both reach it"}[a.consent == a.members]),
			"Add an organisation, or propose another number (chainify governance propose --consent): docs/operator/node.md.",
		},
		{
			"voting power", len(needed) > 0, Warn, "nothing is ordered while one of these is away: " + strings.Join(needed, ", "),
			"Four validators of equal power go on without one; one that only orders counts: docs/operator/node.md.",
		},
		{
			"snapshots", a.snapshots == 0, Warn, "the chain makes none: a node that joins has to fetch all order blocks",
			"chainify governance propose --snapshot-every 1000: docs/operator/retention.md.",
		},
	})
}

// judgeChoices names choices in the home.
func judgeChoices(home config.Home, c config.Config) []Finding {
	admitted, _ := home.Admitted(c) // what cannot be read is another check's
	var missing []string
	for _, step := range backend.Steps() {
		if !slices.Contains(c.Recovery.Steps, step.String()) {
			missing = append(missing, step.String())
		}
	}
	return append(apply([]rule{
		{
			"order blocks", c.Retention.OrderBlocks == 0, Warn, "retention.order_blocks is 0: the node keeps all, and its disk grows for ever",
			"Set it to more than are made between two backups: docs/operator/retention.md. One organisation may keep all for the others.",
		},
		{
			"old blocks", c.Retention.HistoryBlocks == 0, Warn, "retention.history_blocks is 0: the database keeps all blocks, and grows for ever",
			"Archive them, and drop what is archived: docs/operator/archive.md.",
		},
		{
			"snapshots kept", c.Retention.Snapshots == 0, Warn, "retention.snapshots is 0: no node joins from this one",
			"Set retention.snapshots to 10.",
		},
		{
			"durability", c.Database.SynchronousCommit == "off", Warn, `database.synchronous_commit is "off": rows that were seen may be gone for seconds after a crash`,
			`database.synchronous_commit = "on": docs/operator/execution.md.`,
		},
		{
			"recovery steps", len(missing) > 0, Warn, "recovery.steps leaves out: " + strings.Join(missing, ", "),
			"Add them, unless you mean to decide yourself: docs/operator/recovery.md.",
		},
		{
			"last step", c.Recovery.FullBlocksMax < 0, Warn, "recovery.full_blocks_max is -1: all blocks are executed again without a question, and tampered rows are not kept",
			"Set it back to 100 once that is done.",
		},
		{
			"admitted nodes", len(admitted) > 0, Warn, fmt.Sprintf("%d nodes read the order although no member need vouch for them", len(admitted)),
			"Take those out of network.admitted_file that joined, or have no more to do here.",
		},
		{
			"strict addresses", !c.Network.StrictAddresses, Warn, "network.strict_addresses is false: one address may take the places of many nodes",
			"Set it to true, unless nodes see each other at private addresses. A firewall lets in members alone: docs/ports.md.",
		},
		{
			"metrics", !c.MetricsOnLoopback(), Warn, "are served at " + c.Metrics.Listen + " in clear, to anybody: names of organisations and amounts",
			"Set metrics.listen to loopback, or have a firewall let in Prometheus alone.",
		},
	}), judgeHTTP(c.HTTP))
}

// judgeHTTP says who may read: in clear, that is the accounts of this machine alone.
func judgeHTTP(h config.HTTP) Finding {
	const check = "http"
	switch {
	case h.Listen == "":
		return fine(check, "is off")
	case h.TLSCertFile == "":
		return fine(check, "in clear at %s: every account of this machine may read blocks", h.Listen)
	}
	return fine(check, "speaks TLS at %s", h.Listen)
}

// ledgerRulesSQL reads rules of the ledger, and client roles that are for every organisation.
const ledgerRulesSQL = `
SELECT s.deploys, s.determinism, ARRAY(
    SELECT r.rolname::text FROM pg_roles r
    WHERE NOT r.rolsuper AND r.rolname !~ '^chainify_' AND (pg_has_role(r.oid, 'chainify_client', 'MEMBER') OR pg_has_role(r.oid, 'chainify_admin', 'MEMBER'))
      AND NOT EXISTS (SELECT FROM chainify.role_organisations o WHERE o.role = r.rolname::text)
    ORDER BY r.rolname::text COLLATE "C")
FROM (SELECT max(value) FILTER (WHERE name = 'deploys'), max(value) FILTER (WHERE name = 'determinism') FROM chainify.settings) s (deploys, determinism)`

// examineLedgerRules names what one member's administrator or gateway could do to all. The database
// of an organisation that is alone has nobody to fear.
func examineLedgerRules(ctx context.Context, conn *pgx.Conn) []Finding {
	var deploys, determinism string
	var roles []string
	if err := conn.QueryRow(ctx, ledgerRulesSQL).Scan(&deploys, &determinism, &roles); err != nil {
		return nil // an extension of before, none, or a role that is no member: other checks say so
	}
	return judgeLedgerRules(deploys, determinism, roles)
}

func judgeLedgerRules(deploys, determinism string, roles []string) []Finding {
	named := strings.Join(roles[:min(len(roles), rolesNamed)], ", ")
	if more := len(roles) - rolesNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return apply([]rule{
		{
			"deploys", deploys != "agreed", Warn, "an admin of one organisation changes definitions for all",
			"SELECT chainify.deploy('SET DEPLOYS agreed'), which the others approve: docs/user/agreement.md.",
		},
		{
			"determinism", determinism != "strict", Warn, "statements whose effects may differ are not refused before they run",
			"SELECT chainify.deploy('SET DETERMINISM strict'): docs/user/statements.md.",
		},
		{
			"roles of organisations", len(roles) > 0, Warn, "clients of every organisation may act as " + named,
			"Name the organisations of each (chainify.set_role_organisations), unless all share it on purpose: docs/user/agreement.md.",
		},
	})
}
