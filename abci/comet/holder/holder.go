// Package holder has another process, the key holder, sign with an organisation's keys, so that no
// node has a private key. README.md has the protocol and its limits.
package holder

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	cmtcrypto "github.com/cometbft/cometbft/crypto"
	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"

	"github.com/chainify-db/chainify/abci/wire"
)

// Kind says which purpose a key has. A key has one.
type Kind byte

// The kinds, as the protocol has them.
const (
	Gateway   Kind = 1
	Validator Kind = 2
)

// String is the kind as labels and errors have it.
func (k Kind) String() string {
	switch k {
	case Gateway:
		return "gateway"
	case Validator:
		return "validator"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// Key is a key that signs Ed25519 and stays where it is.
type Key interface {
	Kind() Kind
	Public() ed25519.PublicKey
	Sign(message []byte) ([]byte, error)
}

// Private is a key as CometBFT's signers want one.
func Private(k Key) cmtcrypto.PrivKey { return private{k} }

type private struct{ Key }

func (k private) Bytes() []byte                       { return nil } // nobody reads it
func (k private) PubKey() cmtcrypto.PubKey            { return cmted25519.PubKey(k.Public()) }
func (k private) Type() string                        { return cmted25519.KeyType }
func (k private) Equals(other cmtcrypto.PrivKey) bool { return k.PubKey().Equals(other.PubKey()) }

// Named is a key as its holder lists it.
type Named struct {
	Kind   Kind
	Public ed25519.PublicKey
}

const (
	// KeysMax bounds the keys of a kind: those that count, and those that take their place.
	KeysMax = 16
	// messageBytesMax bounds what is signed: the largest is a bundle.
	messageBytesMax = wire.BundleBytesMax + 4096
	frameBytesMax   = 1 + ed25519.PublicKeySize + messageBytesMax
	answerBytesMax  = 4096 + wire.VoteExtensionBytesMax
	refusalBytesMax = 1000
)

// The operations, and the first byte of an answer.
const (
	opKeys = 1 // lists the keys
	opSign = 2 // signs a message of the key's kind
	opVote = 3 // answers a message of CometBFT's privval protocol

	answered = 0
	refused  = 1
)

// partDomain begins a genesis part, which both kinds sign: it proves that the organisation has the
// key (spec/formats.md, "Genesis part").
const partDomain = "chainify/genesis-part/1"

// gatewayDomains begin all else that a gateway key signs. The chain's name follows each.
var gatewayDomains = []string{
	"chainify/bundle/1", "chainify/governance/1", "chainify/client/1", "chainify/agreement/1", "chainify/agreement-ask/1",
	"chainify/state/1", "chainify/state-tables/1", "chainify/node/1", "chainify/archive/1", "chainify/archive/2",
}

// May says why a key of a kind does not sign a message; nil: it does. An empty chainID is that of a
// holder without a genesis: its keys sign genesis parts alone. Votes and proposals of the order go
// another way, with a guard: none of them begins as these do.
func May(kind Kind, chainID string, message []byte) error {
	if bytes.HasPrefix(message, []byte(partDomain)) {
		return nil
	}
	if kind != Gateway {
		return fmt.Errorf("a %v key signs votes, proposals and genesis parts alone", kind)
	}
	for _, domain := range gatewayDomains {
		if rest, found := bytes.CutPrefix(message, []byte(domain)); found {
			return ofChain(rest, chainID)
		}
	}
	return errors.New("a gateway key signs messages of gateways alone")
}

func ofChain(rest []byte, chainID string) error {
	if chainID == "" {
		return errors.New("the key holder has no genesis.json: it signs genesis parts alone")
	}
	if len(rest) < 4 || binary.BigEndian.Uint32(rest) != uint32(len(chainID)) || !bytes.HasPrefix(rest[4:], []byte(chainID)) {
		return fmt.Errorf("the message is not one of chain %q", chainID)
	}
	return nil
}

// writeFrame writes u32 length ‖ first ‖ parts.
func writeFrame(w io.Writer, first byte, parts ...[]byte) error {
	size := 1
	for _, part := range parts {
		size += len(part)
	}
	out := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+size), uint32(size)), first)
	_, err := w.Write(append(out, bytes.Join(parts, nil)...))
	return err
}

// readFrame reads a frame of at most bytesMax. Memory grows with what has come.
func readFrame(r io.Reader, bytesMax int) (first byte, rest []byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 1 || size > uint32(bytesMax) {
		return 0, nil, fmt.Errorf("a frame of %d bytes, want 1 to %d", size, bytesMax)
	}
	var frame bytes.Buffer
	if n, err := io.CopyN(&frame, r, int64(size)); err != nil {
		return 0, nil, fmt.Errorf("a frame of %d bytes ends after %d: %w", size, n, err)
	}
	return frame.Bytes()[0], frame.Bytes()[1:], nil
}

// encodeKeys writes for each key its kind and its public half.
func encodeKeys(keys []Key) (out []byte) {
	for _, key := range keys {
		out = append(append(out, byte(key.Kind())), key.Public()...)
	}
	return out
}

// decodeKeys accepts exactly what encodeKeys makes of at most KeysMax keys of each kind.
func decodeKeys(list []byte) (keys []Named, err error) {
	const each = 1 + ed25519.PublicKeySize
	if len(list)%each != 0 || len(list) > 2*KeysMax*each {
		return nil, fmt.Errorf("a list of keys has %d bytes", len(list))
	}
	for ; len(list) > 0; list = list[each:] {
		key := Named{Kind(list[0]), ed25519.PublicKey(bytes.Clone(list[1:each]))}
		if key.Kind != Gateway && key.Kind != Validator {
			return nil, fmt.Errorf("a list of keys has one of %v", key.Kind)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// CheckAddress refuses what is not unix:///PATH.
func CheckAddress(address string) error {
	if path, found := strings.CutPrefix(address, "unix://"); !found || !strings.HasPrefix(path, "/") {
		return fmt.Errorf("%q is not unix:///PATH", address)
	}
	return nil
}

func pathOf(address string) string { return strings.TrimPrefix(address, "unix://") }
