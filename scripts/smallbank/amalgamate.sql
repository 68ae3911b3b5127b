-- All of one customer's money goes to another's checking account.
\set c random(1, :customers)
\set d 1 + (:c + random(0, :customers - 2)) % :customers
SELECT chainify.execute($$UPDATE checking SET balance = balance + (SELECT s.balance + c.balance FROM savings s JOIN checking c USING (custid) WHERE custid = $1) WHERE custid = $2; UPDATE savings SET balance = 0 WHERE custid = $1; UPDATE checking SET balance = 0 WHERE custid = $1$$, :c::bigint, :d::bigint);
