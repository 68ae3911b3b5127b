package harness

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Client submits transactions by SQL, in the way of its database's engine.
type Client struct {
	postgres *pgx.Conn // nil: it is a MariaDB
	mariaDB  *sql.DB
}

// Outcome is the answer to a client about its transaction.
type Outcome struct {
	ID        []byte
	Block     int64 // 0: the order refused it
	Index     int32
	Succeeded bool
	SQLState  string
}

// Login is the user of a MariaDB who has a role of clients as default role: roles do not log in.
func Login(role string) string { return role + "_login" }

// Client opens a session of a role, which is another login's in a MariaDB (see Login).
func (o *Organisation) Client(ctx context.Context, role string) (c *Client, err error) {
	c = &Client{}
	if o.MariaDB != nil {
		c.mariaDB, err = o.MariaDB.Open(o.net.Database, Login(role))
	} else {
		c.postgres, err = o.Cluster.Connect(ctx, o.net.Database, role)
	}
	return c, err
}

// Close ends the session.
func (c *Client) Close() {
	if c.mariaDB != nil {
		_ = c.mariaDB.Close()
		return
	}
	_ = c.postgres.Close(context.Background())
}

// Lost tells that the session has ended, and a new one is needed.
func (c *Client) Lost() bool { return c.postgres != nil && c.postgres.IsClosed() }

// waitLimit is the servers' own default.
const waitLimit = 30 * time.Second

const outcomeColumns = "SELECT id, block, index, outcome, sqlstate FROM "

// Execute submits a statement whose parameters are numbers, and waits for the outcome; once more,
// where the server says that it is not known yet.
func (c *Client) Execute(ctx context.Context, statement string, parameters ...int64) (Outcome, error) {
	if c.mariaDB != nil {
		numbers, err := json.Marshal(append([]int64{}, parameters...))
		if err != nil {
			return Outcome{}, err
		}
		return c.call(ctx, "CALL chainify_execute(?, ?)", statement, string(numbers))
	}
	call, arguments := "chainify.execute($1", []any{statement}
	for i, p := range parameters {
		call += fmt.Sprintf(", $%d::bigint", i+2)
		arguments = append(arguments, p)
	}
	return c.query(ctx, outcomeColumns+call+")", arguments...)
}

// Deploy submits a DEPLOY transaction that has to succeed.
func (c *Client) Deploy(ctx context.Context, statement string) error {
	var got Outcome
	var err error
	if c.mariaDB != nil {
		got, err = c.call(ctx, "CALL chainify_deploy(?)", statement)
	} else {
		got, err = c.query(ctx, outcomeColumns+"chainify.deploy($1)", statement)
	}
	if err == nil && !got.Succeeded {
		err = fmt.Errorf("it failed with %s", got.SQLState)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// Wait asks a PostgreSQL for the outcome of a transaction, at most for the time given; without one
// in time the error is pgx.ErrNoRows.
func (c *Client) Wait(ctx context.Context, id []byte, limit time.Duration) (Outcome, error) {
	return c.ask(ctx, outcomeColumns+"chainify.wait($1, make_interval(secs => $2))", id, limit.Seconds())
}

func (c *Client) query(ctx context.Context, sql string, arguments ...any) (Outcome, error) {
	a, err := c.ask(ctx, sql, arguments...)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && strings.Contains(pg.Hint, "chainify.wait") {
		if id, known := notInTime(pg.Detail); known {
			return c.Wait(ctx, id, waitLimit)
		}
	}
	return a, err
}

func (c *Client) ask(ctx context.Context, sql string, arguments ...any) (a Outcome, err error) {
	var state *string
	err = c.postgres.QueryRow(ctx, sql, arguments...).Scan(&a.ID, &a.Block, &a.Index, &a.Succeeded, &state)
	if state != nil {
		a.SQLState = *state
	}
	return a, err
}

func (c *Client) call(ctx context.Context, sql string, arguments ...any) (Outcome, error) {
	a, err := c.askMariaDB(ctx, sql, arguments...)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && strings.Contains(refused.Message, "chainify_wait") {
		if id, known := notInTime(refused.Message); known {
			return c.askMariaDB(ctx, "CALL chainify_wait(?)", hex.EncodeToString(id))
		}
	}
	return a, err
}

func (c *Client) askMariaDB(ctx context.Context, call string, arguments ...any) (a Outcome, err error) {
	var id string
	var rows int64
	var state, message sql.NullString
	if err = c.mariaDB.QueryRowContext(ctx, call, arguments...).Scan(&id, &a.Block, &a.Index, &a.Succeeded, &rows, &state, &message); err != nil {
		return a, err
	}
	a.SQLState = state.String
	a.ID, err = hex.DecodeString(id)
	return a, err
}

var idOf = regexp.MustCompile(`[0-9a-f]{64}`)

// notInTime finds the id of a transaction whose outcome can be asked for.
func notInTime(text string) (id []byte, known bool) {
	id, err := hex.DecodeString(idOf.FindString(text))
	return id, err == nil && len(id) > 0
}

// SQLState is that of a server's error; empty: no server told it.
func SQLState(err error) string {
	var pg *pgconn.PgError
	var maria *mysql.MySQLError
	switch {
	case errors.As(err, &pg):
		return pg.Code
	case errors.As(err, &maria):
		return string(maria.SQLState[:])
	}
	return ""
}

// Superuser makes sessions of the superuser in the organisation's database, of either engine; the
// caller closes them.
func (o *Organisation) Superuser() (*sql.DB, error) {
	if o.MariaDB != nil {
		return o.MariaDB.Open(o.net.Database, "root")
	}
	c, err := pgx.ParseConfig(o.Cluster.DSN(o.net.Database, "postgres") + " connect_timeout=5")
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*c), nil
}
