package gateway

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/wire"
)

// postTransaction submits a statement as the client's role.
func (a *API) postTransaction(w http.ResponseWriter, req *http.Request, client access.Client) error {
	var body submission
	if err := decodeBody(w, req, &body); err != nil {
		return err
	}
	statement, err := body.statement()
	if err != nil {
		return err
	}
	wait, err := waitOf(body.WaitMS)
	if err != nil {
		return err
	}
	if err := a.Gateway.Admit(client.Name, 1); err != nil {
		return err
	}
	ids, err := a.Gateway.SubmitAgreed(req.Context(), client.Role, []*wire.Statement{statement})
	if err != nil {
		return err
	}
	return a.writeSubmitted(w, req, client, ids[0], wait)
}

// postSigned submits a proposal that its client has signed.
func (a *API) postSigned(w http.ResponseWriter, req *http.Request, client access.Client) error {
	var body signedSubmission
	if err := decodeBody(w, req, &body); err != nil {
		return err
	}
	signed, err := body.proposal()
	if err != nil {
		return err
	}
	wait, err := waitOf(body.WaitMS)
	if err != nil {
		return err
	}
	ids, err := a.Gateway.SubmitSigned(req.Context(), []*wire.SignedProposal{signed})
	if err != nil {
		return err
	}
	return a.writeSubmitted(w, req, client, ids[0], wait)
}

// writeSubmitted answers with the outcome, if there is one in time. The transaction is accepted
// whatever the wait says: an error here must not look like a refusal.
func (a *API) writeSubmitted(w http.ResponseWriter, req *http.Request, client access.Client, id wire.TxID, wait time.Duration) error {
	w.Header().Set("Location", "/v1/transactions/"+hex.EncodeToString(id[:]))
	if wait > 0 {
		if results, err := a.Gateway.WaitAs(req.Context(), nameOf(client, req), []wire.TxID{id}, wait); err == nil && len(results) == 1 {
			return a.writeJSON(w, http.StatusOK, TransactionOf(results[0]))
		}
	}
	return a.writeJSON(w, http.StatusAccepted, accepted{ID: hex.EncodeToString(id[:])})
}

// ParseStatement reads a statement as the body of POST /v1/transactions has it, without wait_ms.
func ParseStatement(text []byte) (*wire.Statement, error) {
	var body submission
	if err := decodeJSON(text, &body); err != nil {
		return nil, err
	}
	if body.WaitMS != 0 {
		return nil, malformed("wait_ms: this is not submitted yet")
	}
	return body.statement()
}

func decodeBody(w http.ResponseWriter, req *http.Request, into any) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, req.Body, bodyBytesMax))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return beyondBound("size of the request in bytes", bodyBytesMax+1, bodyBytesMax)
	case err != nil:
		return malformed("body: %v", err)
	}
	return decodeJSON(text, into)
}

// decodeJSON reads one JSON object with known fields, and nothing after it. Text that is not UTF-8
// is refused: decoding would replace it.
func decodeJSON(text []byte, into any) error {
	if !utf8.Valid(text) {
		return malformed("body: not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return malformed("body: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return malformed("body: something follows the JSON object")
	}
	return nil
}

func waitOf(ms int64) (time.Duration, error) {
	if ms < 0 || ms > waitMax.Milliseconds() {
		return 0, malformed("wait_ms: %d, want 0 to %d", ms, waitMax.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}
