"""What one change of a group's membership costs: rebalanced through ZooKeeper, and by the coordinator.

    python -m benchmarks.rebalancing            prints the tables
    python -m benchmarks.rebalancing --write    also writes benchmarks/rebalancing.md

Both run in virtual time, the members of ZooKeeper against a model of it, the coordinator's against the coordinator
itself. What is counted is requests, so the load of the machine changes nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek.client.zookeeper.registry import Subscription
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.groups.world import World
from odradek.tests.support.registry_simulation import Simulation, Timing

from . import report

SIZES = (10, 50, 200)
PARTITIONS = 200
SEEDS = (1, 2, 3)
REQUEST_MS = 4.0
HEARTBEAT_MS = 3_000
# Kafka 0.8's rebalance.backoff.ms and rebalance.max.retries.
BACKOFF_MS, MAX_RETRIES = 2_000, 4
WATCH_DELAYS_MS = (0.0, 20.0, 500.0, 5_000.0)
RESULTS = Path(__file__).with_name("rebalancing.md")


def measure() -> str:
    """Return both tables."""
    lines = [
        "# One change of a group's membership",
        "",
        f"`python -m benchmarks.rebalancing --write`: one consumer joins, one topic of {PARTITIONS} partitions, medians"
        f" of {len(SEEDS)} seeds.",
        "",
        "## The herd",
        "",
        _herd(),
        "## The split brain",
        "",
        "Fifty consumers, and watches that arrive late: members rebalance by different views.",
        "",
        _split_brain(),
    ]
    return "\n".join(lines)


def _herd() -> str:
    head = ["consumers", "watches fired", "znodes read", "writes", "until all read again", "coordinator: requests"]
    rows: list[list[str]] = []
    for size in SIZES:
        old = _median([in_zookeeper(size, 20.0, seed) for seed in SEEDS])
        new = _median([at_the_coordinator(size, seed) for seed in SEEDS])
        counts = [f"{old[each]:,}" for each in ("watches", "reads", "writes")]
        rows.append([str(size), *counts, _seconds(old), f"{new['requests']:,}", _seconds(new)])
    return report.table([*head, "until all read again"], rows)


def _split_brain() -> str:
    head = ["a watch is late by up to", "attempts", "that failed", "left without partitions", "until all read again"]
    rows: list[list[str]] = []
    for delay_ms in WATCH_DELAYS_MS:
        old = _median([in_zookeeper(50, delay_ms, seed) for seed in SEEDS])
        counts = str(old["attempts"]), str(old["failed"]), f"{old['reports']} times"
        rows.append([f"{delay_ms:g} ms", *counts, _seconds(old)])
    new = _median([at_the_coordinator(50, seed) for seed in SEEDS])
    rows.append(["coordinator", str(new["generations"]), "0", "0 times", _seconds(new)])
    return report.table(head, rows)


def _seconds(counts: Counter[str]) -> str:
    return f"{counts['ms'] / 1000:.1f} s"


def _median(runs: list[Counter[str]]) -> Counter[str]:
    """Return the median of each count; 0 for what was never counted."""
    return Counter({name: round(statistics.median(run[name] for run in runs)) for run in runs for name in run})


# -- Through ZooKeeper


def in_zookeeper(size: int, watch_ms: float, seed: int) -> Counter[str]:
    """Return the counts of one join to a group of so many consumers."""
    timing = Timing(REQUEST_MS, watch_ms)
    simulation = Simulation(seed, timing, BACKOFF_MS, MAX_RETRIES, consumes=False, checks=False)
    for broker in (1, 2, 3):
        simulation.start_broker(broker)
    simulation.make_topic("t", PARTITIONS)
    subscription = Subscription({"t": 1})
    for number in range(size - 1):
        simulation.start(f"host:{number:03}", subscription)
    simulation.settle(3_600_000)
    before = simulation.zookeeper.counts + simulation.counts + _failed(simulation)
    began_ms = simulation.now_ms
    # In the middle of the order, so that half of the group gets other partitions.
    simulation.start(f"host:{size // 2:03}a", subscription)
    simulation.settle(3_600_000)
    counts = simulation.zookeeper.counts + simulation.counts + _failed(simulation)
    counts.subtract(before)
    counts["attempts"] = counts["starts"] + counts["failed"]
    counts["ms"] = round(simulation.last_start_ms - began_ms)
    return counts


def _failed(simulation: Simulation) -> Counter[str]:
    members = (each.member for each in simulation.members.values())
    return Counter(failed=sum(each.failed_attempts for each in members if each is not None))


# -- At the coordinator


@dataclass
class _Member:
    """A member of a group as its coordinator sees it."""

    member_id: str = ""
    generation: int = -1
    is_stable: bool = False


class CoordinatorGroup:
    """Members in virtual time, which join, sync and send heartbeats to a coordinator."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._world = World()
        self._world.groups.start()
        self.counts: Counter[str] = Counter()
        self.now_ms = 0.0
        self.members: list[_Member] = []
        # Requests that wait, each with what its answer does.
        self._waiting: list[tuple[Any, Callable[[Any], None]]] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []

    def add(self) -> None:
        """Start a member."""
        each = _Member()
        self.members.append(each)
        self._later(self._random.uniform(0, REQUEST_MS), lambda: self._join(each))
        self._later(self._random.uniform(0, HEARTBEAT_MS), lambda: self._heartbeat(each))

    def settle(self) -> None:
        """Run until all are members of one generation."""
        while not all(each.is_stable for each in self.members):
            self.now_ms, _, work = heapq.heappop(self._heap)
            self._world.wait(int(self.now_ms) - (self._world.clock.time_ms - 1_700_000_000_000))
            work()
            self._deliver()

    def _later(self, delay_ms: float, work: Callable[[], None]) -> None:
        self.counts["events"] += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self.counts["events"], work))

    def _ask(self, answer: Any, then: Callable[[Any], None]) -> None:
        self.counts["requests"] += 1
        self._waiting.append((answer, then))

    def _deliver(self) -> None:
        """Have every answer that is there arrive a little later."""
        still: list[tuple[Any, Callable[[Any], None]]] = []
        for answer, then in self._waiting:
            if isinstance(answer, asyncio.Future) and not answer.done():
                still.append((answer, then))
                continue
            value = answer.result() if isinstance(answer, asyncio.Future) else answer
            self._later(self._random.uniform(0, 2 * REQUEST_MS), lambda then=then, value=value: then(value))
        self._waiting = still

    def _join(self, each: _Member) -> None:
        each.is_stable = False

        def joined(answer: Any) -> None:
            each.member_id, each.generation = answer.member_id, answer.generation_id
            names = [member.member_id for member in answer.members]
            assignments = {name.replace("-", "_"): b"part" for name in names}
            self._ask(self._world.sync(each.member_id, each.generation, **assignments), synced)

        def synced(answer: Any) -> None:
            if answer.error_code:
                self._join(each)
                return
            each.is_stable = True
            self.counts["generations"] = max(self.counts["generations"], each.generation)

        # Version 3 needs no second round for the member id.
        self._ask(self._world.join(each.member_id, version=3, rebalance_timeout_ms=300_000), joined)

    def _heartbeat(self, each: _Member) -> None:
        self._later(HEARTBEAT_MS, lambda: self._heartbeat(each))
        if not each.is_stable:
            return

        def told(answer: Any) -> None:
            if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS and each.is_stable:
                self._join(each)

        self._ask(self._world.heartbeat(each.member_id, each.generation), told)


def at_the_coordinator(size: int, seed: int) -> Counter[str]:
    """Return the counts of one join to a group of so many consumers."""

    async def run() -> Counter[str]:
        group = CoordinatorGroup(seed)
        for _ in range(size - 1):
            group.add()
        group.settle()
        before, began_ms = Counter(group.counts), group.now_ms
        group.add()
        group.settle()
        counts = Counter(group.counts)
        counts.subtract(before)
        counts["ms"] = round(group.now_ms - began_ms)
        return counts

    return asyncio.run(run())


if __name__ == "__main__":
    report.main(__doc__, RESULTS, measure)
