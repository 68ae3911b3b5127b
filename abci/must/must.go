// Package must ends a test where a step fails that it stands on. Only tests import it.
package must

import "testing"

// Do ends the test with the error, if there is one.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
