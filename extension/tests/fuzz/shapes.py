"""The physical forms one schema may have in different organisations: everything that must not show in a LedgerBlock.

Shape 0 is plain. Every other one has its own settings, costs, column and row order, indexes, statistics, fill factor and
history of vacuums, and changes some of them between blocks.
"""

import random

# Settings of a session, or of the executor's workers. Those that a block pins must make no difference; the costs and the
# memory are not pinned and lead to other plans.
COSTS = {
    "random_page_cost": ["0.0001", "4", "100000"], "seq_page_cost": ["0.0001", "1", "100000"],
    "cpu_tuple_cost": ["0.01", "1000"], "cpu_index_tuple_cost": ["0.005", "1000"], "cpu_operator_cost": ["0.0025", "100"],
    "effective_cache_size": ["8kB", "4GB"], "work_mem": ["64kB", "4MB", "256MB"], "hash_mem_multiplier": ["1", "8"],
    "default_statistics_target": ["1", "100", "5000"], "temp_buffers": ["800kB"],
}
PINNED = {
    "enable_seqscan": ["off"], "enable_indexscan": ["off"], "enable_indexonlyscan": ["off"], "enable_bitmapscan": ["off"],
    "enable_hashjoin": ["off"], "enable_mergejoin": ["off"], "enable_nestloop": ["off"], "enable_hashagg": ["off"],
    "enable_sort": ["off"], "enable_memoize": ["off"], "enable_material": ["off"], "enable_incremental_sort": ["off"],
    "enable_partition_pruning": ["off"], "enable_partitionwise_join": ["on"], "enable_partitionwise_aggregate": ["on"],
    "plan_cache_mode": ["force_generic_plan", "force_custom_plan"], "geqo": ["on"], "geqo_threshold": ["2"],
    "from_collapse_limit": ["1"], "join_collapse_limit": ["1"], "force_parallel_mode": ["on"], "parallel_setup_cost": ["0"],
    "max_parallel_workers_per_gather": ["4"], "constraint_exclusion": ["on", "off"], "synchronize_seqscans": ["on"],
    "TimeZone": ["Asia/Kathmandu", "America/St_Johns"], "DateStyle": ["SQL, DMY", "German, YMD"], "IntervalStyle": ["iso_8601"],
    "extra_float_digits": ["-15", "3"], "bytea_output": ["escape"], "transform_null_equals": ["on"], "array_nulls": ["off"],
    "xmloption": ["document"], "quote_all_identifiers": ["on"], "row_security": ["off"], "check_function_bodies": ["off"],
    "default_toast_compression": ["lz4"], "standard_conforming_strings": ["off"], "search_path": ["pg_catalog", "test, public"],
    "default_transaction_isolation": ["repeatable read", "serializable"], "backslash_quote": ["on"], "lc_messages": ["C.UTF-8"],
}
LEDGER = {"chainify.share_plans": ["off"], "chainify.group_after": ["0", "-1"], "chainify.keep_states": ["off"]}
# Statistics: as drawn between blocks, also from the start, or never any.
DEFAULT, FRESH, NEVER = "default", "fresh", "never"
WORKERS = ["1", "2", "4"]  # by number of the database
PARTS = ["-1", "-2"]  # by what transactions access; in keys of its own, or in those that served an earlier block


class Shape:
    """One database's physical form, a function of its seed. `workers` is whether the executor takes their number."""

    def __init__(self, number, seed, workers=False):
        self.number = number
        self.plain = number == 0
        self.statistics = (DEFAULT, FRESH, NEVER)[number % 3]
        self.seed, self.workers = seed, workers

    def draws(self, what):
        """Random numbers of one purpose: the same at each call, so that a program can run again."""
        return random.Random(f"{self.seed} {self.number} {what}")

    def settings(self):
        """(name, value) for every session of the database."""
        r = self.draws("settings")
        if self.plain:
            return [("chainify.executor_workers", "1")] if self.workers else []
        chosen = [(name, r.choice(values)) for source, share in ((COSTS, 0.5), (PINNED, 0.35), (LEDGER, 0.4))
                  for name, values in source.items() if r.random() < share]
        if self.workers:
            workers = WORKERS[self.number % len(WORKERS)]
            chosen += [("chainify.executor_workers", workers), ("chainify.debug_parts", r.choice(PARTS))]
        return chosen

    def create(self, schema):
        """Statements that make the schema."""
        r, out, late = self.draws("create"), [], []
        for table in schema.tables:
            out += self.create_table(r, table)
            late += [f"ALTER TABLE {table.name} ADD {ref.sql()}" for ref in table.references]
            late += [f"CREATE UNIQUE INDEX {table.unique_name(i)} ON {table.name} {unique}" for i, (unique, _) in enumerate(table.uniques)]
            if not self.plain and r.random() < 0.5:
                late += local_indexes(r, table)
        if not self.plain:
            r.shuffle(late)
        return out + late + schema.definitions

    def create_table(self, r, table):
        extra = []
        if not self.plain and r.random() < 0.6:
            extra = [(r.randrange(12), f"d{i} {r.choice(['int', 'text', 'timestamptz'])}") for i in range(r.randrange(1, 5))]
        with_ = f" WITH (fillfactor = {r.choice([10, 50, 90])})" if not self.plain and not table.partition and r.random() < 0.5 else ""
        by = f" PARTITION BY {table.partition}" if table.partition else ""
        out = [f"CREATE TABLE {table.name} ({', '.join(table.definition(extra))}){by}{with_}"]
        if extra:
            out.append(f"ALTER TABLE {table.name} " + ", ".join(f"DROP COLUMN {text.split()[0]}" for _, text in extra))
        return out + table.partitions()

    def rearrange(self, table):
        """The same rows in another order, with dead ones between them; for a table that no block has written yet."""
        r = self.draws("rows of " + table.name)
        if self.plain:
            return []
        names = table.key_names() + [n for n, _, rest in table.columns if "GENERATED" not in rest] + [n for n, _ in table.reference_columns()]
        names += ["s"] if table.sequence else []
        columns = ", ".join(names)
        out = ["SET session_replication_role = replica", f"CREATE TEMP TABLE moved AS SELECT {columns} FROM {table.name}",
               f"DELETE FROM {table.name}",
               f"INSERT INTO {table.name} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM moved ORDER BY md5(moved::text || '{r.random()}')",
               "DROP TABLE moved", "RESET session_replication_role"]
        if r.random() < 0.5:
            out.append(f"UPDATE {table.name} SET g = g")
        if self.statistics == FRESH:
            out.append(f"ANALYZE {table.name}")
        return out

    def costs(self, step):
        """Settings of a session beside that of the blocks: other costs for each step."""
        r = self.draws(f"costs {step}")
        return [(name, r.choice(values)) for name, values in COSTS.items() if r.random() < 0.5]

    def between_blocks(self, r, table):
        """Statements, one at a time, that move rows or change what the planner believes; None is a new session."""
        name = table.name
        simple = {"vacuum": f"VACUUM {name}", "full": f"VACUUM FULL {name}", "freeze": f"VACUUM (FREEZE, ANALYZE) {name}",
                  "analyze": f"ANALYZE {name}", "reindex": f"REINDEX TABLE {name}"}
        simple |= {"checkpoint": "SELECT chainify_node.checkpoint()", "fold": f"SELECT chainify_node.fold_history({r.choice([1, 20, 10000])})"}
        if table.sequence:
            stands = -31 if "INCREMENT -" in table.sequence else 31
            simple["sequence"] = f"SELECT setval(pg_get_serial_sequence({quoted(name)}, 's'), {stands})"
        if self.statistics == NEVER:
            simple = {kind: sql for kind, sql in simple.items() if "ANALYZE" not in sql}
        kind = r.choice([*simple, "cluster", *([] if self.statistics == NEVER else ["statistics"]), "session", "index"])
        if kind in simple:
            return [simple[kind]]
        if kind == "session":
            return [None]
        if kind == "index":
            return local_indexes(r, table)
        if kind == "cluster":
            return [f"""DO $$ DECLARE command text; BEGIN
                FOR command IN SELECT format('CLUSTER %s USING %I', i.indrelid::regclass, c.relname) FROM pg_partition_tree({quoted(name)}) p
                    JOIN pg_index i ON i.indrelid = p.relid JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
                    WHERE p.isleaf AND a.amname = 'btree' AND i.indpred IS NULL ORDER BY i.indnatts, c.relname LOOP
                    EXECUTE command; END LOOP; END $$"""]
        rows, pages = r.choice([(0, 0), (1, 1), (10000000, 1), (10000000, 1000000)])
        return [f"UPDATE pg_class SET reltuples = {rows}, relpages = {pages} WHERE oid IN"
                f" (SELECT relid FROM pg_partition_tree({quoted(name)}) WHERE isleaf)"]


def local_indexes(r, table):
    """Indexes that one organisation has for its own queries: such that take every row."""
    kinds = ["(g)", "(n, g)", "USING hash (n)", "USING brin (n)", "USING hash (g)", "(n DESC NULLS LAST)"]
    return [f"CREATE INDEX ON {table.name} {kind}" for kind in r.sample(kinds, r.randrange(1, 4))]


def quoted(name):
    return "'" + name.replace("'", "''") + "'"
