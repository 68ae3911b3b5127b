-- Texts of psql's \df+ and \dv+. docs/sql-reference.md is made of them. The contract is spec/sql-api.md.

COMMENT ON SCHEMA chainify IS 'Functions and views for users: submit transactions, put tables on the ledger, read and verify it.';
COMMENT ON SCHEMA chainify_node IS 'Functions for the organisation''s node; none for users.';
COMMENT ON SCHEMA chainify_ledger IS 'The ledger''s own tables and functions. Readers see them through the views of schema chainify.';
COMMENT ON SCHEMA chainify_history IS 'Every change of every ledger table. <table> holds the changes, <table>_ledger shows them to people, <table>_as_of shows the rows at the block or time of chainify.as_of.';
COMMENT ON SCHEMA chainify_checkpoint IS 'Rows of each ledger table at its oldest checkpoint.';
COMMENT ON SCHEMA chainify_initial IS 'Rows of tables at the time they were put on the ledger.';
COMMENT ON SCHEMA chainify_private IS 'Private values that this organisation holds, a table for each sealed column. Its owner grants rights on them.';
COMMENT ON SCHEMA chainify_open IS 'A view of each table with sealed columns, in which private values stand that are held here.';

COMMENT ON FUNCTION chainify.execute(text) IS 'Runs a statement as a ledger transaction in every organisation and waits for its outcome. A failed transaction is an outcome. The function raises an error when there is no outcome.';
COMMENT ON FUNCTION chainify.execute(text, "any") IS 'The same, with values for $1, $2 and so on.';
COMMENT ON FUNCTION chainify.environment() IS 'Returns the locale, libraries and extensions that results may depend on. They should be the same in all organisations. For chainify_reader.';
COMMENT ON FUNCTION chainify.submit(text) IS 'Submits a statement as a ledger transaction and returns its id without waiting.';
COMMENT ON FUNCTION chainify.submit(text, "any") IS 'The same, with values for $1, $2 and so on.';
COMMENT ON FUNCTION chainify.submit_batch IS 'Submits statements, each as a ledger transaction of its own, and returns their ids without waiting.';
COMMENT ON FUNCTION chainify.wait IS 'Waits for the outcome of a transaction. Returns no row when there is none in time.';
COMMENT ON FUNCTION chainify.uuid IS 'Returns the next UUID of the ledger transaction, the same in every organisation.';

COMMENT ON FUNCTION chainify.plan(text, timestamptz, text, timestamptz) IS 'Puts a statement on the ledger that a later block runs, from the time not_before on and with the approvals of organisations, written like an agreement policy. Returns the id of the plan.';
COMMENT ON FUNCTION chainify.plan(text, timestamptz, text, timestamptz, "any") IS 'The same, with values for $1, $2 and so on.';
COMMENT ON FUNCTION chainify.approve_planned IS 'Approves a planned transaction in the name of the organisation. For chainify_admin.';
COMMENT ON FUNCTION chainify.cancel_planned IS 'Cancels a planned transaction. For its planner, and for chainify_admin in the planner''s organisation.';
COMMENT ON FUNCTION chainify.execute_planned IS 'Runs a planned transaction that is due, as its planner, and returns its outcome. The node of the planner''s organisation does so by itself.';

COMMENT ON FUNCTION chainify.attach IS 'Puts tables on the ledger in every organisation. All organisations have to hold the same rows. For chainify_admin.';
COMMENT ON FUNCTION chainify.detach IS 'Takes tables off the ledger. Their history stays. For chainify_admin.';
COMMENT ON FUNCTION chainify.deploy IS 'Runs statements that change definitions as one ledger transaction. For chainify_admin.';
COMMENT ON FUNCTION chainify.approve_deploy IS 'Sets whether this organisation agrees to a deploy of exactly this text. For chainify_admin.';
COMMENT ON FUNCTION chainify.set_policy IS 'Sets the organisations that have to agree to changes of a table''s rows. NULL: none. For chainify_admin.';
COMMENT ON FUNCTION chainify.set_role_organisations IS 'Sets the organisations whose clients may act as a role. NULL: every organisation. For chainify_admin.';
COMMENT ON FUNCTION chainify.prepare_pg_upgrade IS 'Closes the ledger before pg_upgrade, until chainify.adopt_restored. The node must be stopped. For superusers.';
COMMENT ON FUNCTION chainify.set_agreement_check IS 'Sets the function that decides whether this organisation agrees to a change of a row. NULL: no function, and it agrees to nothing. For chainify_admin.';

COMMENT ON DOMAIN chainify.sealed IS 'The commitment of a private value, in a sealed column.';
COMMENT ON FUNCTION chainify.seal IS 'Seals a value for a column in a transaction of plain SQL, and returns its commitment. Writes through the opened view do so by themselves.';
COMMENT ON FUNCTION chainify.verify_private IS 'Compares the private values held here with their commitments. Returns one row per value that does not fit. For chainify_reader.';
COMMENT ON FUNCTION chainify.disclose IS 'Returns a private value with type and salt, so that somebody outside of the circle can compare it with its commitment. For roles that may read the private table.';
COMMENT ON FUNCTION chainify.is_sealed IS 'Says of a commitment whether its value is open here, missing here, or closed to this organisation.';

COMMENT ON FUNCTION chainify.analyze IS 'Shows for each statement whether it may run as a ledger transaction, the reason if not, and a statement to write instead. Runs nothing.';
COMMENT ON FUNCTION chainify.access IS 'Shows the rows that each statement may read and write. They decide which transactions run beside each other. Runs nothing.';
COMMENT ON FUNCTION chainify.declare_access IS 'Declares for this organisation which rows of a table a function accesses, by its arguments or by a look-up. For chainify_admin.';
COMMENT ON FUNCTION chainify.undeclare_access IS 'Takes a declaration back. Returns whether there was one. For chainify_admin.';
COMMENT ON FUNCTION chainify.explain_block IS 'Shows the dependencies between the transactions of a block, and the turns of its transactions of plain SQL, as text or for Graphviz (dot). For chainify_reader.';

COMMENT ON FUNCTION chainify.verify_ledger IS 'Checks blocks, transactions, outcomes, history and the organisations'' signatures. Returns one row per finding. For chainify_reader.';
COMMENT ON FUNCTION chainify.verify_table IS 'Reads a table anew and compares it with the agreed state, its checkpoints and its definition. Returns one row per finding. For chainify_reader.';
COMMENT ON FUNCTION chainify.verify IS 'Checks the database against a digest or receipt kept elsewhere, and against itself. Returns one row per finding. For chainify_reader.';
COMMENT ON FUNCTION chainify.digest IS 'Returns a certified block, by default the last one, with its signatures. Keep it elsewhere. For chainify_reader.';
COMMENT ON FUNCTION chainify.receipt(bytea) IS 'Returns a proof that a transaction is in a certified block with its outcome. Others check it without a database. For chainify_reader.';
COMMENT ON FUNCTION chainify.receipt(regclass, "any") IS 'Returns a proof of the last change of the row with this key and of its transaction. Others check it without a database. For chainify_reader.';
COMMENT ON FUNCTION chainify.history IS 'Returns every change of the row with this key and its author, the oldest first. For chainify_reader.';
COMMENT ON FUNCTION chainify.as_of IS 'Returns the rows of a table at the end of a block: chainify.as_of(NULL::accounts, 1234). For chainify_reader.';
COMMENT ON FUNCTION chainify.row_hash IS 'Returns the hash of a row of a ledger table, as receipts and the history show it.';
COMMENT ON FUNCTION chainify.read_block IS 'Returns the last block, which stays the last one until the transaction ends. For chainify_reader.';
COMMENT ON FUNCTION chainify.adopt_restored IS 'Makes a ledger again from a dump that pg_restore put back. It belongs to the organisation that dumped it, or to the named one, which joins with it. For superusers.';
COMMENT ON FUNCTION chainify.rejoin IS 'Lets an excluded organisation try again. Put its database right before. For chainify_admin.';

COMMENT ON FUNCTION chainify.mirror IS 'Has the analytics worker mirror ledger tables. For chainify_admin.';
COMMENT ON FUNCTION chainify.unmirror IS 'Ends the mirrors of tables. For chainify_admin.';
COMMENT ON FUNCTION chainify.query_at(bigint, text) IS 'Returns the rows of a SELECT at the end of a block, as the analytics worker computes them. NULL: the last block. The caller lists the columns: AS t (id bigint, n numeric). For roles with SELECT on the tables; earlier blocks for chainify_reader.';
COMMENT ON FUNCTION chainify.query_at(bigint, text, "any") IS 'The same, with values for $1, $2 and so on.';
COMMENT ON FUNCTION chainify.query_at_json(bigint, text) IS 'Returns each row of chainify.query_at as an object, without a list of columns.';
COMMENT ON FUNCTION chainify.query_at_json(bigint, text, "any") IS 'The same, with values for $1, $2 and so on.';
COMMENT ON FUNCTION chainify.mirror_rows IS 'Returns the rows of a mirrored table at the end of a block in pieces, as the analytics worker reads them.';
COMMENT ON FUNCTION chainify.mirror_changes IS 'Returns the changes of a mirrored table after a block up to another in pieces, as the analytics worker reads them.';
COMMENT ON FUNCTION chainify.procedure_digest IS 'Returns the digest of the words of a procedure in schema public, for the text that puts it on a ledger of several engines.';
COMMENT ON FUNCTION chainify.state_parts_at IS 'Returns the states that the state root of an earlier block is over.';
COMMENT ON FUNCTION chainify.translate_query IS 'Returns the query that the analytics worker gets in place of a SELECT, and the columns of its result. Raises the reason when the query is refused.';
COMMENT ON FUNCTION chainify.pin_snapshot IS 'Has the analytics worker keep the rows at a block, by default the last one, until chainify.unpin_snapshot. Returns the block. For chainify_admin.';
COMMENT ON FUNCTION chainify.unpin_snapshot IS 'Lets the analytics worker forget a pinned snapshot. For chainify_admin.';

COMMENT ON VIEW chainify.status IS 'One row: this organisation, its last block, and the answer of its node, or the reason why there is none.';
COMMENT ON VIEW chainify.tables IS 'Tables on the ledger, and the time when the scrubber last read each.';
COMMENT ON VIEW chainify.ledger IS 'One row for each block.';
COMMENT ON VIEW chainify.transactions IS 'Transactions of all blocks, with their client, text and outcome.';
COMMENT ON VIEW chainify.planned IS 'Planned transactions: their text, times, approvals and state. Readers and admins see all of them, clients those of their role here.';
COMMENT ON VIEW chainify.organisations IS 'Organisations that take or took part, with their keys, and the blocks for which they do.';
COMMENT ON VIEW chainify.registry_changes IS 'Blocks with which the organisations, their keys, or the number that have to agree changed.';
COMMENT ON VIEW chainify.mirrors IS 'Tables that the analytics worker mirrors, and its answer about each: rows, bytes, block, lag, state.';
COMMENT ON VIEW chainify.snapshots IS 'Snapshots that are pinned or in use in the analytics worker.';
COMMENT ON VIEW chainify.mirrored_tables IS 'Tables to mirror, as the analytics worker reads them.';
COMMENT ON VIEW chainify.mirrored_columns IS 'Columns of tables to mirror, as the analytics worker reads them.';
COMMENT ON VIEW chainify.state_parts IS 'States that the state root of the last block is over.';
COMMENT ON VIEW chainify.snapshot_pins IS 'Snapshots to keep, as the analytics worker reads them.';
COMMENT ON VIEW chainify.analytics_functions IS 'Functions, operators and aggregates that a query for the analytics worker may call.';
COMMENT ON VIEW chainify.votes IS 'Votes that certified each block.';
COMMENT ON VIEW chainify.definitions IS 'Definitions under the ledger: views, functions, types, rights and others.';
COMMENT ON VIEW chainify.procedures IS 'Procedures on a ledger of several engines, with the digests of their words in each engine.';
COMMENT ON VIEW chainify.sequences IS 'Positions of the sequences on the ledger.';
COMMENT ON VIEW chainify.settings IS 'Settings that deploys made for all organisations.';
COMMENT ON VIEW chainify.role_organisations IS 'Organisations whose clients may act as a role. Roles without a row are for clients of every organisation.';
COMMENT ON VIEW chainify.circles IS 'Organisations that may hold certain private values together.';
COMMENT ON VIEW chainify.sealed_columns IS 'Columns whose values are private, with their circle, their type and whether this organisation may hold the values.';
COMMENT ON VIEW chainify.private_missing IS 'The first 1,000 commitments whose values this organisation may hold and does not have yet.';
COMMENT ON VIEW chainify.policies IS 'Agreement policies: the organisations that have to agree to changes of a table.';
COMMENT ON VIEW chainify.declared_access IS 'Declarations of chainify.declare_access in this database.';
COMMENT ON VIEW chainify.histories IS 'Tables that hold the changes of each version of a ledger table, and the transactions between which the version was on the ledger.';
COMMENT ON VIEW chainify.checkpoints IS 'Checkpoints that are kept. Recovery can go back to their rows.';
COMMENT ON VIEW chainify.deviations IS 'Deviations of this database from the agreed state, row by row, and their cures.';
COMMENT ON VIEW chainify.stat_blocks IS 'A row for each block: its contents and its number of votes.';
COMMENT ON VIEW chainify.stat_organisations IS 'Organisations that take part, and the number of the newest certificates that hold the vote of each.';
COMMENT ON VIEW chainify.stat_tables IS 'Contents and disk space of ledger tables, their histories and checkpoints.';
COMMENT ON VIEW chainify.stat_scrubber IS 'The last scrub of each table, its findings, and the time of the next one.';
COMMENT ON VIEW chainify.stat_verify IS 'Progress of the verifications that run right now.';
