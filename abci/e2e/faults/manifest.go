// Package faults runs networks under load through the faults that a manifest lists. It checks that
// nothing was lost, executed twice or different between the organisations, and that all go on
// without an operator.
package faults

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/chainify-db/chainify/abci/config"
)

// Bounds of a manifest: a run on one machine has to end.
const (
	membersMax   = 7
	clientsMax   = 64
	customersMax = 100_000
	workersMax   = 4
	faultsMax    = 200
	durationMax  = time.Hour
	faultMax     = 5 * time.Minute
)

// names are given to members in order: first organisations, then validators without a database.
var names = []string{"acme", "bolt", "cargo", "delta", "eagle", "fable", "grain"}

// Manifest is one run: a network, its load, and the faults that hit it.
type Manifest struct {
	Name          string          `toml:"name"`
	Seed          uint64          `toml:"seed"` // of the load
	Organisations int             `toml:"organisations"`
	OrderingOnly  int             `toml:"ordering_only"`
	MariaDB       []string        `toml:"mariadb,omitempty"` // organisations that keep one; the others keep a PostgreSQL
	Consent       int             `toml:"consent"`           // 0: the default
	Workers       int             `toml:"workers"`           // processes that execute a block; organisations differ when above 1
	Clients       int             `toml:"clients"`           // of each organisation
	Customers     int             `toml:"customers"`
	Effects       float64         `toml:"effects"`  // share of EFFECTS transactions in the load of a PostgreSQL's clients
	Duration      config.Duration `toml:"duration"` // of the load; it goes on until the last fault is over
	Faults        []Fault         `toml:"fault"`
}

// Fault is one perturbation: it begins At after the load and is undone after For.
type Fault struct {
	Kind    string          `toml:"kind"`
	Members []string        `toml:"members"` // whom it hits; of a partition, those on the one side
	At      config.Duration `toml:"at"`
	For     config.Duration `toml:"for"`
	Point   string          `toml:"point,omitempty"` // of a crash
	// OthersGoOn has the fault last until every organisation that it does not hit has made some
	// more blocks. Faults that would begin meanwhile wait.
	OthersGoOn bool `toml:"others_go_on,omitempty"`
	// MustCrash has the fault last until everybody whom it hits has ended at its crash point.
	MustCrash bool `toml:"must_crash,omitempty"`
}

func (f Fault) begin() time.Duration { return time.Duration(f.At) }
func (f Fault) end() time.Duration   { return time.Duration(f.At) + time.Duration(f.For) }

func (f Fault) String() string {
	text := f.Kind + " " + strings.Join(f.Members, ",")
	if f.Point != "" {
		text += " at " + f.Point
	}
	return text
}

// Parse reads and checks a manifest; unknown keys are errors.
func Parse(text []byte) (Manifest, error) {
	var m Manifest
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Manifest{}, err
	}
	return m, m.Check()
}

// Format writes a manifest so that Parse reads the same.
func (m Manifest) Format() ([]byte, error) { return toml.Marshal(m) }

// members lists the names of all members, those without a database last.
func (m Manifest) members() []string { return names[:m.Organisations+m.OrderingOnly] }

// organisations lists the members with a database.
func (m Manifest) organisations() []string { return names[:m.Organisations] }

// workers is how many processes execute a block at a member: not the same everywhere, and one
// beside a MariaDB.
func (m Manifest) workers(name string) int {
	if slices.Contains(m.MariaDB, name) {
		return 1
	}
	if i := slices.Index(m.organisations(), name); i >= 0 && i%2 == 0 {
		return m.Workers
	}
	return 1
}

// Check says what is wrong with a manifest.
func (m Manifest) Check() error {
	for _, bound := range []struct {
		what            string
		value, min, max int
	}{
		{"organisations", m.Organisations, 1, membersMax},
		{"ordering_only", m.OrderingOnly, 0, membersMax - m.Organisations},
		{"consent", m.Consent, 0, m.Organisations},
		{"workers", m.Workers, 1, workersMax},
		{"clients", m.Clients, 1, clientsMax},
		{"customers", m.Customers, 10, customersMax},
		{"faults", len(m.Faults), 0, faultsMax},
	} {
		if bound.value < bound.min || bound.value > bound.max {
			return fmt.Errorf("%s is %d, want %d to %d", bound.what, bound.value, bound.min, bound.max)
		}
	}
	if !(m.Effects >= 0 && m.Effects <= 1) {
		return fmt.Errorf("effects is %g, want 0 to 1", m.Effects)
	}
	if d := time.Duration(m.Duration); d < time.Second || d > durationMax {
		return fmt.Errorf("duration is %s, want 1s to %s", d, durationMax)
	}
	if err := m.checkNames(m.MariaDB, true); err != nil {
		return fmt.Errorf("mariadb: %w", err)
	}
	if len(m.MariaDB) == m.Organisations {
		return errors.New("mariadb: no organisation keeps a PostgreSQL")
	}
	for i, f := range m.Faults {
		if err := m.checkFault(f); err != nil {
			return fmt.Errorf("fault %d (%s): %w", i+1, f, err)
		}
		for j, g := range m.Faults[:i] {
			if f.collides(g) {
				return fmt.Errorf("fault %d (%s) and fault %d (%s) hit the same at the same time", j+1, g, i+1, f)
			}
		}
	}
	if n := len(m.hit(kindTamper)); n > 0 && n >= m.consent() {
		return fmt.Errorf("%d organisations are tampered with: %d that lie alike would be right", n, m.consent())
	}
	// A disk that gets full is a small one in memory, which cannot be slow.
	for full, slow := range map[string]string{kindFullDatabase: kindSlowDatabase, kindFullNode: kindSlowNode} {
		for _, name := range m.hit(full) {
			if slices.Contains(m.hit(slow), name) {
				return fmt.Errorf("%s and %s both hit %s", full, slow, name)
			}
		}
	}
	return nil
}

// consent is how many organisations must report the same effects.
func (m Manifest) consent() int {
	if m.Consent == 0 {
		return 2*m.Organisations/3 + 1
	}
	return m.Consent
}

// hit lists whom the faults hit whose kind begins so.
func (m Manifest) hit(kind string) []string {
	var hit []string
	for _, f := range m.Faults {
		if strings.HasPrefix(f.Kind, kind) {
			hit = append(hit, f.Members...)
		}
	}
	slices.Sort(hit)
	return slices.Compact(hit)
}

// checkNames expects members, each once, and with a database where one is needed.
func (m Manifest) checkNames(members []string, database bool) error {
	for i, name := range members {
		if slices.Index(members, name) != i {
			return fmt.Errorf("%s is named twice", name)
		}
		if !slices.Contains(m.members(), name) {
			return fmt.Errorf("there is no member %s", name)
		}
		if database && !slices.Contains(m.organisations(), name) {
			return fmt.Errorf("%s has no database", name)
		}
	}
	return nil
}

func (m Manifest) checkFault(f Fault) error {
	k, ok := kinds[f.Kind]
	if !ok {
		return errors.New("no such kind")
	}
	if len(f.Members) == 0 {
		return errors.New("it hits nobody")
	}
	if err := m.checkNames(f.Members, k.database); err != nil {
		return err
	}
	for _, name := range f.Members {
		if k.postgres && slices.Contains(m.MariaDB, name) {
			return fmt.Errorf("%s keeps a MariaDB", name)
		}
	}
	if f.Kind == kindPartition && len(f.Members) == len(m.members()) {
		return errors.New("nobody is on the other side")
	}
	if len(k.points) > 0 && !slices.Contains(k.points, f.Point) || len(k.points) == 0 && f.Point != "" {
		return fmt.Errorf("no point %q, want one of %q", f.Point, k.points)
	}
	if f.MustCrash && k.crashed == nil {
		return errors.New("it does not crash")
	}
	for _, name := range f.Members {
		if f.MustCrash && strings.Contains(f.Point, "part") && f.Point != wholeCommit && m.workers(name) < 2 {
			return fmt.Errorf("%s does not execute blocks in parts", name)
		}
	}
	if f.Kind == kindJumpClock && strings.HasSuffix(f.Point, "h") && 3*len(f.Members) >= len(m.members()) {
		return errors.New("a third of the clocks is wrong by an hour")
	}
	if f.begin() < 0 || f.end() > durationMax || f.For < 0 || time.Duration(f.For) > faultMax {
		return errors.New("at and for are out of bounds")
	}
	return nil
}

// collides says whether two faults would undo each other: they overlap and hit the same member, or
// are of a kind of which there is one at a time.
func (f Fault) collides(g Fault) bool {
	if f.end() < g.begin() || g.end() < f.begin() {
		return false
	}
	return f.Kind == g.Kind && kinds[f.Kind].alone ||
		slices.ContainsFunc(f.Members, func(name string) bool { return slices.Contains(g.Members, name) })
}
