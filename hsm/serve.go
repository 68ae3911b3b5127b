package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/comet/holder"
	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/config"
)

func newServe() *cobra.Command {
	var p place
	var home, listen string
	var users []string
	cmd := &cobra.Command{
		Use: "serve --home DIR --listen unix:///PATH --module FILE --token LABEL", Args: cobra.NoArgs,
		Short: "Sign for nodes and commands on this machine",
		Long: `serve signs with the keys of the token until SIGINT or SIGTERM. The home holds config/genesis.json, and what validator keys signed
last. Without a genesis it signs the organisation's part of one alone ("chainify init").

Processes of this user may ask, and of those that --user names. Others are refused, as the kernel names them.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := holder.CheckAddress(listen); err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			return serve(cmd.Context(), config.Home(home), strings.TrimPrefix(listen, "unix://"), &p, users)
		},
	}
	p.flags(cmd)
	cmd.Flags().StringVar(&home, "home", "", "directory of the genesis and of what validator keys signed last (required)")
	cmd.Flags().StringVar(&listen, "listen", "", "unix:///PATH; nobody else may write its directory (required)")
	cmd.Flags().StringArrayVar(&users, "user", nil, "a further user who may ask, by name or number; may be given again")
	require(cmd, "home", "listen")
	return cmd
}

func serve(ctx context.Context, home config.Home, path string, p *place, users []string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	allowed, err := numbers(users)
	if err != nil {
		return err
	}
	unlock, err := lock(string(home))
	if err != nil {
		return err
	}
	defer unlock()
	chainID := ""
	doc, _, err := home.LoadGenesis()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		log.Warn("there is no genesis: only parts of one are signed", "file", home.Genesis())
	case err != nil:
		return err
	default:
		chainID = doc.ChainID
	}
	t, err := p.open()
	if err != nil {
		return err
	}
	defer t.Close()
	listener, err := listenAt(path, len(users) > 0)
	if err != nil {
		return err
	}
	log.Info("signs", "listen", path, "chain", chainID, "token", p.Label)
	s := &holder.Server{
		ChainID: chainID, Users: allowed, Keys: t.Keys, Log: log,
		Validator: func(key holder.Key) (types.PrivValidator, error) {
			return signer.OpenHeld(home.HeldPlace(key.Public()), holder.Private(key))
		},
	}
	return s.Serve(ctx, listener)
}

// listenAt listens on a socket, also where a process of before left one. With others it lets
// everybody connect: the server asks the kernel who does.
func listenAt(path string, others bool) (*net.UnixListener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o600)
	if others {
		mode = 0o666
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// numbers are this user's and those of others, named or numbered.
func numbers(users []string) ([]uint32, error) {
	out := []uint32{uint32(os.Getuid())}
	for _, name := range users {
		number := name
		if found, err := user.Lookup(name); err == nil {
			number = found.Uid
		}
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("--user: there is no user %q", name)
		}
		out = append(out, uint32(n))
	}
	return out, nil
}

// lock has one process sign from a home: two with the same last signatures could sign twice.
func lock(home string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(home, "data"), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(home, "data", "holder.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another process holds %s: %w", home, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
