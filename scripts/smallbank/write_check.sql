-- A check above all the customer has costs a penalty of 1; what checking does not hold fails its CHECK.
\set c random(1, :customers)
\set v random(1, 500)
SELECT chainify.execute($$UPDATE checking SET balance = balance - CASE WHEN balance + (SELECT s.balance FROM savings s WHERE s.custid = $1) < $2 THEN $2 + 1 ELSE $2 END WHERE custid = $1$$, :c::bigint, :v::numeric);
