package mariadb

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/portable"
	"github.com/chainify-db/chainify/abci/wire"
)

// ProcedureSettings are how a session makes a procedure for the ledger; procedureModes is how the
// server words the modes.
const (
	ProcedureSettings = "SET SESSION sql_mode = '" + modes + "'; SET NAMES utf8mb4 COLLATE " + collation
	collation         = "utf8mb4_nopad_bin"
)

// wordingOfProcedure is the text whose SHA-256 is a procedure's digest: fields of mysql.proc, each
// with its length.
var wordingOfProcedure = func() string {
	fields := []string{"param_list", "body_utf8", "security_type", "sql_mode", "character_set_client", "collation_connection", "db_collation"}
	parts := []string{"'chainify/mariadb-procedure/1'"}
	for _, field := range fields {
		text := "CAST(" + field + " AS BINARY)"
		parts = append(parts, "UNHEX(LPAD(HEX(OCTET_LENGTH("+text+")), 8, '0'))", text)
	}
	return "SHA2(CONCAT(" + strings.Join(parts, ", ") + "), 256)"
}()

// digestFunction tells the digest of a procedure's words to those who attach it.
const digestFunction = "procedure_digest"

// procedures are those on the ledger, by name, as they were agreed.
type procedures struct {
	attached map[string]*canonical.Procedure
	// any: one was attached, now or before. From then on they have a state.
	any bool
	// live are the digests of the server's words now. One that is not there has none.
	live map[string]wire.Hash
}

// with is the same with a procedure more, nil: one less.
func (p procedures) with(name string, more *canonical.Procedure) procedures {
	attached := map[string]*canonical.Procedure{}
	for known, procedure := range p.attached {
		if known != name {
			attached[known] = procedure
		}
	}
	if more != nil {
		attached[name] = more
	}
	return procedures{attached, true, p.live}
}

// states is their state, if they have one: each with the server's words of now in place of those
// agreed.
func (p procedures) states() []canonical.Named {
	if !p.any {
		return nil
	}
	list := make([]*canonical.Procedure, 0, len(p.attached))
	for name, procedure := range p.attached {
		list = append(list, procedure.With(canonical.MariaDB, p.live[name]))
	}
	return []canonical.Named{{Name: canonical.Procedures, State: canonical.ProceduresState(list)}}
}

// agreed is their state, if they have one, whatever the server's words are now.
func (p procedures) agreed() []canonical.Named {
	if !p.any {
		return nil
	}
	return []canonical.Named{{Name: canonical.Procedures, State: canonical.ProceduresState(slices.Collect(maps.Values(p.attached)))}}
}

// altered lists the procedures whose text differs from the agreed one, ascending.
func (p procedures) altered() []string {
	var names []string
	for name, procedure := range p.attached {
		if *procedure.Digest(canonical.MariaDB) != p.live[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// readProcedures are the procedures on the ledger at the end of a block, and their words now. The
// latter are read by words: mysql.proc knows no savepoints, and makes a transaction that read it
// fail at the next.
func readProcedures(ctx context.Context, q, words querier, name names, at uint64) (procedures, error) {
	p := procedures{attached: map[string]*canonical.Procedure{}, live: map[string]wire.Hash{}}
	rows, err := q.QueryContext(ctx, name.in(`SELECT name, signature, mariadb, postgresql, attached_at <= ? AND (detached_at IS NULL OR detached_at > ?)
		FROM %L.ledger_procedure WHERE attached_at <= ?`), at, at, at)
	if err != nil {
		return p, err
	}
	err = each(rows, func() error {
		procedure, on := &canonical.Procedure{}, false
		var signature string
		var mariadb, postgresql []byte
		if err := rows.Scan(&procedure.Name, &signature, &mariadb, &postgresql, &on); err != nil {
			return err
		}
		var err error
		if procedure.Types, err = canonical.ParseSignature(signature); err == nil {
			procedure.Digests, err = digestsOf(mariadb, postgresql)
		}
		if p.any = true; on {
			p.attached[procedure.Name] = procedure
		}
		return err
	})
	if err != nil || len(p.attached) == 0 {
		return p, err
	}
	p.live, err = wordings(ctx, words, name)
	return p, err
}

func digestsOf(mariadb, postgresql []byte) (digests []canonical.Digest, err error) {
	for _, of := range []struct {
		engine string
		digest []byte
	}{{canonical.MariaDB, mariadb}, {canonical.PostgreSQL, postgresql}} {
		if of.digest == nil {
			continue
		}
		hash, err := hashOf(of.digest)
		if err != nil {
			return nil, err
		}
		digests = append(digests, canonical.Digest{Engine: of.engine, Hash: hash})
	}
	return digests, nil
}

// wordings are the digests of all procedures of the database, by their names on the ledger.
func wordings(ctx context.Context, q querier, name names) (map[string]wire.Hash, error) {
	rows, err := q.QueryContext(ctx, "SELECT name, UNHEX("+wordingOfProcedure+") FROM mysql.proc WHERE db = ? AND type = 'PROCEDURE'", name.database)
	if err != nil {
		return nil, err
	}
	live := map[string]wire.Hash{}
	return live, each(rows, func() error {
		var short string
		var raw []byte
		if err := rows.Scan(&short, &raw); err != nil {
			return err
		}
		var err error
		live["public."+short], err = hashOf(raw)
		return err
	})
}

// deployProcedure puts a procedure on the ledger, or takes it off.
func (r *run) deployProcedure(p *canonical.Procedure, attach bool) error {
	var tables int
	err := r.conn.QueryRowContext(r.ctx, r.name.in(`SELECT count(*) FROM %L.ledger_table`)).Scan(&tables)
	if err == nil && tables == 0 {
		err = &outcome{"0A000", "a ledger without tables of ENCODING 2 takes no procedure"}
	}
	if err == nil && attach {
		err = r.attachProcedure(p)
	}
	if err == nil && !attach {
		err = r.detachProcedure(p.Name)
	}
	return err
}

func (r *run) attachProcedure(p *canonical.Procedure) error {
	refused := func(why string) error {
		return &outcome{"CH005", fmt.Sprintf("procedure %s cannot be put on the ledger: %s", p.Name, why)}
	}
	if err := r.neverOtherwise(p); err != nil {
		return err
	}
	agreed := p.Digest(canonical.MariaDB)
	if agreed == nil {
		return refused("the transaction has no digest for MariaDB")
	}
	why, err := procedureObstacle(r.ctx, r.words, r.name, p)
	if err != nil {
		return err
	}
	live, err := wordings(r.ctx, r.words, r.name)
	if found := live[p.Name]; err == nil && why == "" && found != *agreed {
		why = fmt.Sprintf("its digest is %x here", found)
	}
	switch {
	case err != nil:
		return err
	case why != "":
		return refused(why)
	}
	var postgresql []byte
	if digest := p.Digest(canonical.PostgreSQL); digest != nil {
		postgresql = digest[:]
	}
	_, err = r.conn.ExecContext(r.ctx, r.name.in(`INSERT INTO %L.ledger_procedure (name, signature, mariadb, postgresql, attached_at) VALUES (?, ?, ?, ?, ?)`),
		p.Name, p.Signature(), agreed[:], postgresql, r.block.Number)
	if err == nil {
		r.procedures = r.procedures.with(p.Name, p)
		r.procedures.live = live
	}
	return err
}

// neverOtherwise fails for a name that is on the ledger, or was there in other words: blocks of
// before are executed again, also by organisations that join.
func (r *run) neverOtherwise(p *canonical.Procedure) error {
	if r.procedures.attached[p.Name] != nil {
		return &outcome{"CH005", "procedure " + p.Name + " is on the ledger"}
	}
	rows, err := r.conn.QueryContext(r.ctx, r.name.in(`SELECT signature, mariadb, postgresql FROM %L.ledger_procedure WHERE name = ?`), p.Name)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var signature string
		var mariadb, postgresql []byte
		if err := rows.Scan(&signature, &mariadb, &postgresql); err != nil {
			return err
		}
		digests, err := digestsOf(mariadb, postgresql)
		if err == nil && (signature != p.Signature() || !slices.Equal(digests, p.Digests)) {
			err = &outcome{"CH005", "procedure " + p.Name + " was on the ledger in other words: those of a name stay for good"}
		}
		return err
	})
}

func (r *run) detachProcedure(name string) error {
	if r.procedures.attached[name] == nil {
		return &outcome{"42883", "procedure " + name + " is not on the ledger"}
	}
	_, err := r.conn.ExecContext(r.ctx, r.name.in(`UPDATE %L.ledger_procedure SET detached_at = ? WHERE name = ? AND detached_at IS NULL`), r.block.Number, name)
	if err == nil {
		r.procedures = r.procedures.with(name, nil)
	}
	return err
}

// procedureObstacle is why a procedure cannot be on the ledger; empty: it can.
func procedureObstacle(ctx context.Context, q querier, name names, p *canonical.Procedure) (string, error) {
	short := strings.TrimPrefix(p.Name, "public.")
	var body, security, mode, client, connection, database string
	err := q.QueryRowContext(ctx, `SELECT body_utf8, security_type, sql_mode, character_set_client, collation_connection, db_collation
		FROM mysql.proc WHERE db = ? AND type = 'PROCEDURE' AND name = ?`, name.database, short).Scan(&body, &security, &mode, &client, &connection, &database)
	if errors.Is(err, sql.ErrNoRows) {
		return "it does not exist", nil
	}
	var types []string
	var own string
	if err == nil {
		err = q.QueryRowContext(ctx, "SELECT @@sql_mode").Scan(&own)
	}
	if err == nil {
		types, err = parameterTypes(ctx, q, name, short, p.Types)
	}
	if err != nil {
		return "", err
	}
	obstacle := bodyObstacle(body)
	switch {
	case security != "INVOKER":
		return "it is not SQL SECURITY INVOKER", nil
	case mode != own, client != "utf8mb4", connection != collation, database != collation:
		return "it was made under other settings than: " + ProcedureSettings, nil
	case obstacle != "":
		return "its body has " + obstacle, nil
	case !slices.Equal(types, p.Types):
		return "its parameters are (" + strings.Join(types, ", ") + ")", nil
	}
	return "", nil
}

// parameterTypes are the logical types of a procedure's parameters. Where a type of MariaDB has two
// logical ones, that which is wanted.
func parameterTypes(ctx context.Context, q querier, name names, short string, wanted []string) ([]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT PARAMETER_MODE, DTD_IDENTIFIER, coalesce(COLLATION_NAME, '') FROM information_schema.PARAMETERS
		WHERE SPECIFIC_SCHEMA = ? AND SPECIFIC_NAME = ? AND ROUTINE_TYPE = 'PROCEDURE' ORDER BY ORDINAL_POSITION`, name.database, short)
	if err != nil {
		return nil, err
	}
	var types []string
	return types, each(rows, func() error {
		var mode, engineType, used string
		if err := rows.Scan(&mode, &engineType, &used); err != nil {
			return err
		}
		want := ""
		if len(types) < len(wanted) {
			want = wanted[len(types)]
		}
		logical := logicalType(engineType, want, want == "json")
		switch {
		case mode != "IN":
			logical = mode + " " + engineType
		case engineType == "decimal(65,38)":
			logical = "numeric"
		case logical == "" || strings.ContainsRune(logical, '('), used != "" && used != collation && logical != "json":
			logical = strings.TrimSpace(engineType + " " + used)
		}
		types = append(types, logical)
		return nil
	})
}

// call runs a procedure with the rights of the client's role, at the time of the block.
func (r *run) call(s *portable.Statement, p *wire.Proposal) error {
	if !r.isClient(p.Client.Role) {
		return &outcome{"42704", "role " + p.Client.Role + " does not exist"}
	}
	bounds, err := portable.Ledger{Procedures: r.called.attached}.Arguments(s, p.Parameters)
	if err != nil {
		return err
	}
	arguments := make([]string, len(bounds))
	for i := range bounds {
		if arguments[i], err = bound(bounds[i]); err != nil {
			return err
		}
	}
	now := fmt.Sprintf("SET SESSION timestamp = %d.%06d", r.block.TimeMicro/1_000_000, r.block.TimeMicro%1_000_000)
	if _, err := r.conn.ExecContext(r.ctx, now); err != nil {
		return err
	}
	text := "CALL " + r.name.in("%D.") + quoted(strings.TrimPrefix(s.Table, "public.")) + "(" + strings.Join(arguments, ", ") + ")"
	_, failure := r.conn.ExecContext(r.ctx, "CALL "+r.name.in("%L.")+quoted("call_"+p.Client.Role)+"("+hexText(text)+")")
	if _, err := r.conn.ExecContext(r.ctx, "SET SESSION timestamp = DEFAULT"); err != nil {
		return err
	}
	if err := r.session.restore(r.ctx, r.conn); err != nil {
		return err
	}
	return callOutcome(failure)
}

func hexText(text string) string { return "_utf8mb4 x'" + hex.EncodeToString([]byte(text)) + "'" }

// callOutcomes are errors that a procedure's body may have beside a statement's own.
var callOutcomes = map[uint16]string{
	1644: "P0001", 1305: "42883", 1318: "42883", 1370: "42501", 1227: "42501", 1356: "42501", 1960: "42704", 1399: "2D000", 1422: "2D000", 1365: "22012",
	1265: "22P02",
}

// callClasses are the classes of SQLSTATE whose errors are a body's own, and never the machine's.
// Those of mixedClasses are, too, but for the errors of the machine.
var (
	callClasses  = strings.Fields("02 20 21 22 23 42 45")
	mixedClasses = strings.Fields("01 HY")
)

// ofMachine are errors of mixed classes that another run, or another machine, may not have: memory,
// disk, files, broken tables, bounds of the server.
var ofMachine = []uint16{
	1015, 1016, 1017, 1018, 1020, 1021, 1023, 1024, 1025, 1026, 1030, 1032, 1033, 1034, 1035, 1036, 1037, 1038, 1041, 1053, 1078, 1105, 1114, 1119, 1135,
	1180, 1181, 1182, 1189, 1192, 1194, 1195, 1197, 1199, 1205, 1206, 1207, 1213, 1223, 1290, 1296, 1297, 1436, 1478, 1614, 1665, 1712, 1713, 1792, 1815, 1836,
	1873, 1877, 1880, 1969, 2013, 3024, 3100, 4031,
}

func callOutcome(failure error) error {
	var e *mysql.MySQLError
	if !errors.As(failure, &e) {
		return failure
	}
	state := callOutcomes[e.Number]
	class := string(e.SQLState[:2])
	own := slices.Contains(callClasses, class) || slices.Contains(mixedClasses, class) && !slices.Contains(ofMachine, e.Number)
	if state == "" && outcomes[e.Number] == "" && own {
		state = string(e.SQLState[:])
	}
	if state == "" {
		return failure
	}
	return &outcome{state, failure.Error()}
}
