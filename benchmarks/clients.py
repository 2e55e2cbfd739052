"""The client beside aiokafka and confluent-kafka: CPU-microseconds of each per record, against the same broker.

    make bench ARGS="--only clients"

Each way runs in a process of its own, in turn, and the best of the rounds counts, because whatever disturbs only adds
CPU time. Our ways run in pure Python, and with the compiled kernel where it was built. All asyncio clients run on
uvloop.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from .brokers import Odradek

CONSUMED = 500_000
PRODUCED = 200_000
_KERNEL = "odradek.kernel.loops"


class Bar(NamedTuple):
    """A way of ours, what it is compared with, and how many times as cheap it should be: in Python, with the kernel."""

    ours: str
    theirs: str
    python: float
    compiled: float


BARS = (
    Bar("getmany", "aiokafka getmany", 1.2, 3),
    Bar("async for", "aiokafka async for", 3, 5),
    Bar("send", "aiokafka send", 1.5, 2),
    Bar("send_many", "confluent produce", 0.7, 1.5),
    Bar("batches: values", "confluent consume", 6, 8),
    Bar("batches: arrow", "confluent consume", 6, 8),
    Bar("read_topic", "confluent consume", 6, 8),
    # At most twice, and 1.5 times, the time of theirs.
    Bar("one send", "confluent one produce", 1 / 2, 1 / 1.5),
)


def measure(folder: Path, rounds: int) -> str:
    """Return the table: a row for each bar and each kind of our code."""
    codes = ["Python", "kernel"] if find_spec(_KERNEL) is not None else ["Python"]
    broker = Odradek(folder)
    broker.start()
    try:
        _run(["--fill", "--address", broker.address])
        best: dict[tuple[str, str], float] = {}
        for _ in range(rounds):
            for way, code in _ways(codes):
                us = float(_run(["--way", way, "--code", code, "--address", broker.address]))
                best[way, code] = min(us, best.get((way, code), us))
                print(f"{way} ({code})  {us:.3f} us", file=sys.stderr)
    finally:
        broker.stop()
    return table(best, codes)


def _ways(codes: list[str]) -> list[tuple[str, str]]:
    """Return each way with the code that it runs by; those of other clients once."""
    ways = [(bar.ours, code) for bar in BARS for code in codes]
    return [*ways, *((theirs, "Python") for theirs in sorted({bar.theirs for bar in BARS}))]


def table(best: dict[tuple[str, str], float], codes: list[str]) -> str:
    """Return the rows in Markdown."""
    lines = ["| client | our code | us of CPU a record | beside | theirs | times as cheap | goal |", "|---" * 7 + "|"]
    for bar in BARS:
        theirs = best[bar.theirs, "Python"]
        for code in codes:
            ours = best[bar.ours, code]
            goal = bar.compiled if code == "kernel" else bar.python
            figures = f"{ours:,.3f} | {bar.theirs} | {theirs:,.3f} | {theirs / ours:.2f} | {goal:.2g}"
            lines.append(f"| {bar.ours} | {code} | {figures} |")
    note = f"The best of all rounds, of {CONSUMED:,} records consumed or {PRODUCED:,} produced, of 100 bytes. "
    note += "`one send` is the median time until a send at default options is acknowledged, in microseconds.\n"
    return "## Clients\n\n" + note + "\n" + "\n".join(lines) + "\n"


def _run(arguments: list[str]) -> str:
    command = [sys.executable, "-m", "benchmarks.clients", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


async def _fill(address: str) -> None:
    from odradek.client import Admin, NewTopic

    from . import consuming, producing

    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(producing.TOPIC, producing.PARTITIONS)])
    await consuming.fill(address, CONSUMED)


async def _measure_one(way: str, address: str) -> float:
    """Return the microseconds of one way: of CPU a record, or of time where it sends one by one."""
    from . import consuming, producing

    if way in consuming.WAYS:
        return await consuming.consume(way, address, CONSUMED) / CONSUMED * 1e6
    seconds = await producing.WAYS[way](address, PRODUCED)
    return seconds * 1e6 if "one" in way.split() else seconds / PRODUCED * 1e6


def main() -> None:
    """Run one way in this process and print its microseconds."""
    import uvloop

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way")
    parser.add_argument("--code", choices=("Python", "kernel"), default="Python")
    parser.add_argument("--address", required=True)
    parser.add_argument("--fill", action="store_true", help="make the topics first")
    arguments = parser.parse_args()
    if arguments.code == "Python":
        sys.modules[_KERNEL] = None  # type: ignore[assignment]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if arguments.fill:
            runner.run(_fill(arguments.address))
        else:
            print(runner.run(_measure_one(arguments.way, arguments.address)))


if __name__ == "__main__":
    main()
