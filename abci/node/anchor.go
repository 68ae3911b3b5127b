package node

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/anchor"
	"github.com/chainify-db/chainify/abci/config"
)

// anchor makes what takes digests of the database outside; nil when the configuration names no place, or there is no database
// that tells digests.
func (n *node) anchor() (*anchor.Anchor, error) {
	c := n.opt.Config.Anchor
	source, tells := n.backend.(anchor.Source)
	stores, err := anchorStores(n.opt.Home, c)
	if err != nil || len(stores) == 0 || !tells {
		return nil, err
	}
	return anchor.New(anchor.Options{
		Source: source, Stores: stores, Every: time.Duration(c.Every), VerifyEvery: time.Duration(c.VerifyEvery), Log: n.log.With("part", "anchor"),
	}), nil
}

func anchorStores(home config.Home, c config.Anchor) ([]anchor.Store, error) {
	var stores []anchor.Store
	if c.Directory != "" {
		directory := home.Path(c.Directory)
		if info, err := os.Stat(directory); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("anchor.directory: %s is not a directory", directory)
		}
		stores = append(stores, anchor.Directory(directory))
	}
	if c.URL == "" {
		return stores, nil
	}
	token, err := readToken(home, c.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("anchor.token_file: %w", err)
	}
	web, err := anchor.NewHTTP(c.URL, token)
	if err != nil {
		return nil, fmt.Errorf("anchor.url: %w", err)
	}
	return append(stores, web), nil
}

// readToken reads a secret that nobody else may read; without a file there is none.
func readToken(home config.Home, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	path := home.Path(file)
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s has mode %o: others could read the token, want 0600", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
