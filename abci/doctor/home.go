package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/anchor"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

// socketPathMax is what sockaddr_un holds on Linux, less the terminating zero.
const socketPathMax = 107

func examineHome(home config.Home, c config.Config) []Finding {
	return []Finding{checkPermissions(home, c), checkSocketPath(home, c), checkLists(home, c), checkAnchor(home, c), checkArchive(home, c)}
}

// withPassword finds one in a connection string of either form.
var withPassword = regexp.MustCompile(`password *=|://[^/@]*:[^/@]*@`)

// checkPermissions: nobody else reads a secret. A group may, as it has to in Kubernetes, where keys
// belong to root.
func checkPermissions(home config.Home, c config.Config) Finding {
	const check = "permissions"
	if files := home.KeyFiles(); c.Keys.Holder != "" && len(files) > 0 {
		return bad(check, "a key holder has the organisation's keys, and the home has key files: "+strings.Join(files, ", "), "Delete them once none of their keys counts (chainify org list): a key in a file can be copied.")
	}
	secrets, err := keys(home, c)
	if err != nil {
		return bad(check, err.Error(), "Run as the node's user. When a key is lost, take it from its backup, or have the others approve another one (chainify governance propose).")
	}
	secrets = append(secrets, optional(home, c.HTTP.TokensFile, c.HTTP.TLSKeyFile, c.Explorer.TLSKeyFile)...)
	if withPassword.MatchString(c.Database.DSN) || withPassword.MatchString(c.Explorer.DSN) {
		secrets = append(secrets, home.Path(config.FileName))
	}
	open, err := readableBy(0o007, secrets)
	own, ownErr := readableBy(0o077, optional(home, c.Anchor.TokenFile, c.Anchor.S3CredentialsFile, c.Retention.ArchiveS3CredentialsFile)) // the node wants them so
	if err = errors.Join(err, ownErr); err != nil {
		return bad(check, err.Error(), "Run as the node's user.")
	}
	open = append(open, own...)
	if len(open) > 0 {
		return bad(check, "others may read "+strings.Join(open, ", "), "chmod 600 "+strings.Join(open, " "))
	}
	return fine(check, "secrets are not for everybody")
}

// optional are files that the configuration names and that are there: whether they have to be is
// for the node to say.
func optional(home config.Home, names ...string) []string {
	var out []string
	for _, name := range names {
		if _, err := os.Stat(home.Path(name)); name != "" && err == nil {
			out = append(out, home.Path(name))
		}
	}
	return out
}

// readableBy lists the files that a mode of these bits opens to others.
func readableBy(bits fs.FileMode, paths []string) (open []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.Mode().Perm()&bits != 0 {
			open = append(open, path)
		}
	}
	return open, nil
}

// keys are the files of all keys of a home, also of those that take the place of others, or were
// replaced. Of each kind one has to be there: which of them counts says the registry.
func keys(home config.Home, c config.Config) ([]string, error) {
	var out []string
	for _, kind := range []string{"gateway_key", "node_key", "priv_validator_key"} {
		first := home.Path("config", kind+".json")
		found := optional(home, filepath.Join("config", kind+".json"))
		further, err := filepath.Glob(home.Path("config", kind+".*.json"))
		if err != nil {
			return nil, err
		}
		if c.SignsElsewhere() && kind == "priv_validator_key" || c.Keys.Holder != "" && kind == "gateway_key" {
			continue // another process has it
		}
		if kind == "node_key" && len(found) == 0 || len(found)+len(further) == 0 {
			return nil, fmt.Errorf("%s is missing", first)
		}
		out = append(append(out, found...), further...)
	}
	return out, nil
}

// checkLists: what says who is let in is read while the node runs; one that cannot be read lets
// nobody in.
func checkLists(home config.Home, c config.Config) Finding {
	const check = "who is let in"
	if _, err := home.Admitted(c); err != nil {
		return bad(check, err.Error(), "Correct the file: an id of a node a line. Until then no node of it is let in.")
	}
	if c.HTTP.TLSRevokedFile != "" {
		if _, err := access.OpenRevoked(home.Path(c.HTTP.TLSRevokedFile)); err != nil {
			return bad(check, err.Error(), "Correct the file of http.tls_revoked_file. Until then no TLS client is let in.")
		}
	}
	if c.HTTP.TokensFile == "" {
		return fine(check, "the files can be read")
	}
	tokens, err := access.ListTokens(home.Path(c.HTTP.TokensFile))
	if err != nil {
		return bad(check, err.Error(), "Correct the file of http.tokens_file. Until then no token is taken.")
	}
	for _, t := range tokens {
		if t.Expired(time.Now()) {
			return warn(check, fmt.Sprintf("token %q expired at %s", t.Name, t.Expires.Format(time.RFC3339)), fmt.Sprintf("Take it away: chainify client token revoke --home %s %s", home, t.Name))
		}
	}
	return fine(check, "the files can be read")
}

// checkArchive: the archive has a place that can be written, or that can be asked.
func checkArchive(home config.Home, c config.Config) Finding {
	const check = "archive"
	r := c.Retention
	if r.Archive == "" {
		return fine(check, "none")
	}
	if config.ArchiveIsURL(r.Archive) {
		if err := credentialsIn(home, r.ArchiveS3CredentialsFile); err != nil {
			return bad(check, "retention.archive_s3_credentials_file: "+err.Error(), keysThere)
		}
		return fine(check, "%s", redacted(r.Archive))
	}
	directory := home.Path(r.Archive)
	if info, err := os.Stat(directory); err != nil || !info.IsDir() {
		return bad(check, directory+" is not a directory", "Make the directory of retention.archive.")
	}
	if err := unix.Access(directory, unix.W_OK); err != nil {
		return bad(check, fmt.Sprintf("%s cannot be written: %v", directory, err), "Let the node's user write to the directory of retention.archive.")
	}
	return fine(check, "%s", directory)
}

const keysThere = "Put aws_access_key_id and aws_secret_access_key there, as in ~/.aws/credentials, mode 0600."

// credentialsIn reads the keys of a store; without a file they are elsewhere.
func credentialsIn(home config.Home, file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(home.Path(file))
	if err == nil {
		_, err = anchor.ParseCredentials(string(text))
	}
	return err
}

// checkAnchor: digests have a place, and what shows who brings them.
func checkAnchor(home config.Home, c config.Config) Finding {
	const check = "digests outside"
	a := c.Anchor
	if a.Directory != "" {
		if info, err := os.Stat(home.Path(a.Directory)); err != nil || !info.IsDir() {
			return bad(check, home.Path(a.Directory)+" is not a directory", "Make the directory of anchor.directory.")
		}
	}
	if a.TokenFile != "" {
		if _, err := os.ReadFile(home.Path(a.TokenFile)); err != nil {
			return bad(check, "anchor.token_file: "+err.Error(), "Put the token there, mode 0600.")
		}
	}
	if err := credentialsIn(home, a.S3CredentialsFile); err != nil {
		return bad(check, "anchor.s3_credentials_file: "+err.Error(), keysThere)
	}
	switch {
	case a.Directory == "" && a.URL == "":
		return warn(check, "none: nothing shows a past that all organisations made anew together", "Set [anchor] to a place that this database's administrators cannot reach: docs/operator/digests.md.")
	case a.S3Region != "" && a.S3CredentialsFile == "":
		return fine(check, "the keys of the store are in the node's environment")
	}
	return fine(check, "%s", strings.TrimSpace(a.Directory+" "+redacted(a.URL)))
}

func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Redacted()
}

// checkKeys: those of the home count, unless it is a standby's.
func checkKeys(home config.Home, c config.Config, members []*wire.Member) Finding {
	const check = "keys"
	switch standby, err := home.Standby(); {
	case err != nil:
		return bad(check, err.Error(), "Give the node's user the right to read the home.")
	case standby:
		return fine(check, "a standby: the keys that count come with \"chainify take-over\"")
	}
	return judgeKeys(home, c.Organisation, c.Consensus.SignerListen != "", members)
}

// checkSigning: the file of the last signature can be read, and nobody else signs with the key.
func checkSigning(home config.Home, c config.Config) Finding {
	const check, mend = "signatures", "Stop the other process with this validator key for good. Then stop this node, and run chainify sign-again."
	kept, err := home.Signing()
	if err == nil && !c.SignsElsewhere() {
		err = home.CheckLastSignatures()
	}
	switch {
	case err != nil:
		return bad(check, err.Error(), "Take the files from where the key signed last, or run chainify sign-again.")
	case kept.Elsewhere != nil:
		return bad(check, fmt.Sprintf("another process signs with this node's validator key, seen at order block %d: the node signs nothing", kept.Elsewhere.Height), mend)
	case kept.DoubtSince != nil:
		return warn(check, "what the validator key signed last is not known since "+kept.DoubtSince.Format(time.RFC3339)+": the node signs after the others have decided further order blocks",
			"Connect the node with all other organisations. chainify status says which are missing.")
	}
	return fine(check, "no other process is known to sign with the validator key")
}

// checkGenesis: the organisation is in it, or joined since, with a database if it has one here.
// members are those of now, of a node that runs; nil: unknown.
func checkGenesis(home config.Home, c config.Config, members []*wire.Member) Finding {
	const check = "genesis"
	doc, state, err := home.LoadGenesis()
	if err != nil {
		return bad(check, err.Error(), `Put the consortium's genesis.json there; "chainify genesis" makes it of all parts.`)
	}
	var names []string
	for _, o := range state.Organisations {
		names = append(names, o.Name)
		switch {
		case o.Name != c.Organisation:
		case o.OrderingOnly && c.Database.DSN != "":
			return bad(check, fmt.Sprintf("%q only orders by the genesis, and has database.dsn", o.Name), "Empty database.dsn in "+config.FileName+".")
		case !o.OrderingOnly && c.Database.DSN == "":
			return warn(check, fmt.Sprintf("%q has a say in the effects, and no database here: it counts as away", o.Name), "Set database.dsn in "+config.FileName+".")
		}
	}
	joined := slices.ContainsFunc(members, func(m *wire.Member) bool { return m.Organisation == c.Organisation })
	if joined && !slices.Contains(names, c.Organisation) {
		return fine(check, "chain %s of %s; %s joined it", doc.ChainID, strings.Join(names, ", "), c.Organisation)
	}
	if !slices.Contains(names, c.Organisation) {
		return bad(check, fmt.Sprintf("organisation %q is not among %s", c.Organisation, strings.Join(names, ", ")),
			"Set organisation in "+config.FileName+" to the name in the genesis, or use the genesis of your consortium.")
	}
	return fine(check, "chain %s of %s", doc.ChainID, strings.Join(names, ", "))
}

func checkSocketPath(home config.Home, c config.Config) Finding {
	const check = "socket"
	path := home.Path(c.Clients.Socket)
	if len(path) > socketPathMax {
		return bad(check, fmt.Sprintf("%s is %d bytes long, at most %d are possible", path, len(path), socketPathMax), "Set clients.socket to a shorter path.")
	}
	info, err := os.Stat(filepath.Dir(path))
	switch {
	case err != nil:
		return bad(check, err.Error(), "Make the directory of clients.socket; PostgreSQL's user must be able to enter it.")
	case !info.IsDir():
		return bad(check, filepath.Dir(path)+" is no directory", "Set clients.socket to a path in a directory.")
	case info.Mode().Perm()&0o001 == 0:
		return warn(check, fmt.Sprintf("%s has mode %o: PostgreSQL's user may be unable to enter", filepath.Dir(path), info.Mode().Perm()&fs.ModePerm),
			"Put the socket into a directory that both can enter, as /run/chainify.")
	}
	return fine(check, "%s", path)
}
