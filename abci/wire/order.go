package wire

import "errors"

// Decision is the change of one decided order block at ledger level.
type Decision struct {
	Height int64
	// TimeMicro is its time, microseconds since the Unix epoch.
	TimeMicro int64
	// Certificate is set when this order block certified the pending block.
	Certificate *Certificate
	// Ordered is the new pending block, or the pending block again when its round advanced.
	Ordered *OrderedBlock
	// Refused are transactions the order refused (expired, replayed), for their waiting clients.
	Refused []TxResult
}

// ErrPruned is the error for a ledger block that a node does not have, since it keeps the newest
// ones alone, or joined after it.
var ErrPruned = errors.New("this node dropped it ([retention] order_blocks), or joined after it by a snapshot; restore the database from a newer backup, or the node's home from one that has it")

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
