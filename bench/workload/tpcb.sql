-- The tables and two transactions of pgbench's own scripts, and the table and the transaction of
-- sysbench's oltp_write_only, in a size of their own. A row is as wide as theirs.
CREATE SCHEMA tpcb;

CREATE TABLE tpcb.branch (bid int PRIMARY KEY, bbalance int NOT NULL, filler char(88));
CREATE TABLE tpcb.teller (tid int PRIMARY KEY, bid int NOT NULL, tbalance int NOT NULL, filler char(84));
CREATE TABLE tpcb.account (aid int PRIMARY KEY, bid int NOT NULL, abalance int NOT NULL, filler char(84));
-- A ledger table has a primary key, which pgbench's has not.
CREATE TABLE tpcb.history (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tid int, bid int, aid int, delta int, mtime timestamptz, filler char(22));
CREATE TABLE tpcb.sbtest (id int PRIMARY KEY, k int NOT NULL, c char(120) NOT NULL, pad char(60) NOT NULL);
CREATE INDEX ON tpcb.sbtest (k);
CREATE TABLE tpcb.hot (id int PRIMARY KEY, v bigint NOT NULL);

-- Groups of eleven digits, as sysbench fills its rows.
CREATE FUNCTION tpcb.digits(n int, groups int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT repeat(lpad(n::text, 11, '0') || '-', groups)
$$;

CREATE FUNCTION tpcb.fill(branches int, tellers int, accounts int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO tpcb.branch SELECT b, 0 FROM generate_series(1, branches) b;
    INSERT INTO tpcb.teller SELECT t, (t - 1) / tellers + 1, 0 FROM generate_series(1, branches * tellers) t;
    INSERT INTO tpcb.account SELECT a, (a - 1) / accounts + 1, 0, '' FROM generate_series(1, branches * accounts) a;
    INSERT INTO tpcb.sbtest SELECT i, i, tpcb.digits(i, 10), tpcb.digits(i, 5) FROM generate_series(1, branches * accounts) i;
    INSERT INTO tpcb.hot SELECT i, 0 FROM generate_series(1, 10) i;
$$;

CREATE FUNCTION tpcb.tpcb_like(of_account int, of_teller int, of_branch int, change int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    balance int;
BEGIN
    UPDATE tpcb.account SET abalance = abalance + change WHERE aid = of_account;
    SELECT abalance INTO balance FROM tpcb.account WHERE aid = of_account;
    UPDATE tpcb.teller SET tbalance = tbalance + change WHERE tid = of_teller;
    UPDATE tpcb.branch SET bbalance = bbalance + change WHERE bid = of_branch;
    INSERT INTO tpcb.history (tid, bid, aid, delta, mtime) VALUES (of_teller, of_branch, of_account, change, CURRENT_TIMESTAMP);
    RETURN balance;
END
$$;

CREATE FUNCTION tpcb.simple_update(of_account int, of_teller int, of_branch int, change int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    balance int;
BEGIN
    UPDATE tpcb.account SET abalance = abalance + change WHERE aid = of_account;
    SELECT abalance INTO balance FROM tpcb.account WHERE aid = of_account;
    INSERT INTO tpcb.history (tid, bid, aid, delta, mtime) VALUES (of_teller, of_branch, of_account, change, CURRENT_TIMESTAMP);
    RETURN balance;
END
$$;

CREATE FUNCTION tpcb.write_only(indexed int, other int, replaced int, number int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tpcb.sbtest SET k = k + 1 WHERE id = indexed;
    UPDATE tpcb.sbtest SET c = tpcb.digits(number, 10) WHERE id = other;
    DELETE FROM tpcb.sbtest WHERE id = replaced;
    INSERT INTO tpcb.sbtest VALUES (replaced, number, tpcb.digits(number, 10), tpcb.digits(number, 5));
END
$$;
