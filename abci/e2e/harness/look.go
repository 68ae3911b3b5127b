package harness

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// answersWithin is how long a session that was kept may take to say that it is alive.
const answersWithin = 5 * time.Second

// kept is a session that stays open from one look at a cluster to the next. Tests look every few
// milliseconds, and a session that begins costs the server many times a question.
type kept struct {
	mu       sync.Mutex
	session  *pgx.Conn // nil: none, or a look has it
	database string
}

// look runs ask in a session of the superuser. A look beside another one opens a session of its
// own.
func (c *Cluster) look(ctx context.Context, database string, ask func(*pgx.Conn) error) error {
	session := c.kept.take(ctx, database)
	if session == nil {
		var err error
		// A statement that is kept as well would fail once its tables have changed.
		if session, err = pgx.Connect(ctx, c.DSN(database, "postgres")+connectWithin+" default_query_exec_mode=describe_exec"); err != nil {
			return err
		}
	}
	err := ask(session)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		_ = session.Close(context.WithoutCancel(ctx)) // the first error counts
		return err
	}
	c.kept.give(ctx, session, database)
	return err
}

// take gives the session that was kept; nil where there is none, or it is of another database or
// does not answer any more.
func (k *kept) take(ctx context.Context, database string) *pgx.Conn {
	k.mu.Lock()
	session := k.session
	same := k.database == database
	k.session = nil
	k.mu.Unlock()
	if session == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	if same && session.Ping(within) == nil {
		return session
	}
	_ = session.Close(within) // it is given up
	return nil
}

// give keeps a session for the next look, unless another one is kept.
func (k *kept) give(ctx context.Context, session *pgx.Conn, database string) {
	k.mu.Lock()
	free := k.session == nil
	if free {
		k.session, k.database = session, database
	}
	k.mu.Unlock()
	if !free {
		_ = session.Close(context.WithoutCancel(ctx)) // it has answered
	}
}

// forget ends the session that is kept.
func (k *kept) forget() {
	k.mu.Lock()
	session := k.session
	k.session = nil
	k.mu.Unlock()
	if session != nil {
		ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
		defer cancel()
		_ = session.Close(ctx) // the server ends
	}
}
