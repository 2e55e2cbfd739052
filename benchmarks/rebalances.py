"""What a group of fifty consumers goes through: one joins, one dies, all are restarted one after another.

    python -m benchmarks.rebalances            prints the table and the pictures
    python -m benchmarks.rebalances --write    also writes benchmarks/rebalances.md

Real consumers of ours in the classic protocol, eager (`RangeAssignor`) and cooperative (`CooperativeStickyAssignor`),
and in the consumer protocol (`uniform`), against our broker in the same process. All intervals are a tenth of the
defaults, and the times that are printed are ten times what was measured.

A pause is the time in which nobody has a partition: from the moment when one member gives it up, or dies, until another
one, or the same one again, has it. A partition has moved if it went to another member.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odradek.broker import Broker, BrokerConfig
from odradek.client import Admin, Consumer, CooperativeStickyAssignor, NewTopic, RangeAssignor, TopicPartition

from .report import main as run_and_publish
from .report import table

MEMBERS, PARTITIONS = 50, 200
# The defaults are ten times as long.
SCALE = 10
HEARTBEAT_MS, CONSUMER_HEARTBEAT_MS, SESSION_MS, ASSIGNMENT_MS = 300, 500, 4_500, 100
# Between two restarts; a group that does not come to rest falls behind.
RESTART_PAUSE_S = 0.2
SETTLED_WITHIN_S = 120
KINDS: dict[str, dict[str, Any]] = {
    "classic, eager": {"partition_assignment_strategy": [RangeAssignor]},
    "classic, cooperative": {"partition_assignment_strategy": [CooperativeStickyAssignor]},
    "consumer": {"group_protocol": "consumer"},
}
RESULTS = Path(__file__).with_name("rebalances.md")


@dataclass
class Watch:
    """Who has which partition, and for how long nobody did."""

    owners: dict[TopicPartition, str | None] = field(default_factory=dict[TopicPartition, "str | None"])
    # The last member that had it, and when it gave it up.
    left: dict[TopicPartition, tuple[str, float]] = field(default_factory=dict[TopicPartition, "tuple[str, float]"])
    pauses_s: list[float] = field(default_factory=list[float])
    moved: int = 0
    stopped: set[str] = field(default_factory=set[str])

    def take(self, name: str, partitions: frozenset[TopicPartition]) -> None:
        now = time.monotonic()
        for each in partitions:
            self.owners[each] = name
            before = self.left.pop(each, None)
            if before is not None:
                self.pauses_s.append(now - before[1])
                self.moved += before[0] != name

    def give_up(self, name: str, partitions: frozenset[TopicPartition]) -> None:
        if partitions:
            self.stopped.add(name)
        for each in partitions:
            if self.owners.get(each) == name:
                self.owners[each] = None
                self.left[each] = name, time.monotonic()

    def of(self, name: str) -> frozenset[TopicPartition]:
        return frozenset(place for place, owner in self.owners.items() if owner == name)

    def begin(self) -> None:
        self.pauses_s, self.moved, self.stopped = [], 0, set()


class Member:
    """A consumer with a task that polls, which notes what comes and goes."""

    def __init__(self, address: str, kind: str, name: str, watch: Watch) -> None:
        self.name = name
        self._watch = watch
        options = {"group_protocol": "classic", **KINDS[kind]}
        if options["group_protocol"] == "classic":
            options |= {"heartbeat_interval_ms": HEARTBEAT_MS, "session_timeout_ms": SESSION_MS}
        self._consumer = Consumer(bootstrap_servers=address, group_id=f"g {kind}", **options)
        self._consumer.subscribe("t", listener=self)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._consumer.start()
        self._task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while True:
            await self._consumer.getmany(timeout_ms=1_000)

    async def stop(self) -> None:
        await self._end(None)

    async def die(self) -> None:
        """Vanish without a word to the group."""
        self._watch.give_up(self.name, self._watch.of(self.name))
        session = self._consumer._session
        assert session is not None
        await session.cluster.close()  # before the stop, which would say good-bye
        await self._end(0)

    async def _end(self, timeout_ms: float | None) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._consumer.stop(timeout_ms=timeout_ms)

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._watch.give_up(self.name, partitions)

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._watch.take(self.name, partitions)

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._watch.give_up(self.name, partitions)


@dataclass(frozen=True)
class Seen:
    """What one event cost the group, in seconds of the default intervals."""

    paused_s: float
    longest_s: float
    moved: int
    stopped: int
    rest_s: float


async def run(kind: str) -> dict[str, Seen]:
    """Return what each event cost a group of this kind."""
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
        config = BrokerConfig(
            listeners=("PLAINTEXT://127.0.0.1:0",),
            log_dirs=(folder,),
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=0,
            group_min_session_timeout_ms=1,
            group_consumer_min_heartbeat_interval_ms=1,
            group_consumer_heartbeat_interval_ms=CONSUMER_HEARTBEAT_MS,
            group_consumer_min_session_timeout_ms=1,
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_assignment_interval_ms=ASSIGNMENT_MS,
        )
        async with Broker(config) as broker, Admin(broker.address) as admin:
            await admin.create_topics([NewTopic("t", PARTITIONS)])
            return await _events(broker.address, kind)


async def _events(address: str, kind: str) -> dict[str, Seen]:
    watch = Watch()
    members = [Member(address, kind, f"m{number}", watch) for number in range(MEMBERS - 1)]
    await asyncio.gather(*(each.start() for each in members))
    await _settled(watch, members)

    async def join() -> None:
        members.append(Member(address, kind, f"m{MEMBERS}", watch))
        await members[-1].start()

    async def die() -> None:
        await members.pop(0).die()

    async def restart() -> None:
        for number in range(len(members)):
            old = members[number]
            await old.stop()
            members[number] = Member(address, kind, f"{old.name}'", watch)
            await members[number].start()
            await asyncio.sleep(RESTART_PAUSE_S)

    seen: dict[str, Seen] = {}
    for name, event in (("one joins", join), ("one dies", die), ("all are restarted", restart)):
        watch.begin()
        began = time.monotonic()
        await event()
        await _settled(watch, members)
        rest_s = time.monotonic() - began
        pauses = watch.pauses_s or [0.0]
        seen[name] = Seen(sum(pauses) * SCALE, max(pauses) * SCALE, watch.moved, len(watch.stopped), rest_s * SCALE)
    await asyncio.gather(*(each.stop() for each in members))
    return seen


async def _settled(watch: Watch, members: list[Member]) -> None:
    """Wait until each member has its part of all partitions."""
    names = {each.name for each in members}

    def is_settled() -> bool:
        held = list(watch.owners.values())
        least = PARTITIONS // len(members)
        return (
            len(held) == PARTITIONS
            and set(held) == names
            and all(least <= held.count(name) <= least + 1 for name in names)
        )

    await _until(is_settled)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SETTLED_WITHIN_S):
        while not true():  # noqa: ASYNC110 - what it looks at has no event
            await asyncio.sleep(0.02)


# -- Report


def report(found: dict[str, dict[str, Seen]]) -> str:
    """Return the tables and the pictures."""
    head = ["", "protocol", "partitions moved", "members that stopped reading some"]
    head += ["nobody reads: partition-seconds", "the longest pause of a partition"]
    rows: list[list[str]] = []
    for event in ("one joins", "one dies", "all are restarted"):
        for kind, seen in found.items():
            each = seen[event]
            pauses = f"{each.paused_s:,.0f}", f"{each.longest_s:.1f} s"
            rows.append([event, kind, str(each.moved), str(each.stopped), *pauses])
    lines = [
        "# What a group of fifty consumers goes through",
        "",
        f"`python -m benchmarks.rebalances --write`: {MEMBERS} consumers, {PARTITIONS} partitions; intervals of a tenth"
        " of the defaults, times multiplied by ten.",
        "",
        table(head, rows),
    ]
    restart = {kind: seen["all are restarted"] for kind, seen in found.items()}
    lines += [*_picture("Partition-seconds without a reader while all are restarted", restart, "paused_s")]
    lines += ["", *_picture("Partitions that moved while all were restarted", restart, "moved")]
    return "\n".join(lines)


def _picture(title: str, seen: dict[str, Seen], what: str) -> list[str]:
    names = ", ".join(f'"{kind}"' for kind in seen)
    values = ", ".join(f"{getattr(each, what):.0f}" for each in seen.values())
    return ["```mermaid", "xychart-beta", f'    title "{title}"', f"    x-axis [{names}]", f"    bar [{values}]", "```"]


def main() -> None:
    """See the module's text."""
    run_and_publish(__doc__, RESULTS, lambda: report({kind: asyncio.run(run(kind)) for kind in KINDS}))


if __name__ == "__main__":
    main()
