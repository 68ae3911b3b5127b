package takeover

import (
	"fmt"

	"github.com/chainify-db/chainify/abci/backend/postgres"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/engines"
	"github.com/chainify-db/chainify/abci/nodestore"
)

// AcceptServer has the node of a home, which does not run, go on with the first database server
// that it reaches, also one that was left behind. It returns the server that the node followed so
// far.
func AcceptServer(home config.Home) (postgres.Server, error) {
	c, err := config.Load(string(home))
	if err == nil {
		err = engines.Needs(c.Database.DSN, "going over to another server")
	}
	if err != nil {
		return postgres.Server{}, err
	}
	db, err := nodestore.Open(home.Data())
	if err != nil {
		return postgres.Server{}, fmt.Errorf("open the node's store (does the node run?): %w", err)
	}
	defer db.Close()
	m := nodestore.Memory{DB: db}
	f, err := m.Followed()
	if err != nil {
		return postgres.Server{}, err
	}
	f.Accept = true
	return f.Known, m.Follow(f)
}
