package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// registryVectors are spec/vectors/registry.json: in each case what is signed, then the bytes that
// it gives.
type registryVectors struct {
	Governance []*governanceVector `json:"governance"`
	Clients    []*clientVector     `json:"clients"`
	Proposals  []*proposalVector   `json:"proposals"`
	Together   []*togetherVector   `json:"together"`
	Nodes      []*nodeVector       `json:"nodes"`
}

type governanceVector struct {
	Name            string            `json:"name"`
	ChainID         string            `json:"chain_id"`
	Sequence        uint64            `json:"sequence,string"`
	EffectiveHeight uint64            `json:"effective_height,string"`
	Actions         []actionVector    `json:"actions"`
	Change          hexBytes          `json:"change"`
	SignBytes       hexBytes          `json:"sign_bytes"`
	Approvals       []signatureVector `json:"approvals"`
	OrderedTx       hexBytes          `json:"ordered_tx"`
}

// signatureVector is of whose secret key is SHA-256 of its name.
type signatureVector struct {
	Signer    string   `json:"signer"`
	PublicKey hexBytes `json:"public_key"`
	Signature hexBytes `json:"signature"`
}

// actionVector has one member.
type actionVector struct {
	Consent      *uint32             `json:"consent,omitempty"`
	Approvals    *uint32             `json:"approvals,omitempty"`
	Add          *memberVector       `json:"add,omitempty"`
	Remove       string              `json:"remove,omitempty"`
	GatewayKey   *gatewayKeyVector   `json:"gateway_key,omitempty"`
	Validator    *memberValidator    `json:"validator,omitempty"`
	OrderingOnly *orderingOnlyVector `json:"ordering_only,omitempty"`
	Withdraw     hexBytes            `json:"withdraw,omitempty"`
	BlockTimes   *blockTimesVector   `json:"block_times,omitempty"`
	BlockShares  *blockSharesVector  `json:"block_shares,omitempty"`
	Snapshots    *uint32             `json:"snapshot_every,omitempty"`
	Protocol     *uint32             `json:"protocol_version,omitempty"`
}

type blockSharesVector struct {
	Client       uint32 `json:"client"`
	Organisation uint32 `json:"organisation"`
	Keys         uint32 `json:"keys,omitempty"`
}

type blockTimesVector struct {
	Statements uint32 `json:"statements"`
	Deploys    uint32 `json:"deploys"`
}

type memberVector struct {
	Organisation string            `json:"organisation"`
	GatewayKey   hexBytes          `json:"gateway_key"`
	Validators   []validatorVector `json:"validators"`
	OrderingOnly bool              `json:"ordering_only"`
}

type validatorVector struct {
	Key   hexBytes `json:"key"`
	Power uint64   `json:"power,string"`
}

type gatewayKeyVector struct {
	Organisation string   `json:"organisation"`
	Key          hexBytes `json:"key"`
}

type memberValidator struct {
	Organisation string          `json:"organisation"`
	Validator    validatorVector `json:"validator"`
}

type orderingOnlyVector struct {
	Organisation string `json:"organisation"`
	Only         bool   `json:"only"`
}

type clientVector struct {
	Name         string          `json:"name"`
	ChainID      string          `json:"chain_id"`
	Organisation string          `json:"organisation"`
	Sequence     uint64          `json:"sequence,string"`
	Key          hexBytes        `json:"key"`
	Role         string          `json:"role"`
	Change       hexBytes        `json:"change"`
	SignBytes    hexBytes        `json:"sign_bytes"`
	Signature    signatureVector `json:"signature"`
	OrderedTx    hexBytes        `json:"ordered_tx"`
}

type proposalVector struct {
	Name      string          `json:"name"`
	ChainID   string          `json:"chain_id"`
	Proposal  hexBytes        `json:"proposal"`
	SignBytes hexBytes        `json:"sign_bytes"`
	Signature signatureVector `json:"signature"`
}

// togetherVector is of several proposals under one signature; placed is what the SignedProposal of
// each carries.
type togetherVector struct {
	Name      string          `json:"name"`
	ChainID   string          `json:"chain_id"`
	Proposals []hexBytes      `json:"proposals"`
	SignBytes hexBytes        `json:"sign_bytes"`
	Signature signatureVector `json:"signature"`
	Placed    []hexBytes      `json:"placed"`
}

// MarshalText writes bytes as the vectors do.
func (b hexBytes) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(b)), nil }

func (v validatorVector) message() *ValidatorPower {
	return &ValidatorPower{Key: v.Key, Power: v.Power}
}

func (a actionVector) message() *GovernanceAction {
	switch {
	case a.Consent != nil:
		return &GovernanceAction{Body: &GovernanceAction_Consent{Consent: *a.Consent}}
	case a.Approvals != nil:
		return &GovernanceAction{Body: &GovernanceAction_Approvals{Approvals: *a.Approvals}}
	case a.Add != nil:
		m := &Member{Organisation: a.Add.Organisation, GatewayKey: a.Add.GatewayKey, OrderingOnly: a.Add.OrderingOnly}
		for _, v := range a.Add.Validators {
			m.Validators = append(m.Validators, v.message())
		}
		return &GovernanceAction{Body: &GovernanceAction_Add{Add: m}}
	case a.GatewayKey != nil:
		return &GovernanceAction{Body: &GovernanceAction_GatewayKey{GatewayKey: &GatewayKey{Organisation: a.GatewayKey.Organisation, Key: a.GatewayKey.Key}}}
	case a.Validator != nil:
		return &GovernanceAction{Body: &GovernanceAction_Validator{Validator: &MemberValidator{Organisation: a.Validator.Organisation, Validator: a.Validator.Validator.message()}}}
	case a.OrderingOnly != nil:
		return &GovernanceAction{Body: &GovernanceAction_OrderingOnly{OrderingOnly: &OrderingOnly{Organisation: a.OrderingOnly.Organisation, Only: a.OrderingOnly.Only}}}
	case a.BlockTimes != nil:
		return &GovernanceAction{Body: &GovernanceAction_BlockTimes{BlockTimes: &BlockTimes{Statements: a.BlockTimes.Statements, Deploys: a.BlockTimes.Deploys}}}
	case a.BlockShares != nil:
		return &GovernanceAction{Body: &GovernanceAction_BlockShares{BlockShares: &BlockShares{Client: a.BlockShares.Client, Organisation: a.BlockShares.Organisation, Keys: a.BlockShares.Keys}}}
	case a.Snapshots != nil:
		return &GovernanceAction{Body: &GovernanceAction_SnapshotEvery{SnapshotEvery: *a.Snapshots}}
	case a.Protocol != nil:
		return &GovernanceAction{Body: &GovernanceAction_ProtocolVersion{ProtocolVersion: *a.Protocol}}
	case a.Withdraw != nil:
		return &GovernanceAction{Body: &GovernanceAction_Withdraw{Withdraw: a.Withdraw}}
	default:
		return &GovernanceAction{Body: &GovernanceAction_Remove{Remove: a.Remove}}
	}
}

// keyOf is the secret key of a signer.
func keyOf(signer string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(signer))
	return ed25519.NewKeyFromSeed(seed[:])
}

func (s *signatureVector) fill(signature []byte) {
	s.PublicKey, s.Signature = hexBytes(keyOf(s.Signer).Public().(ed25519.PublicKey)), signature
}

// fill computes what follows from what is signed.
func (c *governanceVector) fill(t *testing.T) {
	change := &GovernanceChange{ChainId: c.ChainID, Sequence: c.Sequence, EffectiveHeight: c.EffectiveHeight}
	for _, a := range c.Actions {
		change.Actions = append(change.Actions, a.message())
	}
	c.Change = Encode(change)
	c.SignBytes = GovernanceSignBytes(c.ChainID, c.Change)
	signed := &SignedGovernanceChange{Change: c.Change}
	for i := range c.Approvals {
		a := &c.Approvals[i]
		approval := made(Approve(keyOf(a.Signer), a.Signer, c.ChainID, c.Change))
		a.fill(approval.Signature)
		signed.Approvals = append(signed.Approvals, approval)
		if !VerifyApproval(ed25519.PublicKey(a.PublicKey), c.ChainID, c.Change, approval) || VerifyApproval(ed25519.PublicKey(a.PublicKey), "elsewhere", c.Change, approval) {
			t.Errorf("%s: the approval of %s is not valid, or is on another chain", c.Name, a.Signer)
		}
	}
	c.OrderedTx = Encode(&OrderedTx{Body: &OrderedTx_Governance{Governance: signed}})
	decodesAgain(t, c.Name, c.OrderedTx)
}

func (c *clientVector) fill(t *testing.T) {
	change := &ClientChange{ChainId: c.ChainID, Organisation: c.Organisation, Sequence: c.Sequence, Key: c.Key, Role: c.Role}
	signed := made(SignClientChange(keyOf(c.Signature.Signer), change))
	c.Change, c.SignBytes = signed.Change, clientSignBytes(c.ChainID, signed.Change)
	c.Signature.fill(signed.Signature)
	public := ed25519.PublicKey(c.Signature.PublicKey)
	if !VerifyClientChange(public, c.ChainID, signed) || VerifyClientChange(public, "elsewhere", signed) {
		t.Errorf("%s: the signature is not valid, or is on another chain", c.Name)
	}
	c.OrderedTx = Encode(&OrderedTx{Body: &OrderedTx_Client{Client: signed}})
	decodesAgain(t, c.Name, c.OrderedTx)
}

func (c *proposalVector) fill(t *testing.T) {
	p, err := DecodeProposal(c.Proposal)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	signed := SignProposal(keyOf(c.Signature.Signer), p) // gives the client its key
	c.Proposal, c.SignBytes = signed.Proposal, ProposalSignBytes(c.ChainID, signed.Proposal)
	c.Signature.fill(signed.Signature)
	if _, err := DecodeSignedProposal(signed); err != nil {
		t.Errorf("%s: %v", c.Name, err)
	}
}

func (c *togetherVector) fill(t *testing.T) {
	proposals := make([]*Proposal, len(c.Proposals))
	for i, raw := range c.Proposals {
		var err error
		if proposals[i], err = DecodeProposal(raw); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	c.Placed = nil
	for i, s := range SignProposals(keyOf(c.Signature.Signer), proposals) {
		tx, err := DecodeSignedProposal(s)
		if err != nil || !VerifyProposals(c.ChainID, []BundledTx{tx}) {
			t.Fatalf("%s: %d: wrong, or %v", c.Name, i, err)
		}
		c.Proposals[i], c.Placed = s.Proposal, append(c.Placed, s.Signature)
		signed := treeOf(tx)
		c.SignBytes = ProposalsSignBytes(c.ChainID, signed.size, signed.root)
		c.Signature.fill(signed.signature[:])
	}
}

// nodeVector is what an organisation signs for a node, and what the node shows.
type nodeVector struct {
	Name         string            `json:"name"`
	ChainID      string            `json:"chain_id"`
	Organisation string            `json:"organisation"`
	NodeID       string            `json:"node_id"`
	SignBytes    hexBytes          `json:"sign_bytes"`
	Signatures   []signatureVector `json:"signatures"`
	Vouch        string            `json:"vouch"`
}

func (c *nodeVector) fill(t *testing.T) {
	c.SignBytes = NodeSignBytes(c.ChainID, c.Organisation, c.NodeID)
	v := &Vouch{Organisation: c.Organisation}
	for i := range c.Signatures {
		s := &c.Signatures[i]
		s.fill(ed25519.Sign(keyOf(s.Signer), c.SignBytes))
		v.Sign(s.PublicKey, s.Signature)
	}
	c.Vouch = v.String()
	read, err := ParseVouch(c.Vouch)
	if err != nil || !read.By([][]byte{c.Signatures[0].PublicKey}, c.ChainID, c.NodeID) || read.By([][]byte{c.Signatures[0].PublicKey}, "elsewhere", c.NodeID) {
		t.Errorf("%s: the vouch is not valid, or is on another chain: %v", c.Name, err)
	}
}

func decodesAgain(t *testing.T, name string, ordered []byte) {
	t.Helper()
	if tx, err := DecodeOrderedTx(ordered); err != nil || !bytes.Equal(Encode(tx), ordered) {
		t.Errorf("%s: decoded %v, %v", name, tx, err)
	}
}

// The bytes that organisations and clients sign are formats. UPDATE_VECTORS=1 rewrites what follows
// from what is signed: read the difference.
func TestVectorsOfTheRegistry(t *testing.T) {
	path := filepath.Join("..", "..", "spec", "vectors", "registry.json")
	before, err := os.ReadFile(path)
	must.Do(t, err)
	var v registryVectors
	readVectors(t, "registry", &v)
	for _, c := range v.Governance {
		c.fill(t)
	}
	for _, c := range v.Clients {
		c.fill(t)
	}
	for _, c := range v.Proposals {
		c.fill(t)
	}
	for _, c := range v.Together {
		c.fill(t)
	}
	for _, c := range v.Nodes {
		c.fill(t)
	}
	after, err := json.MarshalIndent(v, "", "  ")
	must.Do(t, err)
	after = append(after, '\n')
	if os.Getenv("UPDATE_VECTORS") != "" {
		must.Do(t, os.WriteFile(path, after, 0o644))
	} else if !bytes.Equal(after, before) {
		t.Errorf("registry.json is not what the implementation gives: UPDATE_VECTORS=1 rewrites it, git diff shows what differs")
	}
}
