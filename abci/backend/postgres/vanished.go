package postgres

import (
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
)

// goneEvery is how often the server looks, during a statement, whether its client is still there.
const goneEvery = 2 * time.Second

// EndWithMachine has both ends of a connection notice a machine that is gone: the node's by
// [backend.Dial], the server's by settings of the session, with the same limits. Otherwise the
// session of a lost node keeps the database's lock, and the rows of an open block, for two hours.
//
// The server would not look at the socket during a statement, so the last setting has it look. A
// session over a Unix socket takes these settings without a consequence.
func EndWithMachine(c *pgconn.Config) {
	c.DialFunc = backend.Dial
	for k, v := range map[string]string{
		"tcp_keepalives_idle":              seconds(backend.KeepAlive.Idle),
		"tcp_keepalives_interval":          seconds(backend.KeepAlive.Interval),
		"tcp_keepalives_count":             strconv.Itoa(backend.KeepAlive.Count),
		"tcp_user_timeout":                 strconv.FormatInt(backend.SilenceMax.Milliseconds(), 10),
		"client_connection_check_interval": strconv.FormatInt(goneEvery.Milliseconds(), 10),
	} {
		c.RuntimeParams[k] = v
	}
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
