package main

import (
	"errors"
	"fmt"

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
	var home, role string
	cmd := &cobra.Command{
		Use:     "add --home DIR --role ROLE NAME",
		Short:   "Make a token for a role and print it, this once",
		Example: `  chainify client token add --home /var/lib/chainify --role clerk till-3`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := tokensPath(home)
			if err != nil {
				return err
			}
			token, err := access.AddToken(path, args[0], role)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	cmd.Flags().StringVar(&home, "home", "", "the node's directory (required)")
	cmd.Flags().StringVar(&role, "role", "", "the database role that who has the token submits as (required)")
	require(cmd, "home", "role")
	return cmd
}

func newTokenRevoke() *cobra.Command {
	var home string
	cmd := &cobra.Command{
		Use:     "revoke --home DIR NAME",
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
	cmd.Flags().StringVar(&home, "home", "", "the node's directory (required)")
	require(cmd, "home")
	return cmd
}

// tokenJSON is a token in "chainify client token list --json".
type tokenJSON struct {
	Name string `json:"name"`
	Role string `json:"role"`
}

func newTokenList() *cobra.Command {
	var home string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list --home DIR",
		Short:   "Show the names of tokens and their roles",
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
				list = append(list, tokenJSON{t.Name, t.Role})
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			for _, t := range list {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", t.Name, t.Role)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&home, "home", "", "the node's directory (required)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "for machines")
	require(cmd, "home")
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
