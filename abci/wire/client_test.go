package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

func testClientChange() *ClientChange {
	return &ClientChange{ChainId: "bank", Organisation: "acme", Sequence: 3, Key: bytes.Repeat([]byte{9}, 32), Role: "clerk"}
}

func TestClientsRefuseWhatBreaksTheFormat(t *testing.T) {
	for want, change := range map[string]func(*ClientChange){
		"client change.chain_id":              func(c *ClientChange) { c.ChainId = "" },
		"client change.organisation":          func(c *ClientChange) { c.Organisation = "A" },
		"client change.sequence: 0":           func(c *ClientChange) { c.Sequence = 0 },
		"client change.key: 31 bytes":         func(c *ClientChange) { c.Key = c.Key[1:] },
		"client change.role: 64 bytes":        func(c *ClientChange) { c.Role = strings.Repeat("r", 64) },
		"client change.role: has a zero byte": func(c *ClientChange) { c.Role = "a\x00" },
	} {
		c := testClientChange()
		change(c)
		if _, err := DecodeClientChange(made(SignClientChange(testKey(1), c)).Change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	short := made(SignClientChange(testKey(1), testClientChange()))
	short.Signature = short.Signature[1:]
	if _, err := DecodeOrderedTx(Encode(&OrderedTx{Body: &OrderedTx_Client{Client: short}})); err == nil || !strings.Contains(err.Error(), "signature: 63 bytes, want 64") {
		t.Errorf("short signature: %v", err)
	}
	for want, change := range map[string]func(*SignedProposal, *Proposal){
		"proposal.client.key: 31 bytes":             func(s *SignedProposal, p *Proposal) { p.Client.Key = p.Client.Key[1:]; s.Proposal = Encode(p) },
		"proposal.signature: 0 bytes, want 64":      func(s *SignedProposal, _ *Proposal) { s.Signature = nil },
		"proposal.signature: 64 bytes, want 0":      func(s *SignedProposal, p *Proposal) { p.Client.Key = nil; s.Proposal = Encode(p) },
		"proposal.client.key: missing":              func(s *SignedProposal, p *Proposal) { p.Client.Key = nil; s.Proposal, s.Signature = Encode(p), nil },
		"proposal: not a protobuf message":          func(s *SignedProposal, _ *Proposal) { s.Proposal = s.Proposal[:len(s.Proposal)-1] },
		"proposal: 524289 bytes, want at most 5242": func(s *SignedProposal, _ *Proposal) { s.Proposal = make([]byte, ProposalBytesMax+1) },
	} {
		p := testProposal()
		s := SignProposal(testKey(1), p)
		change(s, p)
		if _, err := DecodeSignedProposal(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A batch says of each signature what it says of it alone, and names the first that is wrong.
func TestBatchesOfProposals(t *testing.T) {
	sign := func(i byte, nonce uint64) BundledTx {
		p := testProposal()
		p.Nonce = nonce
		tx, err := DecodeSignedProposal(SignProposal(testKey(i), p))
		must.Do(t, err)
		return tx
	}
	var txs []BundledTx
	for i := range byte(20) {
		txs = append(txs, sign(i%3+1, uint64(i)))
	}
	vouched, err := checkChainedTx(chain(testProposal()))
	must.Do(t, err)
	txs[4] = vouched
	if !VerifyProposals("bank", txs) || FirstWrongProposal("bank", txs) != -1 || !VerifyProposals("bank", nil) {
		t.Fatal("a right batch is wrong")
	}
	if VerifyProposals("bond", txs[:3]) || FirstWrongProposal("bond", txs[3:]) != 0 || VerifyProposals("bond", txs[3:4]) {
		t.Error("signed for another chain, and right")
	}
	if !VerifyProposals("bond", txs[4:5]) {
		t.Error("what a gateway vouches for has a wrong signature")
	}
	for _, wrong := range []int{0, 7, 19} {
		forged := append([]BundledTx{}, txs...)
		other := sign(5, 99)
		forged[wrong] = sign(1, 100)
		forged[wrong].Chained.Proposal.Signature = other.Chained.Proposal.Signature
		if i := FirstWrongProposal("bank", forged); i != wrong || VerifyProposals("bank", forged) || VerifyProposals("bank", forged[wrong:wrong+1]) {
			t.Errorf("signature %d is wrong, found %d", wrong, i)
		}
	}
}

func FuzzDecodeClientChange(f *testing.F) {
	f.Add(Encode(testClientChange()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := DecodeClientChange(raw); err == nil && !bytes.Equal(Encode(c), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, Encode(c))
		}
	})
}
