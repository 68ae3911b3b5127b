"""DuckDB as bench/analytics measures it: one thread, all rows in memory. Reads SQL, a JSON text on each line, and answers each with a line of JSON."""

import json
import sys
import time

import duckdb

session = duckdb.connect(":memory:")
session.execute("SET threads = 1")
for line in sys.stdin:
    answer = {"version": duckdb.__version__}
    try:
        started = time.perf_counter()
        rows = session.execute(json.loads(line)).fetchall()
        answer.update(ms=(time.perf_counter() - started) * 1000, rows=len(rows))
    except duckdb.Error as error:
        answer["error"] = str(error)
    print(json.dumps(answer), flush=True)
