package explorer

import (
	"context"
	"errors"
	"net/http"
)

// problem is an error that a page shows.
type problem struct {
	Code          int
	Title, Detail string
}

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

func notFound(detail string) error { return &problem{http.StatusNotFound, "Not found", detail} }

// fail shows an error in place of a page. Errors that are not the reader's doing are logged.
func (e *Explorer) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Code >= http.StatusInternalServerError && !errors.Is(r.Context().Err(), context.Canceled) {
		e.opt.Log.Warn("a page cannot be shown", "path", r.URL.Path, "error", err)
	}
	if err := e.show(w, r, p.Code, "problem", "", p.Title, p); err != nil {
		http.Error(w, p.Error(), p.Code)
	}
}

// problemOf says of an error what a reader can do.
func problemOf(err error) *problem {
	var known *problem
	if errors.As(err, &known) {
		return known
	}
	var refused *Refusal
	if errors.As(err, &refused) {
		return refused.problem()
	}
	return &problem{http.StatusServiceUnavailable, "No answer", "The organisation's database cannot be reached, or did not answer in time. Blocks are ordered all the same; this page is back when the database is."}
}
