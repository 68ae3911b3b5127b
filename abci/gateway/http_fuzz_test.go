package gateway

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

// The gateway accepts a body that a client sends, or refuses it for a fault of the client's. Every
// node takes in what the gateway then hands to the order, which holds that transaction alone. A
// refusal has the shape that openapi.yaml describes, and then nothing is queued.
func FuzzHTTPBodies(f *testing.F) {
	right, placed := signed(clerkKey, unchanged), clerks(3, 1)[1]
	for _, body := range []string{
		`{"sql":"SELECT 1","kind":"sql","parameters":[{"type":"integer","value":"1"},{"value":null}],"wait_ms":1}`,
		`{"kind":"plan","sql":"SELECT 1","plan":{"action":"plan","not_before":"2027-01-31T09:00:00Z","approvals":"acme"}}`,
		`{"sql":"SELECT 1","kind":"deploy"}{}`, `{"sql":"\u0000"}`, `{"sql":"x","parameters":[{"type":"\u0000","value":""}]}`, `null`,
		fmt.Sprintf(`{"proposal":"%x","signature":"%x","wait_ms":0}`, right.Proposal, right.Signature),
		fmt.Sprintf(`{"proposal":"%x","signature":"%x"}`, placed.Proposal, placed.Signature),
		fmt.Sprintf(`{"proposal":"%x00","signature":"%x"}`, right.Proposal, right.Signature),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{"/v1/transactions", "/v1/transactions/signed"} {
			x := newFixture(t, registerClerk)
			r := newAPI(t, x, "clerk").askGone(path, string(body))
			if n := x.g.Stats().Accepted; (n == 1) != (r.code == http.StatusAccepted) || n > 1 {
				t.Fatalf("%s of %q: %d transactions are queued, and the answer is %d %s", path, body, n, r.code, r.body)
			}
			if r.code != http.StatusAccepted {
				wantRefusal(t, r)
				continue
			}
			var ok accepted
			if err := json.Unmarshal([]byte(r.body), &ok); err != nil || !json.Valid(body) {
				t.Fatalf("%q is accepted with %q: %v", body, r.body, err)
			}
			x.step()
			_, txs, err := wire.DecodeBundle(x.mempool.signed[0].Bundle)
			if err != nil || len(txs) != 1 || hex.EncodeToString(txs[0].ID[:]) != ok.ID || txs[0].Proposal.Client.Role != "clerk" || !wire.VerifyProposals("test", txs) {
				t.Errorf("%s of %q is accepted as %s, and the order gets %v, %v", path, body, ok.ID, txs, err)
			}
		}
	})
}

// askGone posts as testToken's client and does not wait for the outcome.
func (a *API) askGone(path, body string) answer {
	ctx, leave := context.WithCancel(context.Background())
	leave()
	req := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body))
	req.Host = "127.0.0.1:8645"
	req.Header.Set("Authorization", "Bearer "+testToken)
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, req)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// wantRefusal checks that an answer blames the client, with the SQLSTATE of its status and nothing
// but the fields of an error.
func wantRefusal(t *testing.T, r answer) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(r.body))
	d.DisallowUnknownFields()
	var f failure
	if err := d.Decode(&f); err != nil || f.Error.Message == "" || r.head.Get("Content-Type") != "application/json" {
		t.Errorf("refused with %d %q: %v", r.code, r.body, err)
	}
	if want := statusOf(f.Error.SQLState); r.code != want || want < 400 || want >= 500 {
		t.Errorf("refused with %d and SQLSTATE %q, whose status is %d: %s", r.code, f.Error.SQLState, want, f.Error.Message)
	}
}
