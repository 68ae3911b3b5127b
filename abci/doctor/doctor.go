// Package doctor examines an organisation's node and database, and names faults and their cures. It
// reads and changes nothing. Pure functions judge the values read.
package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/engines"
)

// Level says how bad a finding is.
type Level string

// The levels, the worst first.
const (
	Bad  Level = "bad"  // it does not work, or what is agreed may be lost
	Warn Level = "warn" // it works, and will not some day
	Fine Level = "ok"
)

// Finding is the result of one check.
type Finding struct {
	Level Level  `json:"level"`
	Check string `json:"check"`
	Found string `json:"found"`
	Mend  string `json:"mend,omitempty"` // empty when Fine
}

func fine(check, format string, a ...any) Finding {
	return Finding{Level: Fine, Check: check, Found: fmt.Sprintf(format, a...)}
}

func bad(check, found, mend string) Finding { return Finding{Bad, check, found, mend} }

func warn(check, found, mend string) Finding { return Finding{Warn, check, found, mend} }

// Examine checks a home, and the database that its configuration names.
func Examine(ctx context.Context, home config.Home, c config.Config, version string) []Finding {
	findings := examineHome(home, c)
	machine := readMachine(ctx, home, c)
	members := machine.registry.GetOrganisations()
	findings = append(findings, checkGenesis(home, c, members), checkKeys(home, c, members), checkSigning(home, c))
	findings = append(findings, judgeMachine(machine, c)...)
	rules, told := readAgreed(home, machine.registry)
	if told {
		findings = append(findings, judgeAgreed(rules)...)
	}
	findings = append(findings, judgeChoices(home, c)...)
	if c.Database.DSN != "" {
		conditions, told := engines.Examine(ctx, c.Database.DSN)
		for _, one := range conditions {
			findings = append(findings, Finding{Level(one.Level), one.Check, one.Found, one.Mend})
		}
		if !told {
			findings = append(findings, examineDatabase(ctx, home, c, version, rules.members == 1, machine.peerUID)...)
		}
	}
	if c.Explorer.Listen != "" {
		findings = append(findings, examineExplorer(ctx, home, c))
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return rank(a.Level) - rank(b.Level) })
	return findings
}

func rank(l Level) int { return slices.Index([]Level{Bad, Warn, Fine}, l) }
