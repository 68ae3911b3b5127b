-- Smallbank (Alomari et al., "The Cost of Serializability on Platforms That Use Snapshot
-- Isolation", ICDE 2008): three tables, six transactions as functions. One that a bank would refuse
-- (too little money) returns false and changes nothing. So a transaction fails in no system, and
-- all systems do the same work.
CREATE SCHEMA smallbank;

CREATE TABLE smallbank.accounts (
    custid bigint PRIMARY KEY,
    name   text NOT NULL
);
CREATE TABLE smallbank.savings (
    custid  bigint PRIMARY KEY REFERENCES smallbank.accounts,
    balance numeric(14,2) NOT NULL CHECK (balance >= 0)
);
CREATE TABLE smallbank.checking (
    custid  bigint PRIMARY KEY REFERENCES smallbank.accounts,
    balance numeric(14,2) NOT NULL
);

CREATE FUNCTION smallbank.fill(customers bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO smallbank.accounts SELECT c, 'customer ' || c FROM generate_series(1, customers) c;
    INSERT INTO smallbank.savings SELECT c, 5000 + c % 1000 FROM generate_series(1, customers) c;
    INSERT INTO smallbank.checking SELECT c, 500 + c % 100 FROM generate_series(1, customers) c;
$$;

CREATE FUNCTION smallbank.balance(c bigint) RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT s.balance + k.balance FROM smallbank.savings s JOIN smallbank.checking k USING (custid) WHERE s.custid = c);
END
$$;

CREATE FUNCTION smallbank.deposit_checking(c bigint, v numeric) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE smallbank.checking SET balance = balance + v WHERE custid = c;
    RETURN FOUND;
END
$$;

CREATE FUNCTION smallbank.transact_savings(c bigint, v numeric) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE smallbank.savings SET balance = balance + v WHERE custid = c AND balance + v >= 0;
    RETURN FOUND;
END
$$;

-- The rows read are locked: with many clients a deposit in between would be lost.
CREATE FUNCTION smallbank.amalgamate(c bigint, d bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    total numeric;
BEGIN
    SELECT s.balance + k.balance INTO total
        FROM smallbank.savings s JOIN smallbank.checking k USING (custid) WHERE s.custid = c FOR UPDATE;
    UPDATE smallbank.savings SET balance = 0 WHERE custid = c;
    UPDATE smallbank.checking SET balance = 0 WHERE custid = c;
    UPDATE smallbank.checking SET balance = balance + total WHERE custid = d;
    RETURN FOUND;
END
$$;

CREATE FUNCTION smallbank.write_check(c bigint, v numeric) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    total numeric;
BEGIN
    SELECT s.balance + k.balance INTO total
        FROM smallbank.savings s JOIN smallbank.checking k USING (custid) WHERE s.custid = c;
    UPDATE smallbank.checking SET balance = balance - CASE WHEN total < v THEN v + 1 ELSE v END WHERE custid = c;
    RETURN FOUND;
END
$$;

CREATE FUNCTION smallbank.send_payment(c bigint, d bigint, v numeric) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE smallbank.checking SET balance = balance - v WHERE custid = c AND balance >= v;
    IF FOUND THEN
        UPDATE smallbank.checking SET balance = balance + v WHERE custid = d;
    END IF;
    RETURN FOUND;
END
$$;

-- The block without a ledger: the same calls in one transaction of one session. `kinds` numbers the
-- functions in the order in which they stand above.
CREATE FUNCTION smallbank.run_block(kinds int[], c bigint[], d bigint[], v numeric[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind int;
    i int := 0;
BEGIN
    FOREACH kind IN ARRAY kinds LOOP
        i := i + 1;
        CASE kind
            WHEN 0 THEN PERFORM smallbank.balance(c[i]);
            WHEN 1 THEN PERFORM smallbank.deposit_checking(c[i], v[i]);
            WHEN 2 THEN PERFORM smallbank.transact_savings(c[i], v[i]);
            WHEN 3 THEN PERFORM smallbank.amalgamate(c[i], d[i]);
            WHEN 4 THEN PERFORM smallbank.write_check(c[i], v[i]);
            WHEN 5 THEN PERFORM smallbank.send_payment(c[i], d[i], v[i]);
        END CASE;
    END LOOP;
END
$$;

-- The same with a subtransaction for each, as a ledger needs it to undo one transaction alone.
CREATE FUNCTION smallbank.run_block_subtransactions(kinds int[], c bigint[], d bigint[], v numeric[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind int;
    i int := 0;
BEGIN
    FOREACH kind IN ARRAY kinds LOOP
        i := i + 1;
        BEGIN
            CASE kind
                WHEN 0 THEN PERFORM smallbank.balance(c[i]);
                WHEN 1 THEN PERFORM smallbank.deposit_checking(c[i], v[i]);
                WHEN 2 THEN PERFORM smallbank.transact_savings(c[i], v[i]);
                WHEN 3 THEN PERFORM smallbank.amalgamate(c[i], d[i]);
                WHEN 4 THEN PERFORM smallbank.write_check(c[i], v[i]);
                WHEN 5 THEN PERFORM smallbank.send_payment(c[i], d[i], v[i]);
            END CASE;
        EXCEPTION WHEN integrity_constraint_violation THEN
            NULL;
        END;
    END LOOP;
END
$$;
