package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

func (a *API) writeJSON(w http.ResponseWriter, code int, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.write(w, code, append(raw, '\n'))
	return nil
}

// write sends an answer, which its client has to take in within AnswerTime. A client that went away
// is no error of ours.
func (a *API) write(w http.ResponseWriter, code int, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(a.Limits.AnswerTime)) // unsupported where there is no connection
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// httpError is an Error with a status of its own; others get it by their SQLSTATE.
type httpError struct {
	code int
	err  *Error
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

func (a *API) writeError(w http.ResponseWriter, err error) {
	e := asError(err)
	code := statusOf(e.SQLState)
	var own *httpError
	if errors.As(err, &own) {
		code = own.code
	}
	switch code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	_ = a.writeJSON(w, code, failure{Error: failureBody{SQLState: e.SQLState, Message: e.Message, Detail: e.Detail, Hint: e.Hint}}) // texts alone: it encodes
}

func statusOf(sqlstate string) int {
	switch sqlstate {
	case StateCannotOrder:
		return http.StatusServiceUnavailable
	case StateFull, StateTooMany:
		return http.StatusTooManyRequests
	case StateBound:
		return http.StatusRequestEntityTooLarge
	case StateMalformed:
		return http.StatusBadRequest
	case StateNotRegistered:
		return http.StatusForbidden
	case StateUnsupported:
		return http.StatusNotImplemented
	case stateLacksAgreement, StateRefused, StateStale:
		return http.StatusConflict
	default:
		return http.StatusInternalServerError
	}
}
