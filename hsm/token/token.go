// Package token signs with an organisation's keys in a PKCS#11 token: Ed25519, by CKM_EDDSA. No
// private key is ever read from the token.
package token

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/miekg/pkcs11"

	"github.com/chainify-db/chainify/abci/comet/holder"
)

// Numbers of PKCS#11 3.0 that the library does not name.
const (
	keyEdwards      = 0x40   // CKK_EC_EDWARDS
	generateEdwards = 0x1055 // CKM_EC_EDWARDS_KEY_PAIR_GEN
	signEdDSA       = 0x1057 // CKM_EDDSA
)

const (
	// reopenPause lies between two attempts to reach a token that is away.
	reopenPause = time.Second
	idBytes     = 8
	labelPrefix = "chainify-"
)

// curve names Ed25519 in CKA_EC_PARAMS: the object identifier 1.3.101.112.
var curve = []byte{0x06, 0x03, 0x2b, 0x65, 0x70}

// ErrPIN: the token refused the PIN, or remembers that it refused one. Nothing tries a PIN then,
// for a token counts wrong ones and locks itself.
var ErrPIN = errors.New("the token's PIN")

// Settings say which token, and how to log in.
type Settings struct {
	Module string // path of the vendor's PKCS#11 library
	Label  string // of the token
	PIN    string
	// TryAgain logs in although the token says that its last login had a wrong PIN.
	TryAgain bool
}

// Token is a token that comes and goes. Safe for concurrent use: one call at a time reaches it.
type Token struct {
	settings Settings

	mu      sync.Mutex // guards all below
	module  *pkcs11.Ctx
	session pkcs11.SessionHandle
	open    bool
	handles map[string]pkcs11.ObjectHandle // of private keys, by public key; of this session
	wrong   error                          // the PIN is wrong: no login any more
	next    time.Time                      // of the next attempt to reach the token
	failed  error                          // why the last attempt failed
}

// Open loads the library and logs in. The error is ErrPIN for a PIN that the token refuses.
func Open(s Settings) (*Token, error) {
	t := &Token{settings: s, module: pkcs11.New(s.Module)}
	if t.module == nil {
		return nil, fmt.Errorf("load %s: it is no PKCS#11 library", s.Module)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.reach(); err != nil {
		t.module.Destroy()
		return nil, err
	}
	return t, nil
}

// Close logs out and unloads the library.
func (t *Token) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.module == nil {
		return
	}
	t.leave()
	t.module.Destroy()
	t.module, t.wrong = nil, errors.New("the token is closed")
}

// reach opens a session and logs in, where there is none. Called with mu held.
func (t *Token) reach() (err error) {
	switch now := time.Now(); {
	case t.open:
		return nil
	case t.wrong != nil:
		return t.wrong
	case now.Before(t.next):
		return t.failed
	}
	defer func() {
		if err != nil {
			t.leave()
			t.next, t.failed = time.Now().Add(reopenPause), err
		}
	}()
	if err := t.module.Initialize(); err != nil {
		return fmt.Errorf("initialize the PKCS#11 library: %w", err)
	}
	t.open, t.handles = true, map[string]pkcs11.ObjectHandle{}
	slot, flags, err := t.slot()
	if err != nil {
		return err
	}
	if t.session, err = t.module.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION); err != nil {
		return fmt.Errorf("open a session with token %q: %w", t.settings.Label, err)
	}
	return t.login(flags)
}

// slot finds the token by its label. Called with mu held.
func (t *Token) slot() (slot, flags uint, err error) {
	slots, err := t.module.GetSlotList(true)
	if err != nil {
		return 0, 0, fmt.Errorf("list tokens: %w", err)
	}
	found := 0
	for _, s := range slots {
		info, err := t.module.GetTokenInfo(s)
		if err == nil && strings.TrimRight(info.Label, " \x00") == t.settings.Label {
			slot, flags, found = s, info.Flags, found+1
		}
	}
	if found != 1 {
		return 0, 0, fmt.Errorf("%d tokens have the label %q, want one", found, t.settings.Label)
	}
	return slot, flags, nil
}

// login tries the PIN at most once. Called with mu held.
func (t *Token) login(flags uint) error {
	const lockedFlags = pkcs11.CKF_USER_PIN_LOCKED
	const doubtful = pkcs11.CKF_USER_PIN_COUNT_LOW | pkcs11.CKF_USER_PIN_FINAL_TRY
	switch {
	case flags&lockedFlags != 0:
		return fmt.Errorf("%w is locked: unlock it by the vendor's tool", ErrPIN)
	case flags&doubtful != 0 && !t.settings.TryAgain:
		return fmt.Errorf("%w was wrong at the last login, and the token counts wrong ones: not tried. Correct the PIN, then start once with --try-pin-again", ErrPIN)
	}
	switch err := t.module.Login(t.session, pkcs11.CKU_USER, t.settings.PIN); {
	case err == nil, errors.Is(err, pkcs11.Error(pkcs11.CKR_USER_ALREADY_LOGGED_IN)):
		t.settings.TryAgain = false // it was for one login
		return nil
	case errors.Is(err, pkcs11.Error(pkcs11.CKR_PIN_INCORRECT)), errors.Is(err, pkcs11.Error(pkcs11.CKR_PIN_LEN_RANGE)),
		errors.Is(err, pkcs11.Error(pkcs11.CKR_PIN_INVALID)), errors.Is(err, pkcs11.Error(pkcs11.CKR_PIN_EXPIRED)), errors.Is(err, pkcs11.Error(pkcs11.CKR_PIN_LOCKED)):
		t.wrong = fmt.Errorf("%w is refused (%w): it is not tried again, for the token counts wrong ones", ErrPIN, err)
		return t.wrong
	default:
		return fmt.Errorf("log in to token %q: %w", t.settings.Label, err)
	}
}

// leave ends the session and the library's state. Its errors say no more than that the token is
// away. Called with mu held.
func (t *Token) leave() {
	if t.open {
		_ = t.module.CloseSession(t.session)
		_ = t.module.Finalize()
	}
	t.open = false
}

// within calls with an open session. After an error it leaves the token, and tries once more with a
// session anew: the token may have been away meanwhile.
func (t *Token) within(do func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh := !t.open
	for {
		err := t.reach()
		if err != nil {
			return err
		}
		if err = do(); err == nil {
			return nil
		}
		t.leave()
		if fresh {
			t.next, t.failed = time.Now().Add(reopenPause), err
			return err
		}
		fresh = true
	}
}

// Key is a key in a token.
type Key struct {
	token  *Token
	kind   holder.Kind
	id     []byte // CKA_ID, which the two halves have in common
	public ed25519.PublicKey
}

var _ holder.Key = (*Key)(nil)

// Kind implements holder.Key.
func (k *Key) Kind() holder.Kind { return k.kind }

// Public implements holder.Key.
func (k *Key) Public() ed25519.PublicKey { return k.public }

// Sign implements holder.Key. The signature is verified before it leaves: a token that computes
// wrongly would give its key away.
func (k *Key) Sign(message []byte) (signature []byte, err error) {
	err = k.token.within(func() error {
		handle, err := k.token.private(k)
		if err != nil {
			return err
		}
		if err := k.token.module.SignInit(k.token.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(signEdDSA, nil)}, handle); err != nil {
			return fmt.Errorf("the token signs nothing: %w", err)
		}
		if signature, err = k.token.module.Sign(k.token.session, message); err != nil {
			return fmt.Errorf("the token signs nothing: %w", err)
		}
		if !ed25519.Verify(k.public, message, signature) {
			return errors.New("the token's signature is false")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return signature, nil
}

// private finds the private half. Called within the token.
func (t *Token) private(k *Key) (pkcs11.ObjectHandle, error) {
	if handle, known := t.handles[string(k.public)]; known {
		return handle, nil
	}
	found, err := t.find(pkcs11.CKO_PRIVATE_KEY, k.kind, k.id)
	if err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("the token has %d private keys %s with id %x, want one", len(found), labelOf(k.kind), k.id)
	}
	t.handles[string(k.public)] = found[0]
	return found[0], nil
}

// find lists the Ed25519 keys of a class with our label; an id that is not nil: those with the id.
// Called within the token.
func (t *Token) find(class uint, kind holder.Kind, id []byte) ([]pkcs11.ObjectHandle, error) {
	wanted := []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, class), pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, keyEdwards),
		pkcs11.NewAttribute(pkcs11.CKA_LABEL, labelOf(kind)),
	}
	if id != nil {
		wanted = append(wanted, pkcs11.NewAttribute(pkcs11.CKA_ID, id))
	}
	if err := t.module.FindObjectsInit(t.session, wanted); err != nil {
		return nil, fmt.Errorf("find keys: %w", err)
	}
	found, _, err := t.module.FindObjects(t.session, holder.KeysMax+1)
	if err := errors.Join(err, t.module.FindObjectsFinal(t.session)); err != nil {
		return nil, fmt.Errorf("find keys: %w", err)
	}
	if len(found) > holder.KeysMax {
		return nil, fmt.Errorf("more than %d keys have the label %s: delete those that were replaced", holder.KeysMax, labelOf(kind))
	}
	return found, nil
}

// Keys are the keys with the labels chainify-gateway and chainify-validator, whoever made them.
func (t *Token) Keys() (keys []holder.Key, err error) {
	err = t.within(func() error {
		keys = nil
		for _, kind := range []holder.Kind{holder.Gateway, holder.Validator} {
			found, err := t.find(pkcs11.CKO_PUBLIC_KEY, kind, nil)
			if err != nil {
				return err
			}
			for _, handle := range found {
				key, err := t.read(handle, kind)
				if err != nil {
					return err
				}
				keys = append(keys, key)
			}
		}
		return nil
	})
	return keys, err
}

// read reads the public half. Called within the token.
func (t *Token) read(handle pkcs11.ObjectHandle, kind holder.Kind) (*Key, error) {
	values, err := t.module.GetAttributeValue(t.session, handle, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_ID, nil), pkcs11.NewAttribute(pkcs11.CKA_EC_POINT, nil),
	})
	if err != nil {
		return nil, fmt.Errorf("read a public key: %w", err)
	}
	public, err := pointOf(values[1].Value)
	if err != nil {
		return nil, fmt.Errorf("read the public key %s with id %x: %w", labelOf(kind), values[0].Value, err)
	}
	return &Key{token: t, kind: kind, id: values[0].Value, public: public}, nil
}

// pointOf reads CKA_EC_POINT: an OCTET STRING, or the bare 32 bytes as some tokens give them.
func pointOf(value []byte) (ed25519.PublicKey, error) {
	point := value
	if rest, wrapped := bytes.CutPrefix(value, []byte{0x04, ed25519.PublicKeySize}); wrapped && len(rest) == ed25519.PublicKeySize {
		point = rest
	}
	if len(point) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%d bytes are no point of Ed25519", len(value))
	}
	return ed25519.PublicKey(point), nil
}

// Make makes a key in the token, which never leaves it, and returns its public half.
func (t *Token) Make(kind holder.Kind) (public ed25519.PublicKey, err error) {
	id := make([]byte, idBytes)
	if _, err := rand.Read(id); err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	common := []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, keyEdwards), pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true),
		pkcs11.NewAttribute(pkcs11.CKA_LABEL, labelOf(kind)), pkcs11.NewAttribute(pkcs11.CKA_ID, id),
	}
	publicHalf := append([]*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_EC_PARAMS, curve), pkcs11.NewAttribute(pkcs11.CKA_VERIFY, true),
	}, common...)
	privateHalf := append([]*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_SIGN, true), pkcs11.NewAttribute(pkcs11.CKA_PRIVATE, true),
		pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, true), pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, false),
	}, common...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.reach(); err != nil {
		return nil, err
	}
	handle, _, err := t.module.GenerateKeyPair(t.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(generateEdwards, nil)}, publicHalf, privateHalf)
	if err != nil {
		return nil, fmt.Errorf("make a key in token %q: %w", t.settings.Label, err)
	}
	key, err := t.read(handle, kind)
	if err != nil {
		return nil, err
	}
	return key.public, nil
}

func labelOf(kind holder.Kind) string { return labelPrefix + kind.String() }

// Remove destroys both halves of a key.
func (t *Token) Remove(public ed25519.PublicKey) error {
	keys, err := t.Keys()
	if err != nil {
		return err
	}
	for _, found := range keys {
		key := found.(*Key)
		if !key.public.Equal(public) {
			continue
		}
		return t.within(func() error {
			delete(t.handles, string(public))
			for _, class := range []uint{pkcs11.CKO_PRIVATE_KEY, pkcs11.CKO_PUBLIC_KEY} {
				halves, err := t.find(class, key.kind, key.id)
				if err != nil {
					return err
				}
				for _, half := range halves {
					if err := t.module.DestroyObject(t.session, half); err != nil {
						return fmt.Errorf("destroy a key: %w", err)
					}
				}
			}
			return nil
		})
	}
	return fmt.Errorf("the token has no key %x", public)
}
