-- Balance: an ordered read. (A plain SELECT needs no ledger; this is the benchmark's read-only transaction.)
\set c random(1, :customers)
SELECT chainify.execute($$SELECT s.balance + c.balance FROM savings s JOIN checking c USING (custid) WHERE custid = $1$$, :c::bigint);
