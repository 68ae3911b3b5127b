package explorer_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/backend/postgres/pages"
	"github.com/chainify-db/chainify/abci/explorer"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// Evidence is shown, as text, and given to auditors, also while the database is away.
func TestEvidenceIsShownAndGiven(t *testing.T) {
	key := wire.Key{Number: 7, Round: 1}
	signed := func(height int64, vote wire.EffectVote) *wire.ExtendedVote {
		return &wire.ExtendedVote{ValidatorAddress: make([]byte, 20), Height: height, Round: 2, Extension: vote.Encode(), Signature: make([]byte, 64)}
	}
	kept := &wire.EvidenceResponse{ChainId: "trade"}
	ledger, err := pages.Open("host=/nowhere dbname=none connect_timeout=1")
	must.Do(t, err)
	e := explorer.New(explorer.Options{
		Ledger: ledger, Log: slog.New(slog.DiscardHandler),
		Status: func(context.Context) *wire.StatusResponse {
			return &wire.StatusResponse{Organisation: "acme", ChainId: "trade"}
		},
		Evidence: func() *wire.EvidenceResponse { return kept },
	})
	server := httptest.NewServer(e.Handler())
	t.Cleanup(func() { server.Close(); e.Close() })
	get := func(path string) string {
		t.Helper()
		answer, err := http.Get(server.URL + path)
		must.Do(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, answer.Status, err)
		}
		return string(text)
	}
	if text := get("/evidence"); !strings.Contains(text, "no organisation was seen to vote twice") {
		t.Errorf("without evidence: %s", text)
	}
	if text := get("/evidence.json"); text != "[]\n" {
		t.Errorf("without evidence: %q", text)
	}
	kept = &wire.EvidenceResponse{ChainId: "trade", Count: 3, Evidence: []*wire.Evidence{{
		Organisation: "<script>delta", Block: 7, EffectRound: 1, First: signed(12, wire.NewEffectsVote(key, "delta", wire.Hash{1})), Second: signed(13, wire.NewStuckVote(key, 4)),
	}}}
	kept.OrderCount = 3
	kept.Order = []*wire.OrderEvidence{{Organisation: "<b>bolt", Validator: []byte{0xab}, Height: 41, Decided: 43}}
	for path, says := range map[string][]string{
		"/evidence": {"&lt;script&gt;delta", `href="/blocks/7"`, "at height 12, round 2", "transaction 4 does not end", "2 more were seen", "&lt;b&gt;bolt", "<code>ab</code>", ">41<", ">43<"},
		"/":         {`<a href="/evidence">There is evidence</a> that &lt;b&gt;bolt, &lt;script&gt;delta voted twice`},
	} {
		text := get(path)
		for _, want := range says {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", path, want, text)
			}
		}
	}
	var pieces []json.RawMessage
	if err := json.Unmarshal([]byte(get("/evidence.json")), &pieces); err != nil || len(pieces) != 1 {
		t.Fatalf("%d pieces, %v", len(pieces), err)
	}
	if piece, err := audit.ParseEvidence(pieces[0]); err != nil || piece.Block != 7 || piece.First.Height != 12 || piece.Second.Height != 13 {
		t.Errorf("%+v, %v", piece, err)
	}
}
