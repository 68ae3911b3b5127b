package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// plainProcedures are the session's own: they run in its database alone.
const plainProcedures = `
	CREATE OR REPLACE PROCEDURE pg_temp.fill(first int, last int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN first .. last LOOP
			INSERT INTO parents VALUES (i, 'p' || i);
			COMMIT;
		END LOOP;
	END $$;
	CREATE OR REPLACE PROCEDURE pg_temp.outer_fill(first int, last int) LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO parents VALUES (first, 'outer');
		CALL pg_temp.fill(first + 1, last - 1);
		INSERT INTO parents VALUES (last, 'outer too');
	END $$;
	CREATE OR REPLACE PROCEDURE pg_temp.every_second(first int, last int, INOUT kept int) LANGUAGE plpgsql AS $$
	BEGIN
		kept := 0;
		FOR i IN first .. last LOOP
			BEGIN
				INSERT INTO parents VALUES (i, 'p' || i);
				IF i = first + 1 THEN
					INSERT INTO parents VALUES (i, 'twice');
				END IF;
			EXCEPTION WHEN unique_violation THEN
				RAISE NOTICE 'again';
			END;
			IF i % 2 = 0 THEN
				COMMIT;
				kept := kept + 1;
			ELSE
				ROLLBACK;
			END IF;
		END LOOP;
	END $$;
	CREATE OR REPLACE PROCEDURE pg_temp.over_rows() LANGUAGE plpgsql AS $$
	DECLARE
		r record;
	BEGIN
		FOR r IN SELECT id FROM parents WHERE id BETWEEN 200 AND 399 ORDER BY id LOOP
			UPDATE parents SET note = 'row ' || r.id WHERE id = r.id;
			IF r.id % 40 = 0 THEN
				COMMIT;
			END IF;
		END LOOP;
	END $$`

var procedureCases = []plainCase{
	{"a procedure commits", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, plainProcedures)
		run(ctx, t, one, "CALL pg_temp.fill(100, 103)")
		idle(t, one)
		want(ctx, t, one, "SELECT name FROM parents WHERE id BETWEEN 100 AND 109 ORDER BY id", "p100", "p101", "p102", "p103")
		run(ctx, t, one, "CALL pg_temp.fill($1, $2)", 104, 105)
		idle(t, one)
		run(ctx, t, one, "CALL pg_temp.outer_fill(110, 113)")
		appears(ctx, t, acme, "SELECT FROM chainify_history.parents WHERE id BETWEEN 100 AND 119 HAVING count(DISTINCT (_block, _tx)) = 9")
		want(ctx, t, one, "SELECT name FROM parents WHERE id BETWEEN 104 AND 119 ORDER BY id", "p104", "p105", "outer", "p111", "p112", "outer too")
	}},
	{"a procedure commits and rolls back", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, plainProcedures)
		want(ctx, t, one, "CALL pg_temp.every_second(120, 124, 0)", "3")
		idle(t, one)
		want(ctx, t, one, "SELECT id::text FROM parents WHERE id BETWEEN 120 AND 129 ORDER BY id", "120", "122", "124")
		fails(ctx, t, one, "23505", "CALL pg_temp.fill(123, 126)")
		idle(t, one)
		want(ctx, t, one, "SELECT id::text FROM parents WHERE id BETWEEN 123 AND 129 ORDER BY id", "123", "124")
	}},
	{"a procedure commits in a loop over its rows", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, plainProcedures)
		run(ctx, t, one, "INSERT INTO parents SELECT i, 'p' || i FROM generate_series(200, 330) i")
		run(ctx, t, one, "CALL pg_temp.over_rows()")
		idle(t, one)
		want(ctx, t, one, "SELECT count(*)::text FROM parents WHERE note = 'row ' || id", "131")
		run(ctx, t, one, "DELETE FROM parents WHERE id BETWEEN 200 AND 399")
	}},
	{"DO commits, with settings, roles and local tables between", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, "CREATE TEMP TABLE done (id int)")
		run(ctx, t, one, `DO $$
			BEGIN
				INSERT INTO parents VALUES (130, 'p130');
				SET LOCAL lock_timeout = '7s';
				SET statement_timeout = '59s';
				PERFORM set_config('bank.branch', 'west', false);
				COMMIT;
				INSERT INTO done VALUES (130);
				COMMIT;
				INSERT INTO parents VALUES (131, 'p131');
				SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
				ROLLBACK;
				SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
				INSERT INTO parents VALUES (132, 'p132');
				COMMIT AND CHAIN;
				INSERT INTO parents VALUES (133, current_setting('transaction_isolation'));
			END $$`)
		idle(t, one)
		want(ctx, t, one, "SELECT name FROM parents WHERE id BETWEEN 130 AND 139 ORDER BY id", "p130", "p132", "repeatable read")
		want(ctx, t, one, "SELECT concat_ws(' ', id, current_setting('lock_timeout'), current_setting('statement_timeout'), current_setting('bank.branch'), current_setting('transaction_isolation')) FROM done",
			"130 0 59s west read committed")
		fails(ctx, t, one, "0A000", "DO $$ BEGIN INSERT INTO parents VALUES (134, 'p134'); COMMIT; INSERT INTO done VALUES (134); INSERT INTO parents VALUES (135, 'p135'); COMMIT; END $$")
		want(ctx, t, one, "SELECT id::text FROM parents WHERE id IN (134, 135) UNION ALL SELECT id::text FROM done WHERE id = 134", "134")
	}},
	{"a COMMIT of a procedure conflicts", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		run(ctx, t, two, "INSERT INTO parents VALUES (140, 'p140')")
		appears(ctx, t, acme, "SELECT FROM parents WHERE id = 140")
		failed := make(chan error, 1)
		run(ctx, t, one, "SET application_name = 'waits in a procedure'")
		go func() {
			_, err := one.Exec(ctx, `DO $$
				DECLARE seen parents;
				BEGIN
					INSERT INTO parents VALUES (141, 'p141');
					COMMIT;
					SELECT * INTO seen FROM parents WHERE id = 140 FOR UPDATE;
					PERFORM pg_sleep(60);
					UPDATE parents SET note = 'late' WHERE id = 140;
					COMMIT;
				END $$`)
			failed <- err
		}()
		appears(ctx, t, acme, "SELECT FROM pg_stat_activity WHERE application_name = 'waits in a procedure' AND wait_event = 'PgSleep'")
		run(ctx, t, two, "UPDATE parents SET note = 'first' WHERE id = 140")
		if err := <-failed; !strings.HasPrefix(describe(err), "40001") {
			t.Errorf("DO ended with %s", describe(err))
		}
		idle(t, one)
		appears(ctx, t, acme, "SELECT FROM parents WHERE id = 140 AND note = 'first'")
		want(ctx, t, one, "SELECT id::text FROM parents WHERE id = 141", "141")
	}},
	{"the order refuses a COMMIT of a procedure", func(ctx context.Context, t *testing.T, acme *harness.Organisation, one, two *pgx.Conn) {
		gate := plainSession(ctx, t, acme)
		run(ctx, t, gate, "SELECT pg_advisory_lock(140)")
		failed := make(chan error, 1)
		go func() {
			_, err := one.Exec(ctx, `DO $$
				BEGIN
					COMMIT;
					SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
					INSERT INTO parents SELECT 142, 'seen ' || note FROM parents WHERE id = 140;
					PERFORM pg_advisory_xact_lock(140);
					COMMIT;
				END $$`)
			failed <- err
		}()
		appears(ctx, t, acme, "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
		run(ctx, t, two, "UPDATE parents SET note = 'second' WHERE id = 140")
		appears(ctx, t, acme, "SELECT FROM parents WHERE id = 140 AND note = 'second'")
		run(ctx, t, gate, "SELECT pg_advisory_unlock(140)")
		if said := describe(<-failed); !strings.HasPrefix(said, "40001") || !strings.Contains(said, "ransaction") {
			t.Errorf("DO ended with %s", said)
		}
		idle(t, one)
		want(ctx, t, one, "SELECT id::text FROM parents WHERE id = 142")
	}},
	{"a procedure that may not COMMIT", func(ctx context.Context, t *testing.T, _ *harness.Organisation, one, _ *pgx.Conn) {
		run(ctx, t, one, plainProcedures)
		run(ctx, t, one, "BEGIN")
		fails(ctx, t, one, "2D000", "CALL pg_temp.fill(150, 151)")
		run(ctx, t, one, "ROLLBACK")
		fails(ctx, t, one, "2D000", "INSERT INTO parents VALUES (150, 'p150'); CALL pg_temp.fill(151, 152)")
		fails(ctx, t, one, "2D000", "DO $$ BEGIN BEGIN INSERT INTO parents VALUES (150, 'p150'); COMMIT; EXCEPTION WHEN unique_violation THEN NULL; END; END $$")
		idle(t, one)
		want(ctx, t, one, "SELECT id::text FROM parents WHERE id BETWEEN 150 AND 159")
		run(ctx, t, one, "DO $$ BEGIN INSERT INTO parents VALUES (150, 'p150'); END $$")
		want(ctx, t, one, "SELECT id::text FROM parents WHERE id BETWEEN 150 AND 159", "150")
	}},
}
