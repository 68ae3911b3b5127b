package node

import (
	"os"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
)

// setLane turns the express lane of a node that does not run on or off.
func setLane(t testing.TB, r *runner, on bool) {
	t.Helper()
	change(t, r, func(c *config.Config) { c.Consensus.ExpressLane = on })
}

// change rewrites the configuration of a node that does not run.
func change(t testing.TB, r *runner, do func(*config.Config)) {
	t.Helper()
	c, err := config.Load(string(r.home))
	if err != nil {
		t.Fatal(err)
	}
	do(&c)
	text, err := config.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.home.Path(config.FileName), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
