// Command unsealed prints the flags with which "go build" makes a node without cryptography between
// organisations, for one measurement of its cost. Signatures are zeros and nobody checks them;
// connections are not encrypted. Hashes stay, since ids, roots and the order are made of them, and
// so does the work of the database. Never run such a node for anything else.
//
//	go build $(unsealed DIR) ./cmd/chainify    # in the module to build; DIR keeps changed modules
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// patch is what functions of a package do first, and so instead of what they did.
type patch struct {
	module  string // empty: of the standard library
	file    string
	instead map[string]string // by the line that begins the function
}

const zeros = "return make([]byte, SignatureSize)"

var patches = []patch{
	{"", "src/crypto/ed25519/ed25519.go", map[string]string{
		"func (priv PrivateKey) Sign(rand io.Reader, message []byte, opts crypto.SignerOpts) (signature []byte, err error) {": zeros + ", nil",
		"func Sign(privateKey PrivateKey, message []byte) []byte {":                                                           zeros,
		"func Verify(publicKey PublicKey, message, sig []byte) bool {":                                                        "return true",
		"func VerifyWithOptions(publicKey PublicKey, message, sig []byte, opts *Options) error {":                             "return nil",
	}},
	{"github.com/oasisprotocol/curve25519-voi", "primitives/ed25519/ed25519.go", map[string]string{
		"func VerifyWithOptions(publicKey PublicKey, message, sig []byte, opts *Options) bool {": "return true",
	}},
	{"github.com/cometbft/cometbft", "crypto/ed25519/ed25519.go", map[string]string{
		"func (privKey PrivKey) Sign(msg []byte) ([]byte, error) {":                     zeros + ", nil",
		"func (pubKey PubKey) VerifySignature(msg []byte, sig []byte) bool {":           "return true",
		"func (b *BatchVerifier) Add(key crypto.PubKey, msg, signature []byte) error {": "return nil",
		"func (b *BatchVerifier) Verify() (bool, []bool) {":                             "return true, nil",
	}},
	{"golang.org/x/crypto", "chacha20poly1305/chacha20poly1305.go", map[string]string{
		"func (c *chacha20poly1305) Seal(dst, nonce, plaintext, additionalData []byte) []byte {":           "return append(append(dst, plaintext...), make([]byte, Overhead)...)",
		"func (c *chacha20poly1305) Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error) {": "return append(dst, ciphertext[:len(ciphertext)-Overhead]...), nil",
	}},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: unsealed DIR")
		os.Exit(2)
	}
	flags, err := write(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "unsealed:", err)
		os.Exit(1)
	}
	fmt.Println(flags)
}

// write makes the changed copies in a directory, anew, and returns the flags of "go build". Of
// the standard library one file is replaced; files of modules cannot be, so whole modules are.
func write(dir string) (flags string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", err
	}
	root, err := tell("env", "GOMOD")
	if err != nil {
		return "", err
	}
	module, err := os.ReadFile(root)
	if err != nil {
		return "", err
	}
	overlay := map[string]string{}
	for _, p := range patches {
		if p.module == "" {
			goroot, err := tell("env", "GOROOT")
			if err != nil {
				return "", err
			}
			from, to := filepath.Join(goroot, p.file), filepath.Join(dir, filepath.Base(p.file))
			overlay[from] = to
			if err := p.apply(from, to); err != nil {
				return "", err
			}
			continue
		}
		source, err := tell("list", "-m", "-f", "{{.Dir}}", p.module)
		if err != nil {
			return "", err
		}
		copied := filepath.Join(dir, filepath.Base(p.module))
		if err := os.CopyFS(copied, os.DirFS(source)); err != nil {
			return "", err
		}
		file := filepath.Join(copied, p.file)
		if err := errors.Join(os.Chmod(file, 0o644), p.apply(file, file)); err != nil {
			return "", err
		}
		module = fmt.Appendf(module, "replace %s => %s\n", p.module, copied)
	}
	sums, err := os.ReadFile(strings.TrimSuffix(root, "mod") + "sum")
	if err != nil {
		return "", err
	}
	replaced, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	at := filepath.Join(dir, "node")
	return fmt.Sprintf("-overlay=%[1]s.json -modfile=%[1]s.mod", at), errors.Join(
		os.WriteFile(at+".json", replaced, 0o644), os.WriteFile(at+".mod", module, 0o644), os.WriteFile(at+".sum", sums, 0o644))
}

// tell asks the go command.
func tell(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (p patch) apply(from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	text := string(raw)
	for line, instead := range p.instead {
		if strings.Count(text, "\n"+line+"\n") != 1 {
			return fmt.Errorf("%s of this version has no function as known: %s", from, line)
		}
		text = strings.Replace(text, "\n"+line+"\n", "\n"+line+"\n\t"+instead+"\n", 1)
	}
	return os.WriteFile(to, []byte(text), 0o644)
}
