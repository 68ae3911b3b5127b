package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// moving are settings of a session that change by themselves, and those that the node sets for each
// call.
var moving = strings.Fields("timestamp insert_id last_insert_id identity rand_seed1 rand_seed2 pseudo_thread_id gtid_seq_no warning_count error_count " +
	"in_transaction last_gtid pseudo_slave_mode skip_replication sql_log_bin gtid_domain_id server_id")

// session is how a connection was when the node made it. A procedure's body may change all of it.
type session struct {
	settings []setting
	lock     string // name of the node's lock
	look     string // query of all settings now, and of the lock
}

type setting struct {
	name   string
	value  sql.NullString
	number bool
}

// readSession reads the settings that a session may change.
func readSession(ctx context.Context, q querier, lock string) (*session, error) {
	rows, err := q.QueryContext(ctx, `SELECT lower(VARIABLE_NAME), VARIABLE_TYPE RLIKE 'INT|DOUBLE|BOOL' FROM information_schema.SYSTEM_VARIABLES
		WHERE VARIABLE_SCOPE LIKE 'SESSION%' AND READ_ONLY = 'NO' AND NOT FIND_IN_SET(lower(VARIABLE_NAME), ?) ORDER BY VARIABLE_NAME`, strings.Join(moving, ","))
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	s := &session{lock: lock}
	columns := []string{"coalesce(IS_USED_LOCK('" + lock + "') = CONNECTION_ID(), 0)"}
	err = each(rows, func() error {
		var one setting
		err := rows.Scan(&one.name, &one.number)
		s.settings, columns = append(s.settings, one), append(columns, "@@session."+quoted(one.name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	s.look = "SELECT " + strings.Join(columns, ", ")
	_, values, err := s.read(ctx, q)
	if err != nil {
		return nil, err
	}
	for i := range s.settings {
		s.settings[i].value = values[i]
	}
	return s, nil
}

func (s *session) read(ctx context.Context, q querier) (locked bool, values []sql.NullString, err error) {
	values = make([]sql.NullString, len(s.settings))
	into := []any{&locked}
	for i := range values {
		into = append(into, &values[i])
	}
	if err := q.QueryRowContext(ctx, s.look).Scan(into...); err != nil {
		return false, nil, fmt.Errorf("read settings: %w", err)
	}
	return locked, values, nil
}

// restore brings a connection back to how it was. An error is none of the transaction that was at
// work.
func (s *session) restore(ctx context.Context, q querier) error {
	if err := s.putBack(ctx, q); err != nil {
		return fmt.Errorf("%w: %s", errSession, err) // no outcome
	}
	return nil
}

// errSession is the error for a connection that is not as it was: it has to go.
var errSession = errors.New("the session cannot be put back")

func (s *session) putBack(ctx context.Context, q querier) error {
	locked, values, err := s.read(ctx, q)
	if err != nil {
		return err
	}
	for i, one := range s.settings {
		if values[i] == one.value {
			continue
		}
		value := "DEFAULT"
		if one.value.Valid {
			value = "'" + strings.ReplaceAll(one.value.String, "'", "''") + "'"
		}
		if one.value.Valid && one.number {
			value = one.value.String
		}
		if _, err := q.ExecContext(ctx, "SET SESSION "+quoted(one.name)+" = "+value); err != nil {
			return fmt.Errorf("put back setting %s: %w", one.name, err)
		}
	}
	if locked {
		return nil
	}
	var got sql.NullInt64
	err = q.QueryRowContext(ctx, `SELECT GET_LOCK(?, 0)`, s.lock).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = errors.New("another node works on this database: it holds its lock")
	}
	return err
}
