package node

import (
	"strings"
	"testing"
)

func TestTooFewDescriptorsAreNamed(t *testing.T) {
	if err := enoughDescriptors(64); err == nil || !strings.Contains(err.Error(), "LimitNOFILE") {
		t.Errorf("with 64: %v", err)
	}
	if err := enoughDescriptors(descriptorsMin); err != nil {
		t.Error(err)
	}
}
