package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/backend/mariadb"
)

func newInstallMariaDB() *cobra.Command {
	var dsn, node string
	var clients []string
	var dry bool
	var asJSON forMachines
	cmd := &cobra.Command{
		Use:   "install-mariadb --dsn URL --node USER@HOST [--client ROLE]...",
		Short: "Install the ledger in a MariaDB",
		Long: `install-mariadb makes the ledger's own database NAME_ledger beside the database NAME of --dsn, and the roles NAME_chainify of
the ledger, NAME_reader of the explorer and NAME_admin of those who attach tables. It gives the node's user the first two and the roles of clients: a
transaction runs as one of them. Sessions with such a role submit by the procedure chainify_execute. The database and the node's user are there before; the user needs no other rights.

It prints each statement, and those that undo the installation. Installing again changes nothing. PostgreSQL needs no such command:
there it is CREATE EXTENSION chainify.

` + exitHelp,
		Example: `  chainify install-mariadb --dsn 'mysql://root@/shop?socket=/run/mysqld/mysqld.sock' --node chainify@localhost --client clerk --client owner`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, err := mariadb.PlanInstallation(dsn, node, clients...)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if !dry {
				if err := mariadb.Install(cmd.Context(), dsn, node, clients...); err != nil {
					return err
				}
			}
			return asJSON.print(cmd, map[string]any{"done": !dry, "statements": plan.Do, "undo": plan.Undo}, func(out io.Writer) { writeInstallation(out, plan, dry) })
		},
	}
	cmd.Flags().StringVar(&dsn, "dsn", "", "the tables' database, as an administrator: mysql://root@host/database, or mysql://root@/database?socket=PATH (required)")
	cmd.Flags().StringVar(&node, "node", "", "the node's user, USER or USER@HOST (required)")
	cmd.Flags().StringArrayVar(&clients, "client", nil, "role that transactions may run as; once for each, and again for later ones")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the statements, and run none")
	asJSON.flag(cmd)
	require(cmd, "dsn", "node")
	return cmd
}

func writeInstallation(out io.Writer, plan mariadb.Installation, dry bool) {
	did := "done:"
	if dry {
		did = "to be done:"
	}
	fmt.Fprintln(out, did)
	for _, statement := range plan.Do {
		if strings.Contains(statement, ";") { // the mariadb program would end it there
			fmt.Fprintf(out, "DELIMITER //\n  %s//\nDELIMITER ;\n", statement)
			continue
		}
		fmt.Fprintf(out, "  %s;\n", statement)
	}
	fmt.Fprintln(out, "to undo it, detach all tables, stop the node, then (the ledger is gone with its database):")
	for _, statement := range plan.Undo {
		fmt.Fprintf(out, "  %s;\n", statement)
	}
}
