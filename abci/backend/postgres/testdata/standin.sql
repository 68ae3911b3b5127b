-- Stands in for the extension, so that tests of the connection's side of the contract need only
-- plain PostgreSQL. It has the functions of chainify_node with their signatures. The effects of a
-- block are a hash of its bytes and of table items.
CREATE SCHEMA chainify;
CREATE SCHEMA chainify_node;
CREATE TABLE items (id bigint PRIMARY KEY, name text);
CREATE TABLE block (number bigint PRIMARY KEY, hash bytea, certificate bytea, good text);
CREATE TABLE transactions (block bigint, index int, id bytea, outcome boolean, rows bigint, sqlstate text, error text);
CREATE VIEW chainify.transactions AS SELECT * FROM transactions;
CREATE TABLE chain (chain_id text, organisation text);
CREATE TABLE deviation (number bigint, expected bytea, found bytea, cured_by text, took interval);

CREATE FUNCTION chainify_node.init(c text, o text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM chain WHERE (chain_id, organisation) <> (c, o)) THEN
        RAISE 'this database belongs to another chain' USING ERRCODE = '55000';
    END IF;
    DELETE FROM chain;
    INSERT INTO chain VALUES (c, o);
END $$;

CREATE TABLE fence (epoch bigint, mark bytea, superseded_by bigint);
CREATE FUNCTION chainify_node.server(OUT epoch bigint, OUT mark bytea, OUT superseded_by bigint, OUT system_identifier bigint, OUT timeline integer,
                                     OUT standby boolean, OUT last_block bigint) LANGUAGE sql AS $$
    SELECT f.epoch, f.mark, f.superseded_by, 1::bigint, 1, false, 0::bigint FROM (VALUES (1)) one LEFT JOIN fence f ON true $$;
CREATE FUNCTION chainify_node.take_server(c text, o text, e bigint, m bytea) RETURNS void LANGUAGE sql AS $$
    DELETE FROM fence; INSERT INTO fence VALUES (e, m) $$;

CREATE FUNCTION chainify_node.position(OUT number bigint, OUT hash bytea, OUT certified bigint, OUT deviates boolean, OUT false_blocks bigint[], OUT anew_until bigint) LANGUAGE sql AS $$
    SELECT coalesce(max(b.number), 0), coalesce((array_agg(b.hash ORDER BY b.number DESC))[1], decode(repeat('00', 32), 'hex')),
           coalesce(max(b.number) FILTER (WHERE certificate IS NOT NULL), 0), EXISTS (SELECT FROM items WHERE name <> 'x'), '{}'::bigint[], 0::bigint
    FROM block b $$;

CREATE FUNCTION state() RETURNS text LANGUAGE sql AS $$ SELECT coalesce(string_agg(id || name, ',' ORDER BY id), '') FROM items $$;

CREATE FUNCTION chainify_node.shared_tables(OUT standing text, OUT names text[], OUT texts text[], OUT procedures text[], OUT signatures text[])
LANGUAGE sql AS $$ SELECT 'own', '{}'::text[], '{}'::text[], '{}'::text[], '{}'::text[] $$;

-- Transactions: u32 count, then u32 length and id of each. One whose id starts with ff does not
-- end, one with fe brings the block down, one with fd takes 0.4 s.
CREATE FUNCTION chainify_node.execute_block(n bigint, order_height bigint, block_time bigint, previous bytea, txs bytea,
    quarantined int[], quarantine_all boolean, effect_hashes boolean, certified_hash bytea,
    refused int[], refused_sqlstates text[], refused_messages text[],
    OUT hash bytea, OUT header bytea, OUT outcomes bytea, OUT rows bigint[], OUT sqlstates text[], OUT messages text[],
    OUT transaction_effects bytea[])
LANGUAGE plpgsql AS $$
DECLARE
    at record;
    count int := get_byte(txs, 3);
    id bytea;
    ok boolean;
BEGIN
    SELECT * INTO at FROM chainify_node.position();
    IF n <> at.number + 1 OR previous <> at.hash THEN
        RAISE 'block % does not follow %', n, at.number USING ERRCODE = '55000';
    END IF;
    outcomes := decode(repeat('00', (count + 7) / 8), 'hex');
    FOR i IN 0 .. count - 1 LOOP
        PERFORM set_config('application_name', format('chainify block %s tx %s', n, i), false);
        id := substr(txs, 4 + i * 36 + 5, 32);
        ok := NOT quarantine_all AND i <> ALL (quarantined);
        IF ok AND get_byte(id, 0) = 255 THEN
            PERFORM pg_sleep(3600);
        END IF;
        IF ok AND get_byte(id, 0) = 253 THEN
            PERFORM pg_sleep(0.4);
        END IF;
        IF ok AND get_byte(id, 0) = 254 THEN
            RAISE 'out of memory' USING ERRCODE = '53200', DETAIL = format('chainify block %s tx %s', n, i);
        END IF;
        IF ok THEN
            outcomes := set_bit(outcomes, i, 1);
            INSERT INTO items VALUES (n * 1000 + i, 'x');
        END IF;
        rows := rows || CASE WHEN ok THEN 1 ELSE 0 END::bigint;
        sqlstates := sqlstates || CASE WHEN NOT ok THEN 'CH001' END;
        messages := messages || CASE WHEN NOT ok THEN 'quarantined' END;
        IF effect_hashes THEN
            transaction_effects := transaction_effects || sha256(convert_to(format('%s %s %s', i, ok, state()), 'UTF8'));
        END IF;
        INSERT INTO transactions VALUES (n, i, id, ok, rows[i + 1], sqlstates[i + 1], messages[i + 1]);
    END LOOP;
    PERFORM set_config('application_name', 'chainify node', false);
    header := convert_to(n || state(), 'UTF8') || previous || outcomes;
    hash := sha256(header);
    INSERT INTO block VALUES (n, hash, NULL, state());
END $$;

CREATE FUNCTION chainify_node.store_certificate(n bigint, r int, h bytea, votes jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE block SET certificate = h WHERE number = n AND hash = h;
    IF NOT FOUND THEN
        RAISE 'certificate is not of block %', n USING ERRCODE = '22000';
    END IF;
END $$;

CREATE FUNCTION chainify_node.repair(n bigint, certified bytea, deviating bigint, found_hash bytea, step text)
RETURNS TABLE (tbl text, key jsonb, expected jsonb, found jsonb) LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM block WHERE number = n AND hash = certified) THEN
        RAISE 'history is gone' USING ERRCODE = 'CH002';
    END IF;
    IF step = 'rows' AND EXISTS (SELECT FROM items WHERE name = 'z') THEN
        RAISE 'history was changed as well' USING ERRCODE = 'CH002';
    END IF;
    IF EXISTS (SELECT FROM items WHERE name <> 'x') THEN
        UPDATE items SET name = 'x' WHERE name <> 'x';
        RETURN QUERY SELECT 'public.items', '{"id": 1}'::jsonb, '{"name": "x"}'::jsonb, NULL::jsonb;
    END IF;
END $$;
ALTER FUNCTION chainify_node.repair(bigint, bytea, bigint, bytea, text) SET plpgsql.variable_conflict = use_column;

CREATE FUNCTION chainify_node.record_deviation(n bigint, e bytea, f bytea, c text, t interval) RETURNS void LANGUAGE sql AS $$
    INSERT INTO deviation VALUES (n, e, f, c, t) $$;

-- The node's sessions look for nothing in schema public.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE pronamespace IN ('public'::regnamespace, 'chainify_node'::regnamespace) LOOP
        EXECUTE format('ALTER ROUTINE %s SET search_path = public', f);
    END LOOP;
END $$;
