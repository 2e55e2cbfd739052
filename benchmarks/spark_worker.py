"""How long a fresh Python worker of Spark needs until its first rows: it starts, imports, fetches.

`make bench-spark` prints it.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time

from odradek.client.arrow.decoder import TYPES
from odradek.client.spark.columns import Column
from odradek.client.spark.options import parse_options
from odradek.client.spark.source import BatchReader
from pyspark.sql.pandas.types import from_arrow_type

# What Spark's worker does with a task, in short.
_PROGRAM = """
import pickle, sys, time
reader, partition = pickle.load(sys.stdin.buffer)
assert next(iter(reader.read(partition))).num_rows
print(time.process_time())
"""


def first_rows(texts: dict[str, str]) -> tuple[float, float]:
    """Return the seconds, and the CPU seconds, from the start of a process to the first rows of a read."""
    columns = [Column(name, from_arrow_type(kind)) for name, kind in TYPES.items() if name != "headers"]
    reader = BatchReader(parse_options(texts), columns)
    task = pickle.dumps((reader, reader.partitions()[0]))
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", _PROGRAM], input=task, stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - began, float(done.stdout)
