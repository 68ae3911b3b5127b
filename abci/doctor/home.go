package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/config"
)

// socketPathMax is what sockaddr_un holds on Linux, less the terminating zero.
const socketPathMax = 107

func examineHome(home config.Home, c config.Config) []Finding {
	return []Finding{checkPermissions(home, c), checkGenesis(home, c), checkSocketPath(home, c)}
}

// withPassword finds one in a connection string of either form.
var withPassword = regexp.MustCompile(`password *=|://[^/@]*:[^/@]*@`)

// checkPermissions: nobody else reads a secret. A group may, as it has to in Kubernetes, where keys belong to root.
func checkPermissions(home config.Home, c config.Config) Finding {
	const check = "permissions"
	secrets := keys(home)
	secrets = append(secrets, optional(home, c.HTTP.TokensFile, c.HTTP.TLSKeyFile, c.Anchor.TokenFile)...)
	if withPassword.MatchString(c.Database.DSN) {
		secrets = append(secrets, home.Path(config.FileName))
	}
	var open []string
	for _, path := range secrets {
		info, err := os.Stat(path)
		if err != nil {
			return bad(check, err.Error(), "Run as the node's user. When a key is lost, take it from its backup; it cannot be made anew for an organisation in the genesis.")
		}
		if info.Mode().Perm()&0o007 != 0 {
			open = append(open, path)
		}
	}
	if len(open) > 0 {
		return bad(check, "others may read "+strings.Join(open, ", "), "chmod 600 "+strings.Join(open, " "))
	}
	return fine(check, "secrets are not for everybody")
}

// optional are files that the configuration names and that are there: whether they have to be is for the node to say.
func optional(home config.Home, names ...string) []string {
	var out []string
	for _, name := range names {
		if _, err := os.Stat(home.Path(name)); name != "" && err == nil {
			out = append(out, home.Path(name))
		}
	}
	return out
}

func keys(home config.Home) []string {
	var out []string
	for _, name := range []string{"gateway_key.json", "node_key.json", "priv_validator_key.json"} {
		out = append(out, home.Path("config", name))
	}
	return out
}

// checkGenesis: the organisation is in it, with a database if it has one here.
func checkGenesis(home config.Home, c config.Config) Finding {
	const check = "genesis"
	doc, state, err := home.LoadGenesis()
	if err != nil {
		return bad(check, err.Error(), `Put the consortium's genesis.json there; "chainify genesis" makes it of all parts.`)
	}
	var names []string
	for _, o := range state.Organisations {
		names = append(names, o.Name)
		switch {
		case o.Name != c.Organisation:
		case o.OrderingOnly && c.Database.DSN != "":
			return bad(check, fmt.Sprintf("%q only orders by the genesis, and has database.dsn", o.Name), "Empty database.dsn in "+config.FileName+".")
		case !o.OrderingOnly && c.Database.DSN == "":
			return warn(check, fmt.Sprintf("%q has a say in the effects, and no database here: it counts as away", o.Name), "Set database.dsn in "+config.FileName+".")
		}
	}
	if !slices.Contains(names, c.Organisation) {
		return bad(check, fmt.Sprintf("organisation %q is not among %s", c.Organisation, strings.Join(names, ", ")),
			"Set organisation in "+config.FileName+" to the name in the genesis, or use the genesis of your consortium.")
	}
	return fine(check, "chain %s of %s", doc.ChainID, strings.Join(names, ", "))
}

func checkSocketPath(home config.Home, c config.Config) Finding {
	const check = "socket"
	path := home.Path(c.Clients.Socket)
	if len(path) > socketPathMax {
		return bad(check, fmt.Sprintf("%s is %d bytes long, at most %d are possible", path, len(path), socketPathMax), "Set clients.socket to a shorter path.")
	}
	info, err := os.Stat(filepath.Dir(path))
	switch {
	case err != nil:
		return bad(check, err.Error(), "Make the directory of clients.socket; PostgreSQL's user must be able to enter it.")
	case !info.IsDir():
		return bad(check, filepath.Dir(path)+" is no directory", "Set clients.socket to a path in a directory.")
	case info.Mode().Perm()&0o001 == 0:
		return warn(check, fmt.Sprintf("%s has mode %o: PostgreSQL's user may be unable to enter", filepath.Dir(path), info.Mode().Perm()&fs.ModePerm),
			"Put the socket into a directory that both can enter, as /run/chainify.")
	}
	return fine(check, "%s", path)
}
