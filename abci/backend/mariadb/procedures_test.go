package mariadb

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func unlisted(name string) string {
	return "function " + name + "(), which is not on the list of functions with the same values everywhere"
}

// Words and calls of a body are found outside of quotes and comments.
func TestObstaclesInBodies(t *testing.T) {
	for body, want := range map[string]string{
		"BEGIN UPDATE t SET n = n - 1; END":                                "",
		"SELECT 'xa''call', \"role\", `kill` -- call\n # prepare\n FROM t": "",
		"BEGIN xA end 'chainify'; END":                                     "XA",
		"BEGIN/**/call p(); END":                                           "a comment that some servers execute: begin comments with --",
		"SET @n = 1":                                                       "a variable of the session or the server",
		"SET SESSION autocommit = 0":                                       "AUTOCOMMIT",
		"DELETE FROM shop_ledger.captured":                                 "CAPTURED",
		"DELETE FROM shop_ledger.\"Captured\"":                             "CAPTURED",
		"DELETE FROM `shop_ledger`.`captured`":                             "CAPTURED",
		"SELECT 5--call p()":                                               "CALL",
		"SELECT xa1, callx FROM t":                                         "",
		"BEGIN EXECUTE IMMEDIATE concat('XA', ' END ''chainify'''); END":   "EXECUTE",
		"SET ROLE NONE":                                                    "ROLE",
		"SET check_constraint_checks = 0":                                  "CHECK_CONSTRAINT_CHECKS",
		"INSERT INTO items (id) VALUES (uuid())":                           unlisted("uuid"),
		"SET n = rand ( )":                                                 unlisted("rand"),
		"SELECT `sysdate`()":                                               unlisted("sysdate"),
		"SELECT shop.own(1)":                                               unlisted("own"),
		"SELECT shop.now()":                                                unlisted("now"),
		"SELECT own(1)":                                                    unlisted("own"),
		"SELECT \"in\"(1)":                                                 unlisted("in"),
		"SELECT NEXT /* */":                                                "a comment that some servers execute: begin comments with --",
		"SELECT NEXT VALUE FOR numbers":                                    "a sequence, whose numbers differ between databases",
		"SELECT current_user":                                              "CURRENT_USER",
		"SELECT @@hostname":                                                "a variable of the session or the server",
		"INSERT INTO shop . `items` (id, at) SELECT max(id) + 1, now(6) FROM items WHERE id IN (1, 2) AND (n > 0)": "",
		"DECLARE a DECIMAL(65,38); IF (a < 1) THEN SET a = coalesce(a, 0); END IF":                                 "",
		"SELECT 'a' 'b', \"it\"\"s\", x'41', 'it''s';SET GLOBAL read_only=1":                                       "GLOBAL",
	} {
		if got := bodyObstacle(body); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// digestOfProcedure is what its administrator is told of a procedure.
func (o *organisation) digestOfProcedure(t *testing.T, name string) string {
	t.Helper()
	var digest *string
	must.Do(t, o.root.QueryRowContext(t.Context(), "SELECT "+o.name+"_ledger.procedure_digest(?)", name).Scan(&digest))
	if digest == nil {
		return strings.Repeat("0", 64)
	}
	return *digest
}

// make makes a procedure in a session with the node's settings.
func (o *organisation) make(t *testing.T, procedures ...string) {
	t.Helper()
	conn, err := o.root.Conn(t.Context())
	must.Do(t, err)
	defer func() { _ = conn.Close() }()
	for _, statement := range append([]string{ProcedureSettings}, procedures...) {
		if _, err := conn.ExecContext(t.Context(), strings.ReplaceAll(statement, "%", o.name)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (c *chain) attachProcedure(o *organisation, name, signature string) proposal {
	return proposal{kind: wire.Kind_KIND_DEPLOY, sql: "ATTACH PROCEDURE public." + name + " " + signature + " ENCODING 2 MARIADB " + o.digestOfProcedure(c.T, name)}
}

// A procedure that could leave its block, or is read otherwise, is refused with the reason.
func TestProceduresThatCannotBeAttached(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	o.make(t, "CREATE PROCEDURE %.definer() SQL SECURITY DEFINER BEGIN END", "CREATE PROCEDURE %.out_one(OUT n INT) SQL SECURITY INVOKER SET n = 1",
		"CREATE PROCEDURE %.inout_one(INOUT n INT) SQL SECURITY INVOKER SET n = 1", "CREATE PROCEDURE %.short_one(n VARCHAR(10)) SQL SECURITY INVOKER SELECT 1",
		"CREATE PROCEDURE %.decimal_one(n DECIMAL(10,2)) SQL SECURITY INVOKER SELECT 1", "CREATE PROCEDURE %.other_order(n LONGTEXT COLLATE utf8mb4_bin) SQL SECURITY INVOKER SELECT 1",
		"CREATE PROCEDURE %.xa_one() SQL SECURITY INVOKER XA END 'chainify'", "CREATE PROCEDURE %.random_one() SQL SECURITY INVOKER INSERT INTO items (id) VALUES (rand())", "CREATE PROCEDURE %.more(n INT, m INT) SQL SECURITY INVOKER SELECT 1",
		"CREATE PROCEDURE %.every(a SMALLINT, b INT, c BIGINT, d DECIMAL(65,38), e DOUBLE, f BOOLEAN, g LONGTEXT, h LONGBLOB, i DATE, j TIME(6), k DATETIME(6), l DATETIME(6), m UUID, n JSON) SQL SECURITY INVOKER SELECT 1",
		"SET SESSION sql_mode = ''", "CREATE PROCEDURE %.other_mode() SQL SECURITY INVOKER SELECT 1",
		ProcedureSettings, "SET NAMES utf8mb4", "CREATE PROCEDURE %.other_collation() SQL SECURITY INVOKER SELECT 1")
	for _, one := range []struct{ name, signature, want string }{
		{"definer", "()", "it is not SQL SECURITY INVOKER"},
		{"out_one", "(integer)", "its parameters are (OUT int(11))"},
		{"inout_one", "(integer)", "its parameters are (INOUT int(11))"},
		{"short_one", "(text)", "its parameters are (varchar(10) utf8mb4_nopad_bin)"},
		{"decimal_one", "(numeric)", "its parameters are (decimal(10,2))"},
		{"other_order", "(text)", "its parameters are (longtext utf8mb4_bin)"},
		{"xa_one", "()", "its body has XA"},
		{"random_one", "()", "its body has function rand()"},
		{"more", "(integer)", "its parameters are (integer, integer)"},
		{"other_mode", "()", "it was made under other settings than: SET SESSION sql_mode"},
		{"other_collation", "()", "it was made under other settings than: SET SESSION sql_mode"},
		{"nowhere", "()", "it does not exist"},
		{"every", "(smallint, integer, bigint, numeric, double, boolean, text, bytea, date, time, timestamp, timestamptz, uuid, json)", ""},
	} {
		x := c.commit(c.attachProcedure(o, one.name, one.signature)).Results[0]
		if x.Succeeded != (one.want == "") || !strings.Contains(x.Message, one.want) || !x.Succeeded && x.SQLState != "CH005" {
			t.Errorf("%s: %+v", one.name, x)
		}
	}
	other := c.attachProcedure(o, "more", "(integer, integer)")
	other.sql = other.sql[:len(other.sql)-64] + strings.Repeat("0a", 32)
	if x := c.commit(other).Results[0]; x.SQLState != "CH005" || !strings.Contains(x.Message, "its digest is "+o.digestOfProcedure(t, "more")+" here") {
		t.Errorf("another digest: %+v", x)
	}
	other.sql = strings.Replace(other.sql, "MARIADB", "POSTGRESQL", 1)
	if x := c.commit(other).Results[0]; x.SQLState != "CH005" || !strings.Contains(x.Message, "no digest for MariaDB") {
		t.Errorf("no digest: %+v", x)
	}
}

// A body cannot take rights, leave its settings behind, or end the block's transaction.
func TestWhatABodyCannotDo(t *testing.T) {
	o := fresh(t, items, "CREATE TABLE %.secret (id BIGINT PRIMARY KEY)")
	c := o.chain(t)
	c.attach("public.items")
	// Words and calls of functions are refused when a procedure is attached: views say them.
	o.make(t, "CREATE PROCEDURE %.settings() SQL SECURITY INVOKER BEGIN SET SESSION foreign_key_checks = 0, unique_checks = 0, time_zone = '+05:00', sql_select_limit = 1, "+
		"div_precision_increment = 0, max_statement_time = 0.5, auto_increment_increment = 7, character_set_results = latin1; INSERT INTO items (id, name) VALUES (10, now(6)); END",
		"CREATE FUNCTION %.take_role() RETURNS INT SQL SECURITY INVOKER BEGIN SET ROLE %_chainify; RETURN 1; END",
		"CREATE SQL SECURITY INVOKER VIEW %.taken AS SELECT %.take_role() AS n", "CREATE PROCEDURE %.roles() SQL SECURITY INVOKER BEGIN DECLARE m INT; SELECT n INTO m FROM taken; INSERT INTO %_ledger.false_block VALUES (1); END",
		"CREATE PROCEDURE %.rights() SQL SECURITY INVOKER INSERT INTO secret VALUES (1)",
		"CREATE PROCEDURE %.ends() SQL SECURITY INVOKER BEGIN INSERT INTO items (id) VALUES (11); COMMIT; END",
		"CREATE PROCEDURE %.makes() SQL SECURITY INVOKER BEGIN INSERT INTO items (id) VALUES (12); CREATE TABLE made (id INT); END",
		"CREATE FUNCTION %.unlock_all() RETURNS INT SQL SECURITY INVOKER RETURN RELEASE_ALL_LOCKS()",
		"CREATE SQL SECURITY INVOKER VIEW %.unlocked AS SELECT %.unlock_all() AS n", "CREATE PROCEDURE %.locks() SQL SECURITY INVOKER BEGIN DECLARE m INT; SELECT n INTO m FROM unlocked; INSERT INTO items (id) VALUES (13); END",
		"CREATE PROCEDURE %.late() SQL SECURITY INVOKER BEGIN SELECT 1; INSERT INTO items (id) VALUES (14); SELECT 2; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'late'; END",
		"CREATE PROCEDURE %.odd() SQL SECURITY INVOKER INSERT INTO items (id) VALUES ((SELECT id FROM items))",
		"CREATE PROCEDURE %.poses() SQL SECURITY INVOKER SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1205",
		"CREATE PROCEDURE %.cuts() SQL SECURITY INVOKER BEGIN DECLARE t LONGTEXT DEFAULT '12abc'; INSERT INTO items (id) VALUES (t); END",
		"CREATE PROCEDURE %.raises() SQL SECURITY INVOKER SIGNAL SQLSTATE 'HY001' SET MYSQL_ERRNO = 9999",
		"CREATE PROCEDURE %.limits() SQL SECURITY INVOKER SET SESSION sql_select_limit = 0",
		"CREATE PROCEDURE %.fine(n BIGINT) SQL SECURITY INVOKER INSERT INTO items (id) VALUES (n)")
	names := []string{"settings", "roles", "rights", "ends", "makes", "locks", "late", "odd", "poses", "cuts", "raises", "limits", "fine"}
	var attach []proposal
	for _, name := range names {
		attach = append(attach, c.attachProcedure(o, name, map[bool]string{false: "()", true: "(bigint)"}[name == "fine"]))
		o.run(t, fmt.Sprintf("GRANT EXECUTE ON PROCEDURE %s.%s TO %s", o.name, name, operators))
	}
	o.run(t, strings.ReplaceAll("GRANT SELECT ON %.taken TO effects_ops; GRANT SELECT ON %.unlocked TO effects_ops; GRANT EXECUTE ON FUNCTION %.take_role TO effects_ops; GRANT EXECUTE ON FUNCTION %.unlock_all TO effects_ops", "%", o.name))
	for i, x := range c.commit(attach...).Results {
		if !x.Succeeded {
			t.Fatalf("attach %s: %+v", names[i], x)
		}
	}
	before, err := readSession(t.Context(), c.b.conn, c.b.lock)
	if err != nil || len(before.settings) < 100 {
		t.Fatal(before, err)
	}
	for i, want := range []string{"", "42", "42501", "2D000", "2D000", "", "P0001", "21000", "45000", "22P02", "HY001", ""} {
		x := c.commit(sqlOf("CALL "+names[i]+"()"), sqlOf(fmt.Sprintf("CALL fine(%d)", 100+i))).Results
		if !strings.HasPrefix(x[0].SQLState, want) || x[0].Succeeded != (want == "") || !x[1].Succeeded {
			t.Errorf("%s: %+v", names[i], x)
		}
		after, err := readSession(t.Context(), c.b.conn, c.b.lock)
		must.Do(t, err)
		for j, one := range after.settings {
			if one != before.settings[j] {
				t.Errorf("%s left %+v, want %+v", names[i], one, before.settings[j])
			}
		}
		var role string
		var locked bool
		err = c.b.conn.QueryRowContext(context.Background(), "SELECT current_role(), IS_USED_LOCK(?) = CONNECTION_ID()", c.b.lock).Scan(&role, &locked)
		if err != nil || role != o.name+"_chainify" || !locked {
			t.Errorf("%s left role %s, lock %v, %v", names[i], role, locked, err)
		}
	}
	var made string
	if err := o.root.QueryRow("SELECT name FROM " + o.name + ".items WHERE id = 10").Scan(&made); err != nil || !strings.HasPrefix(made, "19") {
		t.Errorf("made at %s, %v: want the block's time", made, err)
	}
	must.Do(t, c.b.Scrub(t.Context()))
	if p, err := c.b.Position(t.Context()); err != nil || p.Deviates {
		t.Errorf("%+v, %v", p, err)
	}
}

// Defaults of the server that decide about values reach no block.
func TestDefaultsOfTheServerReachNoBody(t *testing.T) {
	o := fresh(t, items)
	o.run(t, "SET GLOBAL div_precision_increment = 9; SET GLOBAL default_week_format = 3; SET GLOBAL lc_time_names = 'de_DE'; SET GLOBAL tx_isolation = 'SERIALIZABLE'; "+
		"SET GLOBAL sql_select_limit = 1")
	t.Cleanup(func() {
		o.run(t, "SET GLOBAL div_precision_increment = DEFAULT; SET GLOBAL default_week_format = DEFAULT; SET GLOBAL lc_time_names = DEFAULT; SET GLOBAL tx_isolation = DEFAULT; "+
			"SET GLOBAL sql_select_limit = DEFAULT")
	})
	c := o.chain(t)
	c.attach("public.items")
	o.make(t, "CREATE PROCEDURE %.computes() SQL SECURITY INVOKER INSERT INTO items (id, name) VALUES (10, concat(1 / 3, ' ', week('2024-12-31'), ' ', monthname('2024-05-01')))")
	o.run(t, "GRANT EXECUTE ON PROCEDURE "+o.name+".computes TO "+operators)
	for _, x := range c.commit(c.attachProcedure(o, "computes", "()")).Results {
		if !x.Succeeded {
			t.Fatalf("%+v", x)
		}
	}
	c.commit(sqlOf("CALL computes()"))
	var made, isolation string
	err := o.root.QueryRow("SELECT name FROM " + o.name + ".items WHERE id = 10").Scan(&made)
	if err == nil {
		err = c.b.conn.QueryRowContext(t.Context(), "SELECT @@session.tx_isolation").Scan(&isolation)
	}
	if err != nil || made != "0.3333 52 May" || isolation != "READ-COMMITTED" {
		t.Errorf("made %q under %s, %v", made, isolation, err)
	}
}
