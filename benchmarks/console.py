"""What metrics and a console cost: scrapes, a Heartbeat beside both, and a console at full size.

    make bench ARGS=console                           all of it
    make bench ARGS="console --only scrape"           one part: scrape, beside, search, tail or topics

`scrape` counts the CPU time of each turn of the event loop, which holds on a busy machine. `beside` wants a quiet one.
`search`, `tail` and `topics` are in console_size.py.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from odradek.broker import Broker as BrokerInLoop
from odradek.broker import BrokerConfig
from odradek.broker.http.pages import BrokerPages
from odradek.broker.http.scrape import Scraped
from odradek.broker.http.unread_ages import UnreadAges
from odradek.client import Admin, NewTopic

from . import console_size, groups, load
from .brokers import Odradek, free_port

SIZES = {"search": console_size.search, "tail": console_size.tail, "topics": console_size.topics}
PARTS = ("scrape", "beside", *SIZES)
ROOT = Path(__file__).parents[1]
MOST_PAGE_MS, MOST_TURN_MS, MOST_BESIDE = 5.0, 10.0, 1.1
SERIES, PARTITIONS = 2_000, 10_000
TOPICS_BESIDE, TURN_S = 1_000, 5.0


def main(arguments: list[str]) -> None:
    """See the module's text."""
    if arguments[:1] == ["visit"]:
        visit(arguments[1:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="odradek-bench-", ignore_cleanup_errors=True) as name:
        for part in [chosen.only] if chosen.only else PARTS:
            folder = Path(name) / part
            folder.mkdir()
            if part in SIZES:
                for row in SIZES[part](folder):
                    _row(*row)
                continue
            scrape(folder) if part == "scrape" else beside(folder, chosen.rounds)


def _row(what: str, figure: str, value: float, most: float) -> None:
    print(f"| {what} | {figure} | {'reached' if value <= most else 'NOT REACHED'} (at most {most:g}) |", flush=True)


# -- Scrapes


def scrape(folder: Path) -> None:
    """Print the CPU time of pages, as a whole and of the longest turn."""
    for topics, partitions in ((400, 1), (10, PARTITIONS // 10)):
        for path, samples, took_ms, longest_ms in asyncio.run(_pages(folder / f"{topics}", topics, partitions)):
            what = f"{path} of {topics * partitions} partitions: {samples} samples"
            if topics * partitions < PARTITIONS:
                _row(what, f"{took_ms:.1f} ms", took_ms * SERIES / max(samples, SERIES), MOST_PAGE_MS)
            _row(f"{what}, longest turn", f"{longest_ms:.1f} ms", longest_ms, MOST_TURN_MS)


async def _pages(folder: Path, topics: int, partitions: int) -> list[tuple[str, int, float, float]]:
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(folder),))
    async with BrokerInLoop(config) as broker:
        async with Admin(broker.address) as admin:
            await admin.create_topics([NewTopic(f"t{number}", partitions) for number in range(topics)])
        services = broker.services
        scraped = Scraped(services, lambda: 0, lambda: True, UnreadAges(services.threads, services.disk))
        pages = BrokerPages(scraped)
        return [(path, *await _timed(pages, path)) for path in ("/metrics", "/metrics/partitions", "/metrics/kafka")]


async def _timed(pages: BrokerPages, path: str) -> tuple[int, float, float]:
    """Return the samples of a page, and the CPU time in ms: of all its pieces, of the longest. The best of five."""
    found: list[tuple[int, float, float]] = []
    for _ in range(5):
        samples, turns = 0, list[float]()
        before_s = time.thread_time()
        pieces = iter((await pages(path)).pieces)
        looked_up_s = time.thread_time() - before_s  # in turns of its own
        while True:
            before_s = time.thread_time()
            piece = next(pieces, None)
            turns.append(time.thread_time() - before_s)
            if piece is None:
                break
            samples += piece.count("\n") - 2 * piece.count("# HELP")
        found.append((samples, (looked_up_s + sum(turns)) * 1e3, max(turns) * 1e3))
    return min(found, key=lambda each: each[1])


# -- Beside clients


def beside(folder: Path, rounds: int) -> None:
    """Print the p99 of a Heartbeat with and without a console and a scrape every second, in turns."""
    http = free_port()
    with Odradek(folder, settings={"http.listener": http}) as broker:
        alone, visited = _heartbeats(broker, http, rounds)
    ratio = statistics.median(with_ / without for with_, without in zip(visited, alone, strict=True))
    figures = f"{statistics.median(visited):.0f} / {statistics.median(alone):.0f} us, ratio {ratio:.2f}"
    _row("p99 of a Heartbeat beside a console and a scrape every second / alone", figures, ratio, MOST_BESIDE)


def _heartbeats(broker: Odradek, http: int, rounds: int) -> tuple[list[float], list[float]]:
    """Return the p99 of each round in us: alone, and beside both."""
    asyncio.run(_create(broker.address))
    member, frame = groups.beating(broker.address)
    alone: list[float] = []
    visited: list[float] = []
    for _ in range(rounds):
        alone.append(load.run(member.wire, [frame], 1, TURN_S)["p99_us"])
        with console_size.started(broker.address) as console:
            urls = [f"http://127.0.0.1:{http}/metrics", f"{console.url}/topics", f"{console.url}/series?kind=rate"]
            visitor = subprocess.Popen([sys.executable, "-m", "benchmarks", "console", "visit", *urls], cwd=ROOT)
            time.sleep(2)  # both have started, and the first sample is taken
            visited.append(load.run(member.wire, [frame], 1, TURN_S)["p99_us"])
            visitor.terminate()
            visitor.wait(30)
    return alone, visited


async def _create(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(f"t{number}", 1) for number in range(TOPICS_BESIDE)])


def visit(urls: Iterable[str]) -> None:
    """Load pages once a second, until the end of the process."""
    while True:
        for url in urls:
            with urllib.request.urlopen(url, timeout=30) as answer:
                answer.read()
        time.sleep(1)
