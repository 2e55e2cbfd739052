"""Measure the time from kill -9 until the broker serves again, for logs of several sizes in one partition.

    python -m benchmarks --only "kill -9"

The broker is killed right after its last response. The page cache stays, because only a process died, but the start
reads everything again that was not flushed. The benchmark checks that no acknowledged record is missing. It needs as
much room in the folder for temporary files, and frees it at the end.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from .brokers import Broker
from .load import Refused, Wire, check_produced, create_topic, fetched, produce

TOPIC = "crash"
# A batch has so many records of so many bytes.
BATCH, RECORD_BYTES = 1000, 1000
# The goal is a second with either in the log.
SIZES_GB = (2.0, 10.0)
# One that does not serve in this time has failed.
WITHIN_S = 60.0


def crashes(broker: Broker, gigabytes: float, rounds: int) -> list[float]:
    """Fill a log, and kill the broker several times, each time after more records. Return the seconds of each start.

    The broker is stopped in the end. Raises SystemExit if a record is missing.
    """
    broker.start()
    try:
        wire = Wire(broker.address)
        create_topic(wire, TOPIC)
        data, count, found = produce(TOPIC, BATCH, RECORD_BYTES), 0, list[float]()
        while count * RECORD_BYTES < gigabytes * 1e9:
            count = check_produced(wire, data) + BATCH
        for _ in range(rounds):
            broker.stop(signal.SIGKILL)
            found.append(_restart(broker, data, count))
            count = check_produced(Wire(broker.address), data) + BATCH
    finally:
        broker.stop(signal.SIGKILL)
    return found


def _restart(broker: Broker, data: bytes, count: int) -> float:
    """Return the seconds from a start until the last record was read and one more was written."""
    started = time.perf_counter()
    broker.start()
    if _until_it_serves(started, lambda: _last_offset(broker, count - 1)) != count - 1:
        raise SystemExit(f"{broker.name} lost what it had acknowledged")
    if _until_it_serves(started, lambda: check_produced(Wire(broker.address), data)) != count:
        raise SystemExit(f"{broker.name} did not give the next record the next offset")
    return time.perf_counter() - started


def _until_it_serves(started: float, ask: Callable[[], int]) -> int:
    """Repeat a request until the broker knows its partitions, and return the response."""
    while True:
        try:
            return ask()
        except (Refused, OSError):
            if time.perf_counter() - started > WITHIN_S:
                raise
            time.sleep(0.005)


def _last_offset(broker: Broker, offset: int) -> int:
    """Return the last offset of the batch at `offset`, -1 if there is none."""
    headers, _ = fetched(Wire(broker.address), TOPIC, offset)
    return max((header.last_offset for header in headers), default=-1)
