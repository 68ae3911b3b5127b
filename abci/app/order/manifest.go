package order

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/chainify-db/chainify/abci/wire"
)

// Bounds of a snapshot, in bytes and in chunks of these. A longer one is hashed and never offered.
const (
	SnapshotChunkBytes = 1 << 20
	SnapshotChunksMax  = 1_024
)

// Manifest says what a snapshot of a height consists of, and is enough to compute the AppHash of
// that height. So a false one is found before any chunk is fetched, and a false chunk by itself.
type Manifest struct {
	State   wire.Hash // the AppHash but for the snapshot
	Ordered uint64    // the last ledger block
	Length  uint64    // of all chunks together, in bytes
	Chunks  []wire.Hash
}

// Root returns H("chainify/snapshot/1" ‖ u64 height ‖ u64 ordered ‖ u64 length ‖ hash of each
// chunk).
func (m Manifest) Root(height int64) wire.Hash {
	out := binary.BigEndian.AppendUint64([]byte("chainify/snapshot/1"), uint64(height))
	out = binary.BigEndian.AppendUint64(out, m.Ordered)
	out = binary.BigEndian.AppendUint64(out, m.Length)
	for _, chunk := range m.Chunks {
		out = append(out, chunk[:]...)
	}
	return sha256.Sum256(out)
}

// AppHash returns the AppHash after the order block of this height.
func (m Manifest) AppHash(height int64) wire.Hash { return m.appHash(m.Root(height)) }

func (m Manifest) appHash(root wire.Hash) wire.Hash {
	return sha256.Sum256(append(append([]byte("chainify/app/5"), m.State[:]...), root[:]...))
}

// manifestOf is that of a snapshot in its chunks; all but the last are full.
func manifestOf(state wire.Hash, ordered uint64, chunks iter.Seq[[]byte]) Manifest {
	m := Manifest{State: state, Ordered: ordered}
	for chunk := range chunks {
		m.Length += uint64(len(chunk))
		m.Chunks = append(m.Chunks, sha256.Sum256(chunk))
	}
	return m
}

func chunksOf(length uint64) int { return int((length + SnapshotChunkBytes - 1) / SnapshotChunkBytes) }

// Chunk is the i-th chunk of a snapshot, which has it.
func Chunk(body []byte, i int) []byte {
	return body[i*SnapshotChunkBytes : min((i+1)*SnapshotChunkBytes, len(body))]
}

// Check says what is wrong with a chunk: it must not be used; nil: it is the one that was hashed.
func (m Manifest) Check(i int, chunk []byte) error {
	if i < 0 || i >= len(m.Chunks) {
		return fmt.Errorf("snapshot has %d chunks, no chunk %d", len(m.Chunks), i)
	}
	if want := min(m.Length-uint64(i)*SnapshotChunkBytes, SnapshotChunkBytes); uint64(len(chunk)) != want {
		return fmt.Errorf("chunk %d of the snapshot is %d bytes, want %d", i, len(chunk), want)
	}
	if wire.Hash(sha256.Sum256(chunk)) != m.Chunks[i] {
		return fmt.Errorf("chunk %d of the snapshot has another hash than its manifest says", i)
	}
	return nil
}

// Encode returns state ‖ u64 ordered ‖ u64 length ‖ hash of each chunk.
func (m Manifest) Encode() []byte {
	out := binary.BigEndian.AppendUint64(m.State[:], m.Ordered)
	out = binary.BigEndian.AppendUint64(out, m.Length)
	for _, chunk := range m.Chunks {
		out = append(out, chunk[:]...)
	}
	return out
}

// DecodeManifest reads a manifest of at most SnapshotChunksMax chunks, and nothing after it.
func DecodeManifest(raw []byte) (Manifest, error) {
	var m Manifest
	const head, size = len(m.State) + 16, len(wire.Hash{})
	if len(raw) < head || (len(raw)-head)%size != 0 {
		return m, fmt.Errorf("snapshot manifest is %d bytes, want %d and %d for each chunk", len(raw), head, size)
	}
	m.State = wire.Hash(raw[:size])
	m.Ordered, m.Length = binary.BigEndian.Uint64(raw[size:]), binary.BigEndian.Uint64(raw[size+8:])
	if m.Length == 0 || m.Length > SnapshotChunksMax*SnapshotChunkBytes {
		return m, fmt.Errorf("snapshot is %d bytes, want 1 to %d", m.Length, SnapshotChunksMax*SnapshotChunkBytes)
	}
	if n := (len(raw) - head) / size; n != chunksOf(m.Length) {
		return m, fmt.Errorf("snapshot of %d bytes has %d chunks, want %d", m.Length, n, chunksOf(m.Length))
	}
	for rest := raw[head:]; len(rest) > 0; rest = rest[size:] {
		m.Chunks = append(m.Chunks, wire.Hash(rest[:size]))
	}
	return m, nil
}
