// Command baseline is one node of the ledger that Chainify is compared with (package baseline).
// `bench` starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/chainify-db/chainify/bench/baseline"
)

func main() {
	var o baseline.Options
	flag.StringVar(&o.Home, "home", "", "directory that baseline.Homes made")
	flag.StringVar(&o.DSN, "dsn", "", "database; empty: transactions are ordered and nothing else")
	flag.StringVar(&o.P2P, "p2p", "", "host:port for other nodes")
	flag.StringVar(&o.RPC, "rpc", "", "host:port for clients")
	flag.StringVar(&o.Peers, "peers", "", "id@host:port of the other nodes, separated by commas")
	flag.BoolVar(&o.Tuned, "tuned", false, "set CometBFT as Chainify's nodes set it")
	flag.Parse()
	if o.Home == "" || o.P2P == "" || o.RPC == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: baseline -home DIR -p2p HOST:PORT -rpc HOST:PORT [-dsn DSN] [-peers LIST] [-tuned]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := baseline.Run(ctx, o, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "baseline:", err)
		os.Exit(1)
	}
}
