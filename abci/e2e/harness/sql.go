package harness

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Connect opens a session of the superuser in the organisation's database.
func (o *Organisation) Connect(ctx context.Context) (*pgx.Conn, error) {
	return o.Cluster.Connect(ctx, o.net.Database, "postgres")
}

// Exec runs SQL text, one or several statements, as a role of the organisation's database.
func (o *Organisation) Exec(ctx context.Context, role, sql string) error {
	conn, err := o.Cluster.Connect(ctx, o.net.Database, role)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

// Scan reads the first row of a query as the superuser of either engine.
func (o *Organisation) Scan(ctx context.Context, sql string, into ...any) error {
	if o.MariaDB != nil {
		return o.MariaDB.Scan(ctx, o.net.Database, sql, into...)
	}
	return o.Cluster.look(ctx, o.net.Database, func(conn *pgx.Conn) error {
		if err := conn.QueryRow(ctx, sql).Scan(into...); err != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}
		return nil
	})
}

// Administer runs SQL text, one or several statements, as the superuser of either engine.
func (o *Organisation) Administer(ctx context.Context, sql string) error {
	if o.MariaDB != nil {
		return o.MariaDB.Exec(ctx, "root", o.net.Database, sql)
	}
	return o.Exec(ctx, "postgres", sql)
}

// ProcedureDigest is what a DEPLOY transaction that attaches the procedure says of this engine's
// words; types are those of its parameters.
func (o *Organisation) ProcedureDigest(ctx context.Context, name, types string) (digest string, err error) {
	query := "SELECT chainify.procedure_digest('public." + name + "(" + types + ")')"
	if o.MariaDB != nil {
		query = "SELECT " + o.net.Database + "_ledger.procedure_digest('" + name + "')"
	}
	err = o.Scan(ctx, query, &digest)
	return digest, err
}

// ProcedureAttached words the DEPLOY transaction that attaches a procedure, as the first
// organisation with each engine has it.
func (n *Network) ProcedureAttached(ctx context.Context, name, types string) (string, error) {
	digests := map[bool]string{} // by whether it is a MariaDB's
	for _, o := range n.Organisations {
		engine := o.MariaDB != nil
		if digests[engine] != "" {
			continue
		}
		var err error
		if digests[engine], err = o.ProcedureDigest(ctx, name, types); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("ATTACH PROCEDURE public.%s (%s) ENCODING 2 MARIADB %s POSTGRESQL %s", name, types, digests[true], digests[false]), nil
}

// StartDatabases starts all clusters and makes the database in each. Nothing of Chainify is in them
// yet.
func (n *Network) StartDatabases(ctx context.Context) error {
	return n.Each(func(o *Organisation) error {
		if o.MariaDB != nil {
			return o.createMariaDB(ctx)
		}
		return o.createDatabase(ctx)
	})
}

// EnableChainify puts the extension into every PostgreSQL, and the ledger into every MariaDB.
func (n *Network) EnableChainify(ctx context.Context) error {
	return n.Each(func(o *Organisation) error {
		if o.MariaDB != nil {
			return o.InstallMariaDB(ctx)
		}
		return o.enableChainify(ctx)
	})
}

// Tip is the last LedgerBlock of an organisation.
type Tip struct {
	Number uint64
	Hash   string // hexadecimal; empty before the first block
}

// Tip reads the last committed block.
func (o *Organisation) Tip(ctx context.Context) (tip Tip, err error) {
	if o.MariaDB != nil {
		return o.MariaDB.tip(ctx, o.net.Database)
	}
	err = o.Cluster.look(ctx, o.net.Database, func(conn *pgx.Conn) (err error) {
		tip, err = ReadTip(ctx, conn)
		return err
	})
	return tip, err
}

// ReadTip reads the last committed block over a session that is open.
func ReadTip(ctx context.Context, conn *pgx.Conn) (Tip, error) {
	var number int64
	var hash []byte
	err := conn.QueryRow(ctx, "SELECT number, hash FROM chainify.ledger ORDER BY number DESC LIMIT 1").Scan(&number, &hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return Tip{}, nil
	}
	if err != nil {
		return Tip{}, fmt.Errorf("read last block: %w", err)
	}
	return Tip{uint64(number), hex.EncodeToString(hash)}, nil
}

// WaitSame waits until all the given organisations have the same last block, at least the number
// given.
func WaitSame(ctx context.Context, organisations []*Organisation, atLeast uint64, limit time.Duration) (Tip, error) {
	var same Tip
	err := Poll(ctx, limit, "same last block everywhere", func(ctx context.Context) (bool, string, error) {
		tips := ""
		equal := true
		for i, o := range organisations {
			tip, err := o.Tip(ctx)
			if err != nil {
				return false, o.Name + ": " + err.Error(), nil
			}
			if i == 0 {
				same = tip
			}
			equal = equal && tip == same
			tips += fmt.Sprintf(" %s %d %.8s", o.Name, tip.Number, tip.Hash)
		}
		return equal && same.Number >= atLeast, fmt.Sprintf("want %d:%s", atLeast, tips), nil
	})
	return same, err
}

// SetSystem sets a setting of the whole server for all its sessions, or resets it when the value is
// empty, while the server may be recovering: it tries until the limit.
func (o *Organisation) SetSystem(ctx context.Context, limit time.Duration, name, value string) error {
	statement := "ALTER SYSTEM SET " + name + " = " + quote(value)
	if value == "" {
		statement = "ALTER SYSTEM RESET " + name
	}
	return Poll(ctx, limit, "set "+name+" at "+o.Name, func(ctx context.Context) (bool, string, error) {
		conn, err := o.Cluster.Connect(ctx, "postgres", "postgres")
		if err != nil {
			return false, err.Error(), nil
		}
		defer conn.Close(context.WithoutCancel(ctx))
		for _, sql := range []string{statement, "SELECT pg_reload_conf()"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return false, err.Error(), nil
			}
		}
		return true, "", nil
	})
}
