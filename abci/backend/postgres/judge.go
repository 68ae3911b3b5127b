package postgres

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/portable"
	"github.com/chainify-db/chainify/abci/wire"
)

// refusals are the transactions of a block that the database does not run, each with its outcome.
// indices is nil where engines have no part in the block.
type refusals struct {
	indices             []int32
	sqlstates, messages []string
}

// judges tells whether a block is judged, by how the ledger stood to other engines when it was
// told last; empty: it was not told. Only a text that attaches with ENCODING 2 changes that.
func judges(standing string, transactions []byte) bool {
	return standing == "" || standing == "shared" || bytes.Contains(transactions, []byte(portable.Encoding2))
}

// Shared implements backend.OfEngines.
func (b *Backend) Shared() bool { return b.shared.Load() }

// begin starts the block's transaction and judges those of the block by the ledger's tables
// (spec/engines.md, "Statements"): one round trip. Called with mu held.
func (b *Backend) begin(ctx context.Context, block *wire.OrderedBlock) (refusals, error) {
	var standing string
	var names, texts, procedures, signatures []string
	together := &pgx.Batch{}
	together.Queue(beginBlock)
	together.Queue(`SELECT standing, names, texts, procedures, signatures FROM chainify_node.shared_tables()`).QueryRow(func(row pgx.Row) error {
		return row.Scan(&standing, &names, &texts, &procedures, &signatures)
	})
	if err := b.conn.SendBatch(ctx, together).Close(); err != nil {
		return refusals{}, err
	}
	b.standing = standing
	b.shared.Store(standing == "shared")
	if bytes.Contains(block.Transactions, []byte(portable.Encoding2)) {
		b.standing = "" // the block may change it
	}
	if standing != "shared" && standing != "open" {
		return refusals{}, nil
	}
	var ledger portable.Ledger
	var err error
	if ledger.Tables, err = sharedTables(names, texts); err != nil {
		return refusals{}, fmt.Errorf("read tables with ENCODING 2: %w", err)
	}
	if ledger.Procedures, err = sharedProcedures(procedures, signatures); err != nil {
		return refusals{}, fmt.Errorf("read procedures: %w", err)
	}
	proposals, err := proposalsOf(block.Transactions)
	if err != nil {
		return refusals{}, err
	}
	judged := ledger.Judged(proposals, standing == "shared", standing == "open", portable.Texts{})
	if judged == nil {
		return refusals{}, nil
	}
	r := refusals{indices: []int32{}}
	for i, refusal := range judged {
		if refusal != nil {
			r.indices = append(r.indices, int32(i))
			r.sqlstates, r.messages = append(r.sqlstates, refusal.SQLState), append(r.messages, refusal.Construct)
		}
	}
	return r, nil
}

func proposalsOf(transactions []byte) ([]*wire.Proposal, error) {
	raw, err := wire.SplitTransactions(transactions)
	if err != nil {
		return nil, err
	}
	proposals := make([]*wire.Proposal, len(raw))
	for i, tx := range raw {
		decoded, err := wire.DecodeChainedTx(tx)
		if err != nil {
			return nil, fmt.Errorf("decode transaction %d: %w", i, err)
		}
		proposals[i] = decoded.Proposal
	}
	return proposals, nil
}

func sharedTables(names, texts []string) (map[string]*canonical.Table, error) {
	if len(names) != len(texts) {
		return nil, fmt.Errorf("%d names and %d schema texts", len(names), len(texts))
	}
	tables := make(map[string]*canonical.Table, len(names))
	for i, name := range names {
		t, err := canonical.ParseSchemaText(name, texts[i])
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
		tables[name] = t
	}
	return tables, nil
}

func sharedProcedures(names, signatures []string) (map[string]*canonical.Procedure, error) {
	if len(names) != len(signatures) {
		return nil, fmt.Errorf("%d names and %d signatures", len(names), len(signatures))
	}
	procedures := make(map[string]*canonical.Procedure, len(names))
	for i, name := range names {
		types, err := canonical.ParseSignature(signatures[i])
		if err != nil {
			return nil, fmt.Errorf("procedure %s: %w", name, err)
		}
		procedures[name] = &canonical.Procedure{Name: name, Types: types}
	}
	return procedures, nil
}
