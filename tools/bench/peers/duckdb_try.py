"""The bench's windows by DuckDB on one thread: duckdb_try.py INPUT.csv OUTPUT.csv

The columns' types are told, so that nothing is spent on guessing them. Says
`seconds=` for reading, grouping and writing, without the interpreter's start.
"""

import sys
import time

import duckdb

QUERY = """
copy (
  select device, epoch_us(time) // 60000000 * 60000000 as start,
         count(*), avg(value), max(value)
  from read_csv('{input}', header = true, columns = {{
    'device': 'VARCHAR', 'channel': 'VARCHAR', 'time': 'TIMESTAMP', 'value': 'DOUBLE'}})
  group by all
) to '{output}' (header false)
"""

db = duckdb.connect()
db.execute("set threads = 1")
begin, cpu = time.perf_counter(), time.process_time()
db.execute(QUERY.format(input=sys.argv[1], output=sys.argv[2]))
print(f"seconds={time.perf_counter() - begin}")
print(f"cpu_seconds={time.process_time() - cpu}")
print(f"version={duckdb.__version__}")
