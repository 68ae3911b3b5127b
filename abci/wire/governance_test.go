package wire

import (
	"bytes"
	"strings"
	"testing"
)

// testChange has one action of each kind.
func testChange() *GovernanceChange {
	validator := func(i byte, power uint64) *ValidatorPower {
		return &ValidatorPower{Key: bytes.Repeat([]byte{i}, 32), Power: power}
	}
	return &GovernanceChange{ChainId: "trade", Sequence: 7, EffectiveHeight: 900, Actions: []*GovernanceAction{
		{Body: &GovernanceAction_Consent{Consent: 3}},
		{Body: &GovernanceAction_Approvals{Approvals: 0}},
		{Body: &GovernanceAction_Add{Add: &Member{
			Organisation: "echo", GatewayKey: bytes.Repeat([]byte{1}, 32), Validators: []*ValidatorPower{validator(2, 10), validator(3, 20)}, OrderingOnly: true,
		}}},
		{Body: &GovernanceAction_Remove{Remove: "delta"}},
		{Body: &GovernanceAction_GatewayKey{GatewayKey: &GatewayKey{Organisation: "acme", Key: bytes.Repeat([]byte{4}, 32)}}},
		{Body: &GovernanceAction_Validator{Validator: &MemberValidator{Organisation: "acme", Validator: validator(5, 0)}}},
		{Body: &GovernanceAction_OrderingOnly{OrderingOnly: &OrderingOnly{Organisation: "bolt"}}},
		{Body: &GovernanceAction_BlockTimes{BlockTimes: &BlockTimes{Statements: 20_000}}},
		{Body: &GovernanceAction_BlockShares{BlockShares: &BlockShares{Client: 100, Organisation: 2000}}},
		{Body: &GovernanceAction_SnapshotEvery{SnapshotEvery: 1000}},
	}}
}

// testWithdrawal names the change that waits by a hash of so many bytes.
func testWithdrawal(size int) *GovernanceChange {
	return &GovernanceChange{ChainId: "trade", Sequence: 8, Actions: []*GovernanceAction{{Body: &GovernanceAction_Withdraw{Withdraw: make([]byte, size)}}}}
}

func signedChange(c *GovernanceChange, organisations ...string) *SignedGovernanceChange {
	s := &SignedGovernanceChange{Change: Encode(c)}
	for i, name := range organisations {
		s.Approvals = append(s.Approvals, made(Approve(testKey(byte(i+1)), name, c.ChainId, s.Change)))
	}
	return s
}

func TestGovernanceRefusesWhatBreaksTheFormat(t *testing.T) {
	for want, change := range map[string]func(*GovernanceChange){
		"governance change.chain_id:":                                         func(c *GovernanceChange) { c.ChainId = "X" },
		"governance change: sequence 0":                                       func(c *GovernanceChange) { c.Sequence = 0 },
		"effective_height 4611686018427387905":                                func(c *GovernanceChange) { c.EffectiveHeight = 1<<62 + 1 },
		"governance change.actions: 0 of them":                                func(c *GovernanceChange) { c.Actions = nil },
		"governance change.actions: 65 of them":                               func(c *GovernanceChange) { c.Actions = many(c.Actions[0], GovernanceActionsMax+1) },
		"governance change.actions[0].body: no action":                        func(c *GovernanceChange) { c.Actions[0] = &GovernanceAction{} },
		"actions[0].consent: 1001":                                            func(c *GovernanceChange) { c.Actions[0].GetBody().(*GovernanceAction_Consent).Consent = 1001 },
		"actions[1].approvals: 1001":                                          func(c *GovernanceChange) { c.Actions[1].GetBody().(*GovernanceAction_Approvals).Approvals = 1001 },
		"actions[2].add.organisation:":                                        func(c *GovernanceChange) { c.Actions[2].GetAdd().Organisation = "" },
		"actions[2].add.gateway_key: 31 bytes":                                func(c *GovernanceChange) { c.Actions[2].GetAdd().GatewayKey = make([]byte, 31) },
		"actions[2].add.validators: 0 of them":                                func(c *GovernanceChange) { c.Actions[2].GetAdd().Validators = nil },
		"actions[2].add.validators: 17 of them":                               func(c *GovernanceChange) { a := c.Actions[2].GetAdd(); a.Validators = many(a.Validators[0], 17) },
		"actions[2].add.validators[1].key: 0 bytes":                           func(c *GovernanceChange) { c.Actions[2].GetAdd().Validators[1].Key = nil },
		"actions[2].add.validators[0].power: 0, want 1 to 1000000000":         func(c *GovernanceChange) { c.Actions[2].GetAdd().Validators[0].Power = 0 },
		"actions[3].remove.organisation:":                                     func(c *GovernanceChange) { c.Actions[3].Body = &GovernanceAction_Remove{Remove: "-"} },
		"actions[4].gateway_key.organisation:":                                func(c *GovernanceChange) { c.Actions[4].GetGatewayKey().Organisation = "A" },
		"actions[4].gateway_key.key: 33 bytes":                                func(c *GovernanceChange) { c.Actions[4].GetGatewayKey().Key = make([]byte, 33) },
		"actions[5].validator.validator: missing":                             func(c *GovernanceChange) { c.Actions[5].GetValidator().Validator = nil },
		"actions[5].validator.validator.power: 1000000001":                    func(c *GovernanceChange) { c.Actions[5].GetValidator().Validator.Power = ValidatorPowerMax + 1 },
		"actions[7].block_times: 3600001 and 0 ms":                            func(c *GovernanceChange) { c.Actions[7].GetBlockTimes().Statements = BlockTimeMSMax + 1 },
		"actions[7].block_times: 20000 and 86400001 ms":                       func(c *GovernanceChange) { c.Actions[7].GetBlockTimes().Deploys = DeployTimeMSMax + 1 },
		"actions[8].block_shares: 1000001 and 2000 transactions and 0 rows":   func(c *GovernanceChange) { c.Actions[8].GetBlockShares().Client = BlockTransactionsBound + 1 },
		"actions[8].block_shares: 100 and 2000 transactions and 1000001 rows": func(c *GovernanceChange) { c.Actions[8].GetBlockShares().Keys = BlockTransactionsBound + 1 },
		"actions[8].block_shares: 100 and 1000001 transactions and 0 rows":    func(c *GovernanceChange) { c.Actions[8].GetBlockShares().Organisation = BlockTransactionsBound + 1 },
		"actions[9].snapshot_every: 1000001": func(c *GovernanceChange) {
			c.Actions[9].GetBody().(*GovernanceAction_SnapshotEvery).SnapshotEvery = SnapshotEveryMax + 1
		},
		"actions[9].snapshot_every: 9, want 10": func(c *GovernanceChange) {
			c.Actions[9].GetBody().(*GovernanceAction_SnapshotEvery).SnapshotEvery = SnapshotEveryMin - 1
		},
		"actions[6].ordering_only.organisation:": func(c *GovernanceChange) { c.Actions[6].GetOrderingOnly().Organisation = "" },
	} {
		c := testChange()
		change(c)
		if _, err := DecodeGovernanceChange(Encode(c)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	raw := Encode(testChange())
	if _, err := DecodeGovernanceChange(raw[:len(raw)-1]); err == nil || !strings.Contains(err.Error(), "governance change: not a protobuf") {
		t.Errorf("a change cut short: %v", err)
	}
	for want, c := range map[string]*GovernanceChange{
		"actions[0].withdraw: 31 bytes":     testWithdrawal(31),
		"2 actions and effective_height 0":  {Actions: append(testWithdrawal(32).Actions, testChange().Actions[0])},
		"1 actions and effective_height 12": {Actions: testWithdrawal(32).Actions, EffectiveHeight: 12},
	} {
		c.ChainId, c.Sequence = "trade", 8
		if _, err := DecodeGovernanceChange(Encode(c)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for want, change := range map[string]func(*SignedGovernanceChange){
		"governance change: 0 bytes":            func(s *SignedGovernanceChange) { s.Change = nil },
		"governance change: 65537 bytes":        func(s *SignedGovernanceChange) { s.Change = make([]byte, GovernanceChangeBytesMax+1) },
		"governance.approvals: 0 of them":       func(s *SignedGovernanceChange) { s.Approvals = nil },
		"governance.approvals: 1001 of them":    func(s *SignedGovernanceChange) { s.Approvals = many(s.Approvals[0], OrganisationsMax+1) },
		"governance.approvals[1].organisation":  func(s *SignedGovernanceChange) { s.Approvals[1].Organisation = "B" },
		"governance.approvals[0].signature: 63": func(s *SignedGovernanceChange) { s.Approvals[0].Signature = s.Approvals[0].Signature[1:] },
		"governance.approvals[1]: not after":    func(s *SignedGovernanceChange) { s.Approvals[1].Organisation = "acme" },
	} {
		s := signedChange(testChange(), "acme", "bolt")
		change(s)
		if _, err := DecodeOrderedTx(Encode(&OrderedTx{Body: &OrderedTx_Governance{Governance: s}})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func many[T any](one T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = one
	}
	return out
}

func FuzzDecodeGovernanceChange(f *testing.F) {
	f.Add(Encode(testChange()))
	f.Add(Encode(testWithdrawal(32)))
	for _, action := range testChange().Actions {
		f.Add(Encode(&GovernanceChange{ChainId: "a", Sequence: 1, Actions: []*GovernanceAction{action}}))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := DecodeGovernanceChange(raw); err == nil && !bytes.Equal(Encode(c), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, Encode(c))
		}
	})
}

// A version of the protocol is alone in its change, names the height of its beginning, and is one
// of those that there can be.
func TestAVersionOfTheProtocolIsAloneAndNamesItsHeight(t *testing.T) {
	version := func(n uint32) *GovernanceAction {
		return &GovernanceAction{Body: &GovernanceAction_ProtocolVersion{ProtocolVersion: n}}
	}
	change := func(height uint64, actions ...*GovernanceAction) []byte {
		return Encode(&GovernanceChange{ChainId: "trade", Sequence: 1, EffectiveHeight: height, Actions: actions})
	}
	if c, err := DecodeGovernanceChange(change(9, version(2))); err != nil || c.ProtocolVersion() != 2 {
		t.Errorf("version 2 from height 9: %v", err)
	}
	for name, raw := range map[string][]byte{
		"no height":          change(0, version(2)),
		"beside another":     change(9, version(2), testChange().Actions[0]),
		"two of them":        change(9, version(2), version(3)),
		"the first":          change(9, version(1)),
		"none":               change(9, version(0)),
		"beyond all bounds":  change(9, version(ProtocolVersionMax+1)),
		"the largest of u32": change(9, version(1<<32-1)),
		"with a withdrawal":  change(0, version(2), testWithdrawal(32).Actions[0]),
	} {
		if c, err := DecodeGovernanceChange(raw); err == nil {
			t.Errorf("%s: read as %v", name, c)
		}
	}
}

// Organisations that did not approve a version are too few to withdraw it, and no more are needed
// than for other changes. Those left when it is withdrawn would not have accepted it.
func TestHowManyWithdrawAVersion(t *testing.T) {
	for voters := 1; voters <= 40; voters++ {
		for approvals := voters/2 + 1; approvals <= voters; approvals++ {
			for consent := 1; consent <= voters; consent++ {
				v := VersionApprovals{voters, approvals, consent}
				if n := v.ToWithdraw(); n < 1 || n > approvals || n <= voters-v.ToAccept() || voters-n >= v.ToAccept() || voters-(n-1) < v.ToAccept() {
					t.Errorf("%+v: %d accept, %d withdraw", v, v.ToAccept(), n)
				}
			}
		}
	}
	if v := (VersionApprovals{4, 3, 3}); v.ToWithdraw() != 2 {
		t.Errorf("%d of four withdraw", v.ToWithdraw())
	}
}

// made is a message that its key signed; a key in memory never fails.
func made[T any](signed T, err error) T {
	if err != nil {
		panic(err)
	}
	return signed
}
