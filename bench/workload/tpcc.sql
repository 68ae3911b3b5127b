-- TPC-C (standard specification, revision 5.11), with its nine tables. NewOrder and Payment, which
-- make up nine tenths of its load, are functions. So is OrderStatus, which only reads. Where it
-- differs:
--   * sizes are parameters of tpcc.fill, and there are no orders at the beginning: neither NewOrder
--     nor Payment reads old ones;
--   * the history has a primary key, the customer and the number of the payment, which a ledger
--     table needs;
--   * the ten S_DIST columns are one array;
--   * a NewOrder with an item that does not exist returns NULL and changes nothing, so that it
--     fails in no system.
-- Everything is a function of the arguments, the tables and the time of the transaction.
CREATE SCHEMA tpcc;

CREATE TABLE tpcc.warehouse (
    w_id       integer PRIMARY KEY,
    w_name     text NOT NULL,
    w_street_1 text NOT NULL,
    w_street_2 text NOT NULL,
    w_city     text NOT NULL,
    w_state    char(2) NOT NULL,
    w_zip      char(9) NOT NULL,
    w_tax      numeric(4,4) NOT NULL,
    w_ytd      numeric(12,2) NOT NULL
);
CREATE TABLE tpcc.district (
    d_w_id      integer REFERENCES tpcc.warehouse,
    d_id        integer,
    d_name      text NOT NULL,
    d_street_1  text NOT NULL,
    d_street_2  text NOT NULL,
    d_city      text NOT NULL,
    d_state     char(2) NOT NULL,
    d_zip       char(9) NOT NULL,
    d_tax       numeric(4,4) NOT NULL,
    d_ytd       numeric(12,2) NOT NULL,
    d_next_o_id integer NOT NULL,
    PRIMARY KEY (d_w_id, d_id)
);
CREATE TABLE tpcc.customer (
    c_w_id         integer,
    c_d_id         integer,
    c_id           integer,
    c_first        text COLLATE "C" NOT NULL,
    c_middle       char(2) NOT NULL,
    c_last         text COLLATE "C" NOT NULL,
    c_street_1     text NOT NULL,
    c_street_2     text NOT NULL,
    c_city         text NOT NULL,
    c_state        char(2) NOT NULL,
    c_zip          char(9) NOT NULL,
    c_phone        char(16) NOT NULL,
    c_since        timestamptz NOT NULL,
    c_credit       char(2) NOT NULL,
    c_credit_lim   numeric(12,2) NOT NULL,
    c_discount     numeric(4,4) NOT NULL,
    c_balance      numeric(12,2) NOT NULL,
    c_ytd_payment  numeric(12,2) NOT NULL,
    c_payment_cnt  integer NOT NULL,
    c_delivery_cnt integer NOT NULL,
    c_data         text NOT NULL,
    PRIMARY KEY (c_w_id, c_d_id, c_id),
    FOREIGN KEY (c_w_id, c_d_id) REFERENCES tpcc.district
);
CREATE INDEX customer_name ON tpcc.customer (c_w_id, c_d_id, c_last, c_first, c_id);
CREATE TABLE tpcc.history (
    h_c_w_id integer,
    h_c_d_id integer,
    h_c_id   integer,
    h_number integer,                -- of the customer's payments: C_PAYMENT_CNT after this one
    h_w_id   integer NOT NULL,
    h_d_id   integer NOT NULL,
    h_date   timestamptz NOT NULL,
    h_amount numeric(6,2) NOT NULL,
    h_data   text NOT NULL,
    PRIMARY KEY (h_c_w_id, h_c_d_id, h_c_id, h_number),
    FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES tpcc.customer,
    FOREIGN KEY (h_w_id, h_d_id) REFERENCES tpcc.district
);
CREATE TABLE tpcc.orders (
    o_w_id       integer,
    o_d_id       integer,
    o_id         integer,
    o_c_id       integer NOT NULL,
    o_entry_d    timestamptz NOT NULL,
    o_carrier_id integer,
    o_ol_cnt     integer NOT NULL,
    o_all_local  boolean NOT NULL,
    PRIMARY KEY (o_w_id, o_d_id, o_id),
    FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES tpcc.customer
);
CREATE INDEX order_customer ON tpcc.orders (o_w_id, o_d_id, o_c_id, o_id);
CREATE TABLE tpcc.new_orders (
    no_w_id integer,
    no_d_id integer,
    no_o_id integer,
    PRIMARY KEY (no_w_id, no_d_id, no_o_id),
    FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES tpcc.orders
);
CREATE TABLE tpcc.item (
    i_id    integer PRIMARY KEY,
    i_im_id integer NOT NULL,
    i_name  text NOT NULL,
    i_price numeric(5,2) NOT NULL,
    i_data  text NOT NULL
);
CREATE TABLE tpcc.stock (
    s_w_id       integer REFERENCES tpcc.warehouse,
    s_i_id       integer REFERENCES tpcc.item,
    s_quantity   integer NOT NULL,
    s_dist       text[] NOT NULL,    -- S_DIST_01 to S_DIST_10
    s_ytd        bigint NOT NULL,
    s_order_cnt  integer NOT NULL,
    s_remote_cnt integer NOT NULL,
    s_data       text NOT NULL,
    PRIMARY KEY (s_w_id, s_i_id)
);
CREATE TABLE tpcc.order_line (
    ol_w_id        integer,
    ol_d_id        integer,
    ol_o_id        integer,
    ol_number      integer,
    ol_i_id        integer NOT NULL,
    ol_supply_w_id integer NOT NULL,
    ol_delivery_d  timestamptz,
    ol_quantity    integer NOT NULL,
    ol_amount      numeric(6,2) NOT NULL,
    ol_dist_info   text NOT NULL,
    PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number),
    FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES tpcc.orders,
    FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES tpcc.stock
);

-- A text of `length` characters that belongs to `seed`.
CREATE FUNCTION tpcc.filler(seed text, length integer) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT left(string_agg(md5(seed || i), '' ORDER BY i), length) FROM generate_series(1, (length + 31) / 32) i
$$;

-- The last name with this number (clause 4.3.2.3), from 0 to 999.
CREATE FUNCTION tpcc.last_name(number integer) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT syllables[1 + number / 100] || syllables[1 + number / 10 % 10] || syllables[1 + number % 10]
    FROM (VALUES (ARRAY['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'])) v (syllables)
$$;

-- Ten districts in each warehouse; `customers` in each district, of `names` different last names.
-- One customer in ten has bad credit.
CREATE FUNCTION tpcc.fill(warehouses integer, items integer, customers integer, names integer) RETURNS void LANGUAGE sql AS $$
    INSERT INTO tpcc.item SELECT i, 1 + i % 10000, tpcc.filler('item' || i, 14 + i % 11), 1 + i % 9900 / 100.0, tpcc.filler('data' || i, 26 + i % 25)
        FROM generate_series(1, items) i;
    INSERT INTO tpcc.warehouse SELECT w, 'warehouse' || w, tpcc.filler('street' || w, 15), tpcc.filler('more' || w, 15), tpcc.filler('city' || w, 15), 'WA',
            '123411111', w % 20 / 100.0, 300000
        FROM generate_series(1, warehouses) w;
    INSERT INTO tpcc.stock SELECT w, i, 10 + (w + i) % 91, (SELECT array_agg(tpcc.filler(format('%s/%s/%s', w, i, d), 24) ORDER BY d) FROM generate_series(1, 10) d),
            0, 0, 0, tpcc.filler(format('stock%s/%s', w, i), 26 + i % 25)
        FROM generate_series(1, warehouses) w, generate_series(1, items) i;
    INSERT INTO tpcc.district SELECT w, d, 'dist' || d, tpcc.filler(format('street%s/%s', w, d), 15), tpcc.filler(format('more%s/%s', w, d), 15),
            tpcc.filler(format('city%s/%s', w, d), 15), 'OR', '567811111', (w + d) % 20 / 100.0, 30000, 1
        FROM generate_series(1, warehouses) w, generate_series(1, 10) d;
    INSERT INTO tpcc.customer SELECT w, d, c, tpcc.filler(format('first%s/%s/%s', w, d, c), 8 + c % 9), 'OE', tpcc.last_name((c - 1) % names),
            tpcc.filler('street' || c, 15), tpcc.filler('more' || c, 15), tpcc.filler('city' || c, 15), 'CA', '901211111', lpad(c::text, 16, '0'),
            '2026-01-01 00:00:00+00', CASE WHEN c % 10 = 0 THEN 'BC' ELSE 'GC' END, 50000, c % 51 / 100.0, -10, 10, 1, 0, tpcc.filler(format('data%s/%s', d, c), 300 + c % 201)
        FROM generate_series(1, warehouses) w, generate_series(1, 10) d, generate_series(1, customers) c;
$$;

-- Clause 2.4.2. Line i orders `quantities[i]` of `items[i]` from the stock of warehouse
-- `suppliers[i]`. Returns what the customer pays.
CREATE FUNCTION tpcc.new_order(w integer, d integer, c integer, items integer[], suppliers integer[], quantities integer[])
    RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
    lines     integer := cardinality(items);
    tax       numeric;
    discount  numeric;
    district_tax numeric;
    number    integer;
    prices    numeric[] := '{}';
    price     numeric;
    info      text;
    total     numeric := 0;
BEGIN
    FOR i IN 1..lines LOOP
        SELECT i_price INTO price FROM tpcc.item WHERE i_id = items[i];
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        prices[i] := price;
    END LOOP;
    SELECT w_tax INTO tax FROM tpcc.warehouse WHERE w_id = w;
    UPDATE tpcc.district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = w AND d_id = d
        RETURNING d_next_o_id - 1, d_tax INTO number, district_tax;
    SELECT c_discount INTO discount FROM tpcc.customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
    INSERT INTO tpcc.orders VALUES (w, d, number, c, now(), NULL, lines, w = ALL (suppliers));
    INSERT INTO tpcc.new_orders VALUES (w, d, number);
    FOR i IN 1..lines LOOP
        UPDATE tpcc.stock SET
                s_quantity = s_quantity - quantities[i] + CASE WHEN s_quantity >= quantities[i] + 10 THEN 0 ELSE 91 END,
                s_ytd = s_ytd + quantities[i],
                s_order_cnt = s_order_cnt + 1,
                s_remote_cnt = s_remote_cnt + CASE WHEN suppliers[i] = w THEN 0 ELSE 1 END
            WHERE s_w_id = suppliers[i] AND s_i_id = items[i] RETURNING s_dist[d] INTO info;
        INSERT INTO tpcc.order_line VALUES (w, d, number, i, items[i], suppliers[i], NULL, quantities[i], quantities[i] * prices[i], info);
        total := total + quantities[i] * prices[i];
    END LOOP;
    RETURN round(total * (1 - discount) * (1 + tax + district_tax), 2);
END
$$;

-- The stock that new_order changes, by its arguments.
CREATE FUNCTION tpcc.new_order_stock(w integer, d integer, c integer, items integer[], suppliers integer[], quantities integer[])
    RETURNS TABLE (s_w_id integer, s_i_id integer) LANGUAGE sql STABLE AS $$
    SELECT DISTINCT supplier, item FROM unnest(suppliers, items) line (supplier, item)
$$;

-- Clause 2.5.2. The customer is given by number or, when that is NULL, by last name: the middle one
-- of that name by first name. Returns the customer's balance.
CREATE FUNCTION tpcc.payment(w integer, d integer, cw integer, cd integer, c integer, last text, amount numeric)
    RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
    payer     integer := c;
    warehouse text;
    district  text;
    balance   numeric;
    number    integer;
BEGIN
    UPDATE tpcc.warehouse SET w_ytd = w_ytd + amount WHERE w_id = w RETURNING w_name INTO warehouse;
    UPDATE tpcc.district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d RETURNING d_name INTO district;
    IF payer IS NULL THEN
        SELECT c_id INTO payer FROM tpcc.customer WHERE c_w_id = cw AND c_d_id = cd AND c_last = last ORDER BY c_first, c_id
            OFFSET ((SELECT count(*) FROM tpcc.customer WHERE c_w_id = cw AND c_d_id = cd AND c_last = last) - 1) / 2 LIMIT 1;
    END IF;
    UPDATE tpcc.customer SET
            c_balance = c_balance - amount,
            c_ytd_payment = c_ytd_payment + amount,
            c_payment_cnt = c_payment_cnt + 1,
            c_data = CASE c_credit WHEN 'BC' THEN left(concat_ws(' ', c_id, cd, cw, d, w, amount) || c_data, 500) ELSE c_data END
        WHERE c_w_id = cw AND c_d_id = cd AND c_id = payer RETURNING c_balance, c_payment_cnt INTO balance, number;
    INSERT INTO tpcc.history VALUES (cw, cd, payer, number, w, d, now(), amount, warehouse || '    ' || district);
    RETURN balance;
END
$$;

-- The customer whom payment charges, by its arguments, and what it writes that down for.
CREATE FUNCTION tpcc.payment_customer(w integer, d integer, cw integer, cd integer, c integer, last text, amount numeric)
    RETURNS TABLE (c_w_id integer, c_d_id integer, c_id integer, h_c_w_id integer, h_c_d_id integer, h_c_id integer) LANGUAGE sql STABLE AS $$
    SELECT cw, cd, payer, cw, cd, payer FROM (SELECT coalesce(c, (SELECT k.c_id FROM tpcc.customer k WHERE k.c_w_id = cw AND k.c_d_id = cd AND k.c_last = last
        ORDER BY k.c_first, k.c_id OFFSET ((SELECT count(*) FROM tpcc.customer n WHERE n.c_w_id = cw AND n.c_d_id = cd AND n.c_last = last) - 1) / 2 LIMIT 1))) p (payer)
$$;

-- Clause 2.6.2, by name or by number: what the customer owes and the lines of the last order, as
-- one text; NULL without an order.
CREATE FUNCTION tpcc.order_status(w integer, d integer, c integer, last text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    buyer    tpcc.customer;
    placed   tpcc.orders;
BEGIN
    IF c IS NULL THEN
        SELECT * INTO buyer FROM tpcc.customer WHERE c_w_id = w AND c_d_id = d AND c_last = last ORDER BY c_first, c_id
            OFFSET ((SELECT count(*) FROM tpcc.customer WHERE c_w_id = w AND c_d_id = d AND c_last = last) - 1) / 2 LIMIT 1;
    ELSE
        SELECT * INTO buyer FROM tpcc.customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
    END IF;
    SELECT * INTO placed FROM tpcc.orders WHERE o_w_id = w AND o_d_id = d AND o_c_id = buyer.c_id ORDER BY o_id DESC LIMIT 1;
    RETURN (SELECT format('%s %s %s: ', buyer.c_first, buyer.c_last, buyer.c_balance) || string_agg(concat_ws(' ', ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d), ', ')
        FROM tpcc.order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = placed.o_id);
END
$$;

-- An order by every customer, of ten lines from the customer's warehouse.
CREATE FUNCTION tpcc.order_all(items integer) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(tpcc.new_order(c_w_id, c_d_id, c_id, ARRAY(SELECT 1 + (c_id * 37 + line * 101) % items FROM generate_series(1, 10) line),
            array_fill(c_w_id, ARRAY[10]), array_fill(1 + c_id % 10, ARRAY[10])))
        FROM (SELECT c_w_id, c_d_id, c_id FROM tpcc.customer ORDER BY c_w_id, c_d_id, c_id) customer
$$;

-- The conditions that the specification sets for the tables between transactions: clause 3.3.2, 1
-- to 5 and 8 to 10 as far as these transactions reach. Each that is violated gives one row.
CREATE FUNCTION tpcc.violations() RETURNS TABLE (condition text, what text) LANGUAGE sql STABLE AS $$
    SELECT 'W_YTD is the sum of D_YTD', w_id::text FROM tpcc.warehouse
        WHERE w_ytd <> (SELECT sum(d_ytd) FROM tpcc.district WHERE d_w_id = w_id)
    UNION ALL SELECT 'D_NEXT_O_ID follows the last order', d_w_id || '/' || d_id FROM tpcc.district
        WHERE d_next_o_id - 1 <> (SELECT coalesce(max(o_id), 0) FROM tpcc.orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
    UNION ALL SELECT 'orders are numbered without a gap', o_w_id || '/' || o_d_id FROM tpcc.orders
        GROUP BY o_w_id, o_d_id HAVING count(*) <> max(o_id) OR min(o_id) <> 1
    UNION ALL SELECT 'O_OL_CNT counts the lines', format('%s/%s/%s', o_w_id, o_d_id, o_id) FROM tpcc.orders
        WHERE o_ol_cnt <> (SELECT count(*) FROM tpcc.order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id)
    UNION ALL SELECT 'an order that is not delivered is new', format('%s/%s/%s', o_w_id, o_d_id, o_id) FROM tpcc.orders
        WHERE o_carrier_id IS NULL AND NOT EXISTS (SELECT FROM tpcc.new_orders WHERE (no_w_id, no_d_id, no_o_id) = (o_w_id, o_d_id, o_id))
    UNION ALL SELECT 'D_YTD is what was paid', d_w_id || '/' || d_id FROM tpcc.district
        WHERE d_ytd - 30000 <> (SELECT coalesce(sum(h_amount), 0) FROM tpcc.history WHERE h_w_id = d_w_id AND h_d_id = d_id)
    UNION ALL SELECT 'C_BALANCE is what the customer did not pay', format('%s/%s/%s', c_w_id, c_d_id, c_id) FROM tpcc.customer
        WHERE c_balance + 10 <> -(SELECT coalesce(sum(h_amount), 0) FROM tpcc.history WHERE (h_c_w_id, h_c_d_id, h_c_id) = (c_w_id, c_d_id, c_id))
    UNION ALL SELECT 'S_YTD is what was ordered', s_w_id || '/' || s_i_id FROM tpcc.stock
        WHERE s_ytd <> 0 AND s_ytd <> (SELECT coalesce(sum(ol_quantity), 0) FROM tpcc.order_line WHERE ol_supply_w_id = s_w_id AND ol_i_id = s_i_id)
$$;
