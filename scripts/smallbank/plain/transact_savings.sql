-- A withdrawal above all that is there costs the bank 1.
\set c random(1, :customers)
\set v random(1, 6500) * (2 * random(0, 1) - 1)
UPDATE savings SET balance = balance + CASE WHEN balance + :v >= 0 THEN :v ELSE 1 END WHERE custid = :c;
