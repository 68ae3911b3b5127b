package gateway

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/wire"
)

// Whatever a client sends as a body is refused, or is something that every node takes in the same.
func FuzzHTTPBodies(f *testing.F) {
	for _, body := range []string{
		`{"sql":"SELECT 1","kind":"sql","parameters":[{"type":"integer","value":"1"},{"value":null}],"wait_ms":1}`,
		`{"proposal":"0a","signature":"00","wait_ms":0}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var s submission
		if decodeBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", bytes.NewReader(body)), &s) == nil {
			if statement, err := s.statement(); err == nil && checkStatements("clerk", []*wire.Statement{statement}) == nil {
				raw, err := proto.Marshal(statement)
				if err != nil {
					t.Errorf("%q is accepted and has no encoding: %v %x", body, err, raw)
				}
			}
		}
		var signed signedSubmission
		if decodeBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", bytes.NewReader(body)), &signed) == nil {
			if proposal, err := signed.proposal(); err == nil {
				_, _ = wire.DecodeSignedProposal(proposal) // must not panic
			}
		}
	})
}
