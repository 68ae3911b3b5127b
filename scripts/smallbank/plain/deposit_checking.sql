-- Scripts of this folder are plain SQL for any PostgreSQL. Each transaction changes a row, whatever it meets.
\set c random(1, :customers)
\set v random(1, 500)
UPDATE checking SET balance = balance + :v WHERE custid = :c;
