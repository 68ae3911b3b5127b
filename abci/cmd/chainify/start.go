package main

import (
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/node"
)

// version is that of the release; the linker may set it.
var version = "0.2.0"

func newStart() *cobra.Command {
	var home, explorer string
	cmd := &cobra.Command{
		Use:   "start [--home DIR] [--explorer[=HOST:PORT]]",
		Short: "Run the node in the foreground",
		Long: `start runs the node until SIGINT or SIGTERM. It then refuses new transactions, lets the open block finish for a moment, rolls
back a block that is left, and ends. The node starts while its database is down: it orders, and executes the missing blocks when
the database is back. It ends with exit code 4 before it votes under a version of the protocol that it does not know: install
a newer release and start again. SIGHUP does nothing: files that may change while the node runs are read when they change, and
other settings count after a restart. Logs go to standard error.`,
		Example: `  chainify start --home /var/lib/chainify
  chainify start --home /var/lib/chainify --explorer      # a web page at http://127.0.0.1:26690`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(home)
			if err != nil {
				return err
			}
			if explorer != "" {
				c.Explorer.Listen = explorer
				if err := c.Check(); err != nil {
					return usageError("--explorer: %w", err)
				}
			}
			log, err := newLog(cmd.ErrOrStderr(), c.Log)
			if err != nil {
				return err
			}
			signal.Ignore(syscall.SIGHUP)
			return node.Run(cmd.Context(), node.Options{
				Home: config.Home(home), Config: c, Version: version, Log: log,
			})
		},
	}
	homeFlag(cmd, &home)
	cmd.Flags().StringVar(&explorer, "explorer", "", "serve the explorer's web page (without a value: "+config.ExplorerListen+"), instead of explorer.listen")
	cmd.Flags().Lookup("explorer").NoOptDefVal = config.ExplorerListen
	return cmd
}

func newLog(to io.Writer, c config.Log) (*slog.Logger, error) {
	level, err := config.LogLevel(c.Level)
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(to, options)), nil
	}
	return slog.New(slog.NewTextHandler(to, options)), nil
}

// versions is what "chainify version --json" prints.
type versions struct {
	Chainify string `json:"chainify"`
	Commit   string `json:"commit,omitempty"`
	CometBFT string `json:"cometbft"`
	Go       string `json:"go"`
}

func newVersion() *cobra.Command {
	var asJSON forMachines
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := readVersions()
			return asJSON.print(cmd, v, func(out io.Writer) {
				fmt.Fprintf(out, "chainify %s\nCometBFT %s\n%s\n", v.Chainify, v.CometBFT, v.Go)
			})
		},
	}
	asJSON.flag(cmd)
	return cmd
}

func readVersions() versions {
	v := versions{Chainify: version, Go: runtime.Version(), CometBFT: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/cometbft/cometbft" {
			v.CometBFT = m.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
