package faults

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
)

func TestRandomManifestsAreValidAndRepeatable(t *testing.T) {
	kindsSeen, mariaDB := map[string]bool{}, 0
	for seed := range uint64(300) {
		m := Random(seed, time.Minute)
		if err := m.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if again := Random(seed, time.Minute); !reflect.DeepEqual(m, again) {
			t.Fatalf("seed %d gives two manifests", seed)
		}
		text, err := m.Format()
		must.Do(t, err)
		read, err := Parse(text)
		if err != nil || !reflect.DeepEqual(m, read) {
			t.Fatalf("seed %d is read back as %+v, %v; want %+v\n%s", seed, read, err, m, text)
		}
		if len(m.MariaDB) > 0 {
			mariaDB++
		}
		for _, f := range m.Faults {
			kindsSeen[f.Kind] = true
		}
	}
	for _, name := range kindNames() {
		if !kindsSeen[name] {
			t.Errorf("no random manifest has %s", name)
		}
	}
	if mariaDB < 20 {
		t.Errorf("%d random manifests have a MariaDB", mariaDB)
	}
}

func TestManifestsAreValidAndPassAllCrashPoints(t *testing.T) {
	short, err := filepath.Glob("manifests/*.toml")
	if err != nil || len(short) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	long, err := filepath.Glob("manifests/long/*.toml")
	if err != nil || len(long) == 0 {
		t.Fatalf("no long manifests: %v", err)
	}
	points := map[string]bool{}
	for _, path := range append(short, long...) {
		text, err := os.ReadFile(path)
		must.Do(t, err)
		m, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if m.Name+".toml" != filepath.Base(path) {
			t.Errorf("%s is named %s", path, m.Name)
		}
		for _, f := range m.Faults {
			if f.MustCrash {
				points[f.Point] = true
			}
		}
	}
	for _, p := range append(nodePoints(), postgresPoints...) {
		if !points[p] {
			t.Errorf("no manifest must crash at %s", p)
		}
	}
}

func TestManifestsThatCannotBeRunAreRefused(t *testing.T) {
	const fine = "name = 'x'\norganisations = 4\nworkers = 1\nclients = 1\ncustomers = 10\nduration = '1s'\n"
	const kill = "[[fault]]\nkind = 'kill_node'\nmembers = ['acme']\nat = '1s'\nfor = '2s'\n"
	if _, err := Parse([]byte(fine + kill)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		fine + "speed = 3": "strict",
		strings.Replace(fine, "organisations = 4", "organisations = 40", 1):                                                                           "organisations is 40",
		strings.Replace(fine, "'1s'", "'2h'", 1):                                                                                                      "duration",
		fine + strings.Replace(kill, "kill_node", "kiss_node", 1):                                                                                     "no such kind",
		fine + strings.Replace(kill, "'acme'", "'zeta'", 1):                                                                                           "no member zeta",
		fine + strings.Replace(kill, "'acme'", "", 1):                                                                                                 "hits nobody",
		fine + strings.Replace(kill, "'acme'", "'acme', 'acme'", 1):                                                                                   "named twice",
		fine + strings.Replace(kill, "'2s'", "'2h'", 1):                                                                                               "out of bounds",
		fine + kill + strings.Replace(kill, "'1s'", "'2s'", 1):                                                                                        "at the same time",
		fine + strings.Replace(kill, "kill_node", "crash_node", 1):                                                                                    "no point",
		fine + kill + "point = 'x'\n":                                                                                                                 "no point",
		fine + strings.Replace(kill, "kill_node", "partition", 1) + "point = 'x'\n":                                                                   "no point",
		fine + strings.Replace(strings.Replace(kill, "kill_node", "partition", 1), "'acme'", "'acme', 'bolt', 'cargo', 'delta'", 1):                   "other side",
		fine + strings.Replace(strings.Replace(kill, "kill_node", "tamper_rows", 1), "'acme'", "'acme', 'bolt', 'cargo'", 1):                          "lie alike",
		fine + strings.Replace(kill, "kill_node", "full_disk_node", 1) + strings.NewReplacer("kill_node", "slow_disk_node", "1s", "9s").Replace(kill): "both hit acme",
		fine + kill + "must_crash = true\n":                                                                                                           "does not crash",
		fine + strings.Replace(kill, "kill_node", "crash_postgres", 1) + "point = 'parts_ready'\nmust_crash = true\n":                                 "in parts",
		fine + strings.NewReplacer("kill_node", "jump_clock", "'acme'", "'acme', 'bolt'").Replace(kill) + "point = '1h'\n":                            "a third",
		fine + "effects = 1.5\n":                                "effects is 1.5",
		fine + "effects = nan\n":                                "effects is NaN",
		fine + "mariadb = ['zeta']\n":                           "mariadb: there is no member zeta",
		fine + "mariadb = ['acme', 'bolt', 'cargo', 'delta']\n": "no organisation keeps a PostgreSQL",
		fine + "ordering_only = 1\nmariadb = ['eagle']\n":       "eagle has no database",
		fine + "mariadb = ['acme']\n" + strings.Replace(kill, "kill_node", "crash_postgres", 1) + "point = 'before_block_commit'\n":    "acme keeps a MariaDB",
		fine + "ordering_only = 1\n" + strings.Replace(strings.Replace(kill, "kill_node", "kill_database", 1), "'acme'", "'eagle'", 1): "no database",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q, of\n%s", err, want, text)
		}
	}
}
