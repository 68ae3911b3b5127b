// Package takeover is for operators of a home whose node does not run. A node takes a lost one's
// place, signs or votes again, or goes over to another database server. loss.go decides on which
// votes the new node abstains.
package takeover

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/nodestore"
)

// TakeOver has the home of a standby, whose node does not run, take the place of a lost node. from
// is a copy of the lost node's home. Its keys are copied. With signed its last signatures are
// copied as well, and its votes on effects. They have to be those that its disk had when it had
// stopped. Without them, and without a signer of its own, the node signs only for heights that the
// lost node cannot have signed for (A14). It abstains from executions on which the lost node may
// have voted (E5). TakeOver can be called again after a failure.
func TakeOver(home, from config.Home, signed bool) error {
	err := takeOver(home, from, signed)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("the disk of %s is full. The home is a standby's still: free some of the disk, then call take-over again: %w", home, err)
	}
	return err
}

func takeOver(home, from config.Home, signed bool) error {
	c, err := config.Load(string(home))
	if err != nil {
		return err
	}
	standby, err := home.Standby()
	if err != nil {
		return err
	}
	if !standby {
		return fmt.Errorf("%s is not the home of a standby: make one with \"chainify init --standby\"", home)
	}
	db, err := nodestore.Open(home.Data())
	if err != nil {
		return fmt.Errorf("open the standby's store (does its node run?): %w", err)
	}
	defer db.Close()
	registry, err := registryOf(home, db)
	if err != nil {
		return err
	}
	if c.Keys.Holder == "" {
		if err := takeGatewayKey(home, from, registry, c.Organisation); err != nil {
			return err
		}
	}
	if err := takeVotes(db, from, signed); err != nil {
		return err
	}
	if err := takeDoubts(home, from, signed, c.SignsElsewhere()); err != nil {
		return err
	}
	if !c.SignsElsewhere() {
		if err := takeValidatorKey(home, from, registry, c.Organisation, signed); err != nil {
			return err
		}
	}
	return home.EndStandby()
}

// takeDoubts keeps why the new node does not just sign. With the lost node's disk that is what kept
// the lost node from it. Without, the node does not know the last signature, unless a signer does.
func takeDoubts(home, from config.Home, signed, signer bool) error {
	var kept config.Signing
	var err error
	switch now := time.Now().UTC(); {
	case signed:
		kept, err = from.Signing()
	case !signer:
		kept.DoubtSince = &now
	}
	if err != nil || kept == (config.Signing{}) {
		return err
	}
	return home.KeepSigning(kept)
}

// registryOf is the registry that a home's node knew last.
func registryOf(home config.Home, db nodestore.DB) (*order.Registry, error) {
	stored, err := app.NewStore(db).Registry()
	if stored != nil || err != nil {
		return stored, err
	}
	_, _, founded, err := home.Founded()
	return founded, err
}

// takeGatewayKey copies the organisation's gateway key, where the home does not have it.
func takeGatewayKey(home, from config.Home, registry *order.Registry, organisation string) error {
	wanted, known := registry.GatewayKey(organisation)
	if !known {
		return fmt.Errorf("%q is no member with a database, as far as the standby knows", organisation)
	}
	own, err := home.GatewayKeys()
	if err != nil {
		return err
	}
	for _, key := range own {
		if wanted.Equal(key.Public()) {
			return nil
		}
	}
	if from == "" {
		return fmt.Errorf("the home has no gateway key of %q that counts: name a copy of the lost node's home with --from", organisation)
	}
	taken, err := home.TakeGatewayKeys(from, func(key ed25519.PublicKey) bool { return wanted.Equal(key) })
	if err == nil && taken == 0 {
		err = fmt.Errorf("%s has no gateway key of %q that counts", from, organisation)
	}
	return err
}

// takeValidatorKey copies the organisation's validator key.
func takeValidatorKey(home, from config.Home, registry *order.Registry, organisation string, signed bool) error {
	if from == "" {
		return errors.New("the home has no validator key that counts: name a copy of the lost node's home with --from, or consensus.signer_listen for a signer")
	}
	taken, err := home.TakeValidatorKeys(from, signed, func(key ed25519.PublicKey) bool {
		address := order.AddressOf(key)
		owner, _ := registry.OrganisationOf(address[:])
		return owner == organisation
	})
	if err == nil && taken == 0 {
		err = fmt.Errorf("%s has no validator key of %q that counts", from, organisation)
	}
	return err
}
