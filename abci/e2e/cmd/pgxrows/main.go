// Command pgxrows prints the rows of a query as pgx reads them, by the extended and by the simple
// protocol: extension/tests/analytics runs it against the analytics worker.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const timeMax = time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), timeMax)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pgxrows:", err)
		cancel()
		os.Exit(1) //nolint:gocritic // cancelled above
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: pgxrows CONNECTION QUERY")
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		if err := printRows(ctx, args[0], args[1], mode); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
	}
	return nil
}

func printRows(ctx context.Context, connection, query string, mode pgx.QueryExecMode) error {
	conn, err := pgx.Connect(ctx, connection)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, query, mode)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		fmt.Println(line(rows.RawValues()))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func line(values [][]byte) string {
	shown := make([]string, len(values))
	for i, value := range values {
		if shown[i] = string(value); value == nil {
			shown[i] = "NULL"
		}
	}
	return strings.Join(shown, "\t")
}
