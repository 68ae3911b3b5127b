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
    CREATE TABLE local_t (id int);
    GRANT ALL ON checking, tenant2.checking, local_t TO app;
    GRANT USAGE ON SCHEMA tenant2 TO app;
    SELECT chainify_node.init('chain-a', 'acme', '[]')"""
EFFECTS = "SET chainify.writes = 'effects'"


class PlainSql(Server):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        attach = cls.block(3, "admin", "ATTACH TABLE public.checking, tenant2.checking, public.no_right")
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
