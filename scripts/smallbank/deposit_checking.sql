\set c random(1, :customers)
\set v random(1, 500)
SELECT chainify.execute($$UPDATE checking SET balance = balance + $2 WHERE custid = $1$$, :c::bigint, :v::numeric);
