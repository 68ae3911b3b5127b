package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/chainify-db/chainify/abci/backend/postgres"
)

// lagMost is by how many blocks a standby may be behind without a finding.
const lagMost = 100

// examineServers looks at all servers of a DSN that names several. It returns the name of the
// primary, if there is one alone.
func examineServers(ctx context.Context, dsn string) (primary string, found []Finding) {
	seen, err := postgres.Survey(ctx, dsn)
	if err != nil {
		return "", []Finding{bad("servers", reason(err), "Correct database.dsn: at most five hosts.")}
	}
	if len(seen) < 2 {
		return "", nil
	}
	return judgeServers(seen)
}

// judgeServers: one is the primary, the others follow it.
func judgeServers(seen []postgres.Seen) (primary string, found []Finding) {
	const check = "servers"
	var primaries []postgres.Seen
	var newest postgres.Seen // of the primaries: that which the node went over to last
	for _, s := range seen {
		if s.Err == nil && !s.Standby {
			primaries = append(primaries, s)
			if len(primaries) == 1 || s.Epoch > newest.Epoch {
				newest = s
			}
		}
	}
	switch len(primaries) {
	case 0:
		found = append(found, bad(check, "none of the servers takes changes", "Promote a standby: docs/operator/failover.md."))
	case 1:
		found = append(found, fine(check, "%s is the primary, in epoch %d", newest.Name, newest.Epoch))
	default:
		var names []string
		for _, p := range primaries {
			names = append(names, fmt.Sprintf("%s (epoch %d, block %d)", p.Name, p.Epoch, p.LastBlock))
		}
		found = append(found, bad(check, "there are several primaries: "+strings.Join(names, ", "),
			"Keep the one of the highest epoch. Stop the others, and have them follow it with pg_rewind: docs/operator/failover.md."))
	}
	for _, s := range seen {
		switch {
		case s.Err != nil:
			found = append(found, warn(check, fmt.Sprintf("%s does not answer: %s", s.Name, reason(s.Err)), "Start it, or take it out of database.dsn."))
		case !s.Standby && s.SupersededBy > 0:
			found = append(found, bad(check, fmt.Sprintf("%s was left behind: the node is in epoch %d", s.Name, s.SupersededBy), "Stop it, and have it follow with pg_rewind: docs/operator/failover.md."))
		case !s.Standby || len(primaries) == 0:
		case s.Epoch != newest.Epoch:
			found = append(found, warn(check, fmt.Sprintf("standby %s knows epoch %d, the primary is in epoch %d", s.Name, s.Epoch, newest.Epoch), "Does it follow that primary (primary_conninfo, pg_stat_replication)?"))
		case s.LastBlock+lagMost < newest.LastBlock:
			found = append(found, warn(check, fmt.Sprintf("standby %s is %d blocks behind", s.Name, newest.LastBlock-s.LastBlock), "Is its replay paused, or its link slow (pg_stat_replication)?"))
		default:
			found = append(found, fine(check, "standby %s follows", s.Name))
		}
	}
	return newest.Name, found
}
