package access

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

func TestNamesOfTLSClientsHaveRoles(t *testing.T) {
	a := &Access{TLSClients: map[string]string{
		"till": "clerk", "till.acme.example": "clerk", "https://acme.example/office": "dba", "boss@acme.example": "boss",
	}}
	office, err := url.Parse("https://acme.example/office")
	must.Do(t, err)
	for name, c := range map[string]struct {
		leaf *x509.Certificate
		want Client
		err  error
	}{
		"common name":     {&x509.Certificate{Subject: pkix.Name{CommonName: "till"}}, Client{"tls till", "clerk"}, nil},
		"DNS name":        {&x509.Certificate{DNSNames: []string{"x", "till.acme.example"}}, Client{"tls till.acme.example", "clerk"}, nil},
		"URI":             {&x509.Certificate{URIs: []*url.URL{office}}, Client{"tls https://acme.example/office", "dba"}, nil},
		"e-mail":          {&x509.Certificate{EmailAddresses: []string{"boss@acme.example"}}, Client{"tls boss@acme.example", "boss"}, nil},
		"two of one role": {&x509.Certificate{Subject: pkix.Name{CommonName: "till"}, DNSNames: []string{"till.acme.example"}}, Client{"tls till.acme.example", "clerk"}, nil},
		"two roles":       {&x509.Certificate{Subject: pkix.Name{CommonName: "till"}, EmailAddresses: []string{"boss@acme.example"}}, Client{}, ErrAmbiguous},
		"none":            {&x509.Certificate{Subject: pkix.Name{CommonName: "Till"}}, Client{}, ErrTLSClient},
		"no names":        {&x509.Certificate{}, Client{}, ErrTLSClient},
	} {
		r := withToken(t, "")
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.leaf}}
		if got, err := a.Of(r); got.Known() || err != nil {
			t.Errorf("%s, not verified: %+v, %v", name, got, err)
		}
		r.TLS.VerifiedChains = [][]*x509.Certificate{{c.leaf}}
		if got, err := a.Of(r); got != c.want || err != c.err {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, err, c.want, c.err)
		}
		r.Header.Set("Authorization", "Bearer x")
		if _, err := a.Of(r); err != ErrToken {
			t.Errorf("%s with a wrong token: %v", name, err)
		}
	}
}
