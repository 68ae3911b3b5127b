package gateway

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/wire"
)

func (a *API) getTransaction(w http.ResponseWriter, req *http.Request, client access.Client) error {
	raw, err := hex.DecodeString(req.PathValue("id"))
	if err != nil || len(raw) != len(wire.TxID{}) {
		return malformed("id: %q is not 64 hexadecimal digits", req.PathValue("id"))
	}
	var ms int64
	if q := req.URL.Query().Get("wait_ms"); q != "" {
		if ms, err = strconv.ParseInt(q, 10, 64); err != nil {
			return malformed("wait_ms: %q is not a number", q)
		}
	}
	wait, err := waitOf(ms)
	if err != nil {
		return err
	}
	results, err := a.Gateway.WaitAs(req.Context(), nameOf(client, req), []wire.TxID{wire.TxID(raw)}, wait)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return &httpError{http.StatusNotFound, &Error{
			SQLState: "02000", Message: "no outcome of this transaction is known",
			Detail: "It may still wait for its block, or never have been ordered.",
		}}
	}
	return a.writeJSON(w, http.StatusOK, TransactionOf(results[0]))
}

func (a *API) getBlock(w http.ResponseWriter, req *http.Request, client access.Client) error {
	n, err := strconv.ParseUint(req.PathValue("number"), 10, 64)
	if err != nil || n == 0 {
		return malformed("number: %q is not a block number", req.PathValue("number"))
	}
	if last := a.Source.LastOrdered(); n > last {
		return &httpError{http.StatusNotFound, &Error{
			SQLState: "02000", Message: fmt.Sprintf("block %d is not ordered yet", n), Detail: fmt.Sprintf("The last one is %d.", last),
		}}
	}
	answer, err := a.readBlock(nameOf(client, req), n)
	if err != nil {
		return err
	}
	if n <= a.Source.LastCertified() {
		certificate, err := a.Source.Certificate(n)
		if err != nil {
			return fmt.Errorf("read certificate of block %d: %w", n, err)
		}
		answer.Certificate = certificateOf(certificate)
	}
	return a.writeJSON(w, http.StatusOK, answer)
}

// readBlock has a place of its own, not for as long as the client takes in its answer.
func (a *API) readBlock(who string, n uint64) (block, error) {
	if err := a.blocks.enter(who); err != nil {
		return block{}, err
	}
	defer a.blocks.leave(who)
	ordered, err := a.Source.Ordered(n)
	if err != nil {
		return block{}, fmt.Errorf("read block %d: %w", n, err)
	}
	return blockOf(ordered), nil
}

func (a *API) getStatus(w http.ResponseWriter, req *http.Request, _ access.Client) error {
	return a.writeJSON(w, http.StatusOK, StatusOf(a.Status(req.Context()), a.Gateway.Stats()))
}

// getHealth tells everybody as much as a client needs that signs its proposals: chain and height.
func (a *API) getHealth(w http.ResponseWriter, req *http.Request, _ access.Client) error {
	s := a.Status(req.Context())
	h := health{State: s.State, Stalled: a.Gateway.Stats().Stalled, ChainID: s.ChainId, Height: s.Height}
	h.OK = (s.State == "serving" || s.State == "executing" || s.State == "ordering_only") && !h.Stalled
	code := http.StatusOK
	if !h.OK {
		code = http.StatusServiceUnavailable
	}
	return a.writeJSON(w, code, h)
}

func (a *API) getOpenAPI(w http.ResponseWriter, _ *http.Request, _ access.Client) error {
	w.Header().Set("Content-Type", "application/yaml")
	a.write(w, http.StatusOK, openAPI)
	return nil
}
