-- The bank's tables as they were before anybody thought of a ledger: plain SQL, no word of Chainify.
CREATE TABLE accounts (
    custid bigint PRIMARY KEY,
    name   text NOT NULL
);
CREATE TABLE savings (
    custid  bigint PRIMARY KEY REFERENCES accounts,
    balance numeric(14,2) NOT NULL CHECK (balance >= 0)
);
CREATE TABLE checking (
    custid  bigint PRIMARY KEY REFERENCES accounts,
    balance numeric(14,2) NOT NULL CHECK (balance >= 0)
);
