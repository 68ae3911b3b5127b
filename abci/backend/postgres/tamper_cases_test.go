package postgres

// tamperCase is one way to change a database behind the ledger.
type tamperCase struct {
	area, what string
	damage     string
	undo       string // of what sessions see when they begin: it is committed
}

// unheard runs a statement of which an index does not hear.
func unheard(index, table, statement string) string {
	set := func(on string) string {
		return "UPDATE pg_index SET indislive = " + on + ", indisready = " + on + " WHERE indexrelid = '" + index + "'::regclass;" +
			"UPDATE pg_class SET relhasindex = true WHERE oid = '" + table + "'::regclass;"
	}
	return set("false") + statement + ";" + set("true")
}

func moved(table, condition string) string {
	return "WITH gone AS (DELETE FROM " + table + " WHERE " + condition + " RETURNING *) INSERT INTO " + table + " SELECT * FROM gone"
}

// inToast changes values that are stored out of line, which PostgreSQL lets nobody write.
func inToast(statement string) string {
	return `DO $do$ DECLARE toast regclass := (SELECT reltoastrelid FROM pg_class WHERE oid = 'public.items'::regclass); BEGIN
		UPDATE pg_class SET relkind = 'r' WHERE oid = toast;
		EXECUTE format('` + statement + `', toast);
		UPDATE pg_class SET relkind = 't' WHERE oid = toast;
	END $do$`
}

// ledPast lets the root of the primary key lead past the second of the pages below it. The index is
// another file then, since the server may have pages of the former in memory.
const ledPast = `DO $do$ DECLARE was text := pg_relation_filepath('items_pkey'); file oid := (1000000000 + random() * 1000000000)::bigint::oid;
		bytes bytea; page int; entry int; other int; written oid; BEGIN
		CHECKPOINT;
		bytes := pg_read_binary_file(was);
		page := 8192 * get_byte(bytes, 32);
		entry := page + get_byte(bytes, page + 28) + 256 * (get_byte(bytes, page + 29) & 127);
		other := page + get_byte(bytes, page + 32) + 256 * (get_byte(bytes, page + 33) & 127);
		FOR i IN 0..3 LOOP
			bytes := set_byte(bytes, entry + i, get_byte(bytes, other + i));
		END LOOP;
		written := lo_from_bytea(0, bytes);
		PERFORM lo_export(written, regexp_replace(was, '[0-9]+$', file::text)), lo_unlink(written);
		UPDATE pg_class SET relfilenode = file WHERE relname = 'items_pkey';
	END $do$`

const (
	rowChanged     = "UPDATE items SET amount = amount + 100 WHERE id = 7"
	historyChanged = "UPDATE chainify_history.items SET amount = amount + 100 WHERE id = 7"
	baseChanged    = "UPDATE chainify_checkpoint.items SET amount = amount + 100 WHERE id IN (7, 33)"
)

var tamperCases = []tamperCase{
	{"rows", "row changed", rowChanged, ""},
	{"rows", "row gone", "DELETE FROM items WHERE id = 7", ""},
	{"rows", "row added", "INSERT INTO items VALUES (4000, 'added', 'a', 1, 'x')", ""},
	{"rows", "row there twice", unheard("items_pkey", "items", "INSERT INTO items SELECT id, 'twice', kind, amount FROM items WHERE id = 7"), ""},
	{"rows", "all rows gone", "DELETE FROM items", ""},
	{"history and checkpoints", "history changed", historyChanged, ""},
	{"history and checkpoints", "history gone", "DELETE FROM chainify_history.items", ""},
	{"history and checkpoints", "history before the base changed", "UPDATE chainify_history.items SET amount = 5 WHERE _block = 3", ""},
	{"history and checkpoints", "base changed", baseChanged, ""},
	{"history and checkpoints", "row and history changed", rowChanged + ";" + historyChanged, ""},
	{"history and checkpoints", "history and base changed", historyChanged + ";" + baseChanged, ""},
	{"history and checkpoints", "row, history and base changed", rowChanged + ";" + historyChanged + ";" + baseChanged, ""},
	{"history and checkpoints", "running state changed", "UPDATE chainify_ledger.table_state SET row_count = row_count + 1", ""},
	{"blocks", "header of the last block changed", "UPDATE chainify_ledger.block SET state_root = sha256(state_root) WHERE number = 5", ""},
	{"blocks", "header of an earlier block changed", "UPDATE chainify_ledger.block SET effects_root = sha256(effects_root) WHERE number = 2", ""},
	{"blocks", "transaction changed", "UPDATE chainify_ledger.transaction SET body = set_byte(body, 40, get_byte(body, 40) # 1) WHERE block = 2", ""},
	{"blocks", "block gone", "DELETE FROM chainify_ledger.block WHERE number = 1", ""},
	{"blocks", "certificate forged", "INSERT INTO chainify_ledger.certificate (number, effect_round, hash, votes) VALUES (4, 0, sha256('x'), '[]')", ""},
	{"indexes", "primary key misses a row", unheard("items_pkey", "items", moved("items", "id = 7")), ""},
	{"indexes", "inner page of the primary key leads past a page", ledPast, ""},
	{"indexes", "unique index misses a row", unheard("items_name", "items", moved("items", "id = 8")), ""},
	{"indexes", "index misses a row", unheard("items_kind", "items", moved("items", "id = 9")), ""},
	{"indexes", "hash index misses a row", unheard("items_amount", "items", moved("items", "id = 31")), ""},
	{"indexes", "GIN index misses rows", unheard("items_body", "items", moved("items", "body IS NOT NULL")), ""},
	{"indexes", "index of the base misses a row", unheard("chainify_checkpoint.items_id_idx", "chainify_checkpoint.items", moved("chainify_checkpoint.items", "id = 7")), ""},
	{"indexes", "index of the history misses a row", unheard("chainify_history.items_id_idx", "chainify_history.items", moved("chainify_history.items", "id = 7")), ""},
	{"indexes", "index of blocks misses a row", unheard("chainify_ledger.block_pkey", "chainify_ledger.block", moved("chainify_ledger.block", "number = 2")), ""},
	{"catalogues", "pg_class.relhastriggers", "UPDATE pg_class SET relhastriggers = false WHERE oid = 'items'::regclass", ""},
	{"catalogues", "pg_class.relhasindex", "UPDATE pg_class SET relhasindex = false WHERE oid = 'items'::regclass", ""},
	{"catalogues", "pg_class.relrowsecurity", "UPDATE pg_class SET relrowsecurity = true WHERE oid = 'items'::regclass", ""},
	{"catalogues", "pg_class.relacl", "UPDATE pg_class SET relacl = NULL WHERE oid = 'items'::regclass", ""},
	{"catalogues", "pg_attribute.attnotnull", "UPDATE pg_attribute SET attnotnull = false WHERE attrelid = 'items'::regclass AND attname = 'amount'", ""},
	{"catalogues", "pg_attribute.atttypmod", "UPDATE pg_attribute SET atttypmod = 327686 WHERE attrelid = 'items'::regclass AND attname = 'amount'", ""},
	{"catalogues", "pg_attribute.attname", "ALTER TABLE items RENAME body TO bodies", ""},
	{"catalogues", "pg_attrdef: another default", "ALTER TABLE items ALTER amount SET DEFAULT 2", ""},
	{"catalogues", "pg_constraint: check gone", "ALTER TABLE items DROP CONSTRAINT amount_is_small", ""},
	{"catalogues", "pg_constraint: check and rows", "ALTER TABLE items DROP CONSTRAINT amount_is_small; UPDATE items SET amount = 1000001 WHERE id = 7", ""},
	{"catalogues", "pg_constraint: foreign key gone", "ALTER TABLE items DROP CONSTRAINT items_kind_fkey", ""},
	{"catalogues", "pg_constraint: another action", "UPDATE pg_constraint SET confdeltype = 'c' WHERE conname = 'items_kind_fkey'", ""},
	{"catalogues", "pg_constraint: primary key gone", "ALTER TABLE items DROP CONSTRAINT items_pkey", ""},
	{"catalogues", "pg_constraint: check added", "ALTER TABLE items ADD CHECK (id <> 70) NOT VALID", ""},
	{"catalogues", "pg_index.indisunique of a primary key", "UPDATE pg_index SET indisunique = false WHERE indexrelid = 'items_pkey'::regclass", ""},
	{"catalogues", "pg_index.indisunique", "UPDATE pg_index SET indisunique = false WHERE indexrelid = 'items_name'::regclass", ""},
	{"catalogues", "pg_index.indisready", "UPDATE pg_index SET indisready = false WHERE indexrelid = 'items_name'::regclass", ""},
	{"catalogues", "pg_index.indisvalid", "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'items_kind'::regclass", ""},
	{"catalogues", "pg_index: unique index gone", "DROP INDEX items_name", ""},
	{"catalogues", "pg_trigger: ledger's trigger disabled", "ALTER TABLE items DISABLE TRIGGER chainify_digest", ""},
	{"catalogues", "pg_trigger: ledger's trigger gone", "DROP TRIGGER chainify_digest ON items", ""},
	{"catalogues", "pg_trigger: foreign keys silent", "ALTER TABLE items DISABLE TRIGGER ALL; ALTER TABLE items ENABLE ALWAYS TRIGGER chainify_digest; ALTER TABLE items ENABLE ALWAYS TRIGGER chainify_truncate", ""},
	{"catalogues", "pg_trigger: trigger of one's own", "CREATE FUNCTION dep.t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.amount := 5; RETURN NEW; END'; CREATE TRIGGER mine BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION dep.t()", ""},
	{"catalogues", "pg_rewrite: rule added", "CREATE RULE none AS ON INSERT TO items DO INSTEAD NOTHING", ""},
	{"catalogues", "pg_policy: policy gone", "DROP POLICY mine ON items", ""},
	{"catalogues", "pg_proc.prosrc of a deployed function", "UPDATE pg_proc SET prosrc = 'BEGIN RETURN n + 2; END' WHERE proname = 'fee'", ""},
	{"catalogues", "pg_proc: deployed function gone", "DROP FUNCTION dep.fee", ""},
	{"catalogues", "pg_proc.proacl of a deployed function", "REVOKE ALL ON FUNCTION dep.fee FROM PUBLIC, effects_ops", ""},
	{"catalogues", "pg_proc: another function of PostgreSQL's", "UPDATE pg_proc SET prosrc = 'text_right' WHERE oid = 'pg_catalog.left(text, int)'::regprocedure", ""},
	{"catalogues", "pg_operator: another function", "UPDATE pg_operator SET oprcode = 'numeric_add' WHERE oid = '*(numeric, numeric)'::regoperator", ""},
	{"catalogues", "pg_cast: another function", "UPDATE pg_cast SET castcontext = 'e' WHERE castsource = 'int4'::regtype AND casttarget = 'numeric'::regtype", ""},
	{"catalogues", "pg_type: domain without its check", "ALTER DOMAIN dep.small DROP CONSTRAINT small_check", ""},
	{"catalogues", "pg_type.typowner of a deployed type", "ALTER DOMAIN dep.small OWNER TO CURRENT_USER", ""},
	{"catalogues", "pg_namespace.nspacl", "REVOKE ALL ON SCHEMA dep FROM effects_ops, PUBLIC", ""},
	{"catalogues", "pg_authid: client's role a superuser", "ALTER ROLE effects_ops SUPERUSER", ""},
	{"catalogues", "pg_auth_members: client's role no member", "REVOKE chainify_admin FROM effects_ops", ""},
	{"settings", "of the database", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET datestyle = ''SQL, DMY''', current_database()); END $$", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET ALL', current_database()); END $$"},
	{"settings", "search_path of the database", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = dep', current_database()); END $$", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET ALL', current_database()); END $$"},
	{"settings", "session_replication_role", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET session_replication_role = replica', current_database()); END $$", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET ALL', current_database()); END $$"},
	{"settings", "chainify.guard", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET chainify.guard = off', current_database()); END $$", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET ALL', current_database()); END $$"},
	{"what is kept for recovery", "definitions kept", "UPDATE chainify_ledger.definition SET definition = replace(definition, 'n + 1', 'n + 2')", ""},
	{"what is kept for recovery", "a definition and what is kept of it", "UPDATE pg_proc SET prosrc = 'BEGIN RETURN n + 2; END' WHERE proname = 'fee'; UPDATE chainify_ledger.definition SET definition = replace(definition, 'n + 1', 'n + 2'); UPDATE chainify_ledger.definitions SET hash = chainify_ledger.hash_of_definitions()", ""},
	{"what is kept for recovery", "parts of tables kept", "DELETE FROM chainify_ledger.schema_part", ""},
	{"what is kept for recovery", "list of tables", "UPDATE chainify_ledger.ledger_table SET detached_at = 4 WHERE name = 'public.kinds'", ""},
	{"values stored out of line", "TOAST: a chunk is gone", inToast(`CREATE TEMPORARY TABLE kept AS SELECT * FROM %1$s t
		WHERE chunk_seq > 0 OR chunk_id <> (SELECT DISTINCT chunk_id FROM %1$s ORDER BY 1 OFFSET 5 LIMIT 1); TRUNCATE %1$s; INSERT INTO %1$s SELECT * FROM kept; DROP TABLE kept`), ""},
	// The last one: what was undone of it stays visible to who reads such a value, until it is
	// vacuumed.
	{"values stored out of line", "TOAST: a chunk is there twice", inToast(`UPDATE %s SET chunk_data = set_byte(chunk_data, 0, 120) WHERE chunk_seq = 0`), ""},
}
