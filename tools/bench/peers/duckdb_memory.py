"""The bench's windows by DuckDB on one thread, from a table in memory into a table
in memory: duckdb_memory.py READINGS.csv

Says the processor's seconds of each query, the fastest of some runs.
"""

import sys
import time

import duckdb

LOAD = """
create table readings as
  select device, time, value
  from read_csv('{input}', header = false, columns = {{
    'device': 'VARCHAR', 'time': 'BIGINT', 'value': 'DOUBLE'}})
"""
QUERIES = {
    "tumbling": """
      create or replace temp table result as
      select device, time // 60000000 as minute,
             count(*), avg(value), min(value), max(value)
      from readings group by all""",
    "sliding": """
      create or replace temp table result as
      select device, time, avg(value) over past, max(value) over past
      from readings
      window past as (partition by device order by time
                      range between 59999999 preceding and current row)""",
}
ROUNDS = {"tumbling": 3, "sliding": 1}

db = duckdb.connect()
db.execute("set threads = 1")
db.execute(LOAD.format(input=sys.argv[1]))
for name, query in QUERIES.items():
    took = []
    for _ in range(ROUNDS[name]):
        begin = time.process_time()
        db.execute(query)
        took.append(time.process_time() - begin)
    print(f"{name}_cpu_seconds={min(took)}")
print(f"version={duckdb.__version__}")
