"""The bench's windows by Bytewax on one worker: bytewax_try.py INPUT.csv OUTPUT.csv

Says `seconds=` for the whole flow, without the interpreter's start.
"""

import csv
import sys
import time
from datetime import datetime, timedelta, timezone
from importlib.metadata import version

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
BATCH = 1000


class Rows(StatefulSourcePartition):
    """The file's rows as (device, (time, value)), many at a time."""

    def __init__(self, path):
        self.file = open(path, newline="")
        self.rows = csv.reader(self.file)
        next(self.rows)

    def next_batch(self):
        batch = [
            (device, (datetime.fromisoformat(at), float(value)))
            for _, (device, _, at, value) in zip(range(BATCH), self.rows)
        ]
        if not batch:
            raise StopIteration()
        return batch

    def snapshot(self):
        return None


class Source(FixedPartitionedSource):
    def __init__(self, path):
        self.path = path

    def list_parts(self):
        return ["all"]

    def build_part(self, step_id, for_part, resume_state):
        return Rows(self.path)


class Lines(StatelessSinkPartition):
    def __init__(self, path):
        self.file = open(path, "w")

    def write_batch(self, items):
        for device, (window, (count, total, largest)) in items:
            start = window * 60_000_000
            self.file.write(f"{device},{start},{count},{total / count!r},{largest!r}\n")

    def close(self):
        self.file.close()


class Sink(DynamicSink):
    def __init__(self, path):
        self.path = path

    def build(self, step_id, worker_index, worker_count):
        return Lines(self.path)


def fold(state, reading):
    value = reading[1]
    return (state[0] + 1, state[1] + value, value if value > state[2] else state[2])


def merge(a, b):
    return (a[0] + b[0], a[1] + b[1], max(a[2], b[2]))


flow = Dataflow("bench")
rows = op.input("rows", flow, Source(sys.argv[1]))
windows = win.fold_window(
    "windows",
    rows,
    clock=win.EventClock(lambda reading: reading[0], timedelta(seconds=5)),
    windower=win.TumblingWindower(length=MINUTE, align_to=EPOCH),
    builder=lambda: (0, 0.0, float("-inf")),
    folder=fold,
    merger=merge,
    ordered=False,
)
op.output("lines", windows.down, Sink(sys.argv[2]))

begin, cpu = time.perf_counter(), time.process_time()
run_main(flow)
print(f"seconds={time.perf_counter() - begin}")
print(f"cpu_seconds={time.process_time() - cpu}")
print(f"version={version('bytewax')}")
