package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

const clientMaxFlag, organisationMaxFlag, keysMaxFlag = "block-client-max", "block-organisation-max", "block-keys-max"

// sharesFlags are of how many transactions a block accepts.
func sharesFlags(cmd *cobra.Command, s *config.Shares) {
	numberFlag(cmd, &s.Client, clientMaxFlag, "transactions that a block accepts of one client: a role, or a key; 0: as many as it holds")
	numberFlag(cmd, &s.Organisation, organisationMaxFlag, "the same of one organisation; 0: one may fill each block of its turns")
	numberFlag(cmd, &s.Keys, keysMaxFlag, "rows that the EFFECTS transactions of a block name; 0: as many as it holds")
}

// foundingSharesFlags are the shares of a new chain. By default one client has at most a quarter of
// a block, and one organisation half of it.
func foundingSharesFlags(cmd *cobra.Command, s *config.Shares) {
	*s = config.Shares{Client: order.BlockTransactionsMax / 4, Organisation: order.BlockTransactionsMax / 2}
	sharesFlags(cmd, s)
}

// sharesAction is the change that the flags ask for, nil for none; values without a flag stay as
// they are.
func sharesAction(cmd *cobra.Command, now *wire.BlockShares, shares config.Shares) *wire.GovernanceAction {
	s := &wire.BlockShares{Client: now.GetClient(), Organisation: now.GetOrganisation(), Keys: now.GetKeys()}
	client, organisation, keys := cmd.Flags().Changed(clientMaxFlag), cmd.Flags().Changed(organisationMaxFlag), cmd.Flags().Changed(keysMaxFlag)
	if !client && !organisation && !keys {
		return nil
	}
	if client {
		s.Client = uint32(shares.Client)
	}
	if organisation {
		s.Organisation = uint32(shares.Organisation)
	}
	if keys {
		s.Keys = uint32(shares.Keys)
	}
	return &wire.GovernanceAction{Body: &wire.GovernanceAction_BlockShares{BlockShares: s}}
}

// blockShares says how many transactions a block accepts.
func blockShares(s *wire.BlockShares) string {
	most := func(n uint32) string {
		if n == 0 {
			return "as many as it holds"
		}
		return plural(n, "transaction")
	}
	text := fmt.Sprintf("%s of a client, %s of an organisation", most(s.GetClient()), most(s.GetOrganisation()))
	if n := s.GetKeys(); n > 0 {
		text += ", EFFECTS transactions of " + plural(n, "row")
	}
	return text
}
