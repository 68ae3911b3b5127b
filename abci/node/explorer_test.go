package node

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// The explorer answers however the database is: it then says what the node knows.
func TestTheExplorerShowsTheNodeWithoutItsDatabase(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, r, `dsn = ""`, `dsn = "host=/nowhere dbname=nothing"`) // of a database that this node's tests replace
	edit(t, r, "\nlisten = \"\"\n", "\nlisten = \""+address+"\"\n")
	clients := startAll(t, []*runner{r})
	execute(t, clients[0], "UPDATE t SET x = 1")
	for path, want := range map[string]string{"/": "This page cannot read the database.", "/live": "serving", "/blocks": "cannot be reached"} {
		res, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%s: %s, %v: %s", path, res.Status, err, page)
		}
	}
}
