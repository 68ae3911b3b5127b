package canonical

import "github.com/chainify-db/chainify/abci/wire"

// Commitment is what the ledger holds in place of a private value (spec/private.md). value is
// canonical: tag, length and payload.
func Commitment(chainID, table, column, logicalType string, salt, value []byte) wire.Hash {
	in := appendPrefixed(appendPrefixed([]byte("chainify/sealed/1"), chainID), table)
	in = appendPrefixed(appendPrefixed(in, column), logicalType)
	return hash(in, salt, value)
}
