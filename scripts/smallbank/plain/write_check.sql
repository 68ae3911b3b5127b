-- A check is covered by both accounts; one that checking alone does not hold costs the bank 1.
\set c random(1, :customers)
\set v random(1, 500)
BEGIN;
SELECT s.balance + c.balance AS total FROM savings s JOIN checking c USING (custid) WHERE custid = :c \gset
UPDATE checking SET balance = balance + CASE WHEN :total >= :v AND balance >= :v THEN -:v ELSE 1 END WHERE custid = :c;
COMMIT;
