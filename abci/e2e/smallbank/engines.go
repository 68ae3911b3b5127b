package smallbank

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// AttachEngines is the DEPLOY transaction that puts the tables of a Bank with Engines on the
// ledger.
const AttachEngines = "ATTACH TABLE public.accounts, public.savings, public.checking ENCODING 2"

const (
	enginesSchema = `CREATE TABLE accounts (custid bigint PRIMARY KEY, name %s NOT NULL);
		CREATE TABLE savings (custid bigint PRIMARY KEY REFERENCES accounts (custid), balance decimal(14,2) NOT NULL);
		CREATE TABLE checking (custid bigint PRIMARY KEY REFERENCES accounts (custid), balance decimal(14,2) NOT NULL);
		INSERT INTO accounts SELECT %[2]s, concat('customer ', %[2]s) FROM %[3]s;
		INSERT INTO savings SELECT %[2]s, 5000 + %[2]s %% 1000 FROM %[3]s;
		INSERT INTO checking SELECT %[2]s, 500 + %[2]s %% 100 FROM %[3]s`
	ownersPostgres = "; ALTER TABLE accounts OWNER TO dba; ALTER TABLE savings OWNER TO dba; ALTER TABLE checking OWNER TO dba"
	rolesMariaDB   = `GRANT SELECT, INSERT, UPDATE, DELETE ON accounts TO bank, dba; GRANT SELECT, INSERT, UPDATE, DELETE ON savings TO bank, dba;
		GRANT SELECT, INSERT, UPDATE, DELETE ON checking TO bank, dba; GRANT bank_admin TO dba;
		CREATE USER %[1]s@localhost, %[2]s@localhost; GRANT bank TO %[1]s@localhost; GRANT dba TO %[2]s@localhost;
		SET DEFAULT ROLE bank FOR %[1]s@localhost; SET DEFAULT ROLE dba FOR %[2]s@localhost`
)

// createEngines makes and fills the tables that all engines can have.
func (b Bank) createEngines(ctx context.Context, o *harness.Organisation) error {
	text, numbers := "text", fmt.Sprintf("generate_series(1, %d) seq", b.Customers)
	if o.MariaDB != nil {
		text, numbers = "LONGTEXT", fmt.Sprintf("seq_1_to_%d", b.Customers)
	}
	if err := o.Administer(ctx, fmt.Sprintf(enginesSchema, text, "seq", numbers)); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}

// rolesOf words the roles for one organisation.
func (b Bank) rolesOf(ctx context.Context, o *harness.Organisation) (string, error) {
	if o.MariaDB != nil {
		return fmt.Sprintf(rolesMariaDB, harness.Login("bank"), harness.Login("dba")), o.InstallMariaDB(ctx, "bank", "dba")
	}
	roles, err := os.ReadFile(filepath.Join(b.Scripts, "setup", "roles.sql"))
	if b.Engines {
		roles = append(roles, ownersPostgres...)
	}
	return string(roles), err
}

// attach puts the tables on the ledger, through one organisation for all.
func (b Bank) attach(ctx context.Context, o *harness.Organisation) error {
	if !b.Engines {
		return Attach(ctx, o)
	}
	dba, err := o.Client(ctx, "dba")
	if err != nil {
		return err
	}
	defer dba.Close()
	return dba.Deploy(ctx, AttachEngines)
}
