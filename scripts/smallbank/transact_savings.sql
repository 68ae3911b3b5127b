-- One in some ten withdraws more than there is and fails its CHECK.
\set c random(1, :customers)
\set v random(-6500, 6500)
SELECT chainify.execute($$UPDATE savings SET balance = balance + $2 WHERE custid = $1$$, :c::bigint, :v::numeric);
