package doctor

import (
	"errors"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/backend/postgres"
)

func TestServersAreJudged(t *testing.T) {
	primary := postgres.Seen{Name: "one:5432", Epoch: 2, LastBlock: 500}
	standby := postgres.Seen{Name: "two:5432", Standby: true, Epoch: 2, LastBlock: 499}
	for _, c := range []struct {
		name string
		seen []postgres.Seen
		want string // level and a part of what is found, one after the other
	}{
		{"all is well", []postgres.Seen{primary, standby}, "ok one:5432 is the primary; ok two:5432 follows"},
		{"nobody is promoted", []postgres.Seen{{Name: "one:5432", Err: errors.New("refused")}, standby}, "bad none of the servers; warn one:5432 does not answer: refused"},
		{"two primaries", []postgres.Seen{{Name: "old:5432", Epoch: 1, LastBlock: 400, SupersededBy: 2}, primary}, "bad old:5432 (epoch 1, block 400), one:5432 (epoch 2; bad old:5432 was left behind"},
		{"a standby of the old primary", []postgres.Seen{primary, {Name: "two:5432", Standby: true, Epoch: 1}}, "ok one:5432; warn knows epoch 1"},
		{"a slow standby", []postgres.Seen{primary, {Name: "two:5432", Standby: true, Epoch: 2, LastBlock: 399}}, "ok one:5432; warn 101 blocks behind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, found := judgeServers(c.seen)
			wants := strings.Split(c.want, "; ")
			if len(found) != len(wants) {
				t.Fatalf("found %+v", found)
			}
			for i, want := range wants {
				level, text, _ := strings.Cut(want, " ")
				if string(found[i].Level) != level || !strings.Contains(found[i].Found, text) {
					t.Errorf("found %+v, want %s", found[i], want)
				}
			}
		})
	}
}
