-- Which server the node follows (docs/operator/failover.md): taken in epochs that grow, and refused once it was left behind.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set mark 'decode(repeat(''a1'', 16), ''hex'')'
SELECT epoch, mark, superseded_by, system_identifier IS NOT NULL AS system, timeline, standby, last_block FROM chainify_node.server();
SELECT chainify_node.take_server('testchain', 'bolt', 1, :mark);
SELECT chainify_node.take_server('other', 'acme', 1, :mark);
SELECT chainify_node.take_server('testchain', 'acme', 0, :mark);
SELECT chainify_node.take_server('testchain', 'acme', 1, '\x00');
SELECT chainify_node.take_server('testchain', 'acme', 2, :mark);
SELECT epoch, mark, superseded_by, timeline FROM chainify_node.server();
SELECT system_identifier = (SELECT s.system_identifier FROM pg_control_system() s) AS own, timeline FROM chainify_ledger.fence;
SELECT chainify_node.take_server('testchain', 'acme', 2, :mark);
SELECT chainify_node.supersede(2), chainify_node.supersede(1);
SELECT stale FROM chainify.status;
SET ROLE alice;
SELECT * FROM chainify.submit('SELECT 1');
RESET ROLE;
-- The node went over to another server. Sessions that are open see it, too.
SELECT chainify_node.supersede(3), chainify_node.supersede(4);
SELECT epoch, superseded_by FROM chainify_node.server();
SELECT stale FROM chainify.status;
SET ROLE alice;
SELECT * FROM chainify.submit('SELECT 1');
RESET ROLE;
SELECT chainify_node.init('testchain', 'acme');
-- It comes back: by pg_rewind, which brings the other server's row, or by the operator's word.
SELECT chainify_node.take_server('testchain', 'acme', 3, :mark);
SELECT chainify_node.take_server('testchain', 'acme', 4, :mark);
SELECT chainify_node.init('testchain', 'acme');
SELECT stale FROM chainify.status;
-- Nobody but the node says so.
SET ROLE alice;
SELECT chainify_node.supersede(9);
RESET ROLE;
