package takeover

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/nodestore"
	"github.com/chainify-db/chainify/abci/wire"
)

// spareOf makes a network's homes, and that of a standby for the node of the first.
func spareOf(t *testing.T, change func(*config.Config)) (spare, first, second config.Home) {
	t.Helper()
	homes, err := config.Testnet{
		Dir: filepath.Join(t.TempDir(), "net"), ChainID: "test", Organisations: []string{"acme", "bolt"}, BasePort: 26656, Mode: config.Balanced, Now: time.Now(),
	}.Create()
	must.Do(t, err)
	c := config.Default("acme")
	change(&c)
	spare = config.Home(filepath.Join(t.TempDir(), "spare"))
	must.Do(t, spare.Create(c))
	genesis, err := os.ReadFile(homes[0].Genesis())
	if err == nil {
		err = os.WriteFile(spare.Genesis(), genesis, 0o644)
	}
	if err == nil {
		err = spare.BecomeStandby()
	}
	must.Do(t, err)
	return spare, homes[0], homes[1]
}

func unchanged(*config.Config) {}

// doubts tells whether a home's node does not know what its validator key signed last.
func doubts(t *testing.T, home config.Home) bool {
	t.Helper()
	kept, err := home.Signing()
	must.Do(t, err)
	return kept.DoubtSince != nil
}

// signedLast is the height that the home's copy of another home's validator key signed last.
func signedLast(t *testing.T, home, of config.Home) int64 {
	t.Helper()
	key, err := of.Validator()
	must.Do(t, err)
	ids, err := home.ValidatorIDs()
	must.Do(t, err)
	for _, id := range ids {
		copied, err := home.ReadValidator(id)
		must.Do(t, err)
		if copied.Key.PubKey.Equals(key.Key.PubKey) {
			return copied.LastSignState.Height
		}
	}
	t.Fatal("the key was not taken")
	return 0
}

// A standby has the lost node's keys after it took over, and signs nothing at first. Taking over
// twice is taking over once.
func TestAStandbyTakesTheKeysOver(t *testing.T) {
	spare, lost, _ := spareOf(t, unchanged)
	key, err := spare.GatewayKeys()
	must.Do(t, err)
	if err := os.RemoveAll(lost.Data()); err == nil { // a backup of the keys has no last signature
		err = TakeOver(spare, lost, true)
		if err == nil || !strings.Contains(err.Error(), "the last signature") {
			t.Fatalf("without the last signature that --signed promises: %v", err)
		}
	}
	must.Do(t, TakeOver(spare, lost, false))
	if !doubts(t, spare) {
		t.Error("it would sign at once, and does not know what was signed")
	}
	now, err := spare.GatewayKeys()
	if err != nil || len(now) != len(key)+1 {
		t.Errorf("%d gateway keys, %v; want one more than %d", len(now), err, len(key))
	}
	if standby, err := spare.Standby(); standby || err != nil {
		t.Errorf("it is a standby still: %v, %v", standby, err)
	}
	if err := TakeOver(spare, lost, false); err == nil {
		t.Error("a home that is no standby's took over")
	}
	if err := spare.BecomeStandby(); err != nil { // as if the last step had not come
		t.Fatal(err)
	}
	if err := TakeOver(spare, lost, false); err != nil {
		t.Errorf("again: %v", err)
	}
}

// With the lost node's own disk a standby knows what was signed last, and signs at once.
func TestAStandbyTakesTheLastSignatureOver(t *testing.T) {
	spare, lost, _ := spareOf(t, unchanged)
	key, err := lost.Validator()
	must.Do(t, err)
	key.LastSignState.Height = 41
	key.LastSignState.Save()
	must.Do(t, TakeOver(spare, lost, true))
	if doubts(t, spare) {
		t.Error("it would not sign at once")
	}
	if height := signedLast(t, spare, lost); height != 41 {
		t.Errorf("the last signature is of height %d, want 41", height)
	}
}

// The reasons for which the lost node did not sign, or vote on effects, travel with its disk. It
// had taken over itself, or heard of a second process with its key.
func TestDoubtsTravelWithTheDisk(t *testing.T) {
	spare, lost, _ := spareOf(t, unchanged)
	now := time.Now().UTC()
	want := config.Signing{DoubtSince: &now, Elsewhere: &config.Elsewhere{Height: 7, At: now}}
	must.Do(t, lost.KeepSigning(want))
	unknown := Loss{All: true, Voted: [][]byte{wire.NewStuckVote(wire.Key{Number: 6}, 1).Encode()}}
	db, err := nodestore.Open(lost.Data())
	must.Do(t, err)
	must.Do(t, errors.Join(keepLoss(db, unknown), db.Close()))
	must.Do(t, TakeOver(spare, lost, true))
	if kept, err := spare.Signing(); err != nil || !reflect.DeepEqual(kept, want) {
		t.Errorf("%+v, %v, want %+v", kept, err, want)
	}
	if db, err = nodestore.Open(spare.Data()); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if kept, err := readLoss(db); err != nil || !reflect.DeepEqual(kept, unknown) {
		t.Errorf("%+v, %v, want %+v", kept, err, unknown)
	}
}

// Where a signer holds the validator key, the gateway key alone is taken, and the signer knows what
// was signed.
func TestAStandbyWithASignerTakesTheGatewayKeyOver(t *testing.T) {
	spare, lost, _ := spareOf(t, func(c *config.Config) { c.Consensus.SignerListen = "tcp://127.0.0.1:26659" })
	for _, file := range []string{"config/priv_validator_key.json", "data/priv_validator_state.json"} {
		must.Do(t, os.Remove(lost.Path(file)))
	}
	must.Do(t, TakeOver(spare, lost, false))
	if doubts(t, spare) {
		t.Error("it would not sign at once")
	}
}

// Keys that do not count for the organisation are no keys to take over with; the standby stays one.
func TestAStandbyTakesNoOtherKeys(t *testing.T) {
	spare, _, other := spareOf(t, unchanged)
	for name, from := range map[string]config.Home{"another organisation's": other, "none": "", "a directory without": config.Home(t.TempDir())} {
		if err := TakeOver(spare, from, false); err == nil {
			t.Errorf("%s: it took over", name)
		}
	}
	if standby, err := spare.Standby(); !standby || err != nil {
		t.Errorf("it is a standby: %v, %v", standby, err)
	}
	if keys, err := spare.GatewayKeys(); len(keys) != 1 || err != nil {
		t.Errorf("%d gateway keys, %v, want its own alone", len(keys), err)
	}
	must.Do(t, os.WriteFile(other.Path("config", "priv_validator_key.json"), []byte("{}"), 0o600))
	if _, err := spare.TakeValidatorKeys(other, false, func(ed25519.PublicKey) bool { return true }); err == nil {
		t.Error("a file without a key was taken for one")
	}
}

// A node vouches for a standby with the organisation's gateway key, and the standby's home shows
// that.
func TestAVouchForAStandby(t *testing.T) {
	spare, first, second := spareOf(t, unchanged)
	node, err := spare.NodeKey()
	must.Do(t, err)
	text, err := first.VouchFor("acme", "test", string(node.ID()))
	must.Do(t, err)
	must.Do(t, os.WriteFile(spare.Path("config", "vouch"), []byte(text+"\n"), 0o644))
	shown, err := spare.Vouch()
	if err != nil || shown != text {
		t.Fatalf("%q, %v, want %q", shown, err, text)
	}
	vouch, err := wire.ParseVouch(shown)
	must.Do(t, err)
	own, err := first.GatewayKey()
	must.Do(t, err)
	others, err := second.GatewayKey()
	must.Do(t, err)
	if key := own.Public().(ed25519.PublicKey); !vouch.By([][]byte{key}, "test", string(node.ID())) {
		t.Error("the vouch does not hold")
	}
	if key := others.Public().(ed25519.PublicKey); vouch.By([][]byte{key}, "test", string(node.ID())) {
		t.Error("the vouch holds by another's key")
	}
	must.Do(t, os.WriteFile(spare.Path("config", "vouch"), []byte("acme nonsense"), 0o644))
	if _, err := spare.Vouch(); err == nil {
		t.Error("nonsense was read as a vouch")
	}
}
