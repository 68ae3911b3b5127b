\set c random(1, :customers)
\set d 1 + (:c + random(0, :customers - 2)) % :customers
\set v random(1, 700)
SELECT chainify.execute($$UPDATE checking SET balance = balance - $3 WHERE custid = $1; UPDATE checking SET balance = balance + $3 WHERE custid = $2$$, :c::bigint, :d::bigint, :v::numeric);
