package mariadb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/portable"
	"github.com/chainify-db/chainify/abci/wire"
)

// deploy attaches or detaches tables. The caller puts r.tables back when it fails.
func (r *run) deploy(p *wire.Proposal) (int64, error) {
	d, err := portable.ParseDeploy(p.Sql)
	if err == nil {
		err = r.admin(p.Client.Role)
	}
	if err != nil {
		return 0, err
	}
	if d.Procedure != nil {
		return 1, r.deployProcedure(d.Procedure, d.Attach)
	}
	one, check := r.detach, r.checkLeft
	if d.Attach {
		one, check = r.attach, r.checkPartners
	}
	for _, name := range d.Tables {
		if err := one(name); err != nil {
			return 0, err
		}
	}
	return int64(len(d.Tables)), check(d.Tables)
}

// admin checks that a client's role has the role of those who attach.
func (r *run) admin(role string) error {
	if err := r.become(role); err != nil {
		return err
	}
	var count int
	err := r.conn.QueryRowContext(r.ctx, `SELECT count(*) FROM information_schema.ENABLED_ROLES WHERE ROLE_NAME = ?`, r.name.admin()).Scan(&count)
	if err == nil && count == 0 {
		return &outcome{"42501", "role " + role + " is no member of " + r.name.admin()}
	}
	if err == nil {
		_, err = r.conn.ExecContext(r.ctx, "SET ROLE "+r.name.role())
	}
	return err
}

func (r *run) attach(name string) error {
	if r.tables[name] != nil {
		return &outcome{"CH005", "table " + name + " is on the ledger"}
	}
	var detached int
	err := r.conn.QueryRowContext(r.ctx, r.name.in(`SELECT count(*) FROM %L.ledger_table WHERE name = ? AND detached_at = ?`), name, r.block.Number).Scan(&detached)
	if err == nil && detached > 0 {
		err = &outcome{"CH005", "table " + name + " was taken off the ledger in this block"}
	}
	if err != nil {
		return err
	}
	d, err := describe(r.ctx, r.conn, r.name, name)
	if err == nil {
		err = d.refuseRows(r.ctx, r.conn, r.name)
	}
	if err != nil {
		return err
	}
	t := &table{
		Table: d.Table, text: d.text, children: d.children, attachedAt: r.block.Number, baseAfter: r.block.Number - 1, hasher: canonical.NewLaneHasher(name),
	}
	if !r.guarded[name] {
		r.unguarded = append(r.unguarded, name)
		r.tables[name] = t
		return nil
	}
	err = r.conn.QueryRowContext(r.ctx, r.name.in(`SELECT coalesce(max(id), 0) + 1 FROM %L.ledger_table`)).Scan(&t.id)
	if err != nil {
		return err
	}
	rows, err := readRows(r.ctx, r.conn, r.name, t)
	if err != nil {
		return err
	}
	t.state = t.sum(rows)
	if err := writeBase(r.ctx, r.conn, r.name, t, rows); err != nil {
		return err
	}
	_, err = r.conn.ExecContext(r.ctx, r.name.in(`INSERT INTO %L.ledger_table
		(id, name, schema_text, wording, attached_at, base_after, row_count, lanes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`),
		t.id, name, t.text, d.wording[:], t.attachedAt, t.baseAfter, t.state.Rows, t.state.Lanes.Bytes())
	if err == nil { // it was just read
		_, err = r.conn.ExecContext(r.ctx, r.name.in(`REPLACE INTO %L.scrub (table_id, well_at) VALUES (?, utc_timestamp(6))`), t.id)
	}
	if err == nil {
		r.tables[name] = t
	}
	return err
}

func (r *run) detach(name string) error {
	t := r.tables[name]
	if t == nil {
		return &outcome{"42P01", "table " + name + " is not on the ledger"}
	}
	_, err := r.conn.ExecContext(r.ctx, r.name.in(`UPDATE %L.ledger_table SET detached_at = ? WHERE id = ?`), r.block.Number, t.id)
	if err == nil {
		delete(r.tables, name)
		r.detached = true
	}
	return err
}

// trigger is one of a ledger table's.
type trigger struct{ table, name, when, body string }

// triggers record the changes of rows. One more carries out the actions of foreign keys.
func (t *table) triggers(tables map[string]*table, name names) []trigger {
	hash := sha256.Sum256([]byte(t.Name))
	prefix := "chainify_" + hex.EncodeToString(hash[:8]) + "_"
	var all []trigger
	for _, event := range []string{"INSERT", "UPDATE", "DELETE"} {
		before, after := "NULL", "NULL"
		if event != "INSERT" {
			before = t.serialized("OLD")
		}
		if event != "DELETE" {
			after = t.serialized("NEW")
		}
		all = append(all, trigger{
			table: t.Name, name: prefix + strings.ToLower(event), when: "AFTER " + event,
			body: name.in(fmt.Sprintf("INSERT INTO %%L.captured (name, op, before_row, after_row) VALUES ('%s', '%c', %s, %s)", t.Name, event[0], before, after)),
		})
	}
	if actions := t.actions(tables, name); actions != "" {
		all = append(all, trigger{table: t.Name, name: prefix + "actions", when: "BEFORE DELETE", body: actions})
	}
	return all
}

// settleTriggers makes the triggers of the ledger tables, and of tables about to be attached, and
// drops all other ones of ours. Not inside of a transaction.
func (b *Backend) settleTriggers(ctx context.Context, more []string) error {
	b.known = map[string]*described{}
	tables, err := readTables(ctx, b.conn, b.name, maxBlock, b.known)
	if err != nil {
		return fmt.Errorf("settle triggers: %w", err)
	}
	for _, name := range more {
		if d, err := describe(ctx, b.conn, b.name, name); err == nil {
			tables[name] = &table{Table: d.Table, children: d.children}
		} else if !errors.Is(err, errRefused) {
			return fmt.Errorf("settle triggers: %w", err)
		}
	}
	wanted := map[string]trigger{}
	b.guarded, b.beyond = map[string]bool{}, more
	for _, t := range tables {
		b.guarded[t.Name] = true
		for _, trigger := range t.triggers(tables, b.name) {
			wanted[trigger.name] = trigger
		}
	}
	found, err := readTriggers(ctx, b.conn, b.name)
	if err != nil {
		return fmt.Errorf("settle triggers: %w", err)
	}
	for name, have := range found {
		want, ok := wanted[name]
		if ok && want.body == have.body && want.when == have.when {
			delete(wanted, name)
			continue
		}
		if err := b.dropTrigger(ctx, name, ok); err != nil {
			return err
		}
	}
	for _, want := range wanted {
		t := tables[want.table]
		_, err := b.conn.ExecContext(ctx, fmt.Sprintf("SET STATEMENT lock_wait_timeout = %d FOR CREATE DEFINER = CURRENT_ROLE TRIGGER ", triggerWait)+
			b.name.in("%D.")+quoted(want.name)+" "+want.when+" ON "+t.quoted(b.name)+" FOR EACH ROW "+want.body)
		if t.altered && outcomeOf(err) != nil { // a column is gone, or the table
			continue
		}
		if err != nil {
			return fmt.Errorf("make trigger of %s: %w", want.table, err)
		}
	}
	return nil
}

// dropTrigger waits for nobody, unless another one takes its place: an open transaction on a table
// that has left the ledger could hold up every block. The trigger then stays for a while.
func (b *Backend) dropTrigger(ctx context.Context, name string, needed bool) error {
	wait := 0
	if needed {
		wait = triggerWait
	}
	_, err := b.conn.ExecContext(ctx, fmt.Sprintf("SET STATEMENT lock_wait_timeout = %d FOR DROP TRIGGER IF EXISTS ", wait)+b.name.in("%D.")+quoted(name))
	if !needed && errorNumber(err) == errLockWait {
		b.beyond = append(b.beyond, name) // no table has this name: the next COMMIT tries again
		return nil
	}
	if err != nil {
		return fmt.Errorf("drop trigger %s: %w", name, err)
	}
	return nil
}

// triggerWait bounds in seconds how long a change of triggers waits for open transactions on its
// table, with other sessions behind it.
const (
	triggerWait = 1
	errLockWait = 1205
	errDeadlock = 1213
)

const maxBlock = 1 << 62

// readTriggers are ours, by name.
func readTriggers(ctx context.Context, q querier, name names) (map[string]trigger, error) {
	rows, err := q.QueryContext(ctx, `SELECT concat('public.', EVENT_OBJECT_TABLE), TRIGGER_NAME, concat(ACTION_TIMING, ' ', EVENT_MANIPULATION), ACTION_STATEMENT FROM information_schema.TRIGGERS
		WHERE TRIGGER_SCHEMA = ? AND TRIGGER_NAME LIKE 'chainify|_%' ESCAPE '|'`, name.database)
	if err != nil {
		return nil, err
	}
	found := map[string]trigger{}
	return found, each(rows, func() error {
		var t trigger
		err := rows.Scan(&t.table, &t.name, &t.when, &t.body)
		found[t.name] = t
		return err
	})
}
