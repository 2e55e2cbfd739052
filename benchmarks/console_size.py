"""A console at full size: a search of a million records, a tail of 50,000 records a second, a list of 10,000 topics.

Each part starts a broker and a console as processes of their own. What it returns are CPU time, memory and counts of
the console: they hold on a busy machine, too.
"""

from __future__ import annotations

import asyncio
import html
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from odradek.client import Admin, NewTopic
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record

from . import load
from .brokers import Odradek, cpu_s
from .load import Wire

RECORDS, TOPICS, TAILED_A_SECOND, TAIL_S = 1_000_000, 10_000, 50_000, 10.0
MOST_GROWTH_MIB, MOST_LIST_S = 100.0, 1.0
_BATCH, _IN_FLIGHT, _PAGES = 1_000, 16, 5
# Behind the last record: the tail has shown what waited.
_QUIET_S = 8.0
_NEXT = re.compile(r'rel="next" href="([^"]+)"')


class Row(NamedTuple):
    """What was measured, as a text and as a number, and the most that it may be."""

    what: str
    figure: str
    value: float
    most: float


class Console(NamedTuple):
    """A console as a process."""

    url: str
    pid: int

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=120) as answer:
            return answer.read().decode()

    def peak_mib(self) -> float:
        """Return the most memory that it has had."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def started(address: str) -> Generator[Console]:
    """Run a console over the cluster at `address`."""
    command = [sys.executable, "-m", "odradek", "console", "-b", address, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield Console(process.stdout.readline().split()[1], process.pid)
        finally:
            process.terminate()


def _batch(topic: str, value: Callable[[int], bytes]) -> bytes:
    now_ms = int(time.time() * 1000)
    return load.produce_batch(topic, encode_batch([Record(at, now_ms, None, value(at)) for at in range(_BATCH)]))


def search(folder: Path) -> Iterator[Row]:
    """Look for the last of a million records by a field of its JSON."""
    with Odradek(folder) as broker, started(broker.address) as console:
        wire = Wire(broker.address)
        load.create_topic(wire, "big")
        frames = [_batch("big", lambda at: b'{"n": %d, "who": "somebody"}' % at)] * (RECORDS // _BATCH - 1)
        frames.append(_batch("big", lambda at: b'{"n": %d, "who": "nobody"}' % at))
        for number, frame in enumerate(frames):
            wire.send(frame)
            if number >= _IN_FLIGHT:
                wire.receive()
        for _ in range(_IN_FLIGHT):
            wire.receive()
        console.get("/topics")
        before_mib, before_s = console.peak_mib(), cpu_s(console.pid)
        query = urlencode({"from": "oldest", "n": 1, "filter": 'value.n == 999 and value.who == "nobody"'})
        path: str | None = f"/topics/big/records?{query}"
        pages = 0
        while path is not None:
            page = console.get(path)
            pages += 1
            if ">1 found" in page:
                break
            following = _NEXT.search(page)
            path = None if following is None else html.unescape(following[1])
        assert path is not None, "the record was not found"
        took_s, growth_mib = cpu_s(console.pid) - before_s, console.peak_mib() - before_mib
    figure = f"{growth_mib:.0f} MiB above {before_mib:.0f} MiB, {took_s:.1f} s of CPU, {pages} pages"
    yield Row(f"search of {RECORDS:,} records with a filter", figure, growth_mib, MOST_GROWTH_MIB)


def tail(folder: Path) -> Iterator[Row]:
    """Tail a topic that gets 50,000 records a second: what is not shown must be said."""
    with Odradek(folder) as broker, started(broker.address) as console:
        wire = Wire(broker.address)
        load.create_topic(wire, "fast")
        frame = _batch("fast", lambda at: b"record %d" % at)
        shown = left_out = 0
        with urllib.request.urlopen(f"{console.url}/topics/fast/tail/events", timeout=120) as events:
            while b"begun" not in events.readline():
                pass
            before_mib = console.peak_mib()
            sender = threading.Thread(target=_send, args=(wire, frame))
            sender.start()
            ends_s = 0.0
            for line in events:
                shown += line.count(b"data-new")
                if line.startswith(b"event: left-out"):
                    left_out += int(events.readline().partition(b":")[2])
                if not ends_s and not sender.is_alive():
                    ends_s = time.monotonic() + _QUIET_S
                if ends_s and time.monotonic() > ends_s:
                    break
            sender.join()
        growth_mib = console.peak_mib() - before_mib
    sent = int(TAILED_A_SECOND * TAIL_S)
    yield Row(
        f"tail of {TAILED_A_SECOND:,} records a second, neither shown nor told to be left out",
        f"{sent - shown - left_out:,} of {sent:,} ({shown:,} shown)", abs(sent - shown - left_out), 0,
    )  # fmt: skip
    yield Row("its memory", f"{growth_mib:.0f} MiB above {before_mib:.0f} MiB", growth_mib, MOST_GROWTH_MIB)


def _send(wire: Wire, frame: bytes) -> None:
    begun_s = time.monotonic()
    for number in range(int(TAILED_A_SECOND * TAIL_S) // _BATCH):
        time.sleep(max(begun_s + number * _BATCH / TAILED_A_SECOND - time.monotonic(), 0))
        wire.send(frame)
        wire.receive()


def topics(folder: Path) -> Iterator[Row]:
    """List 10,000 topics."""
    with Odradek(folder) as broker, started(broker.address) as console:
        asyncio.run(_create(broker.address))
        console.get("/topics")
        cpu: list[float] = []
        wall: list[float] = []
        for _ in range(_PAGES):
            before_s, begun_s = cpu_s(console.pid) + broker.cpu_s(), time.perf_counter()
            console.get("/topics")
            cpu.append(cpu_s(console.pid) + broker.cpu_s() - before_s)
            wall.append(time.perf_counter() - begun_s)
    took_s = statistics.median(cpu)
    figure = f"{took_s:.2f} s of CPU with the broker's, {statistics.median(wall):.2f} s until it is there"
    yield Row(f"/topics with {TOPICS:,} topics", figure, took_s, MOST_LIST_S)


async def _create(address: str) -> None:
    async with Admin(address, default_api_timeout_ms=120_000) as admin:
        for first in range(0, TOPICS, 1_000):
            await admin.create_topics([NewTopic(f"t{number:05}", 1) for number in range(first, first + 1_000)])
