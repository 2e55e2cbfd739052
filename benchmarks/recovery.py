"""Measure the time from kill -9 until the broker serves again, for logs of several sizes.

    python -m benchmarks.recovery                                 2 GB, then 10 GB in one partition, in batches of 1 MB
    python -m benchmarks.recovery --gb 10 --batch-kb 16 --folder /var/tmp

The broker is killed right after its last response. The page cache stays, because only a process died, but the start
reads everything again that was not flushed. Each size gets a line of JSON: the seconds of a start with an empty log;
the seconds of the start after the kill until `ready`, until the last acknowledged record was read, and until one more
was written; and the MB that this start has read. The benchmark checks that no acknowledged record is missing. It needs
as much room in the folder, and frees it at the end.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from .brokers import Broker, Odradek
from .load import Refused, Wire, check_produced, create_topic, fetched, produce

TOPIC = "crash"
RECORD_BYTES = 1000
# The goal is a second with either in the log.
SIZES_GB = (2.0, 10.0)
# One that does not serve in this time has failed.
WITHIN_S = 60.0


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, nargs="+", default=SIZES_GB)
    parser.add_argument("--batch-kb", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1, help="kills for each size; the medians are printed")
    parser.add_argument("--folder", type=Path, default=None, help="where the data lie meanwhile; a temporary one")
    arguments = parser.parse_args()
    for gigabytes in arguments.gb:
        with tempfile.TemporaryDirectory(prefix="odradek-recovery-", dir=arguments.folder) as folder:
            broker = Odradek(Path(folder))
            rounds = crashes(broker, gigabytes, arguments.batch_kb, arguments.rounds)
            medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
            print(json.dumps({"gb": gigabytes, **{name: round(each, 3) for name, each in medians.items()}}), flush=True)


def crashes(broker: Broker, gigabytes: float, batch_kb: int = 1000, rounds: int = 1) -> list[dict[str, float]]:
    """Fill a log, and kill the broker several times, each time after more records. Return the seconds of each start.

    The broker is stopped in the end. Raises SystemExit if a record is missing.
    """
    empty_s = broker.start()
    try:
        wire = Wire(broker.address)
        create_topic(wire, TOPIC)
        data, count, found = produce(TOPIC, batch_kb, RECORD_BYTES), 0, list[dict[str, float]]()
        while count * RECORD_BYTES < gigabytes * 1e9:
            count = check_produced(wire, data) + batch_kb
        for _ in range(rounds):
            broker.stop(signal.SIGKILL)
            found.append({"empty": empty_s, **_restart(broker, data, count)})
            count = check_produced(Wire(broker.address), data) + batch_kb
    finally:
        broker.stop(signal.SIGKILL)
    return found


def _restart(broker: Broker, data: bytes, count: int) -> dict[str, float]:
    started = time.perf_counter()
    ready_s = broker.start()
    read_mb = _read_mb(broker)
    if _until_it_serves(started, lambda: _last_offset(broker, count - 1)) != count - 1:
        raise SystemExit(f"{broker.name} lost what it had acknowledged")
    readable_s = time.perf_counter() - started
    if _until_it_serves(started, lambda: check_produced(Wire(broker.address), data)) != count:
        raise SystemExit(f"{broker.name} did not give the next record the next offset")
    return {"ready": ready_s, "readable": readable_s, "writable": time.perf_counter() - started, "read_mb": read_mb}


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


def _read_mb(broker: Broker) -> float:
    """Return the bytes that the process has read so far, from disk or cache."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{broker.pid}/io").read_text().splitlines())
    return int(fields["rchar"]) / 1e6


if __name__ == "__main__":
    main()
