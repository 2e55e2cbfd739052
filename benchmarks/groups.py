"""Loads of consumer groups by raw requests. Each takes a running broker and returns one figure.

The loads: joins and leaves of a member, heartbeats, a rebalance of ten members, a thousand idle groups, and a million
commits that a start reads back. A load that competes with the broker has a process of its own:
python -m benchmarks.groups HOST:PORT cycle
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from struct import pack
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

from .brokers import Broker, of_broker
from .load import Wire, create_topic, in_own_process, run
from .load import request as frame_of

TOPIC = "bench-groups"
# Kafka 4 reads what a consumer subscribes to: version 0, one topic, no user data.
SUBSCRIPTION = pack(">hih", 0, 1, len(TOPIC)) + TOPIC.encode() + pack(">i", -1)
PARTITIONS = 40
MEMBERS = 10
CYCLES_FOR_S = 4.0
HEARTBEATS_FOR_S = 3.0
PRODUCE_FOR_S = 6.0
HEARTBEAT_PAUSE_S = 0.002
SESSION_MS = 300_000
IDLE_GROUPS = 1000
# A million commits: groups, partitions of each, and commits of each partition.
REPLAYED_GROUPS, REPLAYED_PARTITIONS, REPLAYED_TIMES = 50, 1000, 20
READY_WITHIN_S = 60.0
# Versions that a real Kafka and we both serve; JoinGroup 3 needs no second round for a member id.
FIND, JOIN, SYNC, HEARTBEAT, COMMIT, FETCH, LEAVE = 2, 3, 3, 3, 7, 5, 2
_LOADING = {14, 15, 16}


class Member:
    """A member of a group with one connection, one request at a time. `send_...` asks without waiting."""

    def __init__(self, wire: Wire, group: str) -> None:
        self.wire = wire
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.members: list[str] = []

    def find(self) -> None:
        asked = FindCoordinatorRequest(self.group)
        _check(self.wire.ask(ApiKey.FIND_COORDINATOR, FIND, asked, FindCoordinatorResponse).error_code)

    def join(self) -> None:
        self.send_join()
        self.joined()

    def send_join(self) -> None:
        asked = JoinGroupRequest(
            self.group,
            SESSION_MS,
            SESSION_MS,
            self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", SUBSCRIPTION)],
        )
        self.wire.send(frame_of(ApiKey.JOIN_GROUP, JOIN, asked))

    def joined(self) -> None:
        answer = self.wire.answer(JoinGroupResponse, JOIN)
        _check(answer.error_code)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.leads = answer.leader == answer.member_id
        self.members = [each.member_id for each in answer.members]

    def sync(self) -> None:
        self.send_sync()
        self.synced()

    def send_sync(self) -> None:
        """Send SyncGroup. The leader gives every member the same number of partitions."""
        share = bytes(4 * PARTITIONS // max(len(self.members), 1))
        given = [SyncGroupRequestAssignment(each, share) for each in self.members] if self.leads else []
        asked = SyncGroupRequest(self.group, self.generation, self.member_id, assignments=given)
        self.wire.send(frame_of(ApiKey.SYNC_GROUP, SYNC, asked))

    def synced(self) -> None:
        answer = self.wire.answer(SyncGroupResponse, SYNC)
        _check(answer.error_code)
        assert len(answer.assignment) == 4 * PARTITIONS // max(len(self.members), 1) or not self.leads

    def heartbeat(self) -> int:
        asked = HeartbeatRequest(self.group, self.generation, self.member_id)
        return self.wire.ask(ApiKey.HEARTBEAT, HEARTBEAT, asked, HeartbeatResponse).error_code

    def commit(self) -> None:
        places = [OffsetCommitRequestPartition(0, 1, committed_metadata="")]
        asked = OffsetCommitRequest(
            self.group, self.generation, self.member_id, topics=[OffsetCommitRequestTopic(TOPIC, partitions=places)]
        )
        answer = self.wire.ask(ApiKey.OFFSET_COMMIT, COMMIT, asked, OffsetCommitResponse)
        _check(answer.topics[0].partitions[0].error_code)

    def fetch(self) -> int:
        """Fetch the committed offset, and return the error code of the response."""
        asked = OffsetFetchRequest(self.group, [OffsetFetchRequestTopic(TOPIC, [0])])
        return self.wire.ask(ApiKey.OFFSET_FETCH, FETCH, asked, OffsetFetchResponse).error_code

    def leave(self) -> None:
        asked = LeaveGroupRequest(self.group, self.member_id)
        _check(self.wire.ask(ApiKey.LEAVE_GROUP, LEAVE, asked, LeaveGroupResponse).error_code)
        self.member_id = ""


def _check(code: int) -> None:
    if code:
        raise SystemExit(f"refused: error {code}")


def prepared(address: str, partitions: int = PARTITIONS, topic: str = TOPIC) -> Wire:
    """Return a connection to a broker that has the topic, and whose coordinator answers."""
    wire = Wire(address)
    create_topic(wire, topic, partitions)
    wait_until_served(wire, "first")
    return wire


def wait_until_served(wire: Wire, group: str) -> None:
    """Wait until the coordinator has loaded the group's partition."""
    deadline = time.perf_counter() + READY_WITHIN_S
    asked = FindCoordinatorRequest(group)
    while (
        wire.ask(ApiKey.FIND_COORDINATOR, FIND, asked, FindCoordinatorResponse).error_code
        or Member(wire, group).fetch() in _LOADING
    ):
        assert time.perf_counter() < deadline, "no coordinator"
        time.sleep(0.01)


# In a process of their own.


def live(member: Member) -> str:
    """Find the coordinator, join, sync, heartbeat, commit, fetch and leave. Return the member id."""
    member.find()
    member.join()
    member_id = member.member_id
    member.sync()
    _check(member.heartbeat())
    member.commit()
    _check(member.fetch())
    member.leave()
    return member_id


class _Recorder(Wire):
    """A connection that keeps what it has sent and received."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.sent: list[bytes] = []
        self.received: list[bytes] = []

    def send(self, data: bytes | bytearray) -> None:
        self.sent.append(bytes(data))
        super().send(data)

    def receive(self) -> memoryview:
        self.received.append(bytes(answer := super().receive()))
        return answer


class _Life:
    """The life of a member in a group of its own, as frames that were sent and received once.

    To live it again replaces the names of the group and the member, which costs a tenth of encoding and decoding: the
    broker has both cores. Every answer must be the recorded one but for the names.
    """

    def __init__(self, address: str, group: str) -> None:
        wire = _Recorder(address)
        self._group, self._member = group.encode(), live(Member(wire, group)).encode()
        self._exchanges = list(zip(wire.sent, wire.received, strict=True))

    def again(self, wire: Wire, group: bytes) -> None:
        """Live it in another group, whose name is as long."""
        member = self._member
        for sent, received in self._exchanges:
            wire.send(sent.replace(self._group, group).replace(self._member, member))
            answer = bytes(wire.receive())
            if member == self._member and (at := received.find(self._member)) >= 0:
                member = answer[at : at + len(self._member)]
            if answer.replace(member, self._member) != received:
                raise SystemExit(f"another answer than the first time: {answer!r}, not {received!r}")


def cycle(address: str) -> float:
    """Return the lives of a member a second, each in a new group: find, join, sync, heartbeat, commit, fetch, leave."""
    wire = prepared(address)
    stamp = time.time_ns()
    life = _Life(address, f"cycle-{stamp}-{0:08}")
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < CYCLES_FOR_S:
        done += 1
        life.again(wire, b"cycle-%d-%08d" % (stamp, done))
    return done / (time.perf_counter() - started)


def beating(address: str) -> tuple[Member, bytes]:
    """Return the member of a stable group, and its Heartbeat."""
    member = Member(prepared(address), f"beats-{time.time_ns()}")
    member.join()
    member.sync()
    _check(member.heartbeat())
    asked = HeartbeatRequest(member.group, member.generation, member.member_id)
    return member, frame_of(ApiKey.HEARTBEAT, HEARTBEAT, asked)


def heartbeat(in_flight: int, address: str) -> float:
    """Return the heartbeats a second of a member of a stable group."""
    member, data = beating(address)
    run(member.wire, [data], in_flight, 0.5)
    return run(member.wire, [data], in_flight, HEARTBEATS_FOR_S)["requests_per_s"]


def heartbeat_beside_produce(address: str) -> float:
    """Return the p99 in milliseconds of a Heartbeat, some 500 a second, while another client produces 1 MB batches."""
    member, data = beating(address)
    command = [sys.executable, "-m", "benchmarks.load", address, "produce-1mb", "--in-flight", "5"]
    times_ms: list[float] = []
    with subprocess.Popen([*command, "--seconds", f"{PRODUCE_FOR_S:g}"], stdout=subprocess.DEVNULL) as producing:
        while producing.poll() is None:
            started = time.perf_counter()
            member.wire.send(data)
            member.wire.receive()
            times_ms.append((time.perf_counter() - started) * 1000)
            time.sleep(HEARTBEAT_PAUSE_S)
    return sorted(times_ms)[len(times_ms) * 99 // 100]


def agree(address: str) -> float:
    """Return the milliseconds from the join of the last of ten members until each has its part of 40 partitions."""
    prepared(address)
    group = f"ten-{time.time_ns()}"
    members = [Member(Wire(address), group) for _ in range(MEMBERS)]
    for count in range(1, MEMBERS + 1):
        started = time.perf_counter()
        rebalance(members[:count])
    elapsed_ms = (time.perf_counter() - started) * 1000
    for each in members:
        each.leave()
    return elapsed_ms


def rebalance(members: list[Member]) -> None:
    """Let the last member join. The others learn of the rebalance from their heartbeats."""
    *old, new = members
    new.send_join()
    for each in old:
        while each.heartbeat() == 0:
            pass  # another connection's request may be handled first
        each.send_join()
    for each in members:
        each.joined()
    for each in members:
        each.send_sync()
    for each in members:
        each.synced()


LOADS: dict[str, Callable[[str], float]] = {
    "cycle": cycle,
    "heartbeat-1": partial(heartbeat, 1),
    "heartbeat-64": partial(heartbeat, 64),
    "heartbeat-beside-produce": heartbeat_beside_produce,
    "agree": agree,
}


@of_broker
def load(broker: Broker, name: str) -> float:
    """Return the figure of one of `LOADS`, from a process of its own."""
    return in_own_process("groups", broker.address, name)


# With the broker's process in hand.


def idle_groups(broker: Broker) -> float:
    """Return the MB that a thousand groups with a member and a committed offset add to the resident memory."""
    wire = prepared(broker.address)
    stamp = time.time_ns()
    Member(wire, "warm").fetch()
    before = broker.memory_mb()
    for number in range(IDLE_GROUPS):
        member = Member(wire, f"idle-{stamp}-{number}")
        member.join()
        member.sync()
        member.commit()
    return broker.memory_mb() - before


def replay(broker: Broker) -> float:
    """Return the seconds by which a million commits in `__consumer_offsets` delay a start."""
    topic = "bench-replay"
    wire = prepared(broker.address, REPLAYED_PARTITIONS, topic)
    # The first start after the other scenarios has more to do than the later ones.
    without_s = min(restarted(broker, "first") for _ in range(2))
    wire = prepared(broker.address, REPLAYED_PARTITIONS, topic)
    for number in range(REPLAYED_GROUPS):
        wait_until_served(wire, f"replayed-{number}")
    for turn in range(REPLAYED_TIMES):
        for number in range(REPLAYED_GROUPS):
            _commit_all(wire, topic, f"replayed-{number}", turn)
    return restarted(broker, *(f"replayed-{number}" for number in range(REPLAYED_GROUPS))) - without_s


def _commit_all(wire: Wire, topic: str, group: str, offset: int) -> None:
    places = [OffsetCommitRequestPartition(at, offset, committed_metadata="") for at in range(REPLAYED_PARTITIONS)]
    asked = OffsetCommitRequest(group, -1, "", topics=[OffsetCommitRequestTopic(topic, partitions=places)])
    answer: Any = wire.ask(ApiKey.OFFSET_COMMIT, COMMIT, asked, OffsetCommitResponse)
    _check(answer.topics[0].partitions[0].error_code)


def restarted(broker: Broker, *groups: str) -> float:
    """Stop the broker; return the seconds from its start until it serves the groups."""
    broker.stop()
    started = time.perf_counter()
    broker.start()
    wire = Wire(broker.address)
    for group in groups:
        wait_until_served(wire, group)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("load", choices=sorted(LOADS))
    arguments = parser.parse_args()
    print(json.dumps(LOADS[arguments.load](arguments.address)))


if __name__ == "__main__":
    main()
