"""The classic group protocol: join, sync, heartbeat, commit, fetch, describe, list, leave, and rejected requests."""

from __future__ import annotations

from typing import Any

from ..connection import Wire
from .cluster import create_offsets_topic
from .topics import create, topic_id

SUBSCRIPTION = bytes.fromhex("0000000000010001740000000000")
ASSIGNMENT = bytes.fromhex("000000000001000174000000010000000000000000")
PROTOCOLS = [{"Name": "range", "Metadata": SUBSCRIPTION}]


def run(wire: Wire) -> None:
    create_offsets_topic(wire)
    topic = create(wire, "groups", partitions=2)
    for version in range(10):
        life(wire, topic, version)
    joins_refused(wire)
    members_refused(wire, topic)
    offsets(wire, topic)
    last_offset_deleted(wire, topic)
    two_members(wire)
    static_member(wire)
    listings(wire)


def join_body(group: str, member: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "GroupId": group,
        "SessionTimeoutMs": 30_000,
        "RebalanceTimeoutMs": 5_000,
        "MemberId": member,
        "ProtocolType": "consumer",
        "Protocols": PROTOCOLS,
        **fields,
    }


def join(wire: Wire, group: str, version: int = 5, case: str = "join", **fields: Any) -> dict[str, Any]:
    """Join, with the member id that the broker requires from v4 on."""
    if version == 0:
        fields = {"RebalanceTimeoutMs": -1, **fields}
    answer = wire.ask(case, "JoinGroup", version, join_body(group, **fields))
    if answer["ErrorCode"] == 79:
        answer = wire.ask(
            f"{case} with the id given", "JoinGroup", version, join_body(group, answer["MemberId"], **fields)
        )
    return answer


def sync(wire: Wire, case: str, version: int, group: str, joined: dict[str, Any], **fields: Any) -> dict[str, Any]:
    own = [{"MemberId": joined["MemberId"], "Assignment": ASSIGNMENT}]
    body: dict[str, Any] = {"GroupId": group, **member(joined), "Assignments": own}
    if version >= 5:
        body |= {"ProtocolType": "consumer", "ProtocolName": "range"}
    return wire.ask(case, "SyncGroup", version, body | fields)


def member(joined: dict[str, Any]) -> dict[str, Any]:
    return {"MemberId": joined["MemberId"], "GenerationId": joined["GenerationId"]}


def leave(wire: Wire, case: str, version: int, group: str, *members: dict[str, Any]) -> None:
    body: dict[str, Any] = (
        {"GroupId": group, "Members": list(members)}
        if version >= 3
        else {"GroupId": group, "MemberId": members[0]["MemberId"]}
    )
    wire.ask(case, "LeaveGroup", version, body)


def life(wire: Wire, topic: str, version: int) -> None:
    """Run through the life of one member, each API at its version nearest to `version`."""
    group = f"{wire.prefix}-life-{version}"
    joined = join(wire, group, version)
    sync(wire, "sync", min(version, 5), group, joined)
    wire.ask("heartbeat", "Heartbeat", min(version, 4), {"GroupId": group, **member(joined)})
    commit(wire, "commit", max(version, 2), group, topic, 0, joined)
    if version == 9:
        commit(wire, "commit", 10, group, topic, 0, joined)
    fetch_offsets(wire, "fetch", max(version, 1), group, topic)
    if version == 9:
        fetch_offsets(wire, "fetch", 10, group, topic)
    wire.ask("stable", "DescribeGroups", min(version, 6), {"Groups": [group]})
    wire.ask("unknown", "DescribeGroups", min(version, 6), {"Groups": [f"{wire.prefix}-absent"]})
    wire.ask("all", "ListGroups", min(version, 5), {})
    leave(wire, "leave", min(version, 5), group, {"MemberId": joined["MemberId"]})
    wire.ask("empty", "DescribeGroups", min(version, 6), {"Groups": [group]})


def commit(
    wire: Wire,
    case: str,
    version: int,
    group: str,
    topic: str,
    partition: int,
    joined: dict[str, Any] | None = None,
    **fields: Any,
) -> None:
    named = {"TopicId": topic_id(wire, topic)} if version >= 10 else {"Name": topic}
    place = {"PartitionIndex": partition, "CommittedOffset": 42, "CommittedMetadata": "note", **fields}
    if version >= 6:
        place.setdefault("CommittedLeaderEpoch", 0)
    who = {"MemberId": joined["MemberId"], "GenerationIdOrMemberEpoch": joined["GenerationId"]} if joined else {}
    wire.ask(case, "OffsetCommit", version, {"GroupId": group, **who, "Topics": [{**named, "Partitions": [place]}]})


def fetch_offsets(
    wire: Wire, case: str, version: int, group: str, topic: str, partitions: tuple[int, ...] = (0, 1), **fields: Any
) -> None:
    named = {"TopicId": topic_id(wire, topic)} if version >= 10 else {"Name": topic}
    topics = [{**named, "PartitionIndexes": list(partitions)}]
    body = {"Groups": [{"GroupId": group, "Topics": topics}]} if version >= 8 else {"GroupId": group, "Topics": topics}
    wire.ask(case, "OffsetFetch", version, body | fields)
    if version >= 2:
        body = {"Groups": [{"GroupId": group, "Topics": None}]} if version >= 8 else {"GroupId": group, "Topics": None}
        wire.ask(f"{case} all", "OffsetFetch", version, body | fields)


def joins_refused(wire: Wire) -> None:
    group = f"{wire.prefix}-refused"
    for version in (3, 5, 9):

        def ask(case: str, *, _version: int = version, **fields: Any) -> None:
            wire.ask(
                case,
                "JoinGroup",
                _version,
                join_body(fields.pop("GroupId", group), fields.pop("MemberId", ""), **fields),
            )

        ask("no group id", GroupId="")
        ask("session time-out too short", SessionTimeoutMs=1)
        ask("session time-out too long", SessionTimeoutMs=100_000_000)
        ask("member nobody knows", MemberId="nobody-1")
        ask("no protocols", Protocols=[])
        ask("no protocol type", ProtocolType="")
    one = join(wire, group)
    sync(wire, "sync", 3, group, one)
    for case, fields in (
        ("another protocol type", {"ProtocolType": "connect"}),
        ("no protocol in common", {"Protocols": [{"Name": "other", "Metadata": b""}]}),
    ):
        wire.ask(case, "JoinGroup", 3, join_body(group, **fields))
    leave(wire, "leave", 1, group, {"MemberId": one["MemberId"]})


def members_refused(wire: Wire, topic: str) -> None:
    group = f"{wire.prefix}-strict"
    joined = join(wire, group)
    wire.ask("heartbeat before sync", "Heartbeat", 3, {"GroupId": group, **member(joined)})
    commit(wire, "commit before sync", 7, group, topic, 0, joined)
    sync(wire, "sync with a wrong generation", 3, group, joined, GenerationId=77)
    sync(wire, "sync by nobody", 3, group, joined, MemberId="nobody")
    sync(wire, "sync with another protocol", 5, group, joined, ProtocolName="other")
    sync(wire, "sync with another type", 5, group, joined, ProtocolType="other")
    sync(wire, "sync", 5, group, joined)
    sync(wire, "sync again", 5, group, joined)
    for case, fields in (
        ("plain", {}),
        ("wrong generation", {"GenerationId": 77}),
        ("older generation", {"GenerationId": 0}),
        ("nobody", {"MemberId": "nobody"}),
        ("no member id", {"MemberId": ""}),
        ("unknown group", {"GroupId": f"{wire.prefix}-absent"}),
        ("no group id", {"GroupId": ""}),
        ("instance nobody has", {"GroupInstanceId": "i"}),
    ):
        wire.ask(f"heartbeat, {case}", "Heartbeat", 3, {"GroupId": group, **member(joined), **fields})
    wire.ask("join again with the same", "JoinGroup", 5, join_body(group, joined["MemberId"]))
    for version in (1, 3, 5):
        leave(wire, "leave, nobody", version, group, {"MemberId": "nobody"})
        leave(wire, "leave, unknown group", version, f"{wire.prefix}-absent", {"MemberId": "nobody"})
        leave(wire, "leave, no group id", version, "", {"MemberId": "nobody"})
    leave(wire, "leave, two and one known", 4, group, {"MemberId": "nobody"}, {"MemberId": joined["MemberId"]})
    leave(wire, "leave, no members", 4, group)
    wire.ask("heartbeat after leaving", "Heartbeat", 3, {"GroupId": group, **member(joined)})


def offsets(wire: Wire, topic: str) -> None:
    simple = f"{wire.prefix}-simple"
    for version in range(2, 11):
        commit(wire, "commit without a group", version, simple, topic, 0)
        commit(wire, "commit to an unknown partition", version, simple, topic, 9)
    commit(wire, "commit to an unknown topic", 7, simple, f"{wire.prefix}-absent", 0)
    commit(wire, "commit to a bad topic name", 7, simple, "bad name!", 0)
    commit(wire, "commit, negative offset", 7, simple, topic, 1, CommittedOffset=-1)
    commit(wire, "commit, no metadata", 7, simple, topic, 1, CommittedMetadata=None)
    commit(wire, "commit, metadata of 4096", 7, simple, topic, 1, CommittedMetadata="x" * 4096)
    commit(wire, "commit, metadata of 4097", 7, simple, topic, 1, CommittedMetadata="x" * 4097)
    commit(wire, "commit, no group id", 7, "", topic, 0)
    commit(wire, "commit by nobody", 7, simple, topic, 0, {"MemberId": "nobody", "GenerationId": 3})
    commit(
        wire,
        "commit by nobody, unknown group",
        7,
        f"{wire.prefix}-absent",
        topic,
        0,
        {"MemberId": "nobody", "GenerationId": 3},
    )
    commit(wire, "commit, no generation but a member", 7, simple, topic, 0, {"MemberId": "nobody", "GenerationId": -1})
    wire.ask("commit of nothing", "OffsetCommit", 7, {"GroupId": simple, "Topics": []})
    for version in range(1, 10):
        fetch_offsets(wire, "fetch without a group", version, simple, topic)
        fetch_offsets(wire, "fetch, unknown group", version, f"{wire.prefix}-absent", topic)
        fetch_offsets(wire, "fetch, unknown partition", version, simple, topic, (0, 9))
    fetch_offsets(wire, "fetch, unknown topic", 7, simple, f"{wire.prefix}-absent")
    fetch_offsets(wire, "fetch, no group id", 7, "", topic)
    fetch_offsets(wire, "fetch, stable only", 7, simple, topic, RequireStable=True)
    topics = [{"Name": topic, "PartitionIndexes": [0]}]
    groups = [
        {"GroupId": simple, "Topics": topics},
        {"GroupId": f"{wire.prefix}-absent", "Topics": topics},
        {"GroupId": "", "Topics": None},
    ]
    wire.ask("fetch, three groups", "OffsetFetch", 8, {"Groups": groups})
    wire.ask("fetch, no groups", "OffsetFetch", 8, {"Groups": []})
    wire.ask(
        "fetch, a member nobody knows",
        "OffsetFetch",
        9,
        {"Groups": [{**groups[0], "MemberId": "nobody", "MemberEpoch": 3}]},
    )


def last_offset_deleted(wire: Wire, topic: str) -> None:
    """Delete the only offset of a group without members: the group itself stays."""
    group = f"{wire.prefix}-emptied"
    deletion = {"GroupId": group, "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0}]}]}
    commit(wire, "commit of the only offset", 7, group, topic, 0)
    wire.ask("last offset", "OffsetDelete", 0, deletion)
    wire.ask("no offset left", "OffsetDelete", 0, deletion)
    wire.ask("no offset left", "DescribeGroups", 6, {"Groups": [group]})
    wire.ask("no offset left", "DeleteGroups", 2, {"GroupsNames": [group]})
    for version in range(4):
        wire.ask("no group left", "DeleteGroups", version, {"GroupsNames": [group, ""]})


def two_members(wire: Wire) -> None:
    """Let a second member join: the first one must rejoin, and both get their partitions from the leader."""
    group, other = f"{wire.prefix}-two", wire.twin()
    first = join(wire, group)
    sync(wire, "sync alone", 3, group, first)
    given = other.ask("second asks for an id", "JoinGroup", 5, join_body(group))["MemberId"]
    wire.ask("heartbeat while one has only an id", "Heartbeat", 3, {"GroupId": group, **member(first)})
    other.send("JoinGroup", 5, join_body(group, given))
    wire.until(lambda told: told["ErrorCode"] != 0, "Heartbeat", 3, {"GroupId": group, **member(first)})
    wire.ask("heartbeat while the second joins", "Heartbeat", 3, {"GroupId": group, **member(first)})
    wire.ask("preparing", "DescribeGroups", 4, {"Groups": [group]})
    first = wire.ask("first joins again", "JoinGroup", 5, join_body(group, first["MemberId"]))
    second = other.receive("second has joined", "JoinGroup", 5)
    leader, follower = (wire, first), (other, second)
    if second["Leader"] == second["MemberId"]:
        leader, follower = follower, leader
    follower[0].send("SyncGroup", 3, {"GroupId": group, **member(follower[1]), "Assignments": []})
    wire.twin().ask("completing", "DescribeGroups", 4, {"Groups": [group]})
    shares = [
        {"MemberId": who["MemberId"], "Assignment": share} for who, share in ((first, b"first"), (second, b"second"))
    ]
    leader[0].ask("leader syncs", "SyncGroup", 3, {"GroupId": group, **member(leader[1]), "Assignments": shares})
    follower[0].receive("follower is told", "SyncGroup", 3)
    leave(wire, "second leaves", 4, group, {"MemberId": second["MemberId"], "GroupInstanceId": None})
    wire.ask("heartbeat after the second left", "Heartbeat", 3, {"GroupId": group, **member(first)})
    leave(wire, "first leaves", 4, group, {"MemberId": first["MemberId"], "GroupInstanceId": None})
    wire.ask("empty", "DescribeGroups", 4, {"Groups": [group]})
    other.close()


def static_member(wire: Wire) -> None:
    group, instance = f"{wire.prefix}-static", {"GroupInstanceId": "i1"}
    joined = wire.ask("static join", "JoinGroup", 5, join_body(group, **instance))
    sync(wire, "static sync", 3, group, joined, **instance)
    wire.ask("static heartbeat", "Heartbeat", 3, {"GroupId": group, **member(joined), **instance})
    again = wire.ask("static member comes back", "JoinGroup", 5, join_body(group, **instance))
    wire.ask("fenced heartbeat", "Heartbeat", 3, {"GroupId": group, **member(joined), **instance})
    wire.ask("fenced join", "JoinGroup", 5, join_body(group, joined["MemberId"], **instance))
    sync(wire, "fenced sync", 3, group, joined, **instance)
    sync(wire, "static sync again", 3, group, again, **instance)
    wire.ask("stable", "DescribeGroups", 5, {"Groups": [group]})
    leave(wire, "fenced leave", 4, group, {"MemberId": joined["MemberId"], **instance})
    leave(wire, "leave by instance", 4, group, {"MemberId": "", **instance})


def listings(wire: Wire) -> None:
    for states in (["Stable"], ["Empty"], ["stable"], ["Nonsense"]):
        wire.ask(f"in state {states[0]}", "ListGroups", 4, {"StatesFilter": states})
    for kinds in (["classic"], ["consumer"], ["Nonsense"]):
        wire.ask(f"of type {kinds[0]}", "ListGroups", 5, {"TypesFilter": kinds})
    for version in (4, 5, 6):
        wire.ask(
            "authorized operations",
            "DescribeGroups",
            version,
            {"Groups": [f"{wire.prefix}-simple"], "IncludeAuthorizedOperations": True},
        )
        wire.ask("no groups", "DescribeGroups", version, {"Groups": []})
        wire.ask("empty id", "DescribeGroups", version, {"Groups": [""]})
