package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/must"
)

func testKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func testProposal() *Proposal {
	return &Proposal{
		ChainId: "bank", Client: &Client{Organisation: "acme", Role: "clerk"}, Nonce: 7, ValidUntilHeight: 100,
		Kind: Kind_KIND_SQL, Sql: "UPDATE t SET a = $1", Parameters: []*Parameter{{Type: "integer", Text: "5"}, {Null: true}},
	}
}

func chain(p *Proposal) *ChainedTx { return &ChainedTx{Proposal: &SignedProposal{Proposal: Encode(p)}} }

func testBundle() *Bundle {
	other := testProposal()
	other.Nonce = 8
	return &Bundle{ChainId: "bank", Organisation: "acme", Sequence: 3, Transactions: []*ChainedTx{chain(testProposal()), chain(other)}}
}

func testExtendedVote() *ExtendedVote {
	return &ExtendedVote{
		ValidatorAddress: bytes.Repeat([]byte{1}, 20), Height: 9, Signature: make([]byte, 64),
		Extension: NewEffectsVote(Key{Number: 1}, "acme", Hash{1}).Encode(),
	}
}

func TestBundleRoundTrip(t *testing.T) {
	raw := SignBundle(testKey(1), testBundle())
	tx, err := DecodeOrderedTx(raw)
	must.Do(t, err)
	signed := tx.GetBundle()
	if !VerifyBundle(testKey(1).Public().(ed25519.PublicKey), "bank", signed) {
		t.Fatal("own signature refused")
	}
	if VerifyBundle(testKey(1).Public().(ed25519.PublicKey), "bank2", signed) {
		t.Fatal("signature accepted for another chain")
	}
	bundle, txs, err := DecodeBundle(signed.Bundle)
	must.Do(t, err)
	if bundle.Sequence != 3 || len(txs) != 2 {
		t.Fatalf("sequence %d with %d transactions, want 3 with 2", bundle.Sequence, len(txs))
	}
	for i, tx := range txs {
		if want := Encode(testBundle().Transactions[i]); !bytes.Equal(tx.Raw, want) {
			t.Errorf("transaction %d: raw bytes %x, want %x", i, tx.Raw, want)
		}
		if want := sha256.Sum256(append([]byte("chainify/tx/1"), tx.Chained.Proposal.Proposal...)); tx.ID != want {
			t.Errorf("transaction %d: id %x, want %x", i, tx.ID, want)
		}
	}
}

func TestDecodersRefuseWhatBreaksTheFormat(t *testing.T) {
	proposal := func(change func(*Proposal)) func() error {
		return func() error {
			p := testProposal()
			change(p)
			_, err := DecodeProposal(Encode(p))
			return err
		}
	}
	bundle := func(change func(*Bundle)) func() error {
		return func() error {
			b := testBundle()
			change(b)
			_, _, err := DecodeBundle(Encode(b))
			return err
		}
	}
	certificate := func(change func(*EffectCertificate)) func() error {
		return func() error {
			c := &EffectCertificate{Block: 1, Votes: []*ExtendedVote{testExtendedVote()}}
			change(c)
			_, err := DecodeOrderedTx(Encode(&OrderedTx{Body: &OrderedTx_Certificate{Certificate: c}}))
			return err
		}
	}
	many := func(n int) []*Parameter { return make([]*Parameter, n) }
	for name, test := range map[string]struct {
		run  func() error
		want string
	}{
		"chain id":            {proposal(func(p *Proposal) { p.ChainId = "Bank" }), "proposal.chain_id: "},
		"long chain id":       {proposal(func(p *Proposal) { p.ChainId = strings.Repeat("a", 51) }), "proposal.chain_id: 51 bytes"},
		"no client":           {proposal(func(p *Proposal) { p.Client = nil }), "proposal.client: missing"},
		"organisation":        {proposal(func(p *Proposal) { p.Client.Organisation = "1a" }), "proposal.client.organisation: "},
		"no role":             {proposal(func(p *Proposal) { p.Client.Role = "" }), "proposal.client.role: 0 bytes"},
		"long role":           {proposal(func(p *Proposal) { p.Client.Role = strings.Repeat("r", 64) }), "proposal.client.role: 64 bytes"},
		"reserved kind":       {proposal(func(p *Proposal) { p.Kind = Kind_KIND_GOVERNANCE }), "proposal.kind: 4 "},
		"unknown kind":        {proposal(func(p *Proposal) { p.Kind = 9 }), "proposal.kind: 9 "},
		"no sql":              {proposal(func(p *Proposal) { p.Sql = "" }), "proposal.sql: empty"},
		"zero byte":           {proposal(func(p *Proposal) { p.Sql = "a\x00b" }), "proposal.sql: has a zero byte"},
		"parameters":          {proposal(func(p *Proposal) { p.Parameters = many(1001) }), "proposal.parameters: 1001 "},
		"text beside null":    {proposal(func(p *Proposal) { p.Parameters[1].Text = "x" }), "proposal.parameters[1].text: "},
		"long proposal":       {proposal(func(p *Proposal) { p.Sql = strings.Repeat("x", ProposalBytesMax) }), "proposal: 5243"},
		"empty bundle":        {bundle(func(b *Bundle) { b.Transactions = nil }), "bundle.transactions: 0 "},
		"bundle organisation": {bundle(func(b *Bundle) { b.Organisation = "bolt" }), "bundle.transactions[0].proposal.client.organisation: "},
		"bundle chain":        {bundle(func(b *Bundle) { b.ChainId = "other" }), "bundle.transactions[0].proposal.chain_id: "},
		"missing proposal":    {bundle(func(b *Bundle) { b.Transactions[1].Proposal = nil }), "bundle.transactions[1].proposal: missing"},
		"client signature":    {bundle(func(b *Bundle) { b.Transactions[1].Proposal.Signature = []byte{1} }), "bundle.transactions[1].proposal.signature: 1 bytes"},
		"agreement":           {bundle(func(b *Bundle) { b.Transactions[0].Agreements = []*Agreement{{Organisation: "bolt"}} }), "bundle.transactions[0].agreements[0].proposal_hash: "},
		"many transactions": {bundle(func(b *Bundle) {
			b.Transactions = make([]*ChainedTx, 10_001)
		}), "bundle.transactions: 10001 "},
		"certificate block":  {certificate(func(c *EffectCertificate) { c.Block = 0 }), "certificate.block: 0"},
		"empty certificate":  {certificate(func(c *EffectCertificate) { c.Votes = nil }), "certificate: carries neither"},
		"certificate hash":   {certificate(func(c *EffectCertificate) { c.LedgerBlockHash = []byte{1} }), "certificate.ledger_block_hash: 1 bytes"},
		"vote address":       {certificate(func(c *EffectCertificate) { c.Votes[0].ValidatorAddress = nil }), "certificate.votes[0].validator_address: "},
		"vote height":        {certificate(func(c *EffectCertificate) { c.Votes[0].Height = 0 }), "certificate.votes[0].height: "},
		"vote round":         {certificate(func(c *EffectCertificate) { c.Votes[0].Round = -1 }), "certificate.votes[0].round: "},
		"vote extension":     {certificate(func(c *EffectCertificate) { c.Votes[0].Extension = nil }), "certificate.votes[0].extension: effect vote: 0 bytes"},
		"vote signature":     {certificate(func(c *EffectCertificate) { c.Votes[0].Signature = nil }), "certificate.votes[0].signature: "},
		"votes out of order": {certificate(func(c *EffectCertificate) { c.Votes = append(c.Votes, testExtendedVote()) }), "certificate.votes[1]: not after"},
		"nothing":            {func() error { _, err := DecodeOrderedTx(nil); return err }, "ordered transaction: has neither"},
		"signed bundle": {func() error {
			_, err := DecodeOrderedTx(Encode(&OrderedTx{Body: &OrderedTx_Bundle{Bundle: &SignedBundle{Bundle: []byte{1}}}}))
			return err
		}, "signed bundle.signature: 0 bytes"},
	} {
		err := test.run()
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q…", name, err, test.want)
		}
		if field := (*FieldError)(nil); err != nil && !errors.As(err, &field) {
			t.Errorf("%s: error %T is no FieldError", name, err)
		}
	}
}

func TestOneSpellingOnly(t *testing.T) {
	good := Encode(testProposal())
	if _, err := DecodeProposal(good); err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"unknown field":        append(bytes.Clone(good), 0x78, 1),
		"repeated scalar":      append(bytes.Clone(good), 0x18, 7),
		"repeated message":     append(bytes.Clone(good), 0x12, 0),
		"default spelled out":  append([]byte{0x0a, 0}, good[6:]...),
		"non-minimal length":   append([]byte{0x0a, 0x84, 0x00}, good[2:]...),
		"fields out of order":  append(append([]byte{}, good[6:]...), good[:6]...),
		"truncated":            good[:len(good)-1],
		"not UTF-8":            bytes.Replace(good, []byte("UPDATE"), []byte("UPD\xffTE"), 1),
		"group instead of tag": {0x0b, 0x0c},
	} {
		if _, err := DecodeProposal(raw); err == nil {
			t.Errorf("%s: accepted", name)
		} else if !strings.HasPrefix(err.Error(), "proposal") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEffectVoteRoundTrip(t *testing.T) {
	k := Key{Number: 5, OrderHash: Hash{3}, Round: 2}
	hash := Hash{9}
	v := NewEffectsVote(k, "acme", hash)
	back, err := DecodeEffectVote(v.Encode())
	if err != nil || back != v || back.Key() != k {
		t.Fatalf("%+v, %v; want %+v", back, err, v)
	}
	if !back.IsFor("acme", hash) || back.IsFor("bolt", hash) || back.IsFor("acme", Hash{8}) {
		t.Error("a vote is for exactly one organisation and hash")
	}
	stuck, err := DecodeEffectVote(NewStuckVote(k, 17).Encode())
	if index, is := stuck.StuckAt(); err != nil || !is || index != 17 || stuck.IsFor("acme", stuck.Value) {
		t.Errorf("stuck at %d (%t), %v; want 17", index, is, err)
	}
	for at, change := range map[int]byte{0: 2, 8: 0, 45: 3, 77: 1} {
		raw := NewStuckVote(k, 17).Encode()
		raw[at] = change
		if at == 8 {
			copy(raw[1:9], make([]byte, 8))
		}
		if _, err := DecodeEffectVote(raw); err == nil {
			t.Errorf("byte %d = %d accepted", at, change)
		}
	}
}

// merkleModel is the recursive definition of RFC 9162.
func merkleModel(leaves []Hash) Hash {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	return merkleNode(merkleModel(leaves[:k]), merkleModel(leaves[k:]))
}

func TestMerkleRootEqualsItsDefinition(t *testing.T) {
	leaves := make([]Hash, 70)
	for i := range leaves {
		leaves[i] = Hash{byte(i), 1}
	}
	for n := range leaves {
		if got, want := MerkleRoot(leaves[:n]), merkleModel(leaves[:n]); got != want {
			t.Errorf("%d leaves: %x, want %x", n, got, want)
		}
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	outcomes := NewOutcomes(11)
	outcomes.Set(0)
	outcomes.Set(10)
	h := &Header{
		ChainID: "bank", Number: 4, OrderHeight: 12, BlockTime: -5, TxRoot: Hash{1}, Outcomes: outcomes,
		EffectsRoot: Hash{2}, EffectsCount: 3, StateRoot: Hash{4}, Previous: Hash{5},
	}
	raw := h.Encode()
	back, err := DecodeHeader(raw)
	if err != nil || !bytes.Equal(back.Encode(), raw) || back.Hash() != sha256.Sum256(raw) {
		t.Fatalf("%+v, %v", back, err)
	}
	if !back.Outcomes.Succeeded(10) || back.Outcomes.Succeeded(9) {
		t.Error("outcomes changed")
	}
	for n := range raw {
		if _, err := DecodeHeader(raw[:n]); err == nil {
			t.Errorf("accepted when cut to %d bytes", n)
		}
	}
	if _, err := DecodeHeader(append(raw, 0)); err == nil {
		t.Error("accepted with a byte too many")
	}
	if _, err := DecodeOutcomes(11, []byte{0, 8}); err == nil {
		t.Error("unused outcome bit accepted")
	}
}

func TestBlockBufferRoundTrip(t *testing.T) {
	txs := [][]byte{[]byte("one"), {}, []byte("three")}
	raw := EncodeTransactions(txs)
	back, err := SplitTransactions(raw)
	if err != nil || len(back) != 3 || string(back[2]) != "three" {
		t.Fatalf("%q, %v", back, err)
	}
	for n := range raw {
		if _, err := SplitTransactions(raw[:n]); err == nil {
			t.Errorf("accepted when cut to %d bytes", n)
		}
	}
	if _, err := SplitTransactions([]byte{255, 255, 255, 255}); err == nil {
		t.Error("accepted a count beyond its bytes")
	}
}

func TestFrames(t *testing.T) {
	var buffer bytes.Buffer
	request := &NodeRequest{Request: 4, Body: &NodeRequest_Wait{Wait: &WaitRequest{Ids: [][]byte{make([]byte, 32)}}}}
	must.Do(t, WriteMessage(&buffer, request))
	raw, err := ReadFrame(&buffer)
	must.Do(t, err)
	if back, err := DecodeNodeRequest(raw); err != nil || !proto.Equal(back, request) {
		t.Fatalf("%v, %v", back, err)
	}
	if _, err := ReadFrame(&buffer); err != io.EOF {
		t.Errorf("at the end: %v, want EOF", err)
	}
	if _, err := ReadFrame(bytes.NewReader([]byte{0, 0, 0, 9, 1})); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut frame: %v", err)
	}
	long := binary.BigEndian.AppendUint32(nil, FrameBytesMax+1)
	if field := (*FieldError)(nil); !errors.As(func() error { _, err := ReadFrame(bytes.NewReader(long)); return err }(), &field) {
		t.Error("a frame over the bound is no FieldError")
	}
	if err := WriteFrame(io.Discard, make([]byte, FrameBytesMax+1)); err == nil {
		t.Error("wrote a frame over the bound")
	}
}

func TestExtensionSignBytesAreCometBFTs(t *testing.T) {
	// CanonicalVoteExtension{extension=1, height=2 sfixed64, round=3 sfixed64, chain_id=4}, length
	// first.
	want := []byte{29, 0x0a, 3, 'e', 'x', 't', 0x11, 7, 0, 0, 0, 0, 0, 0, 0, 0x19, 2, 0, 0, 0, 0, 0, 0, 0, 0x22, 4, 'b', 'a', 'n', 'k'}
	if got := ExtensionSignBytes("bank", 7, 2, []byte("ext")); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}
