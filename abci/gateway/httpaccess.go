package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/chainify-db/chainify/abci/access"
)

// authorise says who sent a request, and refuses it when its route needs somebody else.
func (a *API) authorise(r route, req *http.Request) (access.Client, error) {
	if r.needs == needsNobody {
		return access.Client{}, nil
	}
	if a.OpenReads && !loopbackHost(req.Host) {
		return access.Client{}, &httpError{http.StatusForbidden, &Error{
			SQLState: StateNotRegistered, Message: fmt.Sprintf("host %q is not this machine", req.Host),
			Detail: "The interface listens on loopback and answers requests for loopback names only, so that no web page can read it under another name.",
		}}
	}
	client, err := a.Access.Of(req)
	switch {
	case errors.Is(err, access.ErrNoTokens):
		a.Log.Error("no bearer token is taken", "err", err)
		return access.Client{}, &Error{SQLState: StateCannotOrder, Message: access.ErrNoTokens.Error(), Hint: "The node's log says why."}
	case errors.Is(err, access.ErrNoRevoked):
		a.Log.Error("no TLS client is let in", "err", err)
		return access.Client{}, &Error{SQLState: StateCannotOrder, Message: access.ErrNoRevoked.Error(), Hint: "The node's log says why."}
	case err != nil:
		return access.Client{}, unauthorised(err.Error())
	case client.Known() || r.needs == needsClient && a.OpenReads:
		return client, nil
	}
	if somebody, err := a.Access.Any(); err == nil && !somebody {
		return access.Client{}, nobodyMay(r)
	}
	return access.Client{}, unauthorised("a bearer token, or TLS client credentials with a role, are needed")
}

func unauthorised(message string) error {
	return &httpError{http.StatusUnauthorized, &Error{SQLState: StateNotRegistered, Message: message}}
}

// nobodyMay: neither tokens nor TLS clients are configured.
func nobodyMay(r route) error {
	return &httpError{http.StatusForbidden, &Error{
		SQLState: StateNotRegistered, Message: "nobody may " + map[bool]string{true: "submit", false: "read"}[r.needs == needsRole] + " over HTTP",
		Detail: "There is no bearer token and no TLS client, so there is no role to submit as.",
		Hint:   "Make a token with \"chainify client token add\", or sign the proposal.",
	}}
}

func loopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}
