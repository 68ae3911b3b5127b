package mariadb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/chainify-db/chainify/abci/backend"
)

const (
	versionLeast  = 10_11 // major and minor: the engine needs sql_mode TIME_ROUND_FRACTIONAL and the type UUID
	packetLeast   = 1 << 30
	clockApartMax = time.Second
	examineLimit  = 10 * time.Second
)

// settings are the server's that a ledger depends on, and its clock.
type settings struct {
	version                   string
	packet                    int64
	flush                     int
	rollback, binlog, strange bool
	clock                     time.Time
	installed                 bool
	holders                   error // of the procedure that ends holders of rows
	// remote: the session comes from another machine. The server gives up a session whose machine
	// is gone after this many seconds; 0: the kernel's default.
	remote                 bool
	idle, interval, probes int64
}

// Examine checks a database for its operator. It changes nothing.
func Examine(ctx context.Context, dsn string) []backend.Condition {
	const check = "database"
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	c, name, err := parseDSN(dsn)
	if err != nil {
		return []backend.Condition{{Level: backend.Bad, Check: check, Found: err.Error(), Mend: "Correct database.dsn: docs/operator/mariadb.md."}}
	}
	pool, _, err := openPool(dsn)
	if err != nil {
		return []backend.Condition{{Level: backend.Bad, Check: check, Found: err.Error(), Mend: "Correct database.dsn: docs/operator/mariadb.md."}}
	}
	defer func() { _ = pool.Close() }()
	before := time.Now()
	s, err := readSettings(ctx, pool, name)
	s.remote = elsewhere(c.Net, c.Addr)
	if err != nil {
		return []backend.Condition{{Level: backend.Bad, Check: check, Found: reason(err), Mend: mendOf(err)}}
	}
	found := s.judge(before, time.Now())
	return append(found, backend.Condition{Level: backend.Good, Check: check, Found: fmt.Sprintf("%s at %s, as %s", name.database, c.Addr, c.User)})
}

func readSettings(ctx context.Context, q querier, name names) (settings, error) {
	var s settings
	var clock float64
	err := q.QueryRowContext(ctx, `SELECT VERSION(), @@max_allowed_packet, @@innodb_flush_log_at_trx_commit, @@innodb_rollback_on_timeout, @@log_bin,
		@@lower_case_table_names <> 0, CAST(UNIX_TIMESTAMP(NOW(6)) AS DOUBLE)`).Scan(&s.version, &s.packet, &s.flush, &s.rollback, &s.binlog, &s.strange, &clock)
	if err != nil {
		return s, err
	}
	s.clock = time.UnixMicro(int64(clock * 1e6))
	// A server of another make has none of these.
	_ = q.QueryRowContext(ctx, `SELECT @@tcp_keepalive_time, @@tcp_keepalive_interval, @@tcp_keepalive_probes`).Scan(&s.idle, &s.interval, &s.probes)
	_, err = readPosition(ctx, q, name)
	s.installed = errorNumber(err) == 0
	if s.installed { // no connection has the number 0, so that it ends none
		_, s.holders = q.ExecContext(ctx, name.in("CALL %L.end_holders(0, 0)"))
	}
	return s, nil
}

// judge applies the checks; the server read its clock between two looks at ours.
func (s settings) judge(before, after time.Time) []backend.Condition {
	apart := max(before.Sub(s.clock), s.clock.Sub(after), 0)
	rules := []struct {
		check  string
		broken bool
		level  backend.Level
		found  string
		mend   string
	}{
		{"MariaDB", s.tooOld(), backend.Bad, "version is " + s.version, "Chainify needs MariaDB 10.11 or later."},
		{"ledger", !s.installed, backend.Bad, "the ledger is not installed in this database", "As an administrator: chainify install-mariadb."},
		{
			"max_allowed_packet", s.packet < packetLeast, backend.Bad, fmt.Sprintf("max_allowed_packet is %d: longer texts turn into NULL, and the node does not start", s.packet),
			"max_allowed_packet = 1G in the server's configuration, then restart",
		},
		{
			"rollback on timeout", !s.rollback, backend.Warn, "innodb_rollback_on_timeout is off", "innodb_rollback_on_timeout = ON in the server's configuration, then restart",
		},
		{
			"flush", s.flush != 1, backend.Warn, fmt.Sprintf("innodb_flush_log_at_trx_commit is %d: clients may be answered before their block is on disk", s.flush),
			"SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the configuration; or accept it: the node executes lost blocks again.",
		},
		{"binary log", s.binlog, backend.Warn, "log_bin is on: each block is written twice, and a replica has no ledger of its own", "skip-log-bin in the server's configuration, then restart"},
		{"names", s.strange, backend.Bad, "lower_case_table_names is not 0", "Make the server anew with lower_case_table_names = 0."},
		{
			"holders of rows", s.holders != nil, backend.Warn, fmt.Sprintf("sessions that hold rows are not ended, and blocks wait for them: %v", s.holders),
			mendOfHolders(s.holders),
		},
		{
			"a vanished node", s.remote && !s.endsWithMachine(), backend.Warn, "the server keeps the session, the lock and the rows of a node whose machine is gone: for two hours, as the kernel has it, or as long as tcp_keepalive_time says",
			"tcp_keepalive_time = 5, tcp_keepalive_interval = 2 and tcp_keepalive_probes = 3 in the server's configuration, or by SET GLOBAL before the node connects",
		},
		{"clocks", apart > clockApartMax, backend.Warn, fmt.Sprintf("the database's clock is %s from the node's", apart.Round(time.Millisecond)), "Keep both machines' clocks right (NTP)."},
	}
	found := make([]backend.Condition, 0, len(rules)+1)
	for _, r := range rules {
		if !r.broken {
			found = append(found, backend.Condition{Level: backend.Good, Check: r.check, Found: "as it should be"})
			continue
		}
		found = append(found, backend.Condition{Level: r.level, Check: r.check, Found: r.found, Mend: r.mend})
	}
	return found
}

// endsWithMachine reports whether the server notices within a minute that a session's machine is
// gone.
func (s settings) endsWithMachine() bool {
	return s.idle > 0 && s.interval > 0 && s.probes > 0 && s.idle+s.interval*s.probes <= 60
}

// elsewhere reports whether an address is of another machine, as far as the address shows it.
func elsewhere(network, address string) bool {
	host, _, err := net.SplitHostPort(address)
	if network != "tcp" || err != nil || host == "localhost" {
		return false
	}
	ip := net.ParseIP(host)
	return ip == nil || !ip.IsLoopback()
}

func (s settings) tooOld() bool {
	parts := strings.SplitN(s.version, ".", 3)
	if len(parts) < 3 || !strings.Contains(s.version, "MariaDB") {
		return true
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return errors.Join(err, err2) != nil || major*100+minor < versionLeast
}

// mendOfHolders returns the advice for the case that the procedure which ends holders of row locks
// cannot be called.
func mendOfHolders(err error) string {
	switch errorNumber(err) {
	case 1227: // its definer lacks a right
		return "As root: GRANT PROCESS, CONNECTION ADMIN ON *.* to the administrator who installed the ledger, or repeat chainify install-mariadb as one with these rights."
	case 1449: // there is no such definer
		return "Repeat chainify install-mariadb as an administrator whose account stays."
	}
	return "As an administrator: repeat chainify install-mariadb."
}

// reason is an error's cause in one line.
func reason(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// mendOf returns the advice for a database that cannot be reached.
func mendOf(err error) string {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return "Is MariaDB running, and host, port or socket in database.dsn right?"
	}
	switch e.Number {
	case 1045, 1698:
		return "Correct user and password in database.dsn, or let the user in: CREATE USER chainify@localhost."
	case 1959:
		return "As an administrator: chainify install-mariadb --node with the user of database.dsn."
	}
	return "See the server's log."
}
