package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

// Numbers that some readers take for others, or for their first digits.
var looseNumbers = []string{"1e9", "10abc", "5,000", "5_000", "0x10", "010", "00", "+5", "-5", " 5", "5 ", "1.0", "", "٣", "18446744073709551616"}

func TestPowersAreRefusedUnlessTheyAreNumbers(t *testing.T) {
	registry := &wire.RegistryResponse{Organisations: []*wire.Member{{Organisation: "acme", Validators: []*wire.ValidatorPower{{Key: make([]byte, 32), Power: 1}}}}}
	for _, text := range append(looseNumbers, "0", "1000000001") {
		if a, err := powerAction(registry, "acme:"+text); err == nil {
			t.Errorf("--power acme:%s is read as %v", text, a)
		}
	}
	for _, text := range []string{"acme", "acme20", ":20", "acme:20:30"} {
		if a, err := powerAction(registry, text); err == nil {
			t.Errorf("--power %s is read as %v", text, a)
		}
	}
	for text, want := range map[string]uint64{"1": 1, "20": 20, "1000000000": 1_000_000_000} {
		a, err := powerAction(registry, "acme:"+text)
		if err != nil || a.GetValidator().Validator.Power != want {
			t.Errorf("--power acme:%s is read as %v, %v", text, a, err)
		}
	}
}

func TestNumbersOnTheCommandLineAreDecimal(t *testing.T) {
	for _, command := range [][]string{
		{"governance", "propose", "--home", "x", "--consent"},
		{"governance", "propose", "--home", "x", "--approvals"},
		{"governance", "propose", "--home", "x", "--from-height"},
		{"governance", "propose", "--home", "x", "--block-client-max"},
		{"org", "remove", "--home", "x", "acme", "--from-height"},
		{"org", "rotate-key", "--home", "x", "--gateway", "--from-height"},
		{"genesis", "--chain-id", "x", "--time", "x", "part", "--consent"},
		{"testnet", "--organisations", "acme", "--dir", filepath.Join(t.TempDir(), "net"), "--base-port"},
		{"testnet", "--organisations", "acme", "--dir", filepath.Join(t.TempDir(), "net"), "--powers"},
		{"testnet", "--organisations", "acme", "--dir", filepath.Join(t.TempDir(), "net"), "--consent"},
		{"client", "sign", "--chain-id", "x", "--organisation", "acme", "--role", "r", "--key", "x", "SELECT 1", "--height"},
		{"governance", "record", "--genesis", "x", "y", "--from-block"},
		{"verify-receipt", "x", "--genesis", "x", "--consent"},
	} {
		for _, text := range looseNumbers {
			code, _, says := call("", append(command, text)...)
			if code != exitUsage || !strings.Contains(says, command[len(command)-1]) {
				t.Errorf("%v %q: code %d: %s", command, text, code, says)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "net")
	if code, _, says := call("", "testnet", "--organisations", "acme,bolt", "--dir", dir, "--powers", "5,7", "--base-port", "30000"); code != exitOK {
		t.Errorf("powers and a port: %s", says)
	}
}
