package executor

import (
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

// Blocks of TPC-C pass the determinism checker, keep what the specification asks of the tables,
// and leave a ledger that verifies.
func TestTPCCKeepsItsConditions(t *testing.T) {
	cfg := config(t)
	cfg.Sizes = nil
	size := workload.TPCCSize{Warehouses: 2, Items: 100, Customers: 30}
	s, err := open(t.Context(), cfg, &report.Report{Versions: map[string]string{}, Settings: map[string]any{}}, size.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	c, err := newChain(t.Context(), s.ledger, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, spread := range []workload.Spread{workload.ByTheBook, workload.AtHome, workload.OneWarehouse} {
		raw, err := c.encode(wire.Kind_KIND_SQL, workload.NewTPCC(cfg.Seed, 0, size, spread).Block(300))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.run(t.Context(), raw); err != nil {
			t.Fatalf("%s: %v", spread, err)
		}
		var violated, condition string
		if err := s.ledger.conn.QueryRow(t.Context(), `SELECT count(*)::text, coalesce(min(condition || ' ' || what), '') FROM tpcc.violations()`).Scan(&violated, &condition); err != nil {
			t.Fatal(err)
		}
		if violated != "0" {
			t.Errorf("seed %d, %s: %s violations, such as: %s", cfg.Seed, spread, violated, condition)
		}
	}
	var orders, refused, payments, findings int
	err = s.ledger.conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM tpcc.orders),
		(SELECT count(*) FROM chainify.transactions WHERE sql LIKE '%new_order%') - (SELECT count(*) FROM tpcc.orders),
		(SELECT count(*) FROM tpcc.history), (SELECT count(*) FROM chainify.verify_ledger() WHERE what <> 'certificate missing')`).
		Scan(&orders, &refused, &payments, &findings)
	if err != nil {
		t.Fatal(err)
	}
	if orders == 0 || refused == 0 || payments == 0 || findings != 0 {
		t.Errorf("%d orders, %d of an unknown item, %d payments, %d findings", orders, refused, payments, findings)
	}
}

// Beside the load there is what OrderStatus reads: an order by every customer, found by number
// and by name.
func TestEveryCustomerHasAnOrderToRead(t *testing.T) {
	cfg := config(t)
	cfg.Sizes = nil
	size := workload.TPCCSize{Warehouses: 1, Items: 40, Customers: 9}
	s, err := open(t.Context(), cfg, &report.Report{Versions: map[string]string{}, Settings: map[string]any{}}, size.Ordered())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	var violated, lines, byNumber, byName int
	err = s.plain.conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM tpcc.violations()), (SELECT count(*) FROM tpcc.order_line),
		(SELECT count(*) FROM tpcc.customer WHERE tpcc.order_status(c_w_id, c_d_id, c_id, NULL) LIKE c_first || ' ' || c_last || ' -10.00: %, %'),
		(SELECT count(*) FROM tpcc.customer WHERE tpcc.order_status(c_w_id, c_d_id, NULL, c_last) LIKE '% ' || c_last || ' -10.00: %, %')`).
		Scan(&violated, &lines, &byNumber, &byName)
	if err != nil {
		t.Fatal(err)
	}
	if violated != 0 || lines != 90*10 || byNumber != 90 || byName != 90 {
		t.Errorf("%d violations, %d lines; orders of %d customers found by number, of %d by name", violated, lines, byNumber, byName)
	}
}
