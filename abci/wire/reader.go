package wire

import "encoding/binary"

// reader takes big-endian fields off the front of a byte string and keeps the first error, of which
// the field is a path below the message. After an error every field is zero.
type reader struct {
	rest []byte
	err  *FieldError
}

func (r *reader) fail(field, format string, args ...any) {
	if r.err == nil {
		r.err = newFieldError(field, format, args...)
	}
}

// within puts the name of the place around the path of the error.
func (r *reader) within(place string) { r.err.Field = place + "." + r.err.Field }

// end refuses bytes that are left.
func (r *reader) end(field string) {
	if len(r.rest) > 0 {
		r.fail(field, "%d bytes too many", len(r.rest))
	}
}

func (r *reader) take(field string, n int) []byte {
	if n > len(r.rest) {
		r.fail(field, "%d bytes left, want %d", len(r.rest), n)
	}
	if r.err != nil {
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) u8(field string) byte {
	if b := r.take(field, 1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16(field string) uint16 {
	if b := r.take(field, 2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32(field string) uint32 {
	if b := r.take(field, 4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64(field string) uint64 {
	if b := r.take(field, 8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) hash(field string) Hash {
	if b := r.take(field, len(Hash{})); b != nil {
		return Hash(b)
	}
	return Hash{}
}

func (r *reader) length(field string, bytesMax int) int {
	n := r.u32(field)
	if uint64(n) > uint64(bytesMax) {
		r.fail(field, "%d bytes, want at most %d", n, bytesMax)
		return 0
	}
	return int(n)
}

// prefixed reads lp(x).
func (r *reader) prefixed(field string) []byte {
	return r.take(field, r.length(field, len(r.rest)))
}

// count checks that n things of at least bytesMin bytes fit into the bytes left; 0 after an error.
func (r *reader) count(field string, n uint32, bytesMin int) int {
	if uint64(n)*uint64(bytesMin) > uint64(len(r.rest)) {
		r.fail(field, "%d do not fit into %d bytes", n, len(r.rest))
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}
