"""Plain SQL through the ledger (docs/user/plain-sql.md), as far as a node that applies nothing can show it."""

from server import Server

LEDGER = """
    CREATE EXTENSION chainify;
    CREATE ROLE app LOGIN IN ROLE chainify_client;
    CREATE ROLE admin LOGIN IN ROLE chainify_admin;
    CREATE SCHEMA tenant2;
    CREATE TABLE checking (custid int PRIMARY KEY, balance int);
    CREATE TABLE tenant2.checking (custid int PRIMARY KEY, balance int);
    CREATE TABLE no_right (id int PRIMARY KEY, a int);
    CREATE TABLE child (id int PRIMARY KEY REFERENCES checking DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE local_t (id int);
    GRANT ALL ON checking, tenant2.checking, child, local_t TO app;
    GRANT USAGE ON SCHEMA tenant2 TO app;
    SELECT chainify_node.init('chain-a', 'acme', '[]')"""
EFFECTS = "SET chainify.writes = 'effects'"


class PlainSql(Server):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        attach = cls.block(3, "admin", "ATTACH TABLE public.checking, tenant2.checking, public.no_right, public.child")
        rows = "INSERT INTO checking SELECT i, 100 FROM generate_series(1, 2) i"
        out, err = cls.psql(LEDGER, attach, cls.block(1, "app", rows), cls.block(1, "app", rows.replace("checking", "tenant2.checking")), user="postgres")
        assert out.count("\\x01") == 3, out + err

    def test_a_statement_that_failed_leaves_the_next_block_alone(self):
        update = "UPDATE checking SET balance = 0 WHERE custid = 1"
        for before in ([], [update], ["SELECT 1"], ["SELECT 1", "SELECT 2"]):
            out, err = self.psql("SET chainify.writes = 'ledger'", "SET timezone = 'UTC'", "UPDATE no_right SET a = 1 WHERE id = 1",
                                 "BEGIN", *before, update, "ROLLBACK")
            self.assertEqual(err.count("ERROR:  42501"), 1, err)
            self.assertEqual(self.node.submissions, [], out)

    def kinds(self):
        return [statement[0] for _, statements in self.node.submissions for statement in statements]

    def test_what_submits_does_not_run_again(self):
        update = "UPDATE checking SET balance = 0 WHERE custid = 1"
        self.node.conflicts = 1
        self.assertEqual(self.psql(EFFECTS, update)[1], "")
        self.assertEqual(self.kinds(), [2] * 2)
        once = "CREATE FUNCTION once(immutable boolean) RETURNS int {} LANGUAGE plpgsql AS $$BEGIN PERFORM chainify.submit('ok'); RETURN 0; END$$"
        self.psql(once.format(""), once.replace("once", "folded").format("IMMUTABLE"), user="postgres")
        for statement in (update.replace("0", "once(true)"), update.replace("0", "folded(true)")):
            self.node.conflicts, self.node.submissions = 1, []
            self.fails("40001", EFFECTS, statement)
            self.assertEqual(self.kinds(), [1, 2], statement)

    def test_a_later_run_that_submits_is_the_last(self):
        self.psql("CREATE SEQUENCE runs", "GRANT USAGE ON SEQUENCE runs TO app", """CREATE FUNCTION later() RETURNS int LANGUAGE plpgsql AS
            $$BEGIN IF nextval('runs') % 2 = 0 THEN PERFORM chainify.submit('ok'); END IF; RETURN 0; END$$""", user="postgres")
        update = "UPDATE checking SET balance = later() WHERE custid = 1"
        self.node.conflicts, self.node.submissions = 2, []
        self.fails("40001", EFFECTS, update)
        self.assertEqual(self.kinds(), [2, 1, 2])

    def test_a_run_begins_with_the_settings_of_the_first(self):
        counted = "UPDATE checking SET balance = set_config('a.n', (current_setting('a.n')::int + 1)::text, false)::int WHERE custid = 1"
        self.node.conflicts, self.node.write_sets = 1, []
        out, err = self.psql(EFFECTS, "SET search_path = public", "SET a.n = 5", counted, "SHOW a.n")
        self.assertEqual((err, out.splitlines()[-1]), ("", "6"))
        first, second = self.node.write_sets
        self.assertEqual(first, second)

    def test_settings_of_a_commit_that_failed_are_undone(self):
        update = "UPDATE checking SET balance = 0 WHERE custid = 1"
        self.psql("CREATE ROLE clerk IN ROLE chainify_client", "GRANT clerk TO app", "GRANT ALL ON checking TO clerk", user="postgres")
        session = [EFFECTS, "SET random_page_cost = 1.25", "SET b.old = 'x y'"]
        changes = ["SET ROLE clerk", "SET search_path = tenant2", "SET random_page_cost = 7", "SET work_mem = '1MB'", "SET b.old = 'z'",
                   "SET bytea_output = 'escape'", "SET enable_seqscan = off", "SET LOCAL lock_timeout = '9s'"]
        procedure = "DO $$BEGIN " + "; ".join(changes) + f"; {update}; COMMIT; END$$"
        show = """SELECT concat_ws('|', current_user, current_setting('role'), current_setting('search_path'), current_setting('random_page_cost'),
            current_setting('work_mem'), current_setting('b.old'), current_setting('bytea_output'), current_setting('enable_seqscan'),
            current_setting('lock_timeout'), (SELECT source FROM pg_settings WHERE name = 'work_mem'))"""
        before = 'app|none|"$user", public|1.25|4MB|x y|hex|on|0|default'
        for block in (["BEGIN", *changes, update.replace("checking", "public.checking"), "COMMIT"],
                      ["BEGIN", "INSERT INTO local_t VALUES (1)", *changes, update.replace("checking", "public.checking"), "COMMIT"],
                      [procedure.replace("checking", "public.checking")]):
            self.node.conflicts, self.node.write_sets = 1, []
            out, err = self.psql(*session, *block, show)
            self.assertEqual((err.count("ERROR:  40001"), out.splitlines()[-1]), (1, before), err)
            out, err = self.psql(*session, *block, show)
            self.assertEqual((err, out.splitlines()[-1]), ("", "clerk|clerk|tenant2|7|1MB|z|escape|off|0|session"))

    def test_the_ledger_part_loses_nothing(self):
        update = "UPDATE checking SET balance = 1 WHERE custid = 1"
        large, _ = self.psql("SELECT lo_from_bytea(0, '\\x01')")
        for lost, named in (("SELECT pg_notify('c', 'x')", "what pg_notify changes"), ("SELECT lo_from_bytea(0, '\\x01')", "large objects"),
                            ("SELECT lo_create(0)", "large objects"), (f"SELECT lo_unlink({large})", "large objects"),
                            (f"SELECT lo_put({large}, 0, '\\x02')", "what lo_put changes"),
                            (f"SELECT lowrite(lo_open({large}, 131072), '\\x02')", "what lowrite changes"),
                            (f"SELECT lo_truncate(lo_open({large}, 131072), 0)", "what lo_truncate changes"),
                            ("SELECT pg_logical_emit_message(true, 'a', 'b')", "what pg_logical_emit_message changes"),
                            ("EXPLAIN ANALYZE CREATE TEMP TABLE kept AS SELECT 1", "database objects"),
                            ("EXPLAIN ANALYZE CREATE TEMP TABLE kept AS SELECT 1 WITH NO DATA", "database objects")):
            self.node.submissions = []
            err = self.fails("0A000", EFFECTS, "BEGIN", update, lost, "COMMIT")
            self.assertIn(f"this transaction has changed ledger tables and cannot change {named} now", err, lost)
            err = self.fails("0A000", EFFECTS, "BEGIN", "SAVEPOINT s", lost, update, "COMMIT")
            self.assertIn(f"this transaction has changed {named} and cannot change ledger tables now", err, lost)
            self.assertEqual(self.node.submissions, [], lost)
            for first in ([], ["SAVEPOINT s"]):
                self.assertEqual(self.psql(EFFECTS, "BEGIN", *first, lost, "ROLLBACK")[1], "", lost)
        self.assertEqual(self.psql(EFFECTS, "BEGIN", update, "EXPLAIN CREATE TABLE kept AS SELECT 1", f"SELECT lo_get({large})", "COMMIT")[1], "")

    def test_notifications_wait_for_the_order(self):
        update = "UPDATE checking SET balance = 1 WHERE custid = 1"
        heard = 'Asynchronous notification "c"'
        for notify in ("NOTIFY c", "SELECT pg_notify('c', '')"):
            block = ["BEGIN", notify, update, "COMMIT", "SELECT 1"]
            self.node.conflicts = 1
            out, err = self.psql(EFFECTS, "LISTEN c", *block)
            self.assertIn("ERROR:  40001", err)
            self.assertNotIn(heard, out)
            out, err = self.psql(EFFECTS, "LISTEN c", *block)
            self.assertEqual((err, out.count(heard)), ("", 1), out)
        channels = "SELECT count(*) FROM pg_listening_channels()"
        cursors = "SELECT count(*) FROM pg_cursors WHERE is_holdable"
        for change, kept in (("LISTEN d", channels), ("DECLARE k CURSOR WITH HOLD FOR SELECT 1", cursors)):
            for conflicts in (1, 0):
                self.node.conflicts = conflicts
                out, _ = self.psql(EFFECTS, "BEGIN", change, update, "COMMIT", kept)
                self.assertEqual(out.splitlines()[-1], str(1 - conflicts), change)

    def test_deferred_triggers_of_local_changes(self):
        self.psql("CREATE TABLE writes_t (id int)", "CREATE TABLE reads_t (id int)", "GRANT ALL ON writes_t, reads_t TO app",
                  "CREATE FUNCTION writes_t() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN UPDATE checking SET balance = balance - 1 WHERE custid = 1; RETURN NULL; END$$",
                  "CREATE FUNCTION reads_t() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM FROM checking WHERE custid = new.id; RETURN NULL; END$$",
                  "CREATE CONSTRAINT TRIGGER w AFTER INSERT ON writes_t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION writes_t()",
                  "CREATE CONSTRAINT TRIGGER r AFTER INSERT ON reads_t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION reads_t()", user="postgres")
        update = "UPDATE checking SET balance = 5 WHERE custid = 2"
        other = "UPDATE tenant2.checking SET balance = 5 WHERE custid = 2"
        repeatable = "BEGIN ISOLATION LEVEL REPEATABLE READ"
        clean = "DELETE FROM local_t; DELETE FROM writes_t; DELETE FROM reads_t"
        count = "SELECT (SELECT count(*) FROM local_t) + (SELECT count(*) FROM writes_t) + (SELECT count(*) FROM reads_t)"
        self.psql(clean)
        for begin, local, ledger, refused in (
                ("BEGIN", ["INSERT INTO writes_t VALUES (1)"], update, "change ledger tables"),
                (repeatable, ["INSERT INTO reads_t VALUES (1)"], update, 'read table "public.checking"')):
            self.node.submissions = []
            err = self.fails("0A000", EFFECTS, begin, *local, ledger, "COMMIT")
            self.assertIn(f"a deferred trigger of an earlier change cannot {refused}", err)
            self.assertEqual((self.node.submissions, self.psql(count)[0]), ([], "0"))
        self.fails("0A000", EFFECTS, "BEGIN", "INSERT INTO writes_t VALUES (1)", "COMMIT")
        for begin, local, ledger in ((repeatable, ["INSERT INTO local_t VALUES (1)", "INSERT INTO child VALUES (2)"], update),
                                     ("BEGIN", ["INSERT INTO reads_t VALUES (1)"], update),
                                     (repeatable, ["INSERT INTO reads_t VALUES (1)"], other),
                                     ("BEGIN", ["INSERT INTO writes_t VALUES (1)", "SET CONSTRAINTS ALL IMMEDIATE"], update)):
            self.node.submissions = []
            self.assertEqual(self.psql(EFFECTS, begin, *local, ledger, "COMMIT")[1], "", local)
            self.assertEqual((self.kinds(), self.psql(count)[0]), ([2], "1"), local)
            self.psql(clean)
