package gateway

import (
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// ratesKept bounds the clients whose rates are kept; the one not heard of for longest is forgotten,
// and begins anew.
const ratesKept = 10_000

// rates hold a bucket for each client. It is safe for concurrent use.
type rates struct {
	perSecond rate.Limit
	burst     int
	buckets   *lru.Cache[string, *rate.Limiter]
}

// newRates limits clients to so many transactions a second, and to burst at once after a pause; 0 a
// second: nobody is limited.
func newRates(perSecond float64, burst int) (*rates, error) {
	buckets, err := lru.New[string, *rate.Limiter](ratesKept)
	return &rates{rate.Limit(perSecond), burst, buckets}, err
}

// admit takes what a client submits from its bucket, or says why not. Errors are *Error.
func (r *rates) admit(client string, transactions int, now time.Time) error {
	switch {
	case r.perSecond == 0:
		return nil
	case transactions > r.burst:
		return beyondBound("number of transactions at once", transactions, r.burst)
	}
	bucket, known := r.buckets.Get(client)
	if !known {
		bucket = rate.NewLimiter(r.perSecond, r.burst)
		if before, meanwhile, _ := r.buckets.PeekOrAdd(client, bucket); meanwhile {
			bucket = before
		}
	}
	if bucket.AllowN(now, transactions) {
		return nil
	}
	return &Error{
		SQLState: StateFull, Message: "the client submits more than its rate allows",
		Detail: fmt.Sprintf("It may submit %g transactions a second, and %d at once after a pause.", float64(r.perSecond), r.burst),
		Hint:   "Submit again later, or let the operator raise client_rate under [gateway] in chainify.toml.",
	}
}

// Admit counts transactions that a client is about to submit against its rate. Each way in for
// transactions calls it with the name that the client has shown to bear; SubmitSigned does so
// itself. Errors are *Error.
func (g *Gateway) Admit(client string, transactions int) error {
	return g.rates.admit(client, transactions, g.opt.Now())
}
