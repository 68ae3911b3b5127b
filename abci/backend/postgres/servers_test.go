package postgres

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/must"
)

const several = "one among several:5432"

var (
	markA = []byte("aaaaaaaaaaaaaaaa")
	markB = []byte("bbbbbbbbbbbbbbbb")
)

// answers is a server that the node follows already, changed by change.
func answers(change func(*answering)) answering {
	is := answering{Server: Server{Epoch: 3, Mark: markA, System: 7, Timeline: 2, Host: "one:5432"}}
	change(&is)
	return is
}

func TestJudge(t *testing.T) {
	known := Followed{Known: answers(func(*answering) {}).Server}
	next := answers(func(a *answering) { a.Epoch, a.Mark, a.Timeline, a.Host = 4, markB, 3, "two:5432" })
	for _, c := range []struct {
		name     string
		knows    Followed
		is       answering
		goesOver bool
		refused  string // empty: it is not
	}{
		{"the same server", known, answers(func(*answering) {}), false, ""},
		{"a new home", Followed{}, answers(func(*answering) {}), true, ""},
		{"an empty database", known, answers(func(a *answering) { a.Epoch, a.Mark = 0, nil }), true, ""},
		{"an empty database beside others", known, answers(func(a *answering) { a.Epoch, a.Mark, a.Host = 0, nil, several }), false, "never there"},
		{"a promoted standby", known, answers(func(a *answering) { a.Timeline, a.Host = 3, "two:5432" }), true, ""},
		{"a promoted standby behind the same address", known, answers(func(a *answering) { a.Timeline = 3 }), true, ""},
		{"a copy on the same timeline", known, answers(func(a *answering) { a.Host = "two:5432" }), true, ""},
		{"a server that pg_upgrade made", known, answers(func(a *answering) { a.System, a.Timeline = 8, 1 }), true, ""},
		{"the old primary", known, answers(func(a *answering) { a.Epoch, a.Mark, a.Timeline = 2, markB, 1 }), false, "epoch 2 and timeline 1"},
		{"the old primary, promoted again", known, answers(func(a *answering) { a.Epoch, a.Mark, a.Timeline = 2, markB, 9 }), false, "epoch 2"},
		{"a server that was told", known, answers(func(a *answering) { a.SupersededBy = 4 }), false, "told so in epoch 4"},
		{"a server that was told, for a new home", Followed{}, answers(func(a *answering) { a.SupersededBy = 4 }), false, "told so"},
		{"another node's", known, answers(func(a *answering) { a.Epoch, a.Mark = 4, markB }), false, "another node"},
		{"another node's, in the same epoch", known, answers(func(a *answering) { a.Mark = markB }), false, "another node"},
		{"an earlier timeline of the same epoch", known, answers(func(a *answering) { a.Timeline = 1 }), false, "its timeline is 1"},
		{"a step that a crash cut off after the server was told", Followed{Known: known.Known, Next: &next.Server}, next, false, ""},
		{"and before it was", Followed{Known: known.Known, Next: &next.Server}, answers(func(a *answering) { a.Timeline, a.Host = 3, "two:5432" }), true, ""},
		{"the operator's word", Followed{Known: known.Known, Accept: true}, answers(func(a *answering) { a.Epoch, a.Mark, a.SupersededBy = 1, markB, 2 }), true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			goesOver, err := c.knows.judge(c.is, c.is.Host == several)
			if goesOver != c.goesOver || (err == nil) != (c.refused == "") {
				t.Fatalf("goes over: %v, %v", goesOver, err)
			}
			if err != nil && (!errors.Is(err, ErrLeftBehind) || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("refused with %q, want %q", err, c.refused)
			}
		})
	}
}

// The epoch of a step is later than all that node and server know.
func TestEpochsGrow(t *testing.T) {
	is := answers(func(a *answering) { a.SupersededBy = 9 })
	for _, c := range []struct {
		knows Followed
		want  uint64
	}{
		{Followed{}, 10},
		{Followed{Known: Server{Epoch: 12}}, 13},
		{Followed{Known: Server{Epoch: 12}, Next: &Server{Epoch: 13}}, 14},
	} {
		if next := c.knows.next(is); next.Epoch != c.want || len(next.Mark) != markBytes || next.Timeline != is.Timeline {
			t.Errorf("%+v goes over to %+v, want epoch %d", c.knows, next, c.want)
		}
	}
}

// A node that knows no server begins with that of the latest epoch.
func TestByEpoch(t *testing.T) {
	hosts := byEpoch([]host{{name: "old:1"}, {name: "away:1"}, {name: "new:1"}, {name: "standby:1"}}, []Seen{
		{Name: "old:1", Epoch: 1}, {Name: "away:1", Err: errors.New("away"), Epoch: 9}, {Name: "new:1", Epoch: 2}, {Name: "standby:1", Standby: true, Epoch: 2},
	})
	if hosts[0].name != "new:1" || hosts[1].name != "old:1" {
		t.Errorf("the order is %v", hosts)
	}
}

func TestHostsOf(t *testing.T) {
	for _, c := range []struct {
		dsn   string
		names string
		limit time.Duration
		ways  int // of the first, beside one
	}{
		{"host=a,b,c port=1,2,3 dbname=x sslmode=disable", "a:1 b:2 c:3", connectLimitOf, 0},
		{"postgres://u@a:1,b:2/x?sslmode=prefer", "a:1 b:2", connectLimitOf, 1},
		{"host=a port=1", "a:1", connectLimit, 1},
		{"host=a,b port=1 connect_timeout=60 sslmode=disable", "a:1 b:1", hostsLimit / 2, 0},
		{"host=/run/one,/run/two port=1,2", "/run/one:1 /run/two:2", connectLimitOf, 0},
	} {
		config, err := pgx.ParseConfig(c.dsn)
		must.Do(t, err)
		hosts, err := hostsOf(config)
		if err != nil {
			t.Fatalf("%s: %v", c.dsn, err)
		}
		var names []string
		for _, h := range hosts {
			names = append(names, h.name)
		}
		first := hosts[0].config
		if strings.Join(names, " ") != c.names || first.ConnectTimeout != c.limit || len(first.Fallbacks) != c.ways {
			t.Errorf("%s: %v within %s each, %d further ways", c.dsn, names, first.ConnectTimeout, len(first.Fallbacks))
		}
	}
	config, err := pgx.ParseConfig("host=a,b,c,d,e,f port=1")
	if err == nil {
		_, err = hostsOf(config)
	}
	if err == nil {
		t.Error("six servers are taken")
	}
}

// The server that is followed has its turn before the others, and one that was about to be before
// that.
func TestInOrder(t *testing.T) {
	hosts := []host{{name: "a:1"}, {name: "b:1"}, {name: "c:1"}}
	for _, c := range []struct {
		knows Followed
		want  string
	}{
		{Followed{}, "a:1 b:1 c:1"},
		{Followed{Known: Server{Host: "b:1"}}, "b:1 a:1 c:1"},
		{Followed{Known: Server{Host: "b:1"}, Accept: true}, "a:1 b:1 c:1"},
		{Followed{Known: Server{Host: "b:1"}, Next: &Server{Host: "c:1"}}, "c:1 b:1 a:1"},
	} {
		var names []string
		for _, h := range inOrder(hosts, c.knows) {
			names = append(names, h.name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.knows, got, c.want)
		}
	}
}

// A server that answers nothing, as one whose machine is gone, has its time and no more: the next
// one has its turn.
func TestAServerThatHangsIsPassedOver(t *testing.T) {
	there, err := pgx.ParseConfig(database(t, setup))
	must.Do(t, err)
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer hangs.Close()
	b := open(t, fmt.Sprintf("host=127.0.0.1,%s port=%d,%d user=%s dbname=%s sslmode=disable",
		there.Host, hangs.Addr().(*net.TCPAddr).Port, there.Port, there.User, there.Database))
	began := time.Now()
	if _, err := b.Position(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Once by the survey of a node that knows no server, then in its turn.
	if took := time.Since(began); took < connectLimitOf {
		t.Errorf("the server that answers had its turn after %s", took)
	}
	f, err := b.cfg.Memory.Followed()
	if err != nil || f.Known.Epoch != 1 || !strings.HasPrefix(f.Known.Host, there.Host) || f.Next != nil {
		t.Errorf("the node follows %+v, %v", f, err)
	}
}
