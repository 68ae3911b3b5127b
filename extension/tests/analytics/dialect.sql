-- The worker's dialect (spec/analytics.md) as PostgreSQL functions: a worker made of PostgreSQL, for tests. Numbers of the exact form are texts here
-- too, so that one taken for the other is an error.
CREATE SCHEMA dialect;
SET search_path = dialect, pg_catalog;
DO $$
DECLARE
    t text;
    op record;
BEGIN
    FOREACH t IN ARRAY '{int2,int4,int8,float4,float8,numeric}'::text[] LOOP
        FOR op IN SELECT * FROM (VALUES ('add', '+'), ('sub', '-'), ('mul', '*')) v (name, sign) LOOP
            EXECUTE format('CREATE FUNCTION pg_%s(%s, %2$s) RETURNS %2$s IMMUTABLE LANGUAGE sql AS ''SELECT ($1 %s $2)::%2$s''', op.name, t, op.sign);
        END LOOP;
        EXECUTE format('CREATE FUNCTION pg_neg(%s) RETURNS %1$s IMMUTABLE LANGUAGE sql AS ''SELECT (- $1)::%1$s''', t);
        EXECUTE format('CREATE FUNCTION pg_abs(%s) RETURNS %1$s IMMUTABLE LANGUAGE sql AS ''SELECT abs($1)''', t);
        CONTINUE WHEN t = 'numeric';
        EXECUTE format('CREATE FUNCTION pg_div(%s, %1$s) RETURNS %1$s IMMUTABLE LANGUAGE sql AS ''SELECT ($1 / $2)::%1$s''', t);
        CONTINUE WHEN t LIKE 'float%';
        EXECUTE format('CREATE FUNCTION pg_mod(%s, %1$s) RETURNS %1$s IMMUTABLE LANGUAGE sql AS ''SELECT ($1 %% $2)::%1$s''', t);
        EXECUTE format('CREATE FUNCTION pg_text(%s) RETURNS text IMMUTABLE LANGUAGE sql AS ''SELECT $1::text''', t);
    END LOOP;
    FOREACH t IN ARRAY '{int2,int4,int8}'::text[] LOOP
        EXECUTE format('CREATE FUNCTION pg_%s(numeric) RETURNS %1$s IMMUTABLE LANGUAGE sql AS ''SELECT $1::%1$s''', t);
        EXECUTE format('CREATE FUNCTION pg_%s(float8) RETURNS %1$s IMMUTABLE LANGUAGE sql AS ''SELECT $1::%1$s''', t);
        EXECUTE format('CREATE FUNCTION pg_%s(int8) RETURNS %1$s IMMUTABLE LANGUAGE sql AS ''SELECT $1::%1$s''', t);
        EXECUTE format('CREATE FUNCTION pg_%s(text) RETURNS %1$s IMMUTABLE LANGUAGE sql AS ''SELECT $1::numeric::%1$s''', t);
    END LOOP;
    FOR op IN SELECT * FROM (VALUES ('add', '+'), ('sub', '-'), ('mul', '*'), ('div', '/'), ('mod', '%')) v (name, sign) LOOP
        EXECUTE format('CREATE FUNCTION pg_num_%s(text, text) RETURNS text IMMUTABLE STRICT LANGUAGE sql AS ''SELECT ($1::numeric %s $2::numeric)::text''', op.name, op.sign);
    END LOOP;
    FOR op IN SELECT * FROM (VALUES ('lt', '<'), ('le', '<='), ('gt', '>'), ('ge', '>='), ('eq', '='), ('ne', '<>')) v (name, sign) LOOP
        EXECUTE format('CREATE FUNCTION pg_float_%s(float8, float8) RETURNS boolean IMMUTABLE LANGUAGE sql AS ''SELECT $1 %s $2''', op.name, op.sign);
    END LOOP;
END
$$;
CREATE FUNCTION pg_div(numeric, numeric) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT ($1 / $2)::text';
CREATE FUNCTION pg_mod(numeric, numeric) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT $1 % $2';
CREATE FUNCTION pg_num(numeric) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1::text';
-- Digits that are cut are zeros.
CREATE FUNCTION pg_num(numeric, int) RETURNS text IMMUTABLE STRICT LANGUAGE plpgsql AS $$
BEGIN
    IF round($1, $2) <> $1 OR scale($1) < $2 THEN
        RAISE EXCEPTION '% does not have % digits', $1, $2;
    END IF;
    RETURN round($1, $2)::text;
END
$$;
CREATE FUNCTION pg_num_neg(text) RETURNS text IMMUTABLE STRICT LANGUAGE sql AS 'SELECT (- $1::numeric)::text';
CREATE FUNCTION pg_num_abs(text) RETURNS text IMMUTABLE STRICT LANGUAGE sql AS 'SELECT abs($1::numeric)::text';
CREATE FUNCTION pg_num_round(text, int) RETURNS text IMMUTABLE STRICT LANGUAGE sql AS 'SELECT round($1::numeric, $2)::text';
CREATE FUNCTION pg_num_trunc(text, int) RETURNS text IMMUTABLE STRICT LANGUAGE sql AS 'SELECT trunc($1::numeric, $2)::text';
CREATE FUNCTION pg_num_cmp(text, text) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS
    'SELECT CASE WHEN $1::numeric < $2::numeric THEN -1 WHEN $1::numeric > $2::numeric THEN 1 ELSE 0 END';
CREATE FUNCTION pg_num_key(text) RETURNS numeric IMMUTABLE STRICT LANGUAGE sql AS 'SELECT $1::numeric';
CREATE FUNCTION pg_float8(numeric) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT $1::float8';
CREATE FUNCTION pg_float8(text) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT $1::numeric::float8';
CREATE FUNCTION pg_float_order(float8) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION pg_round(numeric, int) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT round($1, $2)';
CREATE FUNCTION pg_trunc(numeric, int) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT trunc($1, $2)';
CREATE FUNCTION pg_ceil(numeric) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT ceil($1)';
CREATE FUNCTION pg_floor(numeric) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT floor($1)';
CREATE FUNCTION pg_dec(numeric, int, int) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT "numeric"($1, ($2 << 16 | $3) + 4)';
CREATE FUNCTION pg_dec(text, int, int) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT "numeric"($1::numeric, ($2 << 16 | $3) + 4)';
CREATE FUNCTION pg_bpchar_key(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT rtrim($1, ' ') $$;
CREATE FUNCTION pg_length(text) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT length($1)';
CREATE FUNCTION pg_octet_length(text) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT octet_length($1)';
CREATE FUNCTION pg_substring(text, int) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT substr($1, $2)';
CREATE FUNCTION pg_substring(text, int, int) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT substr($1, $2, $3)';
CREATE FUNCTION pg_left(text, int) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT "left"($1, $2)';
CREATE FUNCTION pg_right(text, int) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT "right"($1, $2)';
CREATE FUNCTION pg_position(text, text) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT strpos($1, $2)';
CREATE FUNCTION pg_btrim(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT btrim($1, $2)';
CREATE FUNCTION pg_ltrim(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT ltrim($1, $2)';
CREATE FUNCTION pg_rtrim(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT rtrim($1, $2)';
CREATE FUNCTION pg_concat(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1 || $2';
CREATE FUNCTION pg_replace(text, text, text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT replace($1, $2, $3)';
-- Letters beyond those that have one other case everywhere are refused by the worker.
CREATE FUNCTION pg_upper(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT upper($1 COLLATE "C.utf8")';
CREATE FUNCTION pg_lower(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower($1 COLLATE "C.utf8")';
CREATE FUNCTION pg_upper_ascii(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT upper($1 COLLATE "C")';
CREATE FUNCTION pg_lower_ascii(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower($1 COLLATE "C")';
CREATE FUNCTION pg_like(text, text) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 LIKE $2';
CREATE FUNCTION pg_starts_with(text, text) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT starts_with($1, $2)';
CREATE FUNCTION pg_text(boolean) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1::text';
CREATE FUNCTION pg_text(uuid) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1::text';
CREATE FUNCTION pg_uuid(text) RETURNS uuid IMMUTABLE LANGUAGE sql AS 'SELECT $1::uuid';
CREATE FUNCTION pg_bytea(text) RETURNS bytea IMMUTABLE LANGUAGE sql AS $$ SELECT decode($1, 'hex') $$;
CREATE FUNCTION pg_case(anyelement) RETURNS anyelement IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION pg_code(boolean) RETURNS smallint IMMUTABLE LANGUAGE sql AS 'SELECT $1::int::smallint';
CREATE FUNCTION pg_truth(smallint) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1::int::boolean';
CREATE FUNCTION pg_midnight(date) RETURNS timestamp IMMUTABLE STRICT LANGUAGE sql AS 'SELECT CASE WHEN $1 < date ''294247-01-10'' OR NOT isfinite($1) THEN $1::timestamp ELSE timestamp ''294247-01-10 04:00:54.775806'' END';
CREATE FUNCTION pg_timestamp(date) RETURNS timestamp IMMUTABLE LANGUAGE sql AS 'SELECT $1::timestamp';
CREATE FUNCTION pg_timestamp(timestamptz) RETURNS timestamp IMMUTABLE LANGUAGE sql AS $$ SELECT $1 AT TIME ZONE 'UTC' $$;
CREATE FUNCTION pg_timestamptz(date) RETURNS timestamptz IMMUTABLE LANGUAGE sql AS $$ SELECT $1::timestamp AT TIME ZONE 'UTC' $$;
CREATE FUNCTION pg_timestamptz(timestamp) RETURNS timestamptz IMMUTABLE LANGUAGE sql AS $$ SELECT $1 AT TIME ZONE 'UTC' $$;
CREATE FUNCTION pg_date(timestamp) RETURNS date IMMUTABLE LANGUAGE sql AS 'SELECT $1::date';
CREATE FUNCTION pg_date(timestamptz) RETURNS date IMMUTABLE LANGUAGE sql AS $$ SELECT ($1 AT TIME ZONE 'UTC')::date $$;
CREATE FUNCTION pg_date_add(date, int) RETURNS date IMMUTABLE LANGUAGE sql AS 'SELECT $1 + $2';
CREATE FUNCTION pg_date_sub(date, date) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 - $2';
CREATE FUNCTION pg_interval_add(date, int, int, bigint) RETURNS timestamp IMMUTABLE LANGUAGE sql AS
    $$ SELECT $1 + make_interval(months => $2, days => $3) + $4 * interval '1 microsecond' $$;
CREATE FUNCTION pg_interval_add(timestamp, int, int, bigint) RETURNS timestamp IMMUTABLE LANGUAGE sql AS
    $$ SELECT $1 + make_interval(months => $2, days => $3) + $4 * interval '1 microsecond' $$;
CREATE FUNCTION pg_interval(bigint) RETURNS interval IMMUTABLE LANGUAGE sql AS $$ SELECT justify_hours($1 * interval '1 microsecond') $$;
CREATE FUNCTION pg_timestamp_sub(timestamp, timestamp) RETURNS interval IMMUTABLE LANGUAGE sql AS 'SELECT $1 - $2';
CREATE FUNCTION pg_timestamp_sub(timestamptz, timestamptz) RETURNS interval IMMUTABLE LANGUAGE sql AS 'SELECT $1 - $2';
DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY '{date,timestamp,timestamptz,interval}'::text[] LOOP
        EXECUTE format('CREATE FUNCTION pg_epoch(%s) RETURNS numeric IMMUTABLE LANGUAGE sql AS ''SELECT "extract"(''''epoch'''', $1)''', t);
        EXECUTE format('CREATE FUNCTION pg_epoch_float(%s) RETURNS float8 IMMUTABLE LANGUAGE sql AS ''SELECT date_part(''''epoch'''', $1)''', t);
        CONTINUE WHEN t = 'date';
        EXECUTE format('CREATE FUNCTION pg_second(%s) RETURNS numeric IMMUTABLE LANGUAGE sql AS ''SELECT "extract"(''''second'''', $1)''', t);
    END LOOP;
END
$$;
CREATE FUNCTION pg_extract(text, interval) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT "extract"($1, $2)';
CREATE FUNCTION pg_extract(text, date) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT date_part($1, $2)::numeric';
CREATE FUNCTION pg_extract(text, timestamp) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT date_part($1, $2)::numeric';
CREATE FUNCTION pg_extract(text, timestamptz) RETURNS numeric IMMUTABLE LANGUAGE sql AS $$ SELECT date_part($1, $2 AT TIME ZONE 'UTC')::numeric $$;
CREATE FUNCTION pg_date_trunc(text, timestamp) RETURNS timestamp IMMUTABLE LANGUAGE sql AS 'SELECT date_trunc($1, $2)';
CREATE FUNCTION pg_date_trunc(text, timestamptz) RETURNS timestamptz IMMUTABLE LANGUAGE sql AS $$ SELECT date_trunc($1, $2, 'UTC') $$;
-- Aggregates gather their rows.
DO $$
DECLARE
    a record;
BEGIN
    FOR a IN SELECT * FROM (VALUES
        ('pg_sum', 'int2', 'int8', 'sum(x)'), ('pg_sum', 'int4', 'int8', 'sum(x)'), ('pg_sum', 'int8', 'numeric', 'sum(x)'), ('pg_sum', 'numeric', 'numeric', 'sum(x)'),
        ('pg_avg', 'int2', 'text', 'avg(x)::text'), ('pg_avg', 'int4', 'text', 'avg(x)::text'), ('pg_avg', 'int8', 'text', 'avg(x)::text'),
        ('pg_avg', 'numeric', 'text', 'avg(x)::text'), ('pg_num_sum', 'text', 'text', 'sum(x::numeric)::text'), ('pg_num_avg', 'text', 'text', 'avg(x::numeric)::text'),
        ('pg_num_min', 'text', 'text', 'min(x::numeric)::text'), ('pg_num_max', 'text', 'text', 'max(x::numeric)::text')) v (name, of, gives, how)
        UNION ALL SELECT 'pg_' || name, of, 'text', format('%s(x%s)::text', name, CASE WHEN of = 'text' THEN '::numeric' END)
            FROM unnest('{var_samp,var_pop,stddev_samp,stddev_pop}'::text[]) name, unnest('{int2,int4,int8,numeric,text}'::text[]) of LOOP
        EXECUTE format('CREATE FUNCTION %s_of(%s[]) RETURNS %s IMMUTABLE LANGUAGE sql AS ''SELECT %s FROM unnest($1) x''', a.name, a.of, a.gives, a.how);
        EXECUTE format('CREATE AGGREGATE %s(%s) (SFUNC = array_append, STYPE = %2$s[], FINALFUNC = %1$s_of)', a.name, a.of);
    END LOOP;
END
$$;
-- A percentile takes the last row's part and order.
DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY '{int2,int4,int8,numeric,float8,date,time,timestamp,timestamptz,interval}'::text[] LOOP
        EXECUTE format('CREATE TYPE sorted_%s AS (rows %1$s[], part float8, descending boolean)', t);
        EXECUTE format('CREATE FUNCTION percentile_step(sorted_%s, %1$s, float8, boolean) RETURNS sorted_%1$s IMMUTABLE LANGUAGE sql AS ''SELECT ROW(array_append($1.rows, $2), $3, $4)::sorted_%1$s''', t);
        EXECUTE format('CREATE FUNCTION percentile_disc_of(s sorted_%s) RETURNS %1$s IMMUTABLE LANGUAGE sql AS ''SELECT CASE WHEN s.descending THEN percentile_disc(s.part) WITHIN GROUP (ORDER BY x DESC)'
            ' ELSE percentile_disc(s.part) WITHIN GROUP (ORDER BY x) END FROM unnest(s.rows) x''', t);
        EXECUTE format('CREATE AGGREGATE pg_percentile_disc(%s, float8, boolean) (SFUNC = percentile_step, STYPE = sorted_%1$s, FINALFUNC = percentile_disc_of)', t);
    END LOOP;
END
$$;
CREATE FUNCTION percentile_cont_of(s sorted_float8) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT CASE WHEN s.descending THEN percentile_cont(s.part) WITHIN GROUP (ORDER BY x DESC)
    ELSE percentile_cont(s.part) WITHIN GROUP (ORDER BY x) END FROM unnest(s.rows) x';
CREATE AGGREGATE pg_percentile_cont(float8, float8, boolean) (SFUNC = percentile_step, STYPE = sorted_float8, FINALFUNC = percentile_cont_of);
CREATE FUNCTION pg_single_step(anyarray, anyelement) RETURNS anyarray IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality($1) > 0 THEN
        RAISE EXCEPTION 'more than one row returned by a subquery used as an expression' USING ERRCODE = '21000';
    END IF;
    RETURN array_append($1, $2);
END
$$;
CREATE FUNCTION pg_single_of(anyarray) RETURNS anyelement IMMUTABLE LANGUAGE sql AS 'SELECT $1[1]';
CREATE AGGREGATE pg_single(anyelement) (SFUNC = pg_single_step, STYPE = anyarray, INITCOND = '{}', FINALFUNC = pg_single_of);
RESET search_path;

-- Tables of the worker: texts of char(n) are padded, and compared as texts.
CREATE FUNCTION dialect.expose() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT m.table_id, m.relation::regclass AS of, string_agg(CASE
            WHEN a.atttypid = 'bpchar'::regtype THEN format('rpad(%I::text, %s) AS c_%s', a.attname, a.atttypmod - 4, a.attnum)
            WHEN a.atttypid = 'varchar'::regtype THEN format('%I::text AS c_%s', a.attname, a.attnum)
            ELSE format('%I AS c_%s', a.attname, a.attnum) END, ', ') AS columns
        FROM chainify_ledger.mirrored() m JOIN pg_attribute a ON a.attrelid = m.relation AND a.attnum > 0 AND NOT a.attisdropped GROUP BY 1, 2 LOOP
        EXECUTE format('CREATE VIEW dialect.t_%s AS SELECT %s FROM %s', t.table_id, t.columns, t.of);
    END LOOP;
END
$$;
