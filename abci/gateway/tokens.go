package gateway

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

const tokenLengthMin = 16

// ParseTokens reads the tokens file of the HTTP interface: lines "role token"; empty lines and lines that begin with
// # do not count. What is kept is the token's SHA-256.
func ParseTokens(text string) (map[[32]byte]string, error) {
	tokens := map[[32]byte]string{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: %d words, want a role and a token", i+1, len(fields))
		}
		role, token := fields[0], fields[1]
		if err := wire.CheckRole(role); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if len(token) < tokenLengthMin {
			return nil, fmt.Errorf("line %d: token has %d characters, want at least %d", i+1, len(token), tokenLengthMin)
		}
		sum := sha256.Sum256([]byte(token))
		if other, taken := tokens[sum]; taken {
			return nil, fmt.Errorf("line %d: token is that of role %q already", i+1, other)
		}
		tokens[sum] = role
	}
	return tokens, nil
}
