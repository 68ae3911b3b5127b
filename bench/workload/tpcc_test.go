package workload

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func TestTheSameSeedGivesTheSameOrders(t *testing.T) {
	size := TPCCSize{Warehouses: 3, Items: 100, Customers: 30}
	a, b := NewTPCC(7, 1, size, ByTheBook), NewTPCC(7, 1, size, ByTheBook)
	first := a.Block(200)
	if !reflect.DeepEqual(first, b.Block(200)) {
		t.Fatal("two streams of one seed differ")
	}
	if reflect.DeepEqual(first, a.Block(200)) {
		t.Fatal("the second block repeats the first")
	}
}

// warehouses that a transaction names.
func warehouses(t *testing.T, s Statement) map[int]bool {
	t.Helper()
	named := []string{s.Values[0]}
	if strings.Contains(s.SQL, "new_order") {
		named = append(named, strings.Split(strings.Trim(s.Values[4], "{}"), ",")...)
	} else {
		named = append(named, s.Values[2])
	}
	out := map[int]bool{}
	for _, text := range named {
		w, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		out[w] = true
	}
	return out
}

func TestSpreadsReachTheWarehousesTheyShould(t *testing.T) {
	size := TPCCSize{Warehouses: 4, Items: 100, Customers: 30}
	for spread, want := range map[Spread]struct {
		several bool // some transactions are of several warehouses
		all     int  // warehouses named altogether
	}{ByTheBook: {true, 4}, AtHome: {false, 4}, OneWarehouse: {false, 1}} {
		all, several := map[int]bool{}, false
		for _, s := range NewTPCC(1, 0, size, spread).Block(2000) {
			named := warehouses(t, s)
			several = several || len(named) > 1
			for w := range named {
				if w < 1 || w > size.Warehouses {
					t.Fatalf("%s: warehouse %d in %+v", spread, w, s)
				}
				all[w] = true
			}
		}
		if several != want.several || len(all) != want.all {
			t.Errorf("%s: several %v, warehouses %v", spread, several, all)
		}
	}
}

func TestOrdersStayInTheirBounds(t *testing.T) {
	size := TPCCSize{Warehouses: 2, Items: 50, Customers: 9}
	kinds := map[string]int{}
	for _, s := range NewTPCC(1, 0, size, ByTheBook).Block(5000) {
		kinds[s.SQL]++
		if len(s.Types) != len(s.Values) {
			t.Fatalf("%+v", s)
		}
		if !strings.Contains(s.SQL, "new_order") {
			continue
		}
		items := strings.Split(strings.Trim(s.Values[3], "{}"), ",")
		if len(items) < linesMin || len(items) > linesMax {
			t.Fatalf("%d lines in %+v", len(items), s)
		}
		for _, text := range items {
			if i, err := strconv.Atoi(text); err != nil || i < 1 || i > size.Items+1 {
				t.Fatalf("item %q in %+v", text, s)
			}
		}
		if c, err := strconv.Atoi(s.Values[2]); err != nil || c < 1 || c > size.Customers {
			t.Fatalf("customer of %+v", s)
		}
	}
	if len(kinds) != 3 {
		t.Errorf("%v", kinds)
	}
}

func TestStatementsAreSpelledWithTheirValues(t *testing.T) {
	s := Statement{SQL: "SELECT f($2, $10, $1)", Types: make([]string, 10), Values: make([]string, 10)}
	s.Types[0], s.Values[0] = "text", "it's $2"
	s.Types[1], s.Values[1] = "integer", "7"
	s.Types[9], s.Values[9] = "integer[]", "{1,2}"
	if got, want := s.Text(), "SELECT f('7'::integer, '{1,2}'::integer[], 'it''s $2'::text)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
