"""What members of consumer groups (KIP-848) cost: ten thousand heartbeats a second, and a thousand members that join.

    python -m benchmarks.consumer_groups             Odradek, and Kafka too if KAFKA_LIB names its jars
    python -m benchmarks.consumer_groups --write     also writes benchmarks/consumer_groups.md

Members share a few connections: a coordinator knows members by their ids. The floor is an echo, which sends the same
frames back, under the same load: what the machine, the loop and this load generator cost without a broker.
"""

from __future__ import annotations

import os
import selectors
import statistics
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

from . import report
from .brokers import Broker, Odradek, kafkas
from .echo import EchoProcess
from .groups import prepared
from .load import Wire
from .load import request as frame_of

TOPIC = "bench-consumer-groups"
# Heartbeats: so many members in groups of so many, at so many a second in all.
GROUPS, GROUP_SIZE, PER_S = 100, 100, 10_000
WARM_S, LASTS_S = 3.0, 8.0
# Connections; a tick sends a heartbeat on some of them.
WIRES = 20
# The members that join one group of as many partitions.
JOINING = 1_000
JOINED_WITHIN_S = 120.0
VERSION, FIND = 0, 2
RESULTS = Path(__file__).with_name("consumer_groups.md")


@dataclass
class Member:
    """A member, and what it knows of its group."""

    group: str
    name: str
    topic: str
    epoch: int = 0
    owned: dict[bytes, list[int]] = field(default_factory=dict[bytes, list[int]])
    # Whether the coordinator has heard of what it owns.
    told: bool = False

    def frame(self) -> bytes:
        """Return the bytes of its next heartbeat."""
        asked = ConsumerGroupHeartbeatRequest(self.group, self.name, self.epoch)
        if self.epoch == 0:
            asked.rebalance_timeout_ms, asked.subscribed_topic_names, asked.topic_partitions = 300_000, [self.topic], []
        elif not self.told:
            asked.topic_partitions = [TopicPartitions(*each) for each in self.owned.items()]
        return bytes(frame_of(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, asked))

    def take(self, data: memoryview) -> None:
        """Take the answer to its heartbeat."""
        answer = frame.decode_response(bytes(data), ConsumerGroupHeartbeatResponse, VERSION)[1]
        if answer.error_code:
            raise SystemExit(f"{self.name}: error {answer.error_code}: {answer.error_message}")
        self.told = self.epoch > 0
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
            self.told = False


def beat(wires: list[Wire], members: list[Member]) -> None:
    """Send one heartbeat of each member, as many at a time as there are connections, and take the answers."""
    for begin in range(0, len(members), len(wires)):
        some = list(zip(wires, members[begin : begin + len(wires)], strict=False))
        for wire, member in some:
            wire.send(member.frame())
        for wire, member in some:
            member.take(wire.receive())


# -- A thousand members join


def joined_s(broker: Broker, count: int) -> float:
    """Return the time until so many members of one group have all partitions, and the coordinator knows it."""
    wires = _wires(broker, count)
    group = f"join-{time.time_ns()}"
    members = [Member(group, f"m{number}", _topic(count)) for number in range(count)]
    _find(wires[0], group)
    began = time.perf_counter()
    while True:
        beat(wires, members)
        held = sum(len(numbers) for member in members for numbers in member.owned.values())
        if held == count and all(member.owned and member.told for member in members):
            took = time.perf_counter() - began
            _leave(wires, members)
            return took
        if time.perf_counter() - began > JOINED_WITHIN_S:
            raise SystemExit(f"{held} of {count} partitions are assigned after {JOINED_WITHIN_S:g} s")


def _wires(broker: Broker, partitions: int) -> list[Wire]:
    first = prepared(broker.address, partitions, _topic(partitions))
    return [first, *(Wire(broker.address) for _ in range(WIRES - 1))]


def _topic(partitions: int) -> str:
    return f"{TOPIC}-{partitions}"


def _find(wire: Wire, group: str) -> None:
    while wire.ask(ApiKey.FIND_COORDINATOR, FIND, FindCoordinatorRequest(group), FindCoordinatorResponse).error_code:
        time.sleep(0.1)


def _leave(wires: list[Wire], members: list[Member]) -> None:
    for member in members:
        member.epoch = -1
    beat(wires, members)


# -- Ten thousand heartbeats a second


@dataclass
class Beats:
    """What a load of heartbeats showed."""

    per_s: float
    p50_ms: float
    p99_ms: float
    cpu: float

    def row(self, name: str) -> list[str]:
        times = f"{self.p50_ms:.2f}", f"{self.p99_ms:.2f}"
        return [name, f"{self.per_s:,.0f}", *times, f"{self.cpu * 100:.0f} %"]


def heartbeats(broker: Broker, frames: list[bytes], per_s: int) -> Beats:
    """Send these frames in turn, so many a second, and return the times until they are answered."""
    wires = [Wire(broker.address) for _ in range(WIRES)]
    selector = selectors.DefaultSelector()
    waiting: list[deque[float]] = [deque() for _ in wires]
    for at, wire in enumerate(wires):
        selector.register(wire.socket, selectors.EVENT_READ, at)
    times: list[float] = []
    began = time.perf_counter()
    measured, ends = began + WARM_S, began + WARM_S + LASTS_S
    sent, cpu_s = 0, 0.0
    while (now := time.perf_counter()) < ends:
        if not cpu_s and now >= measured:
            cpu_s = broker.cpu_s()
        while sent < (now - began) * per_s:
            at = sent % WIRES
            wires[at].send(frames[sent % len(frames)])
            waiting[at].append(time.perf_counter())
            sent += 1
        for key, _ in selector.select(0.0005):
            at = key.data
            wires[at].receive()
            while True:
                sent_at = waiting[at].popleft()
                if sent_at >= measured:
                    times.append(time.perf_counter() - sent_at)
                if not waiting[at] or not wires[at].has_more():
                    break
                wires[at].receive()
    cpu = (broker.cpu_s() - cpu_s) / (time.perf_counter() - measured)
    for wire in wires:
        wire.socket.close()
    quantiles = statistics.quantiles(times, n=100)
    return Beats(len(times) / LASTS_S, statistics.median(times) * 1000, quantiles[98] * 1000, cpu)


def settled(broker: Broker) -> list[bytes]:
    """Have all groups joined. Return a heartbeat of each member."""
    wires = _wires(broker, GROUP_SIZE)
    for number in range(GROUPS):
        _find(wires[0], f"beats-{number}")
    # The groups take turns: each has a new assignment once a second at most.
    members = [
        Member(f"beats-{number}", f"m{number}-{each}", _topic(GROUP_SIZE))
        for each in range(GROUP_SIZE)
        for number in range(GROUPS)
    ]
    while not all(each.owned and each.told for each in members):
        beat(wires, members)
    beat(wires, members)
    return [member.frame() for member in members]


# -- Report


def measure(brokers: list[Broker], folder: Path, members: int) -> str:
    """Return the report."""
    rows: list[list[str]] = []
    others = os.getloadavg()[0]
    joins: dict[str, list[float]] = {}
    frames: list[bytes] = []
    for broker in brokers:
        with broker:
            # The interval between two assignments is a second in both: the first join after it pays for it.
            joins[broker.name] = [joined_s(broker, members) for _ in range(3)]
            frames = settled(broker)
            rows.append(heartbeats(broker, frames, PER_S).row(broker.name))
        print(joins[broker.name], rows[-1], file=sys.stderr)
    with EchoProcess(folder / "echo") as echo:
        rows.append(heartbeats(echo, frames, PER_S).row("an echo of the same frames"))
    lines = [
        "# What members of consumer groups cost",
        "",
        f"`python -m benchmarks.consumer_groups --write`: {GROUPS} groups of {GROUP_SIZE} members, {PER_S:,} heartbeats"
        " a second in all.",
        f"Before the run {others:.1f} tasks wanted a processor: more than one makes the times those of the machine.",
        "",
        report.table(["", "answered a second", "p50 ms", "p99 ms", "processor of the broker"], rows),
        f"{members:,} members join one group of {members:,} partitions, in s, three times:",
        "",
        *(f"- {name}: {', '.join(f'{each:.2f}' for each in took)}" for name, took in joins.items()),
    ]
    return "\n".join(lines)


def main() -> None:
    """See the module's text."""
    parser = report.arguments(__doc__, RESULTS)
    parser.add_argument("--members", type=int, default=JOINING, help="how many join one group")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as name:
        folder = Path(name)
        text = measure([Odradek(folder / "odradek"), *kafkas(folder)], folder, arguments.members)
    report.publish(text, arguments.write)


if __name__ == "__main__":
    main()
