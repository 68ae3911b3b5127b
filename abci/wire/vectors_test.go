package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// hexBytes is a byte string as the vectors write it.
type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

// readVectors reads spec/vectors/name.json, refusing members the test does not know: it would not
// check them.
func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "spec", "vectors", name+".json"))
	must.Do(t, err)
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s.json: %v", name, err)
	}
}

func TestVectorsOfTransactions(t *testing.T) {
	var v struct {
		Cases []struct {
			Name     string
			Proposal struct {
				ChainID string `json:"chain_id"`
				Client  struct {
					Organisation, Role string
					Key                hexBytes
				}
				Nonce      uint64 `json:",string"`
				ValidUntil uint64 `json:"valid_until_height,string"`
				Kind       Kind
				SQL        string
				Parameters []*Parameter
				Effects    hexBytes
				Plan       *planVector
			}
			Signature  hexBytes
			Agreements []struct {
				Organisation string
				ProposalHash hexBytes `json:"proposal_hash"`
				Yes          bool
				Signature    hexBytes
			}
			ProposalBytes hexBytes `json:"proposal_bytes"`
			ID            Hash
			ChainedTx     hexBytes `json:"chained_tx"`
		}
		Refused []struct {
			Name, Field string
			ChainedTx   hexBytes `json:"chained_tx"`
		}
		Blocks []struct {
			Name         string
			Transactions []hexBytes
			Buffer       hexBytes
			IDs          []Hash
			TxRoot       Hash `json:"tx_root"`
		}
		RefusedBlocks []struct {
			Name   string
			Buffer hexBytes
		} `json:"refused_blocks"`
	}
	readVectors(t, "transactions", &v)
	for _, c := range v.Cases {
		p := c.Proposal
		proposal := Encode(&Proposal{
			ChainId: p.ChainID, Client: &Client{Organisation: p.Client.Organisation, Role: p.Client.Role, Key: p.Client.Key}, Nonce: p.Nonce, ValidUntilHeight: p.ValidUntil, Kind: p.Kind,
			Sql: p.SQL, Parameters: p.Parameters, Effects: p.Effects, Plan: p.Plan.plan(),
		})
		chained := &ChainedTx{Proposal: &SignedProposal{Proposal: proposal, Signature: c.Signature}}
		for _, a := range c.Agreements {
			chained.Agreements = append(chained.Agreements, &Agreement{Organisation: a.Organisation, ProposalHash: a.ProposalHash, Yes: a.Yes, Signature: a.Signature})
		}
		if !bytes.Equal(proposal, c.ProposalBytes) || TxIDOf(proposal) != c.ID || !bytes.Equal(Encode(chained), c.ChainedTx) {
			t.Errorf("%s: proposal %x, id %x, transaction %x", c.Name, proposal, TxIDOf(proposal), Encode(chained))
		}
		if tx, err := DecodeChainedTx(c.ChainedTx); err != nil || tx.ID != c.ID {
			t.Errorf("%s: decoded id %x, %v", c.Name, tx.ID, err)
		}
	}
	for _, c := range v.Refused {
		if _, err := DecodeChainedTx(c.ChainedTx); err == nil || !strings.HasPrefix(err.Error(), c.Field+": ") {
			t.Errorf("%s: error %v, want one of %s", c.Name, err, c.Field)
		}
	}
	for _, c := range v.Blocks {
		txs := make([][]byte, len(c.Transactions))
		ids := make([]TxID, len(txs))
		for i, raw := range c.Transactions {
			tx, err := DecodeChainedTx(raw)
			if err != nil || tx.ID != c.IDs[i] {
				t.Errorf("%s: transaction %d has id %x, %v", c.Name, i, tx.ID, err)
			}
			txs[i], ids[i] = raw, tx.ID
		}
		if got := EncodeTransactions(txs); !bytes.Equal(got, c.Buffer) || TxRoot(ids) != c.TxRoot {
			t.Errorf("%s: buffer %x, tx_root %x", c.Name, got, TxRoot(ids))
		}
		if back, err := SplitTransactions(c.Buffer); err != nil || len(back) != len(txs) {
			t.Errorf("%s: %d transactions, %v", c.Name, len(back), err)
		}
	}
	for _, c := range v.RefusedBlocks {
		if _, err := SplitTransactions(c.Buffer); err == nil {
			t.Errorf("%s: accepted", c.Name)
		}
	}
}

func TestVectorsOfBlocks(t *testing.T) {
	var v struct {
		Cases []struct {
			Name         string
			ChainID      string `json:"chain_id"`
			Number       uint64 `json:",string"`
			OrderHeight  uint64 `json:"order_height,string"`
			BlockTime    int64  `json:"block_time,string"`
			TxRoot       Hash   `json:"tx_root"`
			Outcomes     []int
			OutcomeBytes hexBytes `json:"outcome_bytes"`
			EffectsRoot  Hash     `json:"effects_root"`
			EffectsCount uint32   `json:"effects_count"`
			StateRoot    Hash     `json:"state_root"`
			Previous     Hash
			Header       hexBytes
			Hash         Hash
		}
		Refused []struct {
			Name   string
			Header hexBytes
		}
	}
	readVectors(t, "blocks", &v)
	for _, c := range v.Cases {
		outcomes := NewOutcomes(uint32(len(c.Outcomes)))
		for i, succeeded := range c.Outcomes {
			if succeeded == 1 {
				outcomes.Set(uint32(i))
			}
		}
		h := Header{c.ChainID, c.Number, c.OrderHeight, c.BlockTime, c.TxRoot, outcomes, c.EffectsRoot, c.EffectsCount, c.StateRoot, c.Previous}
		if !bytes.Equal(outcomes.Bytes(), c.OutcomeBytes) || !bytes.Equal(h.Encode(), c.Header) || h.Hash() != c.Hash {
			t.Errorf("%s: outcomes %x, header %x, hash %x", c.Name, outcomes.Bytes(), h.Encode(), h.Hash())
		}
		if back, err := DecodeHeader(c.Header); err != nil || back.Hash() != c.Hash {
			t.Errorf("%s: decoded %+v, %v", c.Name, back, err)
		}
	}
	for _, c := range v.Refused {
		if h, err := DecodeHeader(c.Header); err == nil {
			t.Errorf("%s: accepted as %+v", c.Name, h)
		}
	}
}

type certificateVector struct {
	Name     string
	ChainID  string `json:"chain_id"`
	Consent  int
	Findings []string
	Block    struct {
		Number uint64 `json:",string"`
		Hash   Hash
	}
	Certificate struct {
		Number      uint64 `json:",string"`
		EffectRound uint32 `json:"effect_round"`
		Hash        Hash
		Votes       []struct {
			Organisation                    string
			Validator, Extension, Signature hexBytes
			Height                          int64 `json:",string"`
			Round                           int32
		}
	}
	Validators []struct {
		Organisation string
		PublicKey    hexBytes `json:"public_key"`
	}
}

func TestVectorsOfVotes(t *testing.T) {
	var v struct {
		Votes []struct {
			Name, Organisation string
			Block              uint64 `json:",string"`
			EffectRound        uint32 `json:"effect_round"`
			OrderHash          Hash   `json:"order_hash"`
			LedgerBlockHash    *Hash  `json:"ledger_block_hash"`
			Parts              []hexBytes
			StuckAt            uint32 `json:"stuck_at"`
			Extension          hexBytes
		}
		Refused []struct {
			Name      string
			Extension hexBytes
		}
		Signed []struct {
			Name                     string
			ChainID                  string `json:"chain_id"`
			Address, Extension, Seed hexBytes
			PublicKey                hexBytes `json:"public_key"`
			SignBytes                hexBytes `json:"sign_bytes"`
			Signature                hexBytes
			Height                   int64 `json:",string"`
			Round                    int32
		}
		Certificates []certificateVector
	}
	readVectors(t, "votes", &v)
	for _, c := range v.Votes {
		key := Key{Number: c.Block, OrderHash: c.OrderHash, Round: c.EffectRound}
		vote := NewStuckVote(key, c.StuckAt)
		if c.LedgerBlockHash != nil {
			vote = NewEffectsVote(key, c.Organisation, *c.LedgerBlockHash)
		}
		for _, part := range c.Parts {
			vote.Parts += string(part)
		}
		if !bytes.Equal(vote.Encode(), c.Extension) {
			t.Errorf("%s: %x, want %x", c.Name, vote.Encode(), []byte(c.Extension))
		}
		if back, err := DecodeEffectVote(c.Extension); err != nil || back != vote {
			t.Errorf("%s: decoded %+v, %v", c.Name, back, err)
		}
	}
	for _, c := range v.Refused {
		if _, err := DecodeEffectVote(c.Extension); err == nil {
			t.Errorf("%s: accepted", c.Name)
		}
	}
	for _, c := range v.Signed {
		key := ed25519.NewKeyFromSeed(c.Seed)
		signed := ExtensionSignBytes(c.ChainID, c.Height, c.Round, c.Extension)
		if !bytes.Equal(signed, c.SignBytes) || !bytes.Equal(ed25519.Sign(key, signed), c.Signature) {
			t.Errorf("%s: sign bytes %x", c.Name, signed)
		}
		address := sha256.Sum256(c.PublicKey)
		if !key.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(c.PublicKey)) || !bytes.Equal(address[:20], c.Address) {
			t.Errorf("%s: address %x", c.Name, address[:20])
		}
	}
	for _, c := range v.Certificates {
		if got := agreeing(c) >= c.Consent && c.Certificate.Number == c.Block.Number && c.Certificate.Hash == c.Block.Hash; got != (len(c.Findings) == 0) {
			t.Errorf("certificate %s: valid is %t, findings %q", c.Name, got, c.Findings)
		}
	}
}

// agreeing counts the organisations whose vote in a certificate holds.
func agreeing(c certificateVector) int {
	voted, first := map[string]bool{}, (*EffectVote)(nil)
	for _, v := range c.Certificate.Votes {
		vote, err := DecodeEffectVote(v.Extension)
		if err != nil {
			continue
		}
		if first == nil {
			first = &vote
		}
		want := Key{c.Certificate.Number, first.OrderHash, c.Certificate.EffectRound, 0}
		if vote.Key() != want || !vote.IsFor(v.Organisation, c.Certificate.Hash) {
			continue
		}
		for _, validator := range c.Validators {
			address := sha256.Sum256(validator.PublicKey)
			if bytes.Equal(address[:20], v.Validator) && validator.Organisation == v.Organisation &&
				ed25519.Verify(ed25519.PublicKey(validator.PublicKey), ExtensionSignBytes(c.ChainID, v.Height, v.Round, v.Extension), v.Signature) {
				voted[v.Organisation] = true
			}
		}
	}
	return len(voted)
}

func TestVectorsOfMerkleTrees(t *testing.T) {
	var v struct {
		Cases []struct {
			Data   []hexBytes
			Root   Hash
			Proofs [][]hexBytes
		}
	}
	readVectors(t, "merkle", &v)
	for i, c := range v.Cases {
		leaves := make([]Hash, len(c.Data))
		for j, data := range c.Data {
			leaves[j] = sha256.Sum256(append([]byte{0}, data...))
		}
		if got := MerkleRoot(leaves); got != c.Root {
			t.Errorf("case %d: %x, want %x", i, got, c.Root)
		}
		for j, proof := range c.Proofs {
			checkInclusion(t, leaves, uint64(j), proof, c.Root)
		}
	}
}

// checkInclusion verifies a proof, and sees it refused with any of its parts otherwise.
func checkInclusion(t *testing.T, leaves []Hash, index uint64, proof []hexBytes, root Hash) {
	t.Helper()
	path, size := make([]Hash, len(proof)), uint64(len(leaves))
	for i, h := range proof {
		path[i] = Hash(h)
	}
	if !VerifyInclusion(leaves[index], index, size, path, root) {
		t.Errorf("leaf %d of %d: its proof does not hold", index, size)
	}
	other := root
	other[0] ^= 1
	if VerifyInclusion(other, index, size, path, root) || VerifyInclusion(leaves[index], index, size, path, other) ||
		VerifyInclusion(leaves[index], size, size, path, root) || VerifyInclusion(leaves[index], index, size, append(path[:len(path):len(path)], root), root) {
		t.Errorf("leaf %d of %d: a false proof holds", index, size)
	}
	for i := range path {
		path[i][31] ^= 1
		if VerifyInclusion(leaves[index], index, size, path, root) || VerifyInclusion(leaves[index], index, size, path[:i], root) {
			t.Errorf("leaf %d of %d: a proof with another hash %d, or without it, holds", index, size, i)
		}
		path[i][31] ^= 1
	}
}

func TestVectorsOfLeaves(t *testing.T) {
	var v struct {
		Cases []struct {
			Name    string
			Changes []struct {
				Table, Op string
				PK        hexBytes
				Tx        uint32
				RowHash   Hash `json:"row_hash"`
			}
			Sorted []struct {
				Change int
				Serial uint32
				Leaf   Hash
			}
			EffectsRoot        Hash `json:"effects_root"`
			Outcomes           []bool
			TransactionEffects []Hash `json:"transaction_effects"` // checked by crates/codec
		}
		Deploys json.RawMessage // checked by crates/codec
		Parts   []struct {
			Name         string
			Transactions uint32
			Suspects     []uint32
			Parts        int
			First, Last  hexBytes
		}
	}
	readVectors(t, "leaves", &v)
	for _, c := range v.Parts {
		effects := make([]Hash, c.Transactions)
		for i := range effects {
			effects[i] = sha256.Sum256(binary.BigEndian.AppendUint32(nil, uint32(i)))
		}
		s := Suspects{Count: c.Transactions}
		if len(c.Suspects) > 0 {
			s.List = c.Suspects
		}
		got := s.Hashes(effects)
		if s.Parts() != c.Parts || len(got) != c.Parts*PartBytes || got[:PartBytes] != string(c.First) || got[len(got)-PartBytes:] != string(c.Last) {
			t.Errorf("%s: %d parts %x", c.Name, s.Parts(), got)
		}
	}
	for _, c := range v.Cases {
		var leaves []Hash
		for _, s := range c.Sorted {
			change := c.Changes[s.Change]
			raw := append(append([]byte{0}, lp(change.Table)...), lp(string(change.PK))...)
			raw = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(raw, s.Serial), change.Tx)
			raw = append(append(raw, change.Op...), change.RowHash[:]...)
			leaf := Hash(sha256.Sum256(raw))
			if leaf != s.Leaf {
				t.Errorf("%s: leaf of change %d is %x, want %x", c.Name, s.Change, leaf, s.Leaf)
			}
			leaves = append(leaves, leaf)
		}
		if got := MerkleRoot(leaves); got != c.EffectsRoot {
			t.Errorf("%s: effects_root %x, want %x", c.Name, got, c.EffectsRoot)
		}
	}
}

func TestVectorsOfAgreements(t *testing.T) {
	var v struct {
		Cases []struct {
			ChainID      string `json:"chain_id"`
			Organisation string
			ID           Hash
			Yes, Agrees  bool
			SignBytes    hexBytes `json:"sign_bytes"`
			PublicKey    hexBytes `json:"public_key"`
			Signature    hexBytes
		}
	}
	readVectors(t, "agreements", &v)
	for _, c := range v.Cases {
		if got := AgreementSignBytes(c.ChainID, c.Organisation, c.ID, c.Yes); !bytes.Equal(got, c.SignBytes) {
			t.Errorf("%s: signs %x", c.Organisation, got)
		}
		a := &Agreement{Organisation: c.Organisation, ProposalHash: c.ID[:], Yes: c.Yes, Signature: c.Signature}
		if !VerifyAnswer(ed25519.PublicKey(c.PublicKey), c.ChainID, c.ID, a) || c.Agrees != c.Yes {
			t.Errorf("%s says %t: not verified, or agrees %t", c.Organisation, c.Yes, c.Agrees)
		}
		seed := sha256.Sum256([]byte(c.Organisation))
		if made := made(Answer(ed25519.NewKeyFromSeed(seed[:]), c.Organisation, c.ChainID, c.ID, c.Yes)); !bytes.Equal(made.Signature, c.Signature) {
			t.Errorf("%s: signature %x", c.Organisation, made.Signature)
		}
		for _, broken := range []*Agreement{
			{Organisation: "other", ProposalHash: a.ProposalHash, Yes: a.Yes, Signature: a.Signature},
			{Organisation: a.Organisation, ProposalHash: make([]byte, 32), Yes: a.Yes, Signature: a.Signature},
			{Organisation: a.Organisation, ProposalHash: a.ProposalHash, Yes: a.Yes, Signature: make([]byte, 64)},
			{Organisation: a.Organisation, ProposalHash: a.ProposalHash, Yes: !a.Yes, Signature: a.Signature},
		} {
			if VerifyAnswer(ed25519.PublicKey(c.PublicKey), c.ChainID, c.ID, broken) {
				t.Errorf("%s: %v is taken for an answer", c.Organisation, broken)
			}
		}
		if VerifyAnswer(ed25519.PublicKey(c.PublicKey), "elsewhere", c.ID, a) {
			t.Errorf("%s: taken on another chain", c.Organisation)
		}
	}
}
