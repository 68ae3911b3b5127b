-- What the consortium agrees on beside the tables: the role that transactions run as, with its rights, and the
-- role that may say which tables are on the ledger and read everything. Both exist in every organisation.
CREATE ROLE bank LOGIN IN ROLE chainify_client;
CREATE ROLE dba LOGIN IN ROLE chainify_admin, chainify_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON accounts, savings, checking TO bank, dba;
