package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// The demo is a program of its own, so that no node has its load and its cheat in it. Its package
// puts it and its scripts at these places beside the folder of this program.
const (
	demoProgram = "../lib/chainify/demo"
	demoScripts = "../share/chainify/smallbank"
)

func newDemo() *cobra.Command {
	var dir string
	var once bool
	cmd := &cobra.Command{
		Use:   "demo [--dir DIR] [--once]",
		Short: "Run four organisations with a sample bank on this machine",
		Long: `demo makes four PostgreSQL clusters with the same bank, puts them on a shared ledger, loads them from all sides, tampers with one,
and shows how that is found and repaired. Then the network goes on, with a web page of each organisation, until you end it. It needs
package chainify-demo and Debian's PostgreSQL with the extension. Your own clusters stay untouched.`,
		Example: `  chainify demo
  chainify demo --dir /tmp/ledger --once      # ends after its report, and leaves nothing`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if dir == "" {
				if dir, err = demoFolder(); err != nil {
					return err
				}
			}
			beside := func(path string) string { return filepath.Join(filepath.Dir(self), path) }
			program := beside(demoProgram)
			if _, err := os.Stat(program); err != nil {
				return fmt.Errorf("the demo is not installed: install package chainify-demo (%w)", err)
			}
			args := []string{program, "-pg", beside(".."), "-chainify", self, "-dir", dir, "-scripts", beside(demoScripts)}
			if once {
				args = append(args, "-once")
			}
			return syscall.Exec(program, args, os.Environ())
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of clusters and homes, which an earlier demo may have made; without it one in the user's cache, root's is "+rootsDemo)
	cmd.Flags().BoolVar(&once, "once", false, "end after the report")
	return cmd
}

const rootsDemo = "/var/lib/chainify-demo"

// demoFolder is a directory that nobody else can make first, since what an earlier demo left there
// is removed.
func demoFolder() (string, error) {
	if os.Geteuid() == 0 {
		return rootsDemo, nil // PostgreSQL's user gets there too
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", usageError("--dir is needed: %w", err)
	}
	return filepath.Join(cache, "chainify-demo"), nil
}
