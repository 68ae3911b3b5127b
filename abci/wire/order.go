package wire

// Decision is what one decided order block changed at ledger level.
type Decision struct {
	Height int64
	// Certificate is set when this order block certified the pending block.
	Certificate *Certificate
	// Ordered is the new pending block, or the pending block again when its round advanced.
	Ordered *OrderedBlock
	// Refused are transactions the order refused (expired, replayed), for their waiting clients.
	Refused []TxResult
}

// Source gives what was decided earlier, from the node's own stores, after a crash or a lost
// database.
type Source interface {
	// LastOrdered and LastCertified are 0 before the first block.
	LastOrdered() uint64
	LastCertified() uint64
	// Ordered returns ledger block n in its last round, as it has to be executed.
	Ordered(n uint64) (*OrderedBlock, error)
	// Certificate returns the certificate of block n, n <= LastCertified().
	Certificate(n uint64) (*Certificate, error)
}
