-- Planned transactions (planned/mod.rs, spec/transactions.md): statements that are on the ledger before they run.

-- Two ledger tables of the ledger's own. PLAN transactions change them.
CREATE TABLE chainify_ledger.planned (
    id           bytea PRIMARY KEY,          -- of the transaction that planned
    organisation text NOT NULL,              -- with the role, the planner
    role         text NOT NULL,
    sql          text NOT NULL,
    parameters   jsonb NOT NULL,             -- as in chainify.transactions
    not_before   bigint NOT NULL,            -- microseconds since the Unix epoch; 0: at once
    expires      bigint NOT NULL,            -- the same
    approvals    text,                       -- an agreement policy without columns; NULL: none
    planned_at   bigint NOT NULL,            -- block
    state        text NOT NULL,              -- waiting, executed, failed or cancelled
    ended_at     bigint,                     -- block and index of the transaction that ended it
    ended_by     integer
);
-- Bounds are counted, and plans that are due found, by it.
CREATE INDEX planned_waiting ON chainify_ledger.planned (organisation, expires) WHERE state = 'waiting';

CREATE TABLE chainify_ledger.planned_approval (
    plan         bytea NOT NULL,
    organisation text NOT NULL,
    role         text NOT NULL,              -- the admin who approved
    approved_at  bigint NOT NULL,            -- block
    PRIMARY KEY (plan, organisation)
);

-- The approvals that a policy lacks when these organisations approve, as a policy; NULL: none.
CREATE FUNCTION chainify_ledger.lacks_approval(policy text, organisations text[]) RETURNS text
    AS 'MODULE_PATHNAME', 'chainify_lacks_approval' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- The approvals of a plan that count: those of organisations that take part in the next block.
CREATE FUNCTION chainify_ledger.approving(plan bytea) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array(
        SELECT a.organisation FROM chainify_ledger.planned_approval a
        WHERE a.plan = approving.plan AND EXISTS (
            SELECT FROM chainify_ledger.organisation o
            WHERE o.name = a.organisation AND NOT o.ordering_only
              AND o.from_block <= b.next AND (o.until_block IS NULL OR b.next < o.until_block))
        ORDER BY a.organisation COLLATE "C")
    FROM (SELECT coalesce(max(number), 0) + 1 FROM chainify_ledger.block) b (next)
$$;

CREATE FUNCTION chainify.plan(sql text, not_before timestamptz DEFAULT NULL, approvals text DEFAULT NULL, expires timestamptz DEFAULT NULL) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_plan' LANGUAGE C VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION chainify.plan(sql text, not_before timestamptz, approvals text, expires timestamptz, VARIADIC params "any") RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_plan' LANGUAGE C VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex';
CREATE FUNCTION chainify.approve_planned(plan bytea) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_approve_planned' LANGUAGE C VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION chainify.cancel_planned(plan bytea) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_cancel_planned' LANGUAGE C VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION chainify.execute_planned(plan bytea)
    RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS 'MODULE_PATHNAME', 'chainify_execute_planned' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;

-- Statements and values are a client's own: readers and admins see all plans, clients those of their role here.
CREATE VIEW chainify.planned WITH (security_barrier) AS
SELECT p.id,
       p.organisation,
       p.role,
       p.sql,
       p.parameters,
       CASE WHEN p.not_before > 0 THEN timestamptz 'epoch' + p.not_before * interval '1 microsecond' END AS not_before,
       p.approvals,
       array(SELECT a.organisation FROM chainify_ledger.planned_approval a WHERE a.plan = p.id ORDER BY a.organisation COLLATE "C") AS approved_by,
       CASE WHEN p.state = 'waiting' AND p.expires <= l.block_time THEN 'expired' ELSE p.state END AS state,
       p.ended_at AS block,
       p.ended_by AS index,
       t.sqlstate,
       t.message AS error,
       timestamptz 'epoch' + p.expires * interval '1 microsecond' AS expires,
       p.planned_at
FROM chainify_ledger.planned p
CROSS JOIN (SELECT block_time FROM chainify_ledger.block ORDER BY number DESC LIMIT 1) l
LEFT JOIN chainify_ledger.transaction t ON p.state = 'failed' AND t.block = p.ended_at AND t.index = p.ended_by
WHERE pg_has_role('chainify_reader', 'USAGE') OR pg_has_role('chainify_admin', 'USAGE')
   OR p.role = current_user AND p.organisation = (SELECT c.organisation FROM chainify_ledger.chain c);
GRANT SELECT ON chainify.planned TO chainify_reader, chainify_client;

-- Plans of this organisation that may run in a block of this time, with the role that planned each. Cost: at most the organisation's open plans.
CREATE FUNCTION chainify_node.due_plans(block_time bigint, count_max integer) RETURNS TABLE (id bytea, role text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.id, p.role FROM chainify_ledger.planned p
    WHERE p.state = 'waiting' AND p.organisation = (SELECT c.organisation FROM chainify_ledger.chain c)
      AND p.expires > block_time AND p.not_before <= block_time
      AND (p.approvals IS NULL OR chainify_ledger.lacks_approval(p.approvals, chainify_ledger.approving(p.id)) IS NULL)
    ORDER BY p.not_before, p.id LIMIT count_max
$$;

REVOKE ALL ON FUNCTION chainify_ledger.lacks_approval, chainify_ledger.approving, chainify_node.due_plans FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_node.due_plans TO chainify_node;
