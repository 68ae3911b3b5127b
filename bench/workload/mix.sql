-- The custom workload of Fabric++ (Sharma et al., SIGMOD 2019, section 6.2): accounts that
-- transactions read and write.
CREATE SCHEMA mix;

CREATE TABLE mix.account (
    id      bigint PRIMARY KEY,
    balance bigint NOT NULL
);

CREATE FUNCTION mix.fill(accounts bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO mix.account SELECT a, 1000 FROM generate_series(1, accounts) a;
$$;

-- The values written depend on the values read.
CREATE FUNCTION mix.read_write(reads bigint[], writes bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    total bigint;
BEGIN
    SELECT sum(balance) INTO total FROM mix.account WHERE id = ANY (reads);
    UPDATE mix.account SET balance = balance + 1 + total % 2 WHERE id = ANY (writes);
    RETURN total;
END
$$;

-- The same for a session that has its changes ordered: the rows read are locked.
CREATE FUNCTION mix.see_and_write(reads bigint[], writes bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    total bigint;
BEGIN
    SELECT sum(balance) INTO total FROM (SELECT balance FROM mix.account WHERE id = ANY (reads) ORDER BY id FOR SHARE) seen;
    UPDATE mix.account SET balance = balance + 1 + total % 2 WHERE id = ANY (writes);
    RETURN total;
END
$$;
