"""Measure the cost of storage: the log without a broker, compared with plain writes and reads of the same sizes.

    python -m benchmarks.log_alone                           batches of 1 MB, 16 KB and 1 KB, half a GB a round
    python -m benchmarks.log_alone --batch-kb 1000 --gb 4 --rounds 9 --folder /var/tmp

Each round is a pair in the same folder, in changing order. Writes: `os.write` of one buffer, and `Log.append` of it.
Reads: `os.preadv` of the whole file into one buffer, and `Log.read` with the read of its range, 1 MB at a time. It
prints a line of JSON for each size: the medians in MB/s, and the median of the ratios (log / plain). The goal is 0.8 at
1 MB. The data stay in the page cache, because a disk slower than memory would make any log look good. Neither side
checks CRCs: the broker does that before an append.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from odradek.protocol.records.batch import assign, encode_batch, read_header
from odradek.protocol.records.record import Record
from odradek.storage.files import NotCached
from odradek.storage.log import Log, LogConfig

SIZES_KB = (1000, 16, 1)
FETCH_BYTES = 1 << 20
# The share of plain writes and reads to reach at 1 MB.
GOAL = 0.8
NOW_MS = 1_700_000_000_000
# No fsync during the measurement: neither side has one.
CONFIG = LogConfig()


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-kb", type=int, nargs="+", default=SIZES_KB)
    parser.add_argument("--gb", type=float, default=0.5, help="of each, a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=None, help="where the files lie meanwhile; a temporary one")
    arguments = parser.parse_args()
    for batch_kb in arguments.batch_kb:
        print(json.dumps(measure(batch_kb, arguments.gb, arguments.rounds, arguments.folder)), flush=True)


def measure(batch_kb: int, gigabytes: float, rounds: int, folder: Path | None = None) -> dict[str, float]:
    """Return the medians of one batch size."""
    batch = bytearray(encode_batch([Record(timestamp_ms=NOW_MS, value=b"x" * 1000) for _ in range(batch_kb)]))
    found: dict[str, list[float]] = {}
    for number in range(rounds):
        with tempfile.TemporaryDirectory(prefix="odradek-log-", dir=folder) as place:
            for name, figure in _round(Path(place), batch, int(gigabytes * 1e9 / len(batch)), number % 2 == 0).items():
                found.setdefault(name, []).append(figure)
    medians = {name: round(statistics.median(figures), 3) for name, figures in found.items()}
    return {"batch_bytes": len(batch), "gb": gigabytes, **medians}


def _round(place: Path, batch: bytearray, count: int, plain_first: bool) -> dict[str, float]:
    """Measure a pair with the same buffer and as many bytes. Each side starts when the disk is idle."""
    log = Log.open(place / "log", CONFIG, clean=False, now_ms=NOW_MS)
    plain, total, found = place / "plain", len(batch) * count, dict[str, float]()
    # Whole batches on either side.
    fetch_bytes = max(FETCH_BYTES // len(batch), 1) * len(batch)

    def write_plain() -> None:
        found["plain_write"] = _mb_per_s(total, lambda: _write(plain, batch, count))
        _sync(plain)

    def write_log() -> None:
        found["append"] = _mb_per_s(total, lambda: _append(log, batch, count))
        log.flush()

    def read_plain() -> None:
        found["plain_read"] = _mb_per_s(total, lambda: _read(plain, total, fetch_bytes))

    def read_log() -> None:
        found["read"] = _mb_per_s(total, lambda: _fetch(log, total, fetch_bytes))

    for pair in ((write_plain, write_log), (read_plain, read_log)):
        for side in pair if plain_first else reversed(pair):
            side()
    log.set_aside()
    ratios = {"append_ratio": found["append"] / found["plain_write"], "read_ratio": found["read"] / found["plain_read"]}
    return {**found, **ratios}


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.fsync(fd)
    os.close(fd)


def _mb_per_s(total: int, work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return total / (time.perf_counter() - started) / 1e6


def _write(path: Path, batch: bytearray, count: int) -> None:
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    for _ in range(count):
        os.write(fd, batch)
    os.close(fd)


def _append(log: Log, batch: bytearray, count: int) -> None:
    """Append as a partition does: assign the offset in place, and pass the header on."""
    for _ in range(count):
        header = assign(batch, 0, read_header(batch), log.log_end_offset, 0)
        log.append(batch, header, NOW_MS)


def _read(path: Path, total: int, size: int) -> None:
    fd = os.open(path, os.O_RDONLY)
    buffer = bytearray(size)
    position = 0
    while position < total:
        position += os.preadv(fd, [buffer], position)
    os.close(fd)


def _fetch(log: Log, total: int, size: int) -> None:
    """Read as fetches do: look up, read the range, and go on at the offset behind the last whole batch."""
    offset, end, got = 0, log.log_end_offset, 0
    each = read_header(log.read(0, 1, end).read())
    while offset < end:
        try:
            fetched = log.read(offset, size, end, cached=True)
        except NotCached:
            fetched = log.read(offset, size, end)
        # Held no longer than it takes to count them: the plain side has one buffer, too.
        batches = len(fetched.read_nowait() or fetched.read()) // each.size_bytes
        got += batches * each.size_bytes
        offset += batches * (each.last_offset_delta + 1)
    assert got == total, "not all was read"


if __name__ == "__main__":
    main()
