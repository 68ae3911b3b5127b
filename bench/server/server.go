// Package server records version and settings of a benchmark's PostgreSQL servers.
package server

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/bench/report"
)

// Describe adds a server's version and, under a name, its settings that differ from PostgreSQL's
// defaults. It leaves out settings of the server's place and of its log.
func Describe(ctx context.Context, r *report.Report, name string, conn *pgx.Conn) error {
	var version string
	if err := conn.QueryRow(ctx, "SELECT version()").Scan(&version); err != nil {
		return err
	}
	r.Versions["postgresql"] = version
	rows, err := conn.Query(ctx, `SELECT name, setting || coalesce(' ' || unit, '') FROM pg_settings
		WHERE source = 'configuration file' AND name !~ '^(port|listen_addresses|unix_socket_directories|chainify.node_socket|chainify.analytics_socket|lc_.*|log_.*|DateStyle|TimeZone|default_text_search_config)$'
		ORDER BY name`)
	if err != nil {
		return err
	}
	found := map[string]any{}
	var setting, value string
	if _, err := pgx.ForEachRow(rows, []any{&setting, &value}, func() error { found[setting] = value; return nil }); err != nil {
		return err
	}
	r.Settings[name] = found
	return nil
}
