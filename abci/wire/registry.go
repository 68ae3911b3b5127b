package wire

import (
	"bytes"
	"encoding/hex"
)

// RegistryHistory is who took part in which ledger blocks, with which keys, as a database is told
// (spec/sql-api.md, set_registry).
type RegistryHistory struct {
	Changes       uint64               `json:"-"` // how many led to it
	Consents      []ConsentFrom        `json:"consents"`
	Organisations []OrganisationPeriod `json:"organisations"`
	Validators    []ValidatorPeriod    `json:"validators"`
}

// ConsentFrom is c of the ledger blocks from a number on.
type ConsentFrom struct {
	Block   uint64 `json:"from_block"`
	Consent int    `json:"consent"`
}

// HexBytes are written as hexadecimal digits in JSON.
type HexBytes []byte

// MarshalText implements encoding.TextMarshaler.
func (b HexBytes) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(b)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *HexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

// OrganisationPeriod is an organisation with one gateway key, from one ledger block on until before
// another; 0: it goes on.
type OrganisationPeriod struct {
	Name         string   `json:"name"`
	GatewayKey   HexBytes `json:"gateway_key"`
	OrderingOnly bool     `json:"ordering_only"`
	From         uint64   `json:"from_block"`
	Until        uint64   `json:"until_block,omitempty"`
}

// Same compares all but the blocks.
func (p OrganisationPeriod) Same(o OrganisationPeriod) bool {
	return p.Name == o.Name && bytes.Equal(p.GatewayKey, o.GatewayKey) && p.OrderingOnly == o.OrderingOnly
}

// Open tells that it goes on.
func (p OrganisationPeriod) Open() bool { return p.Until == 0 }

// Ended is the period until before a block.
func (p OrganisationPeriod) Ended(block uint64) OrganisationPeriod { p.Until = block; return p }

// ValidatorPeriod is a consensus key whose effect votes count for an organisation, for ledger
// blocks as in OrganisationPeriod.
type ValidatorPeriod struct {
	Organisation string   `json:"organisation"`
	Address      HexBytes `json:"address"` // CometBFT's
	PublicKey    HexBytes `json:"public_key"`
	From         uint64   `json:"from_block"`
	Until        uint64   `json:"until_block,omitempty"`
}

// Same compares all but the blocks.
func (p ValidatorPeriod) Same(o ValidatorPeriod) bool {
	return p.Organisation == o.Organisation && bytes.Equal(p.PublicKey, o.PublicKey)
}

// Open tells that it goes on.
func (p ValidatorPeriod) Open() bool { return p.Until == 0 }

// Ended is the period until before a block.
func (p ValidatorPeriod) Ended(block uint64) ValidatorPeriod { p.Until = block; return p }
