"""The process that cleans: `python -m odradek.storage.compaction.worker`, which the broker starts.

Decoding records holds Python's lock, so a thread would delay the broker. The process runs at a lower priority. It reads
a job as a line of JSON. It writes a line for each group, once the files are on disk, and a line at the end of the job:

    in    {"job": {...}, "bytes_per_second": 1e9}
    out   {"group": [base offset, segments, size, bytes of .txnindex]} ...
          {"end": offset, "stats": {...}}  or  {"error": "what went wrong", "may_pass": false}

The process exits as soon as its input ends, so that a killed broker leaves no writer behind.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, astuple
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TextIO

from ..errors import StorageError, may_pass
from ..files import DISK, Disk
from .compaction import Compaction, Job, Source

NICENESS = 10
# No sleep of a throttled cleaner is longer.
MAX_SLEEP_S = 1.0


class Throttle:
    """A `Pace` that lets so many bytes a second pass. Unused bytes are not saved up."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()  # when the bytes so far are within the rate

    def __call__(self, count: int) -> None:
        self._free_at = max(self._free_at, self._clock()) + count / self._rate
        while (wait := self._free_at - self._clock()) > 0:
            self._sleep(min(wait, MAX_SLEEP_S))


def job_to_json(job: Job, bytes_per_second: float) -> str:
    """Return the line that describes a job."""
    return json.dumps({"job": {**asdict(job), "directory": str(job.directory)}, "bytes_per_second": bytes_per_second})


def job_from_json(line: str) -> tuple[Job, float]:
    """Return the job of a line, and how many bytes a second it may read and write."""
    asked: dict[str, Any] = json.loads(line)
    fields: dict[str, Any] = asked["job"]
    fields["directory"] = Path(fields["directory"])
    fields["sources"] = tuple(Source(*each) for each in fields["sources"])
    for name in ("aborted_bytes", "last_offsets", "last_epochs"):
        fields[name] = tuple(tuple(each) for each in fields[name])
    return Job(**fields), float(asked["bytes_per_second"])


def run(line: str, out: TextIO, disk: Disk = DISK) -> None:
    """Do one job."""

    def say(**what: object) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    try:
        job, bytes_per_second = job_from_json(line)
        compaction = Compaction(job, Throttle(bytes_per_second), disk)
        for group in compaction.run():
            say(group=astuple(group))
        say(end=compaction.end_offset, stats=asdict(compaction.stats))
    except (StorageError, MemoryError) as error:
        say(error=str(error) or type(error).__name__, may_pass=may_pass(error))


def main() -> None:
    """Take jobs until the input ends."""
    with suppress(OSError):
        os.nice(NICENESS)
    jobs: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            jobs.put(line)
        os._exit(0)

    Thread(target=listen, daemon=True).start()
    while True:
        try:
            run(jobs.get(), sys.stdout)
        except BrokenPipeError:
            # The broker was killed in the middle of a job. The other thread may not have noticed yet.
            os._exit(0)


if __name__ == "__main__":
    main()
