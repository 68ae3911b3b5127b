package node

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/anchor"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/nodestore"
)

// anchor makes what takes digests of the database outside; nil when the configuration names no
// place, or there is no database that tells digests.
func (n *node) anchor() (*anchor.Anchor, error) {
	c := n.opt.Config.Anchor
	source, tells := n.backend.(anchor.Source)
	stores, err := anchorStores(n.opt.Home, c)
	if err != nil || len(stores) == 0 || !tells {
		return nil, err
	}
	return anchor.New(anchor.Options{
		Source: source, Stores: stores, Every: time.Duration(c.Every), VerifyEvery: time.Duration(c.VerifyEvery),
		Memory: nodestore.Memory{DB: n.store}, Log: n.log.With("part", "anchor"),
	})
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
	if c.S3Region != "" {
		return withS3(stores, home, c)
	}
	token, err := readSecret(home, c.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("anchor.token_file: %w", err)
	}
	web, err := anchor.NewHTTP(c.URL, token)
	if err != nil {
		return nil, fmt.Errorf("anchor.url: %w", err)
	}
	return append(stores, web), nil
}

// withS3 adds the S3-compatible store, whose credentials have to be there from the start.
func withS3(stores []anchor.Store, home config.Home, c config.Anchor) ([]anchor.Store, error) {
	credentials := func() (anchor.Credentials, error) { return s3Credentials(home, c.S3CredentialsFile) }
	if _, err := credentials(); err != nil {
		return nil, err
	}
	store, err := anchor.NewS3(c.URL, c.S3Region, credentials)
	if err != nil {
		return nil, fmt.Errorf("anchor.url: %w", err)
	}
	return append(stores, store), nil
}

// s3Credentials are those of a file or, without one, of the environment.
func s3Credentials(home config.Home, file string) (anchor.Credentials, error) {
	if file == "" {
		c, err := anchor.NewCredentials(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SESSION_TOKEN"))
		if err != nil {
			return c, errors.New("anchor.s3_credentials_file: empty, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both in the environment")
		}
		return c, nil
	}
	text, err := readSecret(home, file)
	if err != nil {
		return anchor.Credentials{}, fmt.Errorf("anchor.s3_credentials_file: %w", err)
	}
	c, err := anchor.ParseCredentials(text)
	if err != nil {
		return c, fmt.Errorf("anchor.s3_credentials_file: %s: %w", home.Path(file), err)
	}
	return c, nil
}

// readSecret reads what nobody else may read; without a file there is none.
func readSecret(home config.Home, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	path := home.Path(file)
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s has mode %o: others could read the secret, want 0600", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
