-- An account that does not cover the sum pays nothing, and its owner gets 1 as a consolation.
\set c random(1, :customers)
\set d 1 + (:c + random(0, :customers - 2)) % :customers
\set v random(1, 700)
BEGIN;
SELECT CASE WHEN balance >= :v THEN :v ELSE 0 END AS paid FROM checking WHERE custid = :c FOR UPDATE \gset
UPDATE checking SET balance = balance - CASE WHEN :paid > 0 THEN :paid ELSE -1 END WHERE custid = :c;
UPDATE checking SET balance = balance + :paid WHERE custid = :d;
COMMIT;
