// Command pgxrows prints the rows of a query as pgx reads them, in each of its ways to ask, in
// binary and as text: extension/tests/analytics runs it against the analytics worker.
package main

import (
	"context"
	"fmt"
	"os"
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
	if len(args) < 2 {
		return fmt.Errorf("usage: pgxrows CONNECTION QUERY [VALUE...]")
	}
	values := make([]any, len(args)-2)
	for i, value := range args[2:] {
		values[i] = value
	}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		if err := printRows(ctx, args[0], args[1], append([]any{mode}, values...)); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
	}
	return nil
}

func printRows(ctx context.Context, connection, query string, asked []any) error {
	conn, err := pgx.Connect(ctx, connection)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, query, asked...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return err
		}
		fmt.Println(values...)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
