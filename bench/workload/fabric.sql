-- Smallbank as Fabric++ has it (Sharma, dissertation, section 3.6.2): two accounts for each
-- customer, five transactions that change them and one that reads. No transaction looks whether
-- there is enough money. Rows that may stay as they are get locked, so that they are compared.
CREATE SCHEMA fabric;

CREATE TABLE fabric.savings (
    custid  bigint PRIMARY KEY,
    balance bigint NOT NULL
);
CREATE TABLE fabric.checking (
    custid  bigint PRIMARY KEY,
    balance bigint NOT NULL
);

CREATE FUNCTION fabric.fill(customers bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO fabric.savings SELECT c, 100000000000 + c % 1000 FROM generate_series(1, customers) c;
    INSERT INTO fabric.checking SELECT c, 100000000000 + c % 1000 FROM generate_series(1, customers) c;
$$;

CREATE FUNCTION fabric.query(c bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    saved bigint;
    total bigint;
BEGIN
    SELECT balance INTO saved FROM fabric.savings WHERE custid = c;
    SELECT balance INTO total FROM fabric.checking WHERE custid = c;
    RETURN total + saved;
END
$$;

CREATE FUNCTION fabric.transact_savings(c bigint, v bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fabric.savings SET balance = balance + v WHERE custid = c;
END
$$;

CREATE FUNCTION fabric.deposit_checking(c bigint, v bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fabric.checking SET balance = balance + v WHERE custid = c;
END
$$;

CREATE FUNCTION fabric.write_check(c bigint, v bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fabric.checking SET balance = balance - v WHERE custid = c;
END
$$;

CREATE FUNCTION fabric.send_payment(c bigint, d bigint, v bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fabric.checking SET balance = balance - v WHERE custid = c;
    UPDATE fabric.checking SET balance = balance + v WHERE custid = d;
END
$$;

-- All that the customer has saved becomes the other's. The amount may be nothing.
CREATE FUNCTION fabric.amalgamate(c bigint, d bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    saved bigint;
BEGIN
    SELECT balance INTO saved FROM fabric.savings WHERE custid = c FOR UPDATE;
    PERFORM 1 FROM fabric.checking WHERE custid = d FOR UPDATE;
    UPDATE fabric.savings SET balance = 0 WHERE custid = c;
    UPDATE fabric.checking SET balance = balance + saved WHERE custid = d;
END
$$;
