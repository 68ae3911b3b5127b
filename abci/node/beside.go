package node

import (
	"errors"

	"github.com/chainify-db/chainify/abci/comet"
)

// Configure writes the configuration of a CometBFT in a process of its own. No node runs on the
// home meanwhile.
func Configure(opt Options) (err error) {
	n := &node{opt: opt, log: opt.Log}
	defer func() { err = errors.Join(err, n.close()) }()
	if err := n.openHome(); err != nil {
		return err
	}
	return errors.Join(n.keys.Check(), comet.Configure(opt.Config, opt.Home, n.keys, n.log))
}
