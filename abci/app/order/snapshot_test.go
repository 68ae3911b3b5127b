package order_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// kept is a snapshot with all its bytes.
type kept struct {
	Manifest order.Manifest
	Body     []byte
}

func seal(s *order.State) *kept {
	snapshot := s.Seal()
	if snapshot == nil {
		return nil
	}
	var body []byte
	for chunk := range snapshot.Chunks() {
		body = append(body, chunk...)
	}
	return &kept{snapshot.Manifest, body}
}

// sealed is a state with something in each place of a snapshot, and that snapshot. There are a
// pending block in its second round with a vote, a change that waits, clients, a suspension and a
// replay window.
func sealed(t testing.TB) (*order.State, *kept) {
	t.Helper()
	c := ordertest.New(4, 0)
	c.Genesis.Parameters.SnapshotEvery = 10
	registry := c.Registry(t)
	state := registry.Genesis(1)
	var snapshot *kept
	play := func(raw ...[]byte) {
		t.Helper()
		b := order.Block{Height: state.Height() + 1, TimeMicro: state.Height() * 1_000_000, Hash: wire.Hash{byte(state.Height())}}
		for _, r := range raw {
			tx, err := state.Registry().Open(r)
			must.Do(t, err)
			b.Txs = append(b.Txs, tx)
		}
		next, _, err := state.Apply(b)
		must.Do(t, err)
		snapshot = seal(next)
		next.Settle()
		state = next
	}
	votes := func(of func(i int) *wire.ExtendedVote, n int) []byte {
		var list []*wire.ExtendedVote
		for i := range n {
			list = append(list, of(i))
		}
		certificate := state.Certificate(list, func(wire.Key) (wire.Hash, bool) { return wire.Hash{}, false })
		return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: certificate}})
	}
	for i := range uint64(6) {
		play(c.Client(int(i%2), &wire.ClientChange{Sequence: 1 + i/2, Key: bytes.Repeat([]byte{byte(i + 1)}, 32), Role: fmt.Sprintf("clerk %d", i)}))
	}
	play(c.Governance(&wire.GovernanceChange{Sequence: 1, EffectiveHeight: 500, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_Consent{Consent: 2}},
	}}, 0, 1, 2), c.Bundle(0, c.Proposal(0, 1, 100), c.Proposal(0, 2, 90)))
	play(votes(func(i int) *wire.ExtendedVote {
		return c.Sign(i, state.Height(), wire.NewStuckVote(state.Pending().Key(), 1))
	}, 3))
	play()
	play(votes(func(i int) *wire.ExtendedVote {
		return c.Effects(i, state.Height(), state.Pending().Key(), wire.Hash{7})
	}, 1))
	if p := state.Pending(); p == nil || p.Round != 1 || len(p.Votes) != 1 || snapshot == nil || len(state.SuspendedClients()) != 1 || state.Governance().Waiting == nil {
		t.Fatalf("pending %+v, suspended %v: the snapshot lacks something", p, state.SuspendedClients())
	}
	return state, snapshot
}

func TestASnapshotIsTheWholeState(t *testing.T) {
	state, snapshot := sealed(t)
	back := reopened(t, snapshot, state)
	want, err := state.Record()
	must.Do(t, err)
	if got, err := back.Record(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("record %s, %v, want %s", got, err, want)
	}
	if got, want := fmt.Sprint(back.Registries(), slices.Collect(back.Accepted()), back.Registry().Record()), fmt.Sprint(state.Registries(), slices.Collect(state.Accepted()), state.Registry().Record()); got != want {
		t.Errorf("registries and window %s, want %s", got, want)
	}
	for _, organisation := range []string{"o0", "o1", "o2"} {
		got, changes := back.Clients().Of(organisation)
		want, wantChanges := state.Clients().Of(organisation)
		if fmt.Sprint(got, changes) != fmt.Sprint(want, wantChanges) {
			t.Errorf("clients of %s: %v, want %v", organisation, got, want)
		}
	}
}

// snapshotVector is a snapshot of a height, with what follows from its bytes.
type snapshotVector struct {
	Name     string `json:"name"`
	Height   int64  `json:"height"`
	Ordered  uint64 `json:"ordered"`
	Snapshot string `json:"snapshot"`
	State    string `json:"state"`
	Manifest string `json:"manifest"`
	Root     string `json:"root"`
	AppHash  string `json:"app_hash"`
}

// The bytes of a snapshot are hashed: a change is a new version. UPDATE_VECTORS=1 rewrites them.
// A node's other routines read the registries while a snapshot is made: the race detector sees a
// seal that writes to them.
func TestASealOnlyReads(t *testing.T) {
	state, snapshot := sealed(t)
	read := make(chan error)
	go func() {
		raw, err := json.Marshal(state.Registries())
		if err == nil && len(raw) == 0 {
			err = fmt.Errorf("no registries")
		}
		read <- err
	}()
	again := seal(state)
	if err := <-read; err != nil || !bytes.Equal(again.Body, snapshot.Body) {
		t.Fatalf("error %v, %d bytes instead of %d", err, len(again.Body), len(snapshot.Body))
	}
}

func TestVectorsOfSnapshots(t *testing.T) {
	state, snapshot := sealed(t)
	m := snapshot.Manifest
	root, appHash := m.Root(state.Height()), state.AppHash()
	v := map[string][]snapshotVector{"cases": {{
		"a pending block, a change that waits, clients, a suspension, and transactions that are not expired", state.Height(), m.Ordered, hex.EncodeToString(snapshot.Body),
		hex.EncodeToString(m.State[:]), hex.EncodeToString(m.Encode()), hex.EncodeToString(root[:]), hex.EncodeToString(appHash[:]),
	}}}
	after, err := json.MarshalIndent(v, "", " ")
	must.Do(t, err)
	path, after := filepath.Join("..", "..", "..", "spec", "vectors", "snapshots.json"), append(after, '\n')
	if os.Getenv("UPDATE_VECTORS") != "" {
		must.Do(t, os.WriteFile(path, after, 0o644))
	}
	if before, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("snapshots.json is not what the implementation gives, %v: UPDATE_VECTORS=1 rewrites it, git diff shows what differs", err)
	}
}

// No other bytes give the AppHash that the light client trusts: each byte is in it.
func TestAFalseSnapshotHasAnotherAppHash(t *testing.T) {
	state, snapshot := sealed(t)
	opened := 0
	for i := range snapshot.Body {
		for _, bit := range []byte{1, 0x80} {
			body := bytes.Clone(snapshot.Body)
			body[i] ^= bit
			if snapshot.Manifest.Check(0, body) == nil {
				t.Fatalf("byte %d is changed, and the chunk passes", i)
			}
			back, err := order.OpenSnapshot(body)
			if err != nil {
				continue
			}
			if opened++; back.AppHash() == state.AppHash() {
				t.Fatalf("byte %d is changed, and the AppHash is the same", i)
			}
		}
	}
	if opened < 100 {
		t.Errorf("%d changed snapshots could be opened: the test tries little", opened)
	}
}

func TestSnapshotsAreRefused(t *testing.T) {
	_, snapshot := sealed(t)
	for n := range snapshot.Body {
		if _, err := order.OpenSnapshot(snapshot.Body[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are a snapshot", n, len(snapshot.Body))
		}
	}
	if _, err := order.OpenSnapshot(append(bytes.Clone(snapshot.Body), 0)); err == nil || !strings.Contains(err.Error(), "1 bytes too many") {
		t.Errorf("a byte too many: %v", err)
	}
}

func TestManifestsAreRefused(t *testing.T) {
	_, snapshot := sealed(t)
	raw := snapshot.Manifest.Encode()
	if m, err := order.DecodeManifest(raw); err != nil || m.AppHash(10) != snapshot.Manifest.AppHash(10) {
		t.Fatalf("%+v, %v", m, err)
	}
	length := func(n uint64, chunks int) []byte {
		m := order.Manifest{Length: n, Chunks: make([]wire.Hash, chunks)}
		return m.Encode()
	}
	for name, bad := range map[string][]byte{
		"none":            nil,
		"truncated":       raw[:len(raw)-1],
		"no head":         raw[:40],
		"a chunk less":    raw[:len(raw)-32],
		"a chunk more":    append(bytes.Clone(raw), make([]byte, 32)...),
		"empty":           length(0, 0),
		"too long":        length(order.SnapshotChunksMax*order.SnapshotChunkBytes+1, order.SnapshotChunksMax+1),
		"too few chunks":  length(order.SnapshotChunkBytes+1, 1),
		"too many chunks": length(order.SnapshotChunkBytes, 2),
		"beyond all":      length(1<<63, 1),
	} {
		if m, err := order.DecodeManifest(bad); err == nil {
			t.Errorf("%s: %+v is a manifest", name, m)
		}
	}
	for i := range raw { // each byte is in the AppHash
		other := bytes.Clone(raw)
		other[i] ^= 1
		if m, err := order.DecodeManifest(other); err == nil && m.AppHash(10) == snapshot.Manifest.AppHash(10) {
			t.Errorf("byte %d is changed, and the AppHash is the same", i)
		}
	}
	if snapshot.Manifest.AppHash(20) == snapshot.Manifest.AppHash(10) {
		t.Error("the AppHash does not depend on the height")
	}
}

// A snapshot of several chunks is cut into full ones and a rest, each with its own hash.
func TestALargeSnapshotComesInChunks(t *testing.T) {
	state := crowded(t, 70_000)
	snapshot := seal(state)
	m, body := snapshot.Manifest, []byte(nil)
	if len(m.Chunks) != 3 {
		t.Fatalf("%d chunks of %d bytes, want 3", len(m.Chunks), m.Length)
	}
	for i := range m.Chunks {
		chunk := order.Chunk(snapshot.Body, i)
		must.Do(t, m.Check(i, chunk))
		if m.Check(i, chunk[1:]) == nil || m.Check((i+1)%3, chunk) == nil || m.Check(3, chunk) == nil || m.Check(-1, chunk) == nil {
			t.Errorf("chunk %d passes shortened, or for another", i)
		}
		body = append(body, chunk...)
	}
	snapshot.Body = body
	reopened(t, snapshot, state)
}

// The replay window may be of gigabytes, and all nodes make its snapshot at one height: none copies
// it, neither to hash it nor to store it.
func TestASnapshotIsMadeInMemoryForAChunk(t *testing.T) {
	state := crowded(t, 200_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	snapshot := state.Seal()
	read := 0
	for chunk := range snapshot.Chunks() {
		read += len(chunk)
	}
	runtime.ReadMemStats(&after)
	const most = 6 * order.SnapshotChunkBytes // it is made twice; the race detector needs some more
	if took := after.TotalAlloc - before.TotalAlloc; read < 8_000_000 || uint64(read) != snapshot.Manifest.Length || took > most {
		t.Errorf("%d of %d bytes were made in %d bytes of memory, want at most %d", read, snapshot.Manifest.Length, took, most)
	}
}

// crowded is a state at height 10 with so many transactions that are not expired.
func crowded(t testing.TB, count int) *order.State {
	t.Helper()
	c := ordertest.New(4, 0)
	c.Genesis.Parameters.SnapshotEvery = 10
	state := c.Registry(t).Genesis(1)
	random := seeded.Random(t)
	var accepted []order.Accepted
	for range count {
		var id wire.TxID
		for i := range id {
			id[i] = byte(random.Uint32())
		}
		accepted = append(accepted, order.Accepted{ID: id, ValidUntil: 11 + random.Uint64N(2000)})
	}
	record, err := state.Record()
	must.Do(t, err)
	if state, err = order.Restore(record, state.Registries(), state.Clients(), slices.Values(accepted)); err != nil {
		t.Fatal(err)
	}
	for h := range int64(10) {
		next, _, err := state.Apply(order.Block{Height: h + 1, Hash: wire.Hash{byte(h)}})
		must.Do(t, err)
		next.Settle()
		state = next
	}
	return state
}

// The order waits for a snapshot at its height: 200,000 transactions are not expired at 500 a
// second that live for 400 seconds.
func BenchmarkSeal(b *testing.B) {
	state := crowded(b, 200_000)
	for b.Loop() {
		state.Seal()
	}
}

func FuzzOpenSnapshot(f *testing.F) {
	_, snapshot := sealed(f)
	f.Add(snapshot.Body)
	f.Add(snapshot.Body[:200])
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded(t, len(raw), func() {
			state, err := order.OpenSnapshot(raw)
			if err != nil {
				return
			}
			if s := seal(state); s != nil && !bytes.Equal(s.Body, raw) {
				t.Errorf("%x is opened and made again as %x", raw, s.Body)
			}
		})
	})
}

func FuzzDecodeManifest(f *testing.F) {
	_, snapshot := sealed(f)
	f.Add(snapshot.Manifest.Encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := order.DecodeManifest(raw); err == nil && !bytes.Equal(m.Encode(), raw) {
			t.Errorf("%x is decoded and encoded as %x", raw, m.Encode())
		}
	})
}
