"""The ceiling of every row in which a client produces: a broker that takes each batch and keeps nothing.

    python -m benchmarks --hollow --only "produces" --rounds 5    it in the place of Odradek, beside Kafka

It is Odradek without the log: a batch gets its offsets and is gone. What a client reaches here is what no broker on
uvloop can pass, so the ratio to Kafka is the largest that such a row can have.
"""

from __future__ import annotations

import runpy
from collections import Counter

from odradek.broker.topics.partition import Appended, Partition
from odradek.protocol.records.batch import read_header

from .brokers import Odradek

NO_TIME = -1
_ends: Counter[tuple[str, int]] = Counter()


class Hollow(Odradek):
    """The hollow broker as a process."""

    name = "hollow"
    module = "odradek.benchmarks.hollow"


def append(self: Partition, records: memoryview, *_: object) -> Appended:
    """Give a batch its offsets, and forget it."""
    place = self.topic, self.index
    base_offset = _ends[place]
    _ends[place] += read_header(records).last_offset_delta + 1
    return Appended(base_offset, NO_TIME, 0, must_flush=False)


if __name__ == "__main__":
    Partition.append = append
    runpy.run_module("odradek", run_name="__main__")
