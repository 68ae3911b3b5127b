package main

import (
	"bytes"
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/gateway"
)

// homeFlag is the node's directory. The command needs it, and these other flags.
func homeFlag(cmd *cobra.Command, home *string, others ...string) {
	cmd.Flags().StringVar(home, "home", "", "the node's directory (required)")
	require(cmd, append([]string{"home"}, others...)...)
}

// forMachines is flag --json.
type forMachines bool

func (asJSON *forMachines) flag(cmd *cobra.Command) {
	cmd.Flags().BoolVar((*bool)(asJSON), "json", false, "for machines")
}

// print prints a value for machines, or writes it as text for people.
func (asJSON forMachines) print(cmd *cobra.Command, value any, text func(out io.Writer)) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), value)
	}
	var b bytes.Buffer
	text(&b)
	_, err := cmd.OutOrStdout().Write(b.Bytes())
	return err
}

// asked is the node's answer to a question that needs no waiting.
func asked[T any](ctx context.Context, t *target, question func(*gateway.Client, context.Context) (T, error)) (answer T, err error) {
	err = t.ask(ctx, func(ctx context.Context, c *gateway.Client) (err error) {
		answer, err = question(c, ctx)
		return err
	})
	return answer, err
}
