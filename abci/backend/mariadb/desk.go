package mariadb

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Bounds of what clients ask for by SQL. Several that ask at the same moment may exceed those of
// the queue by one each.
const (
	askedMax      = 10_000   // requests that no node has taken
	askedBytesMax = 64 << 20 // their statements and parameters
	askedOfOneMax = 1_000    // of one login
	waitMaxMS     = 600_000  // for which a client waits
	answersKept   = 20       // minutes; no client waits for longer
	forgetEvery   = time.Minute
)

// deskTables are of clients that submit by SQL. Nobody but the ledger's role has rights on them:
// procedures that run with its rights are the only way in.
var deskTables = []string{
	// An id is uuid_short(), so that ids follow the order of requests. After expires, in seconds of
	// Unix, the client waits no more.
	`request (id BIGINT UNSIGNED PRIMARY KEY, login VARCHAR(128) NOT NULL, role VARCHAR(63) NOT NULL, kind VARCHAR(8) NOT NULL,
		statement LONGTEXT NOT NULL, parameters LONGTEXT, size INT NOT NULL, expires BIGINT NOT NULL)`,
	// transaction is NULL when nothing was submitted. sql_state says why there is no block.
	`answer (id BIGINT UNSIGNED PRIMARY KEY, transaction BINARY(32), sql_state CHAR(5), message VARCHAR(500), made_at DATETIME(6) NOT NULL)`,
}

// ledgerProcedures run with the rights of the ledger's role, in transactions of single statements:
// the client is in none. They look by SELECT … INTO, since a query within IF locks what it reads.
//
// A session that may execute submit_ROLE has this role, so no client speaks for another. A request
// is known to its procedure alone, which deletes the answer. Cost: a look every few milliseconds
// while a client waits.
var ledgerProcedures = []string{
	fmt.Sprintf(`submit(client VARCHAR(63), asked_kind VARCHAR(8), asked LONGTEXT, asked_parameters LONGTEXT)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
	DECLARE asked_id BIGINT UNSIGNED DEFAULT uuid_short();
	DECLARE bytes BIGINT DEFAULT octet_length(asked) + coalesce(octet_length(asked_parameters), 0);
	DECLARE limit_ms BIGINT DEFAULT least(greatest(coalesce(@chainify_wait_timeout, 30000), 0), %d);
	DECLARE waited, pause, found BIGINT DEFAULT 0;
	DECLARE who VARCHAR(128) DEFAULT left(user(), 128);
	DECLARE submitted BINARY(32) DEFAULT NULL;
	DECLARE state CHAR(5) DEFAULT NULL;
	DECLARE why VARCHAR(500) DEFAULT NULL;
	IF @@in_transaction THEN
		SIGNAL SQLSTATE '25001' SET MESSAGE_TEXT = 'a transaction is open, and what is submitted is no part of it: COMMIT or ROLLBACK first';
	ELSEIF bytes IS NULL OR asked_kind IS NULL THEN
		SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'the statement is NULL';
	ELSEIF bytes > %d THEN
		SIGNAL SQLSTATE '54000' SET MESSAGE_TEXT = 'the statement and its parameters are longer than %d bytes';
	END IF;
	SELECT count(*) >= %d OR coalesce(sum(size), 0) + bytes > %d OR coalesce(sum(login = who), 0) >= %d INTO found FROM %%L.request;
	COMMIT;
	IF found THEN
		SIGNAL SQLSTATE '53400' SET MESSAGE_TEXT = 'too many requests wait for the node: submit again later';
	END IF;
	INSERT INTO %%L.request (id, login, role, kind, statement, parameters, size, expires)
		VALUES (asked_id, who, client, asked_kind, asked, asked_parameters, bytes, unix_timestamp(sysdate()) + 1 + limit_ms DIV 1000);
	COMMIT;
	BEGIN -- a failure here is none of the transaction that was submitted
		DECLARE CONTINUE HANDLER FOR 1205, 1213 BEGIN END;
		taken: LOOP
			SELECT count(*) INTO found FROM %%L.answer WHERE id = asked_id;
			COMMIT;
			IF found THEN
				LEAVE taken;
			END IF;
			IF waited >= limit_ms THEN
				DELETE FROM %%L.request WHERE id = asked_id;
				SET found = row_count();
				COMMIT;
				IF found = 1 THEN
					SIGNAL SQLSTATE '08001' SET MESSAGE_TEXT = 'the node takes no requests, and nothing was submitted: it is not running, or does not reach this database';
				END IF;
				LEAVE taken;
			END IF;
			SET pause = least(1 + waited DIV 20, 20), waited = waited + pause;
			DO sleep(pause / 1000);
		END LOOP;
		ordered: LOOP
			SELECT transaction, sql_state, message INTO submitted, state, why FROM %%L.answer WHERE id = asked_id;
			SELECT count(*) INTO found FROM %%L."transaction" WHERE id = submitted;
			COMMIT;
			IF state IS NOT NULL OR found OR waited >= limit_ms THEN
				LEAVE ordered;
			END IF;
			SET pause = least(2 + waited DIV 40, 20), waited = waited + pause;
			DO sleep(pause / 1000);
		END LOOP;
		DELETE FROM %%L.answer WHERE id = asked_id;
		COMMIT;
	END;
	CALL %%L.tell(submitted, state, why);
	COMMIT;
END`, waitMaxMS, wire.ProposalBytesMax, wire.ProposalBytesMax, askedMax, askedBytesMax, askedOfOneMax),
	// tell is the answer: a row, or the reason why there is none.
	`tell(submitted BINARY(32), state CHAR(5), why VARCHAR(500)) READS SQL DATA SQL SECURITY DEFINER
BEGIN
	DECLARE found BIGINT;
	SELECT count(*) INTO found FROM %L."transaction" WHERE id = submitted;
	IF found THEN
		SELECT lower(hex(id)) AS id, block, place AS "index", outcome, row_count AS "rows", nullif(sql_state, '') AS "sqlstate", nullif(error, '') AS error
			FROM %L."transaction" WHERE id = submitted;
	ELSEIF state IS NOT NULL AND submitted IS NOT NULL THEN
		SELECT lower(hex(submitted)) AS id, 0 AS block, 0 AS "index", FALSE AS outcome, 0 AS "rows", state AS "sqlstate", why AS error;
	ELSEIF state IS NOT NULL THEN
		EXECUTE IMMEDIATE concat('SIGNAL SQLSTATE ''', state, ''' SET MESSAGE_TEXT = ''', replace(why, '''', ''''''), '''');
	ELSE
		EXECUTE IMMEDIATE concat('SIGNAL SQLSTATE ''57P03'' SET MESSAGE_TEXT = ''the outcome is not known yet: CALL chainify_wait(''''',
			lower(hex(coalesce(submitted, ''))), ''''')''');
	END IF;
END`,
	fmt.Sprintf(`wait_for(asked CHAR(64)) READS SQL DATA SQL SECURITY DEFINER
BEGIN
	DECLARE limit_ms BIGINT DEFAULT least(greatest(coalesce(@chainify_wait_timeout, 30000), 0), %d);
	DECLARE waited, found BIGINT DEFAULT 0;
	DECLARE submitted BINARY(32) DEFAULT unhex(asked);
	IF @@in_transaction THEN
		SIGNAL SQLSTATE '25001' SET MESSAGE_TEXT = 'a transaction is open, and may see no later outcome: COMMIT or ROLLBACK first';
	ELSEIF asked IS NULL OR NOT asked RLIKE '^[0-9a-f]{64}$' THEN
		SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'an id has 64 hexadecimal digits';
	END IF;
	SELECT count(*) INTO found FROM %%L."transaction" WHERE id = submitted;
	WHILE NOT found AND waited < limit_ms DO
		COMMIT;
		SET waited = waited + 20;
		DO sleep(0.02);
		SELECT count(*) INTO found FROM %%L."transaction" WHERE id = submitted;
	END WHILE;
	CALL %%L.tell(submitted, NULL, NULL);
	COMMIT;
END`, waitMaxMS),
}

// clientProcedures are the procedures that clients call, with their own rights.
var clientProcedures = map[string]string{
	"chainify_execute": `(statement LONGTEXT, parameters LONGTEXT) MODIFIES SQL DATA SQL SECURITY INVOKER
	EXECUTE IMMEDIATE concat('CALL %L."submit_', replace(coalesce(current_role(), ''), '"', ''), '"(''sql'', ?, ?)') USING statement, parameters`,
	"chainify_deploy": `(statement LONGTEXT) MODIFIES SQL DATA SQL SECURITY INVOKER
	EXECUTE IMMEDIATE concat('CALL %L."submit_', replace(coalesce(current_role(), ''), '"', ''), '"(''deploy'', ?, NULL)') USING statement`,
	"chainify_wait": `(id CHAR(64)) READS SQL DATA SQL SECURITY INVOKER CALL %L.wait_for(id)`,
}

// endHolders ends the connections that have held rows for so many microseconds which a connection
// waits for. It runs with the rights of the administrator who installs: to see and end the sessions
// of others are rights on the whole server, which the node's user does not get.
const endHolders = `end_holders(waiter BIGINT UNSIGNED, grace_us BIGINT) MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
	DECLARE holder BIGINT UNSIGNED;
	DECLARE done BOOLEAN DEFAULT FALSE;
	DECLARE holders CURSOR FOR SELECT DISTINCT h.trx_mysql_thread_id FROM information_schema.INNODB_LOCK_WAITS l
		JOIN information_schema.INNODB_TRX w ON w.trx_id = l.requesting_trx_id JOIN information_schema.INNODB_TRX h ON h.trx_id = l.blocking_trx_id
		WHERE w.trx_mysql_thread_id = waiter AND w.trx_wait_started <= now(6) - INTERVAL grace_us MICROSECOND;
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE;
	OPEN holders;
	FETCH holders INTO holder;
	WHILE NOT done DO
		BEGIN
			DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; -- it is gone
			KILL CONNECTION holder;
		END;
		FETCH holders INTO holder;
	END WHILE;
END`

// planDesk are the statements that let roles of clients submit by SQL.
func planDesk(name names, clients []string) (do, undo []string) {
	do = []string{"SET SESSION sql_mode = '" + modes + "'"}
	for _, procedure := range ledgerProcedures {
		do = append(do, "CREATE OR REPLACE DEFINER = "+name.role()+" PROCEDURE %L."+procedure)
	}
	do = append(do, "CREATE OR REPLACE PROCEDURE %L."+endHolders)
	for _, called := range slices.Sorted(maps.Keys(clientProcedures)) {
		do = append(do, "CREATE OR REPLACE PROCEDURE %D."+called+clientProcedures[called])
		undo = append(undo, "DROP PROCEDURE %D."+called)
	}
	do = append(do, "CREATE OR REPLACE DEFINER = "+name.role()+" FUNCTION %L."+digestFunction+"(asked VARCHAR(64)) RETURNS CHAR(64) READS SQL DATA SQL SECURITY DEFINER "+
		"RETURN (SELECT "+wordingOfProcedure+" FROM mysql.proc WHERE db = '"+name.database+"' AND type = 'PROCEDURE' AND name = asked)")
	for _, reader := range []string{quoted(name.admin()), name.reader()} {
		do = append(do, "GRANT EXECUTE ON FUNCTION %L."+digestFunction+" TO "+reader)
	}
	for _, client := range clients {
		// With the rights of this role alone: the node's user has others, which a body could take.
		do = append(do, "CREATE OR REPLACE DEFINER = "+quoted(client)+" PROCEDURE %L."+quoted("call_"+client)+
			"(statement LONGTEXT) MODIFIES SQL DATA SQL SECURITY DEFINER EXECUTE IMMEDIATE statement",
			"GRANT EXECUTE ON PROCEDURE %L."+quoted("call_"+client)+" TO "+quoted(client)) // a definer has no right to call by itself
		own := "%L." + quoted("submit_"+client)
		do = append(do, "CREATE OR REPLACE DEFINER = "+name.role()+" PROCEDURE "+own+
			"(kind VARCHAR(8), statement LONGTEXT, parameters LONGTEXT) MODIFIES SQL DATA SQL SECURITY DEFINER CALL %L.submit('"+client+"', kind, statement, parameters)")
		for _, routine := range []string{own, "%L.wait_for", "%D.chainify_execute", "%D.chainify_deploy", "%D.chainify_wait"} {
			do = append(do, "GRANT EXECUTE ON PROCEDURE "+routine+" TO "+quoted(client))
		}
	}
	return do, undo
}

// Asked are the oldest requests of clients that still wait, at most so many. Every minute it
// forgets old answers.
func (b *Backend) Asked(ctx context.Context, most int) ([]backend.Asked, error) {
	rows, err := b.pool.QueryContext(ctx, b.name.in(`SELECT id, role, kind, statement, coalesce(parameters, ''), expires <= unix_timestamp() FROM %L.request ORDER BY id LIMIT ?`), most)
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	var asked []backend.Asked
	var late []string
	err = each(rows, func() error {
		var a backend.Asked
		var gone bool
		if err := rows.Scan(&a.Number, &a.Role, &a.Kind, &a.SQL, &a.Parameters, &gone); err != nil {
			return err
		}
		if gone {
			late = append(late, fmt.Sprint(a.Number))
		} else {
			asked = append(asked, a)
		}
		return nil
	})
	if err == nil && len(late) > 0 {
		_, err = b.pool.ExecContext(ctx, b.name.in("DELETE %L.request FROM %L.request FORCE INDEX (PRIMARY) WHERE id IN (")+strings.Join(late, ",")+")")
	}
	if now := time.Now(); err == nil && now.Sub(b.forgot) > forgetEvery {
		b.forgot, err = now, b.forget(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	return asked, nil
}

// forget deletes answers that nobody reads any more. It takes no lock of others.
func (b *Backend) forget(ctx context.Context) error {
	rows, err := b.pool.QueryContext(ctx, b.name.in("SELECT id FROM %L.answer WHERE made_at < utc_timestamp(6) - INTERVAL ? MINUTE LIMIT 10000"), answersKept)
	if err != nil {
		return err
	}
	var old []string
	err = each(rows, func() error {
		var number uint64
		if err := rows.Scan(&number); err != nil {
			return err
		}
		old = append(old, fmt.Sprint(number))
		return nil
	})
	if err == nil && len(old) > 0 {
		_, err = b.pool.ExecContext(ctx, b.name.in("DELETE %L.answer FROM %L.answer FORCE INDEX (PRIMARY) WHERE id IN (")+strings.Join(old, ",")+")")
	}
	return err
}

// Take answers requests for good, but for those that their clients have withdrawn: the numbers of
// the others.
func (b *Backend) Take(ctx context.Context, answers []backend.Answer) (taken []uint64, err error) {
	tx, err := b.pool.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("take requests: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	byNumber := map[uint64]*backend.Answer{}
	numbers := make([]string, len(answers))
	for i := range answers {
		byNumber[answers[i].Number] = &answers[i]
		numbers[i] = fmt.Sprint(answers[i].Number)
	}
	// By the key alone: a scan would wait for requests that clients have not committed.
	in := b.name.in(" FROM %L.request FORCE INDEX (PRIMARY) WHERE id IN (") + strings.Join(numbers, ",") + ")"
	rows, err := tx.QueryContext(ctx, "SELECT id"+in+" FOR UPDATE SKIP LOCKED")
	if err != nil {
		return nil, fmt.Errorf("take requests: %w", err)
	}
	var values []string
	var arguments []any
	err = each(rows, func() error {
		var number uint64
		if err := rows.Scan(&number); err != nil {
			return err
		}
		taken = append(taken, number)
		values = append(values, "(?, ?, ?, ?, utc_timestamp(6))")
		arguments = append(arguments, number)
		arguments = append(arguments, columnsOf(byNumber[number])...)
		return nil
	})
	if err == nil && len(taken) > 0 {
		_, err = tx.ExecContext(ctx, b.name.in("INSERT INTO %L.answer (id, transaction, sql_state, message, made_at) VALUES ")+strings.Join(values, ","), arguments...)
	}
	if err == nil && len(taken) > 0 {
		_, err = tx.ExecContext(ctx, b.name.in("DELETE %L.request")+in)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return nil, fmt.Errorf("take requests: %w", err)
	}
	return taken, nil
}

// Change corrects the answer to a request that was taken.
func (b *Backend) Change(ctx context.Context, a backend.Answer) error {
	_, err := b.pool.ExecContext(ctx, b.name.in("UPDATE %L.answer SET transaction = ?, sql_state = ?, message = ? WHERE id = ?"), append(columnsOf(&a), a.Number)...)
	if err != nil {
		return fmt.Errorf("change an answer: %w", err)
	}
	return nil
}

const answerTextMax = 500

// columnsOf spells an answer. Its text stands between quotes in a procedure.
func columnsOf(a *backend.Answer) []any {
	var tx []byte
	if a.Transaction != (wire.TxID{}) {
		tx = a.Transaction[:]
	}
	text := []rune(strings.NewReplacer(`\`, "/", "'", `"`, "\x00", "").Replace(strings.ToValidUTF8(a.Message, "")))
	return []any{tx, sql.NullString{String: a.SQLState, Valid: a.SQLState != ""}, string(text[:min(len(text), answerTextMax)])}
}
