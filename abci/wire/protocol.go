package wire

import "fmt"

// ProtocolVersionMax bounds the versions of the protocol. A change leads to the next one, so it
// bounds their number too.
const ProtocolVersionMax = 65_535

// Protocol is a version of the protocol as it stands in what is hashed and compared: 0 is the first
// one, of which chains without a version are too. ProtocolVersion says which ones this program
// knows.
type Protocol uint32

// Version is the number that people see, from 1.
func (p Protocol) Version() uint32 { return uint32(max(p, 1)) }

// NewerProtocolError says that a version of the protocol comes into force, or is, that this program
// does not know.
type NewerProtocolError struct {
	Version uint32 // in force
	Height  int64  // the first order block under it
	Known   Protocol
}

func (e *NewerProtocolError) Error() string {
	return fmt.Sprintf("version %d of the protocol is in force from order height %d on, and this program knows versions up to %d: "+
		"install a release of Chainify that knows version %d, and start the node again; it goes on where it stopped",
		e.Version, e.Height, e.Known.Version(), e.Version)
}
