package config

import (
	"strings"
	"testing"
)

func TestASocketsPathIsBounded(t *testing.T) {
	c := Default("acme")
	if _, err := c.Sockets(Home("/" + strings.Repeat("a", socketPathMax))); err == nil || !strings.Contains(err.Error(), "cometbft.application") {
		t.Errorf("error %v", err)
	}
	c.CometBFT = CometBFT{"unix:///run/a", "unix:///run/b", "tcp://127.0.0.1:1"}
	if s, err := c.Sockets(Home("/" + strings.Repeat("a", socketPathMax))); err != nil || s.Signer != "tcp://127.0.0.1:1" {
		t.Errorf("%v, %v", s, err)
	}
}
