"""The history of a cluster: a task takes a sample every ten seconds, and keeps the last hour of them.

What it knows is in memory, and where a file is given also there: it is written once a minute and at the stop, under
another name that then replaces it. A file that cannot be read ends the start; one that cannot be written is a warning.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgpack

from ...client import KafkaError
from ...client.core.clock import wall_clock_ms
from ...web.exchange import HttpError
from ..cluster import Cluster
from .sampler import Sample, take
from .series import Name, Series

_pack = cast("Callable[[object], bytes]", msgpack.packb)  # pyright: ignore[reportUnknownMemberType]
_unpack = cast("Callable[[bytes], Any]", msgpack.unpackb)  # pyright: ignore[reportUnknownMemberType]
_log = logging.getLogger(__name__)

INTERVAL_S = 10.0
HOUR_MS = 3_600_000
# A sample that takes long is a load: the next one waits so many times as long.
_REST = 20
# Sizes are asked for with every so many samples, and the file is written.
_SIZES_EVERY, _FILE_EVERY = 3, 6
MAX_STATES, MAX_GROUPS_WITH_STATES = 100, 500
MAX_FILE_BYTES = 64 << 20

# Three entries, of which the version is the first.
_BEGIN = b"\x83\xa7version"

# The series.
RATE, SIZE, LAG, LAG_S = "records/s", "bytes", "lag", "lag in seconds"


class HistoryFileError(Exception):
    """The file of the history cannot be read, or is none; the text says why."""


@dataclass(frozen=True, slots=True)
class StateSeen:
    """A group was seen in a state from then on."""

    at_ms: float
    state: str


class History:
    """Samples a cluster from `start` to `stop`. `latest` is the newest sample, `error` why there is no newer one."""

    def __init__(self, cluster: Cluster, path: Path | None = None, interval_s: float = INTERVAL_S) -> None:
        self._cluster = cluster
        self._path = path
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None
        self._count = 0
        self.series = Series()
        self.latest = Sample()
        self.error = ""
        # Group -> its states as they were seen, the newest last.
        self._states: dict[str, deque[StateSeen]] = {}

    async def start(self) -> None:
        """Read the file and begin to sample. Raises HistoryFileError."""
        if self._path is not None:
            self.series = await asyncio.to_thread(read, self._path, wall_clock_ms() - HOUR_MS)
        self._task = asyncio.create_task(self._run(), name="history")

    async def stop(self) -> None:
        """End the sampling, and write the file. May be called again."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await self._write()

    def states(self, group: str) -> list[StateSeen]:
        """Return the states in which a group was seen, the newest first."""
        return list(reversed(self._states.get(group, ())))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            await self.sample()
            if self._count % _FILE_EVERY == 0:
                await self._write()
            await asyncio.sleep(max(self._interval_s, _REST * (loop.time() - began_s)))

    async def sample(self) -> None:
        """Take a sample now. What cannot be read is told in `error`."""
        sizes = None if self._count % _SIZES_EVERY == 0 else self.latest.sizes
        self._count += 1
        try:
            self.add(await take(self._cluster, wall_clock_ms(), sizes))
            self.error = ""
        except (KafkaError, HttpError) as error:
            if str(error) != self.error:
                _log.warning("no sample was taken: %s", error)
            self.error = str(error)
        except Exception:  # noqa: BLE001 - a fault in one sample is logged, and the next ones are taken
            _log.exception("no sample was taken")
            self.error = "Something is wrong with this console: its log says more."

    def add(self, sample: Sample) -> None:
        """Add a sample to the series, and to the states of groups."""
        self.series.add(sample.at_ms, numbers(self.latest, sample))
        for group, seen in sample.groups.items():
            if group not in self._states and len(self._states) >= MAX_GROUPS_WITH_STATES:
                continue
            states = self._states.setdefault(group, deque(maxlen=MAX_STATES))
            if not states or states[-1].state != seen.state:
                states.append(StateSeen(sample.at_ms, seen.state))
        for group in self._states.keys() - sample.groups.keys():
            del self._states[group]
        self.latest = sample

    async def _write(self) -> None:
        if self._path is None:
            return
        value = {"version": 1, **self.series.as_value()}
        writing = asyncio.ensure_future(asyncio.to_thread(_replace, self._path, value))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # Cancelling does not stop the thread, and two that write at once would mix the file.
            await asyncio.wait({writing})
            raise
        except OSError as error:
            _log.warning("the history was not written to %s: %s", self._path, error.strerror)


def numbers(before: Sample, sample: Sample) -> dict[Name, float]:
    """Return the numbers of a sample: of groups first, then of the largest topics. Rates need the sample before."""
    found: dict[Name, float] = {}
    for group, seen in sample.groups.items():
        if seen.lag is not None:
            found[LAG, group] = seen.lag
        if seen.lag_s is not None:
            found[LAG_S, group] = seen.lag_s
    rates = _rates(before, sample)
    if before.at_ms:
        found[RATE, ""] = sum(rates.values())
    found[SIZE, ""] = sum(sample.sizes.values())
    for topic in sorted(sample.topic_ends, key=lambda each: -sample.sizes.get(each, 0)):
        if topic in rates:
            found[RATE, topic] = rates[topic]
        if topic in sample.sizes:
            found[SIZE, topic] = sample.sizes[topic]
    return found


def _rates(before: Sample, sample: Sample) -> Mapping[str, float]:
    """Return the records a second of each topic that was there before."""
    seconds = (sample.at_ms - before.at_ms) / 1000
    if not before.at_ms or seconds <= 0:
        return {}
    return {
        topic: max(end - before.topic_ends[topic], 0) / seconds
        for topic, end in sample.topic_ends.items()
        if topic in before.topic_ends
    }


def read(path: Path, since_ms: float) -> Series:
    """Return the series in a file, empty ones where there is no file yet. Raises HistoryFileError."""
    try:
        value = _unpack(_content(path))
        if value["version"] != 1:
            raise HistoryFileError(f"{path} is of a newer console")
        return Series.of_value(value["times_ms"], value["series"], since_ms)
    except FileNotFoundError:
        if not path.absolute().parent.is_dir():
            raise HistoryFileError(f"{path} cannot be written: its folder does not exist") from None
        return Series()
    except OSError as error:
        raise HistoryFileError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise _not_one(path, error) from error


def _not_one(path: Path, why: object) -> HistoryFileError:
    return HistoryFileError(f"{path} is no history of a console: {why}")


def _content(path: Path) -> bytes:
    """Return the bytes of a file that begins as a history does. Raises OSError, HistoryFileError: no other is read."""
    # A pipe would be waited for.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _not_one(path, "it is no regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise _not_one(path, "it is too large")
        begin = file.read(len(_BEGIN))
        if begin != _BEGIN:
            raise _not_one(path, "it begins otherwise")
        return begin + file.read(MAX_FILE_BYTES)


def _replace(path: Path, value: dict[str, object]) -> None:
    written = path.with_name(path.name + ".new")
    with written.open("wb") as file:
        file.write(_pack(value))
        file.flush()
        # Before it has its name: after a power cut a file without its bytes would keep the console from its start.
        os.fsync(file.fileno())
    os.replace(written, path)
