package explorer

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
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
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return &problem{http.StatusServiceUnavailable, "No answer", "The organisation's database cannot be reached, or did not answer in time. Blocks are ordered all the same; this page is back when the database is."}
	}
	said := wordsOf(server)
	switch {
	case server.Code == "57014" || server.Code == "55P03" || server.Code == "CH007":
		return &problem{http.StatusServiceUnavailable, "Took too long", "The database gave the question up, as a block or other readers were in its way, or there was too much to read. Try again."}
	case server.Code == "02000" || server.Code == "42P01":
		return &problem{http.StatusNotFound, "Not found", said}
	case server.Code == "CH002":
		return &problem{http.StatusConflict, "Not as certified", said}
	case server.Code == "55000":
		return &problem{http.StatusConflict, "Not yet", said}
	case strings.HasPrefix(server.Code, "22"):
		return &problem{http.StatusBadRequest, "That is no such key", said}
	case server.Code == "42501" || strings.HasPrefix(server.Code, "28"):
		return &problem{http.StatusInternalServerError, "No right to look", said + " The role that explorer.dsn logs in as has to be a member of chainify_reader."}
	}
	return &problem{http.StatusInternalServerError, "The database refused", said}
}

// wordsOf are the database's own words.
func wordsOf(server *pgconn.PgError) string {
	return strings.TrimSpace(strings.Join([]string{sentence(server.Message), server.Detail, server.Hint}, " "))
}

// sentence makes one of a PostgreSQL message.
func sentence(message string) string {
	if message == "" {
		return ""
	}
	return strings.ToUpper(message[:1]) + message[1:] + "."
}
