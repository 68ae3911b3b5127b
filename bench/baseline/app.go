// Package baseline is the ledger that Chainify is compared with. It is made of CometBFT and
// PostgreSQL in the simplest way that is right, after the designs published before ours.
//
// The application runs in CometBFT's process. It executes the transactions of a block one after the
// other over one connection, in one database transaction for each block, and agrees on their order
// alone. It keeps no history, no digests and no signatures of clients. Without a database it does
// nothing with a transaction: that is the floor for any application on CometBFT.
package baseline

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	abci "github.com/cometbft/cometbft/abci/types"
	"github.com/jackc/pgx/v5"
)

// Call is one statement with the texts of $1, $2 …
type Call struct {
	SQL  string   `json:"s"`
	Args []string `json:"a"`
}

// Encode makes a transaction of calls. The nonce tells two transactions of the same calls apart.
func Encode(nonce uint64, calls []Call) ([]byte, error) {
	return json.Marshal(message{nonce, calls})
}

type message struct {
	Nonce uint64 `json:"n"`
	Calls []Call `json:"c"`
}

// StateSQL makes what the application keeps beside the tables of the workload.
const StateSQL = `CREATE SCHEMA baseline; CREATE TABLE baseline.state (height bigint NOT NULL, hash bytea NOT NULL, executed bigint NOT NULL);
	INSERT INTO baseline.state VALUES (0, '', 0)`

// application implements ABCI. CometBFT calls FinalizeBlock and Commit one at a time; what others call reads nothing of it.
type application struct {
	abci.BaseApplication
	conn   *pgx.Conn // nil: nothing is executed
	tx     pgx.Tx    // of the block between FinalizeBlock and Commit
	height int64
	hash   []byte
}

func newApplication(ctx context.Context, dsn string) (*application, error) {
	a := &application{}
	if dsn == "" {
		return a, nil
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	a.conn = conn
	return a, conn.QueryRow(ctx, "SELECT height, hash FROM baseline.state").Scan(&a.height, &a.hash)
}

// Info tells CometBFT from where to replay.
func (a *application) Info(context.Context, *abci.RequestInfo) (*abci.ResponseInfo, error) {
	return &abci.ResponseInfo{LastBlockHeight: a.height, LastBlockAppHash: a.hash}, nil
}

// FinalizeBlock executes a block in a database transaction that Commit ends.
func (a *application) FinalizeBlock(ctx context.Context, b *abci.RequestFinalizeBlock) (*abci.ResponseFinalizeBlock, error) {
	a.height = b.Height
	results := make([]*abci.ExecTxResult, len(b.Txs))
	for i := range results {
		results[i] = &abci.ExecTxResult{}
	}
	if a.conn != nil && len(b.Txs) > 0 {
		// A block without transactions leaves the hash as it is: CometBFT makes another block whenever it changed.
		chained := sha256.Sum256(append(slices.Clone(a.hash), b.Hash...))
		a.hash = chained[:]
		if err := a.execute(ctx, b.Txs); err != nil {
			return nil, fmt.Errorf("execute block %d: %w", b.Height, err)
		}
	}
	return &abci.ResponseFinalizeBlock{TxResults: results, AppHash: a.hash}, nil
}

func (a *application) execute(ctx context.Context, txs [][]byte) (err error) {
	if a.tx, err = a.conn.Begin(ctx); err != nil {
		return err
	}
	executed := 0
	for i, raw := range txs {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("transaction %d: %w", i, err)
		}
		for _, call := range m.Calls {
			args := make([]any, len(call.Args))
			for j, arg := range call.Args {
				args[j] = arg
			}
			if _, err := a.tx.Exec(ctx, call.SQL, args...); err != nil {
				return fmt.Errorf("transaction %d: %s: %w", i, call.SQL, err)
			}
			executed++
		}
	}
	_, err = a.tx.Exec(ctx, "UPDATE baseline.state SET height = $1, hash = $2, executed = executed + $3", a.height, a.hash, executed)
	return err
}

// Commit makes the block durable.
func (a *application) Commit(ctx context.Context, _ *abci.RequestCommit) (*abci.ResponseCommit, error) {
	if a.tx != nil {
		if err := a.tx.Commit(ctx); err != nil {
			return nil, err
		}
		a.tx = nil
	}
	return &abci.ResponseCommit{}, nil
}

func (a *application) close(ctx context.Context) error {
	if a.conn == nil {
		return nil
	}
	var rolledBack error
	if a.tx != nil {
		rolledBack = a.tx.Rollback(ctx)
	}
	return errors.Join(rolledBack, a.conn.Close(ctx))
}
