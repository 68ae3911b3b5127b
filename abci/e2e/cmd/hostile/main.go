// Command hostile runs the node of an organisation that attacks the others, for tests of them:
// "hostile start --home DIR" is "chainify start", with an application that lies to CometBFT. The
// variable [Variable] says how: as a proposer, or as a voter.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/node"
)

// Variable of the environment: proposals or votes.
const Variable = "CHAINIFY_HOSTILE"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("hostile start", flag.ContinueOnError)
	home := flags.String("home", "", "the node's directory")
	if len(args) == 0 || args[0] != "start" {
		return errors.New("usage: hostile start --home DIR")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	c, err := config.Load(*home)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var attack func(abci.Application) abci.Application
	switch how := os.Getenv(Variable); how {
	case "proposals":
		attack = func(honest abci.Application) abci.Application { return &proposer{Application: honest, log: log} }
	case "votes":
		attack = func(honest abci.Application) abci.Application {
			return &voter{Application: honest, own: c.Organisation, log: log}
		}
	default:
		return fmt.Errorf("%s is %q, want proposals or votes", Variable, how)
	}
	return node.Run(ctx, node.Options{Home: config.Home(*home), Config: c, Version: "hostile", Log: log, Application: attack})
}
