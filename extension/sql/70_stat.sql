-- How the ledger does (spec/sql-api.md): for people, dashboards and the explorer. Numbers of rows and changes that would need a scan are the
-- statistics collector's estimates.

-- The votes that certified each block. An absent organisation voted later, otherwise, or not at all: certificates do not say.
CREATE VIEW chainify.votes AS
SELECT c.number AS block, c.effect_round, v ->> 'organisation' AS organisation, v ->> 'validator' AS validator,
       v ->> 'height' AS order_height, v ->> 'signature' AS signature
FROM chainify_ledger.certificate c,
     jsonb_array_elements(CASE jsonb_typeof(c.votes) WHEN 'array' THEN c.votes ELSE '[]' END) v;

-- Where the changes of each table are, a row for each version of it: transactions after (since_block, since_tx) and before
-- (until_block, until_tx).
CREATE VIEW chainify.histories AS
SELECT t.name, t.history::regclass AS history, t.attached_at AS since_block, t.attached_tx AS since_tx,
       t.detached_at AS until_block, t.detached_tx AS until_tx,
       ARRAY(SELECT c.name FROM chainify_ledger.ledger_column c WHERE c.table_id = t.id AND c.key_part IS NOT NULL ORDER BY c.key_part) AS key
FROM chainify_ledger.ledger_table t;

CREATE VIEW chainify.stat_blocks AS
SELECT b.number AS block,
       timestamptz 'epoch' + b.block_time * interval '1 microsecond' AS block_time,
       (b.block_time - p.block_time) * interval '1 microsecond' AS since_previous,
       b.tx_count AS transactions,
       b.tx_count - bit_count(b.outcomes)::integer AS failed,
       b.effects_count AS changes,
       (SELECT count(*)::integer FROM chainify.votes v WHERE v.block = b.number) AS votes,
       coalesce((SELECT n.consent FROM chainify_ledger.consent n WHERE n.from_block <= b.number ORDER BY n.from_block DESC LIMIT 1),
                (SELECT h.consent FROM chainify_ledger.chain h)) AS consent
FROM chainify_ledger.block b
LEFT JOIN chainify_ledger.block p ON p.number = b.number - 1;

CREATE VIEW chainify.stat_tables AS
SELECT t.name,
       t.attached_at,
       s.row_count AS rows,
       pg_stat_get_live_tuples(t.history) AS changes_estimated,
       (SELECT sum(pg_total_relation_size(r))::bigint FROM (SELECT relid FROM pg_partition_tree(t.relation) UNION SELECT t.relation::regclass) p (r)) AS table_bytes,
       pg_total_relation_size(t.history) AS history_bytes,
       pg_total_relation_size(t.checkpoint) AS checkpoint_bytes,
       t.base_block,
       (SELECT count(*)::integer FROM chainify_ledger.checkpoint c WHERE c.table_id = t.id AND c.block >= t.base_block) AS checkpoints
FROM chainify_ledger.ledger_table t
LEFT JOIN chainify_ledger.table_state s ON s.table_id = t.id
WHERE t.detached_at IS NULL;

-- Members, and the number of the newest 1,000 certificates with the vote of each.
CREATE VIEW chainify.stat_organisations AS
WITH recent AS (SELECT c.number FROM chainify_ledger.certificate c ORDER BY c.number DESC LIMIT 1000),
     vote AS (
         SELECT v.organisation, count(*)::integer AS votes, max(v.block) AS last_vote
         FROM recent r JOIN chainify.votes v ON v.block = r.number GROUP BY v.organisation),
     member AS (
         SELECT o.name, bool_and(o.ordering_only) AS ordering_only, min(o.from_block) AS since_block
         FROM chainify_ledger.organisation o
         GROUP BY o.name HAVING max(coalesce(o.until_block, 'infinity'::numeric)) > coalesce((SELECT max(b.number) FROM chainify_ledger.block b), 0))
SELECT m.name,
       m.ordering_only,
       m.since_block,
       (SELECT count(*)::integer FROM recent r WHERE r.number >= m.since_block) AS certified,
       coalesce(v.votes, 0) AS votes,
       v.last_vote
FROM member m LEFT JOIN vote v ON v.organisation = m.name;

-- The last scrub of each table, and of the blocks before the checkpoints (name NULL).
CREATE VIEW chainify.stat_scrubber AS
SELECT t.name,
       s.block,
       s.rows,
       s.findings,
       s.clean_block,
       nullif(s.at, '-infinity') AS read_at,
       s.took,
       CASE WHEN current_setting('chainify.scrub_rate')::integer > 0
            THEN coalesce(nullif(s.at, '-infinity') + current_setting('chainify.scrub_interval')::interval, now()) END AS due_at
FROM chainify_ledger.ledger_table t
LEFT JOIN chainify_ledger.scrubbed s ON s.table_id = t.id
WHERE t.detached_at IS NULL
UNION ALL
SELECT NULL, nullif(a.block, 0), NULL, (SELECT count(*) FROM chainify_ledger.false_block), NULL, a.at, NULL,
       CASE WHEN current_setting('chainify.scrub_rate')::integer > 0
            THEN coalesce(a.at + current_setting('chainify.scrub_interval')::interval, now()) END
FROM chainify_ledger.audited a;

GRANT SELECT ON chainify.votes, chainify.histories, chainify.stat_blocks, chainify.stat_tables, chainify.stat_organisations, chainify.stat_scrubber
    TO chainify_reader;
