package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

func newCancel() *cobra.Command {
	var t target
	var asJSON forMachines
	cmd := &cobra.Command{
		Use:   "cancel [--home DIR | --socket PATH] (BLOCK INDEX | ID)",
		Short: "Vote that a transaction of the pending block does not end",
		Long: `cancel ends the execution of the pending block in this organisation's database, before the time of a block is over. The
organisation then votes that one transaction does not end. As many organisations have to vote so as have to report the same
effects; fewer decide nothing. The transaction is then quarantined everywhere: it fails with CH001, its client is suspended, and
the others of its block run. The application_name of the node's session in pg_stat_activity names block and transaction.

` + exitHelp,
		Example: `  chainify cancel --home /var/lib/chainify 4711 3
  chainify cancel --home /var/lib/chainify 6c1f0e…`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			which, err := whichTransaction(args)
			if err != nil {
				return err
			}
			done, err := asked(cmd.Context(), &t, func(c *gateway.Client, ctx context.Context) (*wire.CancelResponse, error) {
				return c.Cancel(ctx, which)
			})
			if err != nil {
				return err
			}
			machines := struct {
				Block uint64 `json:"block"`
				Index uint32 `json:"index"`
			}{done.GetBlock(), done.GetIndex()}
			return asJSON.print(cmd, machines, func(out io.Writer) {
				fmt.Fprintf(out, "this organisation votes that transaction %d of block %d does not end\n", done.GetIndex(), done.GetBlock())
			})
		},
	}
	t.flags(cmd)
	asJSON.flag(cmd)
	return cmd
}

// whichTransaction reads a block and a place in it, or an id.
func whichTransaction(args []string) (*wire.CancelRequest, error) {
	if len(args) == 1 {
		id, err := hex.DecodeString(strings.TrimPrefix(args[0], `\x`))
		if err != nil || len(id) != len(wire.TxID{}) {
			return nil, usageError("%q is no transaction id of %d hexadecimal digits; a place is BLOCK INDEX", args[0], 2*len(wire.TxID{}))
		}
		return &wire.CancelRequest{Id: id}, nil
	}
	block, err := strconv.ParseUint(args[0], 10, 63)
	if err != nil || block == 0 {
		return nil, usageError("block: %q is no number from 1 on", args[0])
	}
	index, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return nil, usageError("index: %q is no number from 0 on", args[1])
	}
	return &wire.CancelRequest{Block: block, Index: uint32(index)}, nil
}
