"""The transcripts of the group machine over the wire: their commands become requests, and the responses are compared.

A client can only play the sections in which no time passes, no log fails and nothing restarts, and each only up to
there. `ODRADEK_TEST_GROUPS_AT=HOST:PORT` plays them against another broker, which needs
`group.initial.rebalance.delay.ms=0`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from odradek.broker import Broker, BrokerConfig
from odradek.broker.coordination.groups.events import Joined, Left, OffsetsDeleted, Synced
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponseMember
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.tests.broker.coordination.classic.stage import pairs, places_of, protocols_of, show_answer, split
from odradek.tests.support.brokers.transcript import transcripts
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.waiting import accepted

OTHER_BROKER = os.environ.get("ODRADEK_TEST_GROUPS_AT")
NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
A_MOMENT_S = 0.05
PLAYABLE = {"join", "sync", "heartbeat", "leave", "commit", "delete", "uncommit", "show"}

# Commands, each with the lines of its answers.
Scene = list[tuple[str, list[str]]]


def scenes() -> Iterator[Any]:
    """Yield the sections of all transcripts that a client can play."""
    for path in transcripts("groups"):
        if OTHER_BROKER and path.stem == "unlike_kafka":
            continue
        for number, scene in enumerate(scenes_of(path)):
            if len(scene) > 1:
                yield pytest.param(scene, id=f"{path.stem}-{number}")


def scenes_of(path: Path) -> Iterator[Scene]:
    scene: Scene = []
    playing = False
    for line in path.read_text().splitlines():
        if line.startswith("> group"):
            if scene:
                yield scene
            scene, playing = [], line == "> group delay=0"
        elif line.startswith("> "):
            playing = playing and line.split()[1] in PLAYABLE
            if playing:
                scene.append((line[2:], []))
        elif playing and scene and re.match(r"  (?!timer|note|record|  )[^ ]+: ", line):
            scene[-1][1].append(line.strip())
    yield scene


class Player:
    """Plays one scene in a group of its own. Each request has a connection: a parked one would block the next."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.group_id = f"group-{uuid.uuid4()}"
        # The transcript's names m1, m2, ... and the broker's member ids.
        self.ids: dict[str, str] = {}
        self.joins = 0
        self.protocol_type = self.protocol = ""
        self.opened: list[Raw] = []
        self.waiting: list[tuple[str, Raw, ApiKey, int, str]] = []

    def close(self) -> None:
        for raw in self.opened:
            raw.close()

    async def play(self, scene: Scene) -> None:
        async with await Raw.connect(self.address) as raw:
            await raw.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(self.group_id))
            await self.make_group(raw)
            for command, expected in scene:
                await self.learn_ids(command, raw)
                await self.send(command)
                # The broker handles this heartbeat after the command, so the command is handled when it returns.
                await raw.ask(ApiKey.HEARTBEAT, 4, HeartbeatRequest("nobody", 0, "nobody"))
                if OTHER_BROKER and not expected:
                    # Another process may read its connections in any order, and nothing shows that a request is parked.
                    await asyncio.sleep(A_MOMENT_S)
                answers = [await self.answer(line.partition(": ")[0]) for line in expected]
                said = [f"{label}: {self.show(key, version, each)}" for label, key, version, each in answers]
                assert [in_order(line) for line in said] == [in_order(line) for line in expected], command

    async def send(self, command: str) -> None:
        verb, *words = shlex.split(command)
        if verb == "show":
            return
        names, options = split(words)
        key, version, request, new_id = getattr(self, verb)(options)
        raw = await Raw.connect(self.address)
        raw.send(key, version, request, "client")
        self.opened.append(raw)
        self.waiting.append((names[0], raw, key, version, new_id))

    async def make_group(self, raw: Raw) -> None:
        """Make the group that the transcripts begin with: a client gets an id, and leaves.

        A Kafka that has just started must create `__consumer_offsets` first.
        """
        _, version, request, _ = self.join({})
        joined = await accepted(lambda: raw.ask(ApiKey.JOIN_GROUP, version, request), *NOT_YET)
        member_id = joined.member_id
        await raw.ask(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(self.group_id, members=[MemberIdentity(member_id)]))
        self.joins = 0

    async def answer(self, label: str) -> tuple[str, ApiKey, int, Any]:
        """Return the answer to the oldest waiting request of a label."""
        place = next(at for at, waiting in enumerate(self.waiting) if waiting[0] == label)
        _, raw, key, version, new_id = self.waiting.pop(place)
        response = await raw.receive(key, version)
        if key is ApiKey.JOIN_GROUP and new_id and response.member_id:
            self.ids[new_id] = response.member_id
        return label, key, version, response

    def show(self, key: ApiKey, version: int, response: Any) -> str:
        """Return a response in the form of the transcripts."""
        match key:
            case ApiKey.JOIN_GROUP:
                return show_answer(self.joined(response, version))
            case ApiKey.SYNC_GROUP:
                names = response.protocol_type or self.protocol_type, response.protocol_name or self.protocol
                return show_answer(Synced(ErrorCode(response.error_code), *names, response.assignment))
            case ApiKey.LEAVE_GROUP:
                return show_answer(Left([ErrorCode(member.error_code) for member in response.members]))
            case ApiKey.OFFSET_COMMIT:
                return show_answer(ErrorCode(response.topics[0].partitions[0].error_code))
            case ApiKey.DELETE_GROUPS:
                return show_answer(ErrorCode(response.results[0].error_code))
            case ApiKey.OFFSET_DELETE if response.error_code == 0:
                kept = {t.name for t in response.topics for p in t.partitions if p.error_code}
                return show_answer(OffsetsDeleted(frozenset(kept)))
            case _:
                return show_answer(ErrorCode(response.error_code))

    def joined(self, response: Any, version: int) -> Joined:
        if response.protocol_name:
            self.protocol = response.protocol_name
        names = {real: name for name, real in self.ids.items()}
        members = [
            JoinGroupResponseMember(names.get(m.member_id, m.member_id), m.group_instance_id, m.metadata)
            for m in response.members
        ]
        return Joined(
            ErrorCode(response.error_code),
            names.get(response.member_id, response.member_id),
            response.generation_id,
            response.protocol_type if version >= 7 else self.protocol_type,
            response.protocol_name,
            names.get(response.leader, response.leader),
            response.skip_assignment,
            members,
        )

    async def learn_ids(self, command: str, raw: Raw) -> None:
        """Look up ids of members whose join is parked: the command may name one that its client does not know yet."""
        named = {f"m{number}" for number in range(1, self.joins + 1) if f"m{number}" in command.replace(",", " ")}
        if not named - self.ids.keys():
            return
        response = await raw.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([self.group_id]))
        unknown = [m.member_id for m in response.groups[0].members if m.member_id not in self.ids.values()]
        for name, member_id in zip(sorted(named - self.ids.keys()), unknown, strict=False):
            self.ids[name] = member_id

    def real(self, name: str) -> str:
        return self.ids.get(name, name)

    # -- Commands as requests

    def join(self, options: dict[str, str]) -> tuple[ApiKey, int, Any, str]:
        new_id = ""
        if not options.get("member"):
            self.joins += 1
            new_id = f"m{self.joins}"
        self.protocol_type = options.get("type", "consumer")
        protocols = [JoinGroupRequestProtocol(name, data) for name, data in protocols_of(options)]
        request = JoinGroupRequest(
            self.group_id,
            int(options.get("session", 10_000)),
            int(options.get("rebalance", 60_000)),
            self.real(options.get("member", "")),
            options.get("instance"),
            self.protocol_type,
            protocols,
            options.get("reason"),
        )
        return ApiKey.JOIN_GROUP, int(options.get("version", 9)), request, new_id

    def sync(self, options: dict[str, str]) -> tuple[ApiKey, int, Any, str]:
        given = [SyncGroupRequestAssignment(self.real(m), d.encode()) for m, d in pairs(options.get("assign", ""))]
        names = options.get("type"), options.get("protocol")
        request = SyncGroupRequest(
            self.group_id, int(options["gen"]), self.real(options["member"]), options.get("instance"), *names, given
        )
        return ApiKey.SYNC_GROUP, 5 if all(names) else 4, request, ""

    def heartbeat(self, options: dict[str, str]) -> tuple[ApiKey, int, Any, str]:
        member = self.real(options["member"])
        request = HeartbeatRequest(self.group_id, int(options["gen"]), member, options.get("instance"))
        return ApiKey.HEARTBEAT, 4, request, ""

    def leave(self, options: dict[str, str]) -> tuple[ApiKey, int, Any, str]:
        members = [MemberIdentity(self.real(m)) for m in options.get("member", "").split(",") if m]
        for word in options.get("instance", "").split(","):
            if word:
                instance, _, member = word.partition("/")
                members.append(MemberIdentity(self.real(member), instance))
        return ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(self.group_id, members=members), ""

    def commit(self, options: dict[str, str]) -> tuple[ApiKey, int, Any, str]:
        partitions: list[OffsetCommitRequestPartition] = []
        for place, offset in pairs(options["offsets"]):
            partitions.append(
                OffsetCommitRequestPartition(int(place.partition("/")[2]), int(offset), committed_metadata="")
            )
        member, instance = self.real(options.get("member", "")), options.get("instance")
        topics = [OffsetCommitRequestTopic("t", partitions=partitions)]
        request = OffsetCommitRequest(self.group_id, int(options.get("gen", -1)), member, instance, topics=topics)
        return ApiKey.OFFSET_COMMIT, 8, request, ""

    def delete(self, options: dict[str, str]) -> tuple[ApiKey, int, Any, str]:
        return ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([self.group_id]), ""

    def uncommit(self, options: dict[str, str]) -> tuple[ApiKey, int, Any, str]:
        topics = [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index in indexes])
            for name, indexes in places_of(options).items()
        ]
        return ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(self.group_id, topics), ""


def in_order(line: str) -> str:
    """Sort the members in the leader's list: their order does not matter."""
    head, bracket, members = line.partition("[")
    return head + bracket + " ".join(sorted(members.rstrip("]").split()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Return the address of the broker for all scenes, each of which has a group of its own."""
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(tmp_path_factory.mktemp("data")),),
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=3,
    )
    async with Broker(config) as broker, await Raw.connect(OTHER_BROKER or broker.address) as raw:
        await raw.create_topic("t", 2)
        await raw.create_topic("u", 2)
        yield OTHER_BROKER or broker.address


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("scene", list(scenes()))
async def test_scene(address: str, scene: Scene) -> None:
    player = Player(address)
    try:
        await player.play(scene)
    finally:
        player.close()
