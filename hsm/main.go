// Command chainify-hsm holds an organisation's validator key and gateway key in a PKCS#11 token,
// and signs with them for nodes and commands on this machine (docs/keys.md). It is a program and a
// module of its own, since PKCS#11 libraries are C and run in the process: no node has one.
package main

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/comet/holder"
	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/hsm/token"
)

// Exit codes, as those of chainify: what does not get better by itself has its own.
const (
	exitFailed = 1
	exitUsage  = 2
)

const (
	pinVariable = "CHAINIFY_HSM_PIN"
	version     = "0.2.0"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "chainify-hsm:", err)
	if errors.Is(err, token.ErrPIN) {
		os.Exit(exitUsage) //nolint:gocritic // nothing is left to stop
	}
	os.Exit(exitFailed)
}

// place says which token, and how to log in.
type place struct {
	token.Settings
	pinFile string
}

func (p *place) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.Module, "module", "", "path of the vendor's PKCS#11 library (required)")
	cmd.Flags().StringVar(&p.Label, "token", "", "label of the token (required)")
	cmd.Flags().StringVar(&p.pinFile, "pin-file", "", "file of mode 0600 with the PIN; left out: the variable "+pinVariable)
	cmd.Flags().BoolVar(&p.TryAgain, "try-pin-again", false, "log in once although the token's last login had a wrong PIN")
	require(cmd, "module", "token")
}

// open logs in, with at most one try of the PIN.
func (p *place) open() (*token.Token, error) {
	var err error
	if p.PIN, err = readPIN(p.pinFile); err != nil {
		return nil, err
	}
	return token.Open(p.Settings)
}

// readPIN reads the PIN from a file that nobody else reads, or takes it out of the environment.
func readPIN(path string) (string, error) {
	pin := os.Getenv(pinVariable)
	_ = os.Unsetenv(pinVariable) // this process has read it
	if path != "" {
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("read the PIN: %w", err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			return "", fmt.Errorf("read the PIN: others may read %s: chmod 600 it", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read the PIN: %w", err)
		}
		pin = strings.TrimRight(string(text), "\r\n")
	}
	if pin == "" {
		return "", fmt.Errorf("no PIN: name a file by --pin-file, or set %s", pinVariable)
	}
	return pin, nil
}

func command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "chainify-hsm", Short: "Hold an organisation's keys in a PKCS#11 token", Version: version, SilenceErrors: true, SilenceUsage: true,
		Long: `chainify-hsm holds an organisation's validator key and gateway key in a token, such as an HSM, and signs with them for the
organisation's nodes and commands on this machine. Set keys.holder of their chainify.toml to the address of "serve".

The PIN is in a file of mode 0600 or in ` + pinVariable + `, never on a command line. A wrong PIN is tried once.`,
	}
	cmd.SetVersionTemplate("chainify-hsm {{.Version}}\n")
	cmd.AddCommand(newServe(), newNewKey(), newKeys(), newRemoveKey(), newSignedUntil())
	for _, command := range further {
		cmd.AddCommand(command())
	}
	return cmd
}

// further are commands of builds with tags (manual.go).
var further []func() *cobra.Command

func newNewKey() *cobra.Command {
	var p place
	var home string
	var gateway, validator bool
	cmd := &cobra.Command{
		Use: "new-key --home DIR --module FILE --token LABEL (--gateway | --validator)...", Args: cobra.NoArgs,
		Short: "Make keys in the token",
		Long: `new-key makes Ed25519 keys in the token, which no command reads out of it, and prints their public halves. The home notes that a
validator key never signed.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !gateway && !validator {
				return errors.New("one of --gateway and --validator is needed")
			}
			t, err := p.open()
			if err != nil {
				return err
			}
			defer t.Close()
			for kind, wanted := range map[holder.Kind]bool{holder.Gateway: gateway, holder.Validator: validator} {
				if !wanted {
					continue
				}
				public, err := t.Make(kind)
				if err != nil {
					return err
				}
				if kind == holder.Validator {
					if err := begin(config.Home(home), public); err != nil {
						return err
					}
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%v %x\n", kind, public)
			}
			return nil
		},
	}
	p.flags(cmd)
	cmd.Flags().StringVar(&home, "home", "", "directory of what validator keys signed last (required)")
	cmd.Flags().BoolVar(&gateway, "gateway", false, "the key that vouches for the organisation's clients and approves changes")
	cmd.Flags().BoolVar(&validator, "validator", false, "the key of order and effect votes")
	require(cmd, "home")
	return cmd
}

func newKeys() *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use: "keys --module FILE --token LABEL", Short: "List the public halves of the token's keys", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := p.open()
			if err != nil {
				return err
			}
			defer t.Close()
			keys, err := t.Keys()
			for _, key := range keys {
				fmt.Fprintf(cmd.OutOrStdout(), "%v %x\n", key.Kind(), key.Public())
			}
			return err
		},
	}
	p.flags(cmd)
	return cmd
}

func newRemoveKey() *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use: "remove-key --module FILE --token LABEL PUBLIC", Short: "Destroy a key that was replaced", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			public, err := publicOf(args[0])
			if err != nil {
				return err
			}
			t, err := p.open()
			if err != nil {
				return err
			}
			defer t.Close()
			return t.Remove(public)
		},
	}
	p.flags(cmd)
	return cmd
}

func newSignedUntil() *cobra.Command {
	var home string
	var height int64
	cmd := &cobra.Command{
		Use: "signed-until --home DIR --height N PUBLIC", Args: cobra.ExactArgs(1),
		Short: "Go on with a validator key whose last signature is lost",
		Long: `signed-until notes that a validator key may have signed for order blocks up to a height. It then signs for later ones alone. Take
a height that the order has not come to, such as the others' height (chainify status) and 10. The key holder must not run.`,
		RunE: func(_ *cobra.Command, args []string) error {
			public, err := publicOf(args[0])
			if err != nil {
				return err
			}
			unlock, err := lock(home)
			if err != nil {
				return err
			}
			defer unlock()
			return signer.HeldSignedUntil(config.Home(home).HeldPlace(public), height)
		},
	}
	cmd.Flags().StringVar(&home, "home", "", "directory of what validator keys signed last (required)")
	cmd.Flags().Int64Var(&height, "height", 0, "order block up to which the key may have signed (required)")
	require(cmd, "home", "height")
	return cmd
}

// begin notes that a validator key never signed.
func begin(home config.Home, public ed25519.PublicKey) error {
	if err := os.MkdirAll(home.Data(), 0o700); err != nil {
		return err
	}
	return signer.BeginHeld(home.HeldPlace(public))
}

func publicOf(text string) (ed25519.PublicKey, error) {
	public, err := hex.DecodeString(text)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is not a public key of %d hexadecimal digits", text, 2*ed25519.PublicKeySize)
	}
	return public, nil
}

func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a flag that is not there
		}
	}
}
