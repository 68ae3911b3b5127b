package postgres

import (
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/must"
)

// Databases of one server share their roles. Extensions that are made in several databases at the
// same time do not fail at each other's roles.
func TestExtensionsAreMadeAtTheSameTime(t *testing.T) {
	server := crashServer(t, nil)
	conns := make([]*pgx.Conn, 8)
	for i := range conns {
		name := fmt.Sprintf("beside_%d", i)
		run(t, server+" dbname=postgres", "CREATE DATABASE "+name)
		conn, err := pgx.Connect(t.Context(), server+" dbname="+name)
		must.Do(t, err)
		defer func() { _ = conn.Close(t.Context()) }()
		conns[i] = conn
	}
	var made sync.WaitGroup
	for i, conn := range conns {
		made.Go(func() {
			if _, err := conn.Exec(t.Context(), "CREATE EXTENSION chainify"); err != nil {
				t.Errorf("database %d: %v", i, err)
			}
		})
	}
	made.Wait()
}
