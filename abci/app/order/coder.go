package order

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/chainify-db/chainify/abci/wire"
)

// coder writes fields, or reads them into the same places, so that one description serves both.
// Integers are big-endian. After an error nothing more is read. Writing leaves the fields
// untouched, since other routines may read them at the same time.
type coder struct {
	reads    bool
	versions bool   // whether versions of the protocol stand there
	bytes    []byte // written so far, or left to read
	err      error
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// take returns the next n bytes; zeros after an error.
func (c *coder) take(n int) []byte {
	if n > len(c.bytes) {
		c.fail("%d bytes are left, want %d", len(c.bytes), n)
	}
	if c.err != nil {
		return make([]byte, min(n, 64))
	}
	out := c.bytes[:n:n]
	c.bytes = c.bytes[n:]
	return out
}

func (c *coder) u64(v *uint64) {
	if c.reads {
		*v = binary.BigEndian.Uint64(c.take(8))
		return
	}
	c.bytes = binary.BigEndian.AppendUint64(c.bytes, *v)
}

func (c *coder) i64(v *int64) {
	u := uint64(*v)
	if c.u64(&u); c.reads {
		*v = int64(u)
	}
}

func (c *coder) u32(v *uint32) {
	if c.reads {
		*v = binary.BigEndian.Uint32(c.take(4))
		return
	}
	c.bytes = binary.BigEndian.AppendUint32(c.bytes, *v)
}

// number is an int from 0 to 2^31-1.
func (c *coder) number(v *int) {
	u := uint32(*v)
	if c.u32(&u); u > math.MaxInt32 {
		c.fail("%d is too large a number", u)
	}
	if c.reads {
		*v = int(u)
	}
}

// protocol is a u32, where versions of the protocol stand.
func (c *coder) protocol(v *wire.Protocol) {
	u := uint32(*v)
	if c.versions {
		c.u32(&u)
	}
	if c.reads {
		*v = wire.Protocol(u)
	}
}

func (c *coder) flag(v *bool) {
	if !c.reads {
		b := byte(0)
		if *v {
			b = 1
		}
		c.bytes = append(c.bytes, b)
		return
	}
	b := c.take(1)[0]
	if *v = b == 1; b > 1 {
		c.fail("%d is neither 0 nor 1", b)
	}
}

func (c *coder) hash(v *wire.Hash) {
	if c.reads {
		*v = wire.Hash(c.take(len(v)))
		return
	}
	c.bytes = append(c.bytes, v[:]...)
}

// data is u32 length ‖ bytes; nil when there are none.
func (c *coder) data(v *[]byte) {
	if !c.reads {
		c.bytes = append(binary.BigEndian.AppendUint32(c.bytes, uint32(len(*v))), *v...)
		return
	}
	n := uint32(0)
	if c.u32(&n); uint64(n) > uint64(len(c.bytes)) {
		c.fail("%d bytes are left, want %d", len(c.bytes), n)
	}
	if *v = nil; n > 0 && c.err == nil {
		*v = append([]byte(nil), c.take(int(n))...)
	}
}

func (c *coder) text(v *string) {
	raw := []byte(*v)
	if c.data(&raw); c.reads {
		*v = string(raw)
	}
}

// list is u32 count ‖ each; nil when there are none. Each takes at least one byte.
func list[T any](c *coder, v *[]T, each func(*T)) {
	n := uint32(len(*v))
	if c.u32(&n); c.reads {
		if *v = nil; uint64(n) > uint64(len(c.bytes)) {
			c.fail("%d things do not fit into %d bytes", n, len(c.bytes))
		}
		for range n {
			if c.err != nil {
				return
			}
			var one T
			each(&one)
			*v = append(*v, one)
		}
		return
	}
	for i := range *v {
		each(&(*v)[i])
	}
}
