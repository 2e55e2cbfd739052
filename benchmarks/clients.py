"""The client beside aiokafka and confluent-kafka: CPU-microseconds of each per record, against the same broker.

    make bench ARGS="--only clients"

Each way runs in a process of its own, in turn, and the best of the rounds counts, because whatever disturbs only adds
CPU time. Our ways run by the compiled kernel, without which nothing is promised but the same results. All asyncio
clients run on uvloop.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from odradek.kernel import door

from . import report
from .brokers import Odradek

CONSUMED = 500_000
PRODUCED = 200_000


class Bar(NamedTuple):
    """A way of ours, what it is compared with, and how many times as cheap it should be."""

    ours: str
    theirs: str
    goal: float


BARS = (
    Bar("getmany", "aiokafka getmany", 3),
    Bar("async for", "aiokafka async for", 5),
    Bar("send", "aiokafka send", 2),
    Bar("send_many", "confluent produce", 1.5),
    Bar("batches: values", "confluent consume", 8),
    Bar("batches: arrow", "confluent consume", 8),
    Bar("read_topic", "confluent consume", 8),
    # At most 1.5 times the time of theirs.
    Bar("one send", "confluent one produce", 1 / 1.5),
)


def measure(folder: Path, rounds: int) -> str:
    """Return the table: a row for each bar."""
    best: dict[str, float] = {}
    with Odradek(folder) as broker:
        _run(["--fill", "--address", broker.address])
        for _ in range(rounds):
            for way in (*(bar.ours for bar in BARS), *sorted({bar.theirs for bar in BARS})):
                us = float(_run(["--way", way, "--address", broker.address]))
                best[way] = min(us, best.get(way, us))
                print(f"{way}  {us:.3f} us", file=sys.stderr)
    return f"Ours by {door.record_code()}.\n\n{table(best)}"


def table(best: dict[str, float]) -> str:
    """Return the rows in Markdown."""
    rows: list[list[str]] = []
    for bar in BARS:
        ours, theirs = best[bar.ours], best[bar.theirs]
        rows.append([bar.ours, f"{ours:,.3f}", bar.theirs, f"{theirs:,.3f}", f"{theirs / ours:.2f}", f"{bar.goal:.2g}"])
    note = f"The best of all rounds, of {CONSUMED:,} records consumed or {PRODUCED:,} produced, of 100 bytes. "
    note += "`one send` is the median time until a send at default options is acknowledged, in microseconds.\n"
    head = ["client", "us of CPU a record", "beside", "theirs", "times as cheap", "goal"]
    return f"## Clients\n\n{note}\n{report.table(head, rows)}"


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
    parser.add_argument("--address", required=True)
    parser.add_argument("--fill", action="store_true", help="make the topics first")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if arguments.fill:
            runner.run(_fill(arguments.address))
        else:
            print(runner.run(_measure_one(arguments.way, arguments.address)))


if __name__ == "__main__":
    main()
