package faults

import (
	"context"
	"fmt"

	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const (
	countersSQL = `REVOKE DELETE ON accounts FROM bank;
		CREATE TABLE counters (client int PRIMARY KEY, n bigint NOT NULL DEFAULT 0, deposited bigint NOT NULL DEFAULT 0, attempt bigint NOT NULL DEFAULT 0);
		INSERT INTO counters (client) SELECT seq FROM %s; GRANT SELECT, UPDATE ON counters TO bank, dba; `

	// The procedures of the load in a network of several engines: each pays money in, or moves it
	// and fails where too little is left.
	proceduresPostgres = `ALTER TABLE counters OWNER TO dba;
		CREATE PROCEDURE public.deposit(caller bigint, account bigint, amount bigint) LANGUAGE sql AS $$
			UPDATE checking SET balance = balance + amount WHERE custid = account;
			UPDATE counters SET n = n + 1, deposited = deposited + amount WHERE client = caller;
		$$;
		CREATE PROCEDURE public.pay(caller bigint, source bigint, target bigint, amount bigint) LANGUAGE plpgsql AS $$
		DECLARE rest numeric;
		BEGIN
			UPDATE savings SET balance = balance - amount WHERE custid = source;
			UPDATE checking SET balance = balance + amount WHERE custid = target;
			UPDATE counters SET n = n + 1 WHERE client = caller;
			SELECT balance INTO rest FROM savings WHERE custid = source;
			IF rest < 0 THEN
				RAISE EXCEPTION 'too little is left';
			END IF;
		END $$`
	proceduresMariaDB = mariadb.ProcedureSettings + `;
		CREATE PROCEDURE deposit(caller BIGINT, account BIGINT, amount BIGINT) SQL SECURITY INVOKER
		BEGIN
			UPDATE checking SET balance = balance + amount WHERE custid = account;
			UPDATE counters SET n = n + 1, deposited = deposited + amount WHERE client = caller;
		END;
		CREATE PROCEDURE pay(caller BIGINT, source BIGINT, target BIGINT, amount BIGINT) SQL SECURITY INVOKER
		BEGIN
			DECLARE rest DECIMAL(14,2);
			UPDATE savings SET balance = balance - amount WHERE custid = source;
			UPDATE checking SET balance = balance + amount WHERE custid = target;
			UPDATE counters SET n = n + 1 WHERE client = caller;
			SELECT balance INTO rest FROM savings WHERE custid = source;
			IF rest < 0 THEN
				SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'too little is left';
			END IF;
		END;
		GRANT EXECUTE ON PROCEDURE deposit TO bank; GRANT EXECUTE ON PROCEDURE pay TO bank`
)

// procedures are those to attach, with the types of their parameters.
var procedures = []struct{ name, types string }{{"deposit", "bigint, bigint, bigint"}, {"pay", "bigint, bigint, bigint, bigint"}}

// countersOf words the table of counters for one organisation; in a network of several engines the
// procedures too.
func countersOf(o *harness.Organisation, clients int, several bool) string {
	numbers, more := fmt.Sprintf("generate_series(1, %d) seq", clients), ""
	switch {
	case o.MariaDB != nil:
		numbers, more = fmt.Sprintf("seq_1_to_%d", clients), proceduresMariaDB
	case several:
		more = proceduresPostgres
	}
	return fmt.Sprintf(countersSQL, numbers) + more
}

// attachPortable puts counters and procedures on the ledger of several engines.
func attachPortable(ctx context.Context, net *harness.Network) error {
	dba, err := net.Organisations[0].Client(ctx, "dba")
	if err != nil {
		return err
	}
	defer dba.Close()
	if err := dba.Deploy(ctx, "ATTACH TABLE public.counters ENCODING 2"); err != nil {
		return err
	}
	for _, p := range procedures {
		text, err := net.ProcedureAttached(ctx, p.name, p.types)
		if err != nil {
			return err
		}
		if err := dba.Deploy(ctx, text); err != nil {
			return err
		}
	}
	return nil
}
