-- What psql's \df+ and \dv+ say, and what docs/sql-reference.md is made of. The contract is spec/sql-api.md.

COMMENT ON SCHEMA chainify IS 'The ledger, for users: submitting transactions, putting tables on the ledger, looking at it, verifying it.';
COMMENT ON SCHEMA chainify_node IS 'What the organisation''s node calls; nothing for users.';
COMMENT ON SCHEMA chainify_ledger IS 'The ledger''s own tables and functions; readers see them through the views of schema chainify.';
COMMENT ON SCHEMA chainify_history IS 'Every change of every ledger table: <table>, <table>_ledger for people, <table>_as_of for the rows at the block or time of chainify.as_of.';
COMMENT ON SCHEMA chainify_checkpoint IS 'The rows of the oldest checkpoint kept of each ledger table.';
COMMENT ON SCHEMA chainify_initial IS 'The rows with which tables were put on the ledger.';

COMMENT ON FUNCTION chainify.execute(text) IS 'Runs a statement as a ledger transaction in every organisation and waits for its outcome. A transaction that failed is an outcome; an error is raised when there is none.';
COMMENT ON FUNCTION chainify.execute(text, "any") IS 'The same with values for $1, $2 and so on.';
COMMENT ON FUNCTION chainify.submit(text) IS 'Submits a statement as a ledger transaction and returns its id without waiting.';
COMMENT ON FUNCTION chainify.submit(text, "any") IS 'The same with values for $1, $2 and so on.';
COMMENT ON FUNCTION chainify.submit_batch IS 'Submits statements, each as a ledger transaction of its own, and returns their ids without waiting.';
COMMENT ON FUNCTION chainify.wait IS 'Waits for the outcome of a transaction; no row when there is none in time.';
COMMENT ON FUNCTION chainify.uuid IS 'The next UUID of the ledger transaction, the same in every organisation.';

COMMENT ON FUNCTION chainify.attach IS 'Puts tables on the ledger, in every organisation, which have to hold the same rows. For chainify_admin.';
COMMENT ON FUNCTION chainify.detach IS 'Takes tables off the ledger; their history stays. For chainify_admin.';
COMMENT ON FUNCTION chainify.deploy IS 'Runs statements that change definitions as one ledger transaction. For chainify_admin.';
COMMENT ON FUNCTION chainify.approve_deploy IS 'Says whether this organisation agrees to a deploy of exactly this text. For chainify_admin.';
COMMENT ON FUNCTION chainify.set_policy IS 'Sets who has to agree to changes of a table''s rows; NULL: nobody any more. For chainify_admin.';
COMMENT ON FUNCTION chainify.set_role_organisations IS 'Sets the organisations whose clients may act as a role; NULL: every organisation. For chainify_admin.';
COMMENT ON FUNCTION chainify.set_agreement_check IS 'Sets the function by which this organisation decides whether it agrees to a change of a row; NULL: none, it agrees to nothing. For chainify_admin.';

COMMENT ON FUNCTION chainify.analyze IS 'Says of each statement whether it may run as a ledger transaction, why not, and what to write instead. Runs nothing.';
COMMENT ON FUNCTION chainify.access IS 'Says what each statement may read and write, which decides what it may run beside. Runs nothing.';
COMMENT ON FUNCTION chainify.declare_access IS 'Says where a function''s accesses to a table lie, by its arguments or by a look-up, in this organisation. For chainify_admin.';
COMMENT ON FUNCTION chainify.undeclare_access IS 'Takes back what was declared; whether there was something. For chainify_admin.';
COMMENT ON FUNCTION chainify.explain_block IS 'Shows which transactions of a block depended on which, as text or for Graphviz (dot). For chainify_reader.';

COMMENT ON FUNCTION chainify.verify_ledger IS 'Checks blocks, transactions, outcomes, history and the organisations'' signatures; one row per finding. For chainify_reader.';
COMMENT ON FUNCTION chainify.verify_table IS 'Reads a table anew and compares it with the state that was agreed, with its checkpoints and its definition; one row per finding. For chainify_reader.';
COMMENT ON FUNCTION chainify.verify IS 'Checks that the database still leads to a digest or receipt kept elsewhere, and everything else; one row per finding. For chainify_reader.';
COMMENT ON FUNCTION chainify.digest IS 'The last certified block, or this one, with its signatures, to be kept elsewhere. For chainify_reader.';
COMMENT ON FUNCTION chainify.receipt(bytea) IS 'What shows to others, without a database, that a transaction is in a certified block with its outcome. For chainify_reader.';
COMMENT ON FUNCTION chainify.receipt(regclass, "any") IS 'What shows to others, without a database, what the last change of the row with this key was, in which transaction. For chainify_reader.';
COMMENT ON FUNCTION chainify.history IS 'Every change of the row with this key, the oldest first, with who made it. For chainify_reader.';
COMMENT ON FUNCTION chainify.as_of IS 'The rows of a table as they were at the end of a block: chainify.as_of(NULL::accounts, 1234). For chainify_reader.';
COMMENT ON FUNCTION chainify.row_hash IS 'The hash of a row of a ledger table, as it is in receipts and in the history.';
COMMENT ON FUNCTION chainify.read_block IS 'The last block, which stays the last one until the transaction ends. For chainify_reader.';
COMMENT ON FUNCTION chainify.adopt_restored IS 'Makes what pg_restore left of a ledger''s dump a ledger again: that of the organisation that dumped it, or of the one named, which joins with it. For superusers.';
COMMENT ON FUNCTION chainify.rejoin IS 'Lets an excluded organisation try again, once its database was put right. For chainify_admin.';

COMMENT ON VIEW chainify.status IS 'One row: this organisation, its last block, and what its node says, or why it does not.';
COMMENT ON VIEW chainify.tables IS 'The tables on the ledger, and when each was last read by the scrubber.';
COMMENT ON VIEW chainify.ledger IS 'The blocks.';
COMMENT ON VIEW chainify.transactions IS 'The transactions of all blocks, with who submitted them, their text, and their outcome.';
COMMENT ON VIEW chainify.organisations IS 'Who took part in which blocks, and with which keys.';
COMMENT ON VIEW chainify.registry_changes IS 'The blocks from which on who takes part, with which keys, or how many have to agree are other than before.';
COMMENT ON VIEW chainify.votes IS 'Whose votes certified each block.';
COMMENT ON VIEW chainify.definitions IS 'Views, functions, types, rights and other definitions under the ledger.';
COMMENT ON VIEW chainify.sequences IS 'What sequences on the ledger stand at.';
COMMENT ON VIEW chainify.settings IS 'What deploys set for all organisations.';
COMMENT ON VIEW chainify.role_organisations IS 'The organisations whose clients may act as a role. Roles without a row are for clients of every organisation.';
COMMENT ON VIEW chainify.policies IS 'Who has to agree to changes of which table.';
COMMENT ON VIEW chainify.declared_access IS 'What chainify.declare_access was told in this database.';
COMMENT ON VIEW chainify.histories IS 'Where the changes of each version of a table are, and between which transactions it was on the ledger so.';
COMMENT ON VIEW chainify.checkpoints IS 'The checkpoints kept, whose rows recovery can go back to.';
COMMENT ON VIEW chainify.deviations IS 'Where this database was not as agreed, row by row, and what put it right.';
COMMENT ON VIEW chainify.stat_blocks IS 'A row for each block: what is in it, and how many voted for it.';
COMMENT ON VIEW chainify.stat_organisations IS 'Who takes part, and in how many of the newest certificates each vote is.';
COMMENT ON VIEW chainify.stat_tables IS 'What ledger tables, their histories and checkpoints hold and take on disk.';
COMMENT ON VIEW chainify.stat_scrubber IS 'What the scrubber last read of each table, what it found, and when it is due again.';
COMMENT ON VIEW chainify.stat_verify IS 'How far the verifications are that run right now.';
