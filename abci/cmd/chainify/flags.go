package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
)

// homesFolder is where packages keep the homes of a machine's nodes. Tests set another one.
var homesFolder = packagedHomes

const packagedHomes = "/var/lib/chainify"

// homeVariable of the environment names the home of commands that are told none.
const homeVariable = "CHAINIFY_HOME"

// homeHelp says which home a command takes that is told none.
const homeHelp = "the node's directory; without it $" + homeVariable + ", or the only home below " + packagedHomes

// homeFlag is the node's directory. The command needs one, and these other flags.
func homeFlag(cmd *cobra.Command, home *string, others ...string) {
	cmd.Flags().StringVar(home, "home", "", homeHelp)
	require(cmd, others...)
	cmd.Annotations[needsHome] = "yes"
}

// needsHome is the annotation of a command that takes a home, which need not be named.
const needsHome = "home"

// findHome sets flag --home where the command line does not, to what the environment names or to
// the only home of the folder.
func findHome(cmd *cobra.Command, environment, folder string) error {
	if cmd.Annotations[needsHome] == "" || cmd.Flags().Changed("home") {
		return nil
	}
	home, err := onlyHome(environment, folder)
	if err != nil {
		return err
	}
	return cmd.Flags().Set("home", home)
}

// onlyHome is the home that nobody named: the environment's, or the only one in the folder.
func onlyHome(environment, folder string) (string, error) {
	if environment != "" {
		return environment, nil
	}
	files, err := filepath.Glob(filepath.Join(folder, "*", config.FileName))
	if err != nil {
		return "", err
	}
	switch len(files) {
	case 0:
		return "", usageError("--home is needed: CHAINIFY_HOME is not set, and there is no home below %s", folder)
	case 1:
		return filepath.Dir(files[0]), nil
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	return "", usageError("--home is needed: below %s are the homes %s", folder, strings.Join(names, ", "))
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

// joinWait makes `--wait 1m` one argument, as `--wait=1m` is: a flag that needs no value takes none
// from the argument behind it.
func joinWait(args []string) []string {
	out := []string{} // nil would mean os.Args
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		if args[i] == "--wait" && i+1 < len(args) {
			if _, err := time.ParseDuration(args[i+1]); err == nil {
				out = append(out, args[i]+"="+args[i+1])
				i++
				continue
			}
		}
		out = append(out, args[i])
	}
	return out
}
