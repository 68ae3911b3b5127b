package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/config"
)

func newClientToken() *cobra.Command {
	cmd := group("token", "Bearer tokens of clients that come over HTTP",
		`token makes and takes away bearer tokens of the HTTP interface. Who has a token submits as the role it is for. The node keeps the
tokens' hashes in a file of its home, and heeds a change at once; nothing has to run for it.`)
	cmd.AddCommand(newTokenAdd(), newTokenRevoke(), newTokenList())
	return cmd
}

func newTokenAdd() *cobra.Command {
	var home, role, expires string
	cmd := &cobra.Command{
		Use:     "add [--home DIR] --role ROLE NAME",
		Short:   "Make a token for a role and print it, this once",
		Example: `  chainify client token add --home /var/lib/chainify --role clerk --expires 90d till-3`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			until, err := expiryOf(expires, time.Now())
			if err != nil {
				return err
			}
			path, err := tokensPath(home)
			if err != nil {
				return err
			}
			token, err := access.AddToken(path, args[0], role, until)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	homeFlag(cmd, &home, "role")
	cmd.Flags().StringVar(&role, "role", "", "the database role of transactions submitted with the token (required)")
	cmd.Flags().StringVar(&expires, "expires", "", "end of its validity: in 90d or 12h, or at a time such as 2026-12-31T00:00:00Z; left out: never")
	return cmd
}

// expiryOf reads --expires; the zero time is never.
func expiryOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	until, err := time.Parse(time.RFC3339, text)
	if err != nil {
		hours := text
		if days, isDays := strings.CutSuffix(text, "d"); isDays {
			n, err := strconv.ParseUint(days, 10, 16)
			if err != nil {
				return time.Time{}, usageError("--expires: %q is neither a time in the future nor a number of days or hours", text)
			}
			hours = fmt.Sprintf("%dh", 24*n)
		}
		if after, err := time.ParseDuration(hours); err == nil {
			until = now.Add(after)
		}
	}
	if !until.After(now) {
		return time.Time{}, usageError("--expires: %q is neither a time in the future nor a number of days or hours", text)
	}
	return until, nil
}

func newTokenRevoke() *cobra.Command {
	var home string
	cmd := &cobra.Command{
		Use:     "revoke [--home DIR] NAME",
		Short:   "Take a token away",
		Example: `  chainify client token revoke --home /var/lib/chainify till-3`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := tokensPath(home)
			if err != nil {
				return err
			}
			return access.RevokeToken(path, args[0])
		},
	}
	homeFlag(cmd, &home)
	return cmd
}

// tokenJSON is a token in "chainify client token list --json".
type tokenJSON struct {
	Name    string     `json:"name"`
	Role    string     `json:"role"`
	Expires *time.Time `json:"expires,omitempty"`
	expired bool
}

func newTokenList() *cobra.Command {
	var home string
	var asJSON forMachines
	cmd := &cobra.Command{
		Use:     "list [--home DIR]",
		Short:   "Show the names, roles and expiry times of tokens",
		Example: `  chainify client token list --home /var/lib/chainify`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := tokensPath(home)
			if err != nil {
				return err
			}
			tokens, err := access.ListTokens(path)
			if err != nil {
				return err
			}
			list := []tokenJSON{}
			for _, t := range tokens {
				list = append(list, tokenJSON{t.Name, t.Role, t.Expires, t.Expired(time.Now())})
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			for _, t := range list {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s", t.Name, t.Role)
				if t.Expires != nil {
					fmt.Fprintf(cmd.OutOrStdout(), "  %s %s", map[bool]string{true: "expired", false: "until"}[t.expired], t.Expires.Format(time.RFC3339))
				}
				fmt.Fprintln(cmd.OutOrStdout())
			}
			return nil
		},
	}
	homeFlag(cmd, &home)
	asJSON.flag(cmd)
	return cmd
}

// tokensPath is where the home's configuration says that the tokens are.
func tokensPath(home string) (string, error) {
	c, err := config.Load(home)
	if err != nil {
		return "", err
	}
	if c.HTTP.TokensFile == "" {
		return "", errors.New("tokens_file under [http] in chainify.toml is empty: it names the file that tokens are kept in")
	}
	return config.Home(home).Path(c.HTTP.TokensFile), nil
}
