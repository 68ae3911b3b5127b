// Package softhsm makes tokens of SoftHSM 2, for tests alone (scripts/setup-hsm installs it).
package softhsm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Module is the library of Debian's package softhsm2.
const Module = "/usr/lib/softhsm/libsofthsm2.so"

// Make makes a token under dir/tokens and returns the file that SOFTHSM2_CONF has to name.
func Make(dir, label, pin string) (config string, err error) {
	tokens := filepath.Join(dir, "tokens")
	if err := os.MkdirAll(tokens, 0o700); err != nil {
		return "", err
	}
	config = filepath.Join(dir, "softhsm2.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, "directories.tokendir = %s\nobjectstore.backend = file\nlog.level = ERROR\n", tokens), 0o600); err != nil {
		return "", err
	}
	make := exec.Command("softhsm2-util", "--init-token", "--free", "--label", label, "--pin", pin, "--so-pin", pin)
	make.Env = append(os.Environ(), "SOFTHSM2_CONF="+config)
	if out, err := make.CombinedOutput(); err != nil {
		return "", fmt.Errorf("softhsm2-util (scripts/setup-hsm installs it): %w: %s", err, out)
	}
	return config, nil
}
