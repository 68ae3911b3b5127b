package faults

import (
	"errors"
	"os"
	"os/exec"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Isolated is the variable by which the runner knows that it has namespaces of its own; see
// cmd/faults.
const Isolated = "CHAINIFY_FAULTS_ISOLATED"

// capabilities says for each kind of fault whether this machine permits it: nil, or the reason why
// not.
type capabilities struct {
	lanError, mountsError, slowDisksError, clocksError error
}

func (c capabilities) lan() error       { return c.lanError }
func (c capabilities) mounts() error    { return c.mountsError }
func (c capabilities) slowDisks() error { return c.slowDisksError }
func (c capabilities) clocks() error    { return c.clocksError }

func findCapabilities(opt Options) capabilities {
	var c capabilities
	if opt.ChainifyClock == "" {
		c.clocksError = errors.New("needs a node that is built with a clock that can be set (make soak does it)")
	}
	if os.Getenv(Isolated) == "" {
		err := errors.New("needs namespaces of its own, which only root can make")
		c.lanError, c.mountsError, c.slowDisksError = err, err, err
		return c
	}
	if _, err := exec.LookPath("ip"); err != nil {
		c.lanError = errors.New("needs the command ip (package iproute2)")
	} else if l, err := harness.NewLan([]string{"probe"}); err != nil {
		c.lanError = err
	} else {
		c.lanError = l.Close()
	}
	c.slowDisksError = harness.CanSlowDisks()
	return c
}

// possible splits the faults of a manifest into those that can be done here and the reasons against
// the others.
func (m Manifest) possible(c capabilities) (able []Fault, unable []string) {
	for _, f := range m.Faults {
		if needs := kinds[f.Kind].needs; needs != nil {
			if err := needs(c); err != nil {
				unable = append(unable, f.Kind+": "+err.Error())
				continue
			}
		}
		able = append(able, f)
	}
	return able, unable
}
