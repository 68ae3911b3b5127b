// Command chainify is an organisation's node and its tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// Exit codes; they stand in the help text too.
const (
	exitOK          = 0
	exitFailed      = 1 // it did not work, or the outcome is 0
	exitUsage       = 2
	exitUnreachable = 3 // no node on the socket, or it cannot order, or no outcome in time
	exitNewer       = 4 // the chain has a version of the protocol that this program does not know
)

const exitHelp = `Exit codes: 0 done; 1 failed, or the transaction's outcome is 0; 2 wrong usage; 3 the node cannot be
reached, cannot order now, or gave no outcome in time; 4 the chain has a version of the protocol that this
program does not know.`

// exitError gives an error its exit code. An empty text prints nothing: the output has said it.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, a ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, a...)}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program but the process around it.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	root.SetArgs(joinWait(args))
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if text := describe(err); text != "" {
		fmt.Fprintln(errs, "chainify: "+text)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var coded *exitError
	var refused *gateway.Error
	var newer *wire.NewerProtocolError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &newer):
		return exitNewer
	case errors.Is(err, gateway.ErrUnreachable):
		return exitUnreachable
	case errors.As(err, &refused) && refused.SQLState == gateway.StateCannotOrder:
		return exitUnreachable
	default:
		return exitFailed
	}
}

// describe adds detail and hint of a node's refusal.
func describe(err error) string {
	var refused *gateway.Error
	text := err.Error()
	if errors.As(err, &refused) {
		for _, line := range []struct{ name, text string }{{"DETAIL", refused.Detail}, {"HINT", refused.Hint}} {
			if line.text != "" {
				text += "\n" + line.name + ":  " + line.text
			}
		}
	}
	return text
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "chainify",
		Short: "One organisation's node of a shared, tamper-evident ledger in PostgreSQL",
		Long: `chainify runs one organisation's node and talks to it. The node orders SQL transactions with the other
organisations' nodes and commits their effects in the organisation's own PostgreSQL once enough organisations
report the same effects.

` + exitHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.Help(); err != nil {
				return err
			}
			return &exitError{code: exitUsage}
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newInit(), newGenesis(), newTestnet(), newDemo(), newStart(), newApp(), newSubmit(), newGovernance(), newOrg(), newClient(), newStatus(), newDoctor(), newInstallMariaDB(), newJoin(), newAcceptServer(), newVouch(), newTakeOver(), newSignAgain(), newVoteAgain(), newRejoin(), newSigner(), newRelay(), newArchive(), newCancel(), newEvidence(), newVerify(), newVerifyReceipt(), newVerifyDigest(), newVerifyEvidence(), newVersion())
	for _, command := range further {
		root.AddCommand(command())
	}
	root.SetVersionTemplate("chainify {{.Version}}\n")
	wrapUsage(root)
	return root
}

// further are commands of builds with tags (manual.go).
var further []func() *cobra.Command

// needed is the annotation with a command's required flags: cobra's check has no exit code of its
// own.
const needed = "needed"

// require marks the flags that a command needs.
func require(cmd *cobra.Command, flags ...string) {
	cmd.Annotations = map[string]string{needed: strings.Join(flags, " ")}
}

// wrapUsage gives cobra's complaints about arguments and flags the exit code of wrong usage.
func wrapUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError("%w (see %q)", err, c.CommandPath()+" --help")
	})
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				if strings.HasPrefix(err.Error(), "unknown command") {
					return usageError("unknown command %q (see \"chainify --help\")", args[0])
				}
				return usageError("%w (see %q)", err, c.CommandPath()+" --help")
			}
			return nil
		}
	}
	if do := cmd.RunE; do != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			for _, f := range strings.Fields(c.Annotations[needed]) {
				if !c.Flags().Changed(f) {
					return usageError("--%s is needed (see %q)", f, c.CommandPath()+" --help")
				}
			}
			if err := findHome(c, os.Getenv(homeVariable), homesFolder); err != nil {
				return err
			}
			return do(c, args)
		}
	}
	for _, sub := range cmd.Commands() {
		wrapUsage(sub)
	}
}
