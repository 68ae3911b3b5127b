package mariadb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// names are those of an organisation's databases: its tables' one, and the ledger's own beside it.
type names struct{ database string }

func (n names) ledger() string { return n.database + "_ledger" }
func (n names) role() string   { return quoted(n.database + "_chainify") }
func (n names) admin() string  { return n.database + "_admin" }
func (n names) reader() string { return quoted(n.database + "_reader") }

// in puts the ledger's database for %L into a statement, and the tables' one for %D.
func (n names) in(statement string) string {
	return strings.NewReplacer("%L", quoted(n.ledger()), "%D", quoted(n.database)).Replace(statement)
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// ledgerTables hold what PostgreSQL's extension keeps in chainify_ledger and chainify_history. Rows
// and keys in them are canonical encodings; key_hash is SHA-256 of the key.
var ledgerTables = []string{
	`chain (only_one TINYINT PRIMARY KEY CHECK (only_one = 1), chain_id VARCHAR(50) NOT NULL, organisation VARCHAR(63) NOT NULL,
		deviates BOOLEAN NOT NULL DEFAULT FALSE)`,
	`lock_name (only_one TINYINT PRIMARY KEY CHECK (only_one = 1), secret BINARY(16) NOT NULL)`,
	`block (number BIGINT PRIMARY KEY, hash BINARY(32) NOT NULL, header LONGBLOB NOT NULL)`,
	"transaction (block BIGINT, place INT, id BINARY(32) NOT NULL, outcome BOOLEAN NOT NULL, row_count BIGINT NOT NULL, sql_state CHAR(5) NOT NULL," +
		" error TEXT NOT NULL, raw LONGBLOB NOT NULL, PRIMARY KEY (block, place), KEY (id))",
	`certificate (number BIGINT PRIMARY KEY, effect_round INT NOT NULL, hash BINARY(32) NOT NULL, votes LONGTEXT NOT NULL)`,
	`false_block (number BIGINT PRIMARY KEY)`,
	// next is the block that the audit goes on with; 0: its next pass begins.
	`audited (only_one TINYINT PRIMARY KEY CHECK (only_one = 1), next BIGINT NOT NULL)`,
	// The scrubber last found a table well, or first saw it, at this time in UTC.
	`scrub (table_id INT PRIMARY KEY, well_at DATETIME(6) NOT NULL)`,
	// found and cured_by are NULL until they are known.
	`deviation (id BIGINT AUTO_INCREMENT PRIMARY KEY, block BIGINT NOT NULL, found_by VARCHAR(10) NOT NULL, expected BINARY(32) NOT NULL, found BINARY(32),
		rows_total BIGINT NOT NULL, cured_by VARCHAR(20), took_ms BIGINT, started_at DATETIME(6) NOT NULL DEFAULT utc_timestamp(6))`,
	`deviation_row (deviation BIGINT, place INT, name VARCHAR(127) NOT NULL, row_key LONGTEXT NOT NULL, expected LONGTEXT, found LONGTEXT, PRIMARY KEY (deviation, place))`,
	// base_after: history of later blocks goes on from the rows in base.
	`ledger_table (id INT PRIMARY KEY, name VARCHAR(127) NOT NULL, schema_text LONGTEXT NOT NULL, wording BINARY(32) NOT NULL,
		attached_at BIGINT NOT NULL, detached_at BIGINT, base_after BIGINT NOT NULL, row_count BIGINT NOT NULL, lanes BLOB NOT NULL)`,
	// Digests are NULL where the transaction has none of that engine.
	`ledger_procedure (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(127) NOT NULL, signature TEXT NOT NULL, mariadb BINARY(32), postgresql BINARY(32),
		attached_at BIGINT NOT NULL, detached_at BIGINT, KEY (name))`,
	`base (table_id INT, key_hash BINARY(32), row_bytes LONGBLOB NOT NULL, PRIMARY KEY (table_id, key_hash))`,
	`history (table_id INT, block BIGINT, place INT, key_hash BINARY(32) NOT NULL, key_bytes LONGBLOB NOT NULL, tx INT NOT NULL, serial INT NOT NULL,
		op CHAR(1) CHARACTER SET ascii NOT NULL, row_hash BINARY(32) NOT NULL, row_bytes LONGBLOB NOT NULL,
		PRIMARY KEY (block, place), KEY (table_id, key_hash, block, place))`,
}

// readTablesOf are the ledger's that a reader sees: all but the desk's, which hold what clients ask
// and are answered, and the name of the node's lock.
var readTablesOf = []string{"chain", "block", "`transaction`", "certificate", "false_block", "audited", "scrub", "deviation", "deviation_row", "ledger_table", "ledger_procedure", "base", "history"}

// pattern names one database where GRANT reads % and _ as wildcards.
func pattern(name string) string { return strings.ReplaceAll(quoted(name), "_", `\_`) }

// Installation is what Install does, as statements of an administrator.
type Installation struct {
	Do []string
	// Undo takes everything away again, the ledger too, once no table is on it.
	Undo []string
}

var account = regexp.MustCompile(`^([A-Za-z0-9_.-]{1,80})(?:@([A-Za-z0-9_.:%-]{1,255}))?$`)

// PlanInstallation words the installation in the database that dsn names. The node's user is
// user[@host] (host localhost); clients are roles that transactions may run as.
func PlanInstallation(dsn, node string, clients ...string) (Installation, error) {
	_, name, err := parseDSN(dsn)
	if err != nil {
		return Installation{}, err
	}
	parts := account.FindStringSubmatch(node)
	if parts == nil {
		return Installation{}, fmt.Errorf("node's user %q, want user@host", node)
	}
	node = "'" + parts[1] + "'@'" + cmp.Or(parts[2], "localhost") + "'"
	admin := quoted(name.admin())
	p := Installation{
		Do: []string{
			"CREATE DATABASE IF NOT EXISTS %L CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
			"CREATE ROLE IF NOT EXISTS " + name.role(),
			"CREATE ROLE IF NOT EXISTS " + admin,
			"CREATE ROLE IF NOT EXISTS " + name.reader(),
			"GRANT ALL ON " + pattern(name.ledger()) + ".* TO " + name.role(),
			"GRANT SELECT, INSERT, UPDATE, DELETE, TRIGGER ON " + pattern(name.database) + ".* TO " + name.role(),
			"GRANT SELECT ON mysql.proc TO " + name.role(), // words of procedures
			"GRANT " + name.role() + " TO " + node,
			"GRANT " + name.reader() + " TO " + node,
		},
		Undo: []string{"DROP DATABASE %L", "DROP ROLE " + name.role(), "DROP ROLE " + admin, "DROP ROLE " + name.reader()},
	}
	for _, table := range slices.Concat(ledgerTables, deskTables) {
		p.Do = append(p.Do, "CREATE TABLE IF NOT EXISTS %L."+table+" ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin")
	}
	for _, table := range readTablesOf {
		p.Do = append(p.Do, "GRANT SELECT ON %L."+table+" TO "+name.reader())
	}
	for _, client := range clients {
		if !plainName.MatchString(client) {
			return Installation{}, fmt.Errorf("role %q, want a name of lower-case letters, digits and _", client)
		}
		p.Do = append(p.Do, "CREATE ROLE IF NOT EXISTS "+quoted(client), "GRANT "+quoted(client)+" TO "+node)
		p.Undo = append(p.Undo, "REVOKE "+quoted(client)+" FROM "+node)
	}
	do, undo := planDesk(name, clients)
	p.Do, p.Undo = append(p.Do, do...), append(undo, p.Undo...)
	for i := range p.Do {
		p.Do[i] = name.in(p.Do[i])
	}
	for i := range p.Undo {
		p.Undo[i] = name.in(p.Undo[i])
	}
	return p, nil
}

// Install makes the ledger's own database and its role. It gives this role and those of clients to
// the node's user. Installing again changes nothing. An administrator's dsn names the tables'
// database, which exists.
func Install(ctx context.Context, dsn, node string, clients ...string) error {
	p, err := PlanInstallation(dsn, node, clients...)
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	pool, _, err := openAdministrator(dsn)
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	defer func() { _ = pool.Close() }()
	conn, err := pool.Conn(ctx) // a setting of the session holds for later statements
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	defer func() { _ = conn.Close() }()
	for _, statement := range p.Do {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("install: %.60s: %w", statement, err)
		}
	}
	return nil
}

// claim names the chain that this database belongs to; the same values again are fine.
func claim(ctx context.Context, q querier, name names, chainID, organisation string) error {
	_, err := q.ExecContext(ctx, name.in(`INSERT IGNORE INTO %L.chain (only_one, chain_id, organisation) VALUES (1, ?, ?)`), chainID, organisation)
	var haveChain, haveOrganisation string
	if err == nil {
		err = q.QueryRowContext(ctx, name.in(`SELECT chain_id, organisation FROM %L.chain`)).Scan(&haveChain, &haveOrganisation)
	}
	if err == nil && (haveChain != chainID || haveOrganisation != organisation) {
		err = errors.New("the database belongs to another chain or organisation: " + haveChain + ", " + haveOrganisation)
	}
	if err != nil {
		return fmt.Errorf("name the chain: %w", err)
	}
	return nil
}
