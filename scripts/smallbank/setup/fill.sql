-- The same rows everywhere, for customers 1 to $1, but stored in an order that the salt $2 decides: each
-- organisation has its own past.
CREATE FUNCTION pg_temp.fill(customers int, salt text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO accounts SELECT c, 'customer ' || c
        FROM generate_series(1, customers) AS c ORDER BY md5(salt || 'a' || c);
    INSERT INTO savings SELECT c, 5000 + c % 1000
        FROM generate_series(1, customers) AS c ORDER BY md5(salt || 's' || c);
    INSERT INTO checking SELECT c, 500 + c % 100
        FROM generate_series(1, customers) AS c ORDER BY md5(salt || 'c' || c);
END
$$;
