// Package access identifies clients over HTTP by a bearer token or by TLS client credentials. Of
// tokens it keeps hashes only.
package access

import (
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Client is who sent a request; the zero value is nobody in particular.
type Client struct {
	// Name tells clients apart: "token NAME" or "tls NAME".
	Name string
	// Role is the database role that the client submits as.
	Role string
}

// Known tells that the client has shown who it is.
func (c Client) Known() bool { return c.Name != "" }

// Errors of Of. None quotes what the client sent.
var (
	ErrToken     = errors.New("unknown bearer token")
	ErrNoTokens  = errors.New("the tokens cannot be read")
	ErrTLSClient = errors.New("no name of the TLS client credentials has a role")
	ErrAmbiguous = errors.New("names of the TLS client credentials have different roles")
	ErrRevoked   = errors.New("the TLS client credentials are revoked")
	ErrNoRevoked = errors.New("the list of revoked TLS client credentials cannot be read")
	ErrExpired   = errors.New("the bearer token has expired")
)

// Access knows the clients of one node. It is safe for concurrent use.
type Access struct {
	// Tokens are those of the tokens file; nil: there are none.
	Tokens *TokensFile
	// TLSClients maps a name of verified TLS client credentials (common name, or DNS, URI or e-mail
	// name) to a role.
	TLSClients map[string]string
	// Revoked are TLS credentials that are taken no more; nil: none is.
	Revoked *RevokedFile
	// Now is the clock that tokens expire by; nil: the machine's.
	Now func() time.Time
}

// Any tells whether there is anybody who could be known.
func (a *Access) Any() (bool, error) {
	tokens, err := a.tokens()
	return len(tokens.bySum) > 0 || len(a.TLSClients) > 0, err
}

// Of says who sent a request. A token counts before TLS client credentials, and a wrong one is an
// error whatever these say. A client that shows a revoked one is refused, whatever else it has. It
// is asked for each request, so that a connection does not outlive its credentials.
func (a *Access) Of(r *http.Request) (Client, error) {
	if a.Revoked != nil && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		switch gone, err := a.Revoked.Holds(r.TLS.VerifiedChains[0]); {
		case err != nil:
			return Client{}, errors.Join(ErrNoRevoked, err)
		case gone:
			return Client{}, ErrRevoked
		}
	}
	if header := r.Header.Get("Authorization"); header != "" {
		return a.bearer(header)
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(a.TLSClients) == 0 {
		return Client{}, nil
	}
	return a.tlsClient(r.TLS.VerifiedChains[0][0])
}

// OfBrowser says who sent a request by a browser, which shows a token as the password of HTTP's
// basic login. The user's name beside it counts for nothing.
func (a *Access) OfBrowser(r *http.Request) (Client, error) {
	if _, token, basic := r.BasicAuth(); basic {
		return a.holder(token)
	}
	return a.Of(r)
}

func (a *Access) bearer(header string) (Client, error) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Client{}, ErrToken
	}
	return a.holder(strings.TrimSpace(token))
}

// holder is the client that has a token.
func (a *Access) holder(token string) (Client, error) {
	tokens, err := a.tokens()
	if err != nil {
		return Client{}, errors.Join(ErrNoTokens, err)
	}
	// The look-up is by hash: how long it takes tells nothing about a token.
	found, known := tokens.bySum[sumOf(token)]
	if !known {
		return Client{}, ErrToken
	}
	if found.Expired(a.now()) {
		return Client{}, ErrExpired
	}
	return Client{Name: "token " + found.Name, Role: found.Role}, nil
}

func (a *Access) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

func (a *Access) tokens() (tokens, error) {
	if a.Tokens == nil {
		return tokens{}, nil
	}
	return a.Tokens.current()
}

// tlsClient finds the one role that the names of verified credentials have.
func (a *Access) tlsClient(leaf *x509.Certificate) (Client, error) {
	var found Client
	for _, name := range namesOf(leaf) {
		role, known := a.TLSClients[name]
		switch {
		case !known:
		case found.Known() && role != found.Role:
			return Client{}, ErrAmbiguous
		case !found.Known():
			found = Client{Name: "tls " + name, Role: role}
		}
	}
	if !found.Known() {
		return Client{}, ErrTLSClient
	}
	return found, nil
}

func namesOf(leaf *x509.Certificate) []string {
	names := append([]string{}, leaf.DNSNames...)
	names = append(names, leaf.EmailAddresses...)
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	if leaf.Subject.CommonName != "" {
		names = append(names, leaf.Subject.CommonName)
	}
	return names
}
