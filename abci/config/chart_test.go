package config

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/must"
)

// A node reads the settings that the chart gives it.
func TestTheChartsConfigurationIsRead(t *testing.T) {
	for _, name := range []string{"acme", "external"} {
		f, err := os.Open("../../helm/golden/" + name + ".yaml")
		must.Do(t, err)
		defer f.Close()
		data := map[string]string{}
		for d := yaml.NewDecoder(f); ; {
			var object struct {
				Kind string            `yaml:"kind"`
				Data map[string]string `yaml:"data"`
			}
			if err := d.Decode(&object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if object.Kind == "ConfigMap" {
				maps.Copy(data, object.Data)
			}
		}
		c, err := Parse([]byte(data[FileName]))
		if err != nil || c.Database.DSN == "" || (name == "acme" && len(c.Network.Peers) != 3) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		if loopback := name != "external"; c.HTTP.Loopback() != loopback || (len(c.HTTP.TLSClients) == 2) == loopback || (c.HTTP.TLSKeyFile == "") != loopback {
			t.Errorf("%s: %+v", name, c.HTTP)
		}
		if anchored := name == "acme"; (c.Anchor.S3Region == "eu-central-1") != anchored || (c.Anchor.URL != "") != anchored {
			t.Errorf("%s: %+v", name, c.Anchor)
		}
		if bounded := c.Retention.OrderBlocks == 1_000_000; !bounded || (c.Keys.Holder != "") != (name == "external") {
			t.Errorf("%s: %+v, %+v", name, c.Retention, c.Keys)
		}
		home := Home(t.TempDir())
		must.Do(t, os.MkdirAll(filepath.Dir(home.Genesis()), 0o755))
		must.Do(t, os.WriteFile(home.Genesis(), []byte(data["genesis.json"]), 0o644))
		must.Do(t, os.MkdirAll(home.Path("lists"), 0o755))
		must.Do(t, os.WriteFile(home.Path(c.Network.AdmittedFile), []byte(data["admitted"]), 0o644))
		if ids, err := home.Admitted(c); err != nil || (len(ids) == 1) != (name == "external") {
			t.Errorf("%s: %v are let in, %v", name, ids, err)
		}
		_, state, err := home.LoadGenesis()
		if err != nil || !hasOrganisation(state, c.Organisation) {
			t.Errorf("%s: genesis %+v, %v", name, state, err)
		}
	}
}

func hasOrganisation(g *order.Genesis, name string) bool {
	for _, o := range g.Organisations {
		if o.Name == name {
			return true
		}
	}
	return false
}
