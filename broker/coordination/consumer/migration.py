"""A group changes its kind while it has members (`group.consumer.migration.policy`).

Upgrade: the first member that speaks the consumer protocol makes a consumer group of a classic one. The classic members
become members of the consumer group, and stand where their last assignment left them (classic_members.py).

Downgrade: the last member that speaks the consumer protocol goes, or a classic one takes its place, and the others are
a classic group again. Its record names no leader: lifecycle.py begins a rebalance with the next event, also after a
restart.

Promise: what a member had been assigned stays its own over both. The next target or generation decides anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....protocol.errors import DecodeError, ErrorCode, KafkaError
from ....protocol.messages import consumer_group_records as kafka
from ....protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    decode_versioned,
    encode_versioned,
)
from ....protocol.messages.group_records import GroupMetadataValue, MemberMetadata
from ..classic.roster import Member as ClassicMember
from ..groups.events import (
    CancelTimer,
    InitialDelayPassed,
    Outcome,
    RebalanceTimeout,
    SessionExpired,
    SetTimer,
    SyncTimeout,
)
from ..groups.group import Group
from ..groups.records import ClassicEnded, GroupRecord, PartRecord
from ..groups.subscriptions import CONSUMER, MAX_VALUES, read_subscription
from ..interfaces import Topics
from ..modern.events import MemberSilent
from ..modern.state import Place, by_topic
from ..modern.target import metadata_hash
from . import changes
from .events import REVOKE, MemberLate, member_timers
from .state import ConsumerGroup, Current, Member, MemberState

# What reads assignments of every version.
_ASSIGNMENT_VERSION = 0


# -- Upgrade


def upgrade(group: Group, outcome: Outcome) -> ConsumerGroup:
    """Return the consumer group that a classic group becomes with the records of the outcome.

    GROUP_ID_NOT_FOUND where it must stay classic.
    """
    why = _obstacle(group)
    if why:
        text = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
    records = _upgrade_records(group)
    body = ConsumerGroup()
    for record in records:
        body.apply(record)
    if group.recorded:
        outcome.records.append(ClassicEnded(group.group_id))
    outcome.records += records
    outcome.timers.extend(CancelTimer(each) for each in (InitialDelayPassed(), RebalanceTimeout(), SyncTimeout()))
    for member in group.roster.members.values():
        outcome.timers.append(CancelTimer(SessionExpired(member.member_id)))
        outcome.timers.append(SetTimer(MemberSilent(member.member_id), member.session_timeout_ms))
        if body.members[member.member_id].current.revoking:
            outcome.timers.append(SetTimer(MemberLate(member.member_id, REVOKE), member.rebalance_timeout_ms))
    return body


def _obstacle(group: Group) -> str:
    limits, members = group.limits.consumer, group.roster.members.values()
    if not limits.may_upgrade:
        return "the online upgrade is disabled (group.consumer.migration.policy)"
    if group.protocol_type != CONSUMER:
        return f"its protocol type is {group.protocol_type}"
    if len(members) > limits.max_size:
        return f"it has more than {limits.max_size} members"
    if any(read_subscription(_metadata(group, member)) is None for member in members):
        return "the subscription of a member cannot be read"
    if any(_has_user_data(member.assignment) for member in members):
        return "it uses an assignor of its own (its assignment has user data)"
    return ""


def _has_user_data(assignment: bytes) -> bool:
    if not assignment:
        return False
    try:
        return bool(decode_versioned(ConsumerProtocolAssignment, assignment, MAX_VALUES).user_data)
    except DecodeError:
        return True


def _metadata(group: Group, member: ClassicMember) -> bytes:
    return member.metadata(group.protocol) or member.protocols[0][1]


def _upgrade_records(group: Group) -> list[PartRecord]:
    group_id, epoch = group.group_id, group.generation
    members = list(group.roster.members.values())
    told = {member.member_id: _told(group, member) for member in members}
    names = {name for value in told.values() for name in value.subscribed_topic_names}
    places = _standing(group, members)
    bumped = kafka.ConsumerGroupMetadataValue(epoch, metadata_hash(names, group.topics))
    return [
        *(changes.said(group_id, member_id, value) for member_id, value in told.items()),
        PartRecord(kafka.ConsumerGroupMetadataKey(group_id), bumped),
        *(changes.target_of(group_id, member_id, now.assigned) for member_id, now in places.items()),
        changes.target_computed(group_id, epoch, 0),
        *(changes.current(group_id, member_id, now) for member_id, now in places.items()),
    ]


def _standing(group: Group, members: list[ClassicMember]) -> dict[str, Current]:
    """Return where each member stands: it has its assignment, and may still give up what it had when it joined.

    The latter is what a cooperative member said with its join. Kafka takes it for free at once.
    """
    assigned: dict[str, set[Place]] = {}
    taken: set[Place] = set()
    for member in members:
        assigned[member.member_id] = _assigned(member.assignment, group.topics) - taken
        taken |= assigned[member.member_id]
    standing: dict[str, Current] = {}
    for member in members:
        said = read_subscription(_metadata(group, member))
        held = set[Place]() if said is None else places_of(said.owned_partitions, group.topics) - taken
        taken |= held
        epoch = group.generation
        own, revoking = (dict.fromkeys(sorted(each), epoch) for each in (assigned[member.member_id], held))
        state = MemberState.UNREVOKED_PARTITIONS if held else MemberState.STABLE
        standing[member.member_id] = Current(epoch, epoch, state, own, revoking)
    return standing


def _told(group: Group, member: ClassicMember) -> kafka.ConsumerGroupMemberMetadataValue:
    said = read_subscription(_metadata(group, member))
    assert said is not None
    return kafka.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=said.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(set(said.topics)),
        subscribed_topic_regex=None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=kafka.ClassicMemberMetadata(
            member.session_timeout_ms, [kafka.ClassicProtocol(*each) for each in member.protocols]
        ),
    )


def _assigned(assignment: bytes, topics: Topics) -> set[Place]:
    """Return the partitions of an assignment whose topics exist."""
    if not assignment:
        return set()
    return places_of(decode_versioned(ConsumerProtocolAssignment, assignment).assigned_partitions, topics)


# -- Downgrade


def is_due(group: Group, left: Iterable[Member]) -> bool:
    """Return whether the members that are left make the group a classic one."""
    members = list(left)
    is_allowed = group.limits.consumer.may_downgrade and 0 < len(members) <= group.limits.max_size
    return is_allowed and all(is_classic(member) for member in members) and bool(_common(members))


def downgrade(group: Group, body: ConsumerGroup, epoch: int, left: list[Member], outcome: Outcome, now_ms: int) -> None:
    """Make a classic group of the members that are left. It begins where their epochs stand."""
    for member_id in body.members:
        outcome.timers.extend(CancelTimer(each) for each in member_timers(member_id))
    outcome.records += changes.group_gone(group.group_id, body)
    protocol = _common(left)[0]
    members = [_recorded(member, protocol, group.topics) for member in left]
    outcome.records.append(
        GroupRecord(group.group_id, GroupMetadataValue(CONSUMER, epoch, protocol, None, now_ms, members))
    )
    outcome.timers.extend(SetTimer(SessionExpired(each.member_id), each.session_timeout) for each in members)
    # The first event of the classic group begins its rebalance, and this one comes at once.
    outcome.timers.append(SetTimer(SyncTimeout(), 0))
    outcome.notes.append(f"group {group.group_id} is a classic group again: all its members use the classic protocol")


def _common(members: list[Member]) -> list[str]:
    """Return the protocols that all members support, in the order of the first member."""
    names = [list(dict(protocols(member))) for member in members]
    return [name for name in names[0] if all(name in others for others in names)]


def _recorded(member: Member, protocol: str, topics: Topics) -> MemberMetadata:
    said = member.said
    assert said is not None and said.classic_member_metadata is not None
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=said.instance_id,
        client_id=said.client_id,
        client_host=said.client_host,
        rebalance_timeout=said.rebalance_timeout_ms,
        session_timeout=said.classic_member_metadata.session_timeout_ms,
        subscription=dict(protocols(member))[protocol],
        assignment=assignment_bytes(member.current.assigned, topics),
    )


# -- What members of the classic protocol say and are told


def is_classic(member: Member) -> bool:
    """Return whether a member of a consumer group speaks the classic protocol."""
    return member.said is not None and member.said.classic_member_metadata is not None


def protocols(member: Member) -> list[tuple[str, bytes]]:
    """Return the protocols of a classic member with their metadata, the one that it prefers first."""
    assert member.said is not None and member.said.classic_member_metadata is not None
    return [(each.name, each.metadata) for each in member.said.classic_member_metadata.supported_protocols]


def places_of(partitions: list[TopicPartition], topics: Topics) -> set[Place]:
    """Return partitions that have topic names with topic ids. What does not exist is left out."""
    found: set[Place] = set()
    for each in partitions:
        topic = topics.get(each.topic)
        if topic is not None:
            found |= {(topic.id, index) for index in each.partitions}
    return found


def assignment_bytes(places: Iterable[Place], topics: Topics) -> bytes:
    """Return partitions as classic members read them. A deleted topic is left out."""
    found: list[TopicPartition] = []
    for topic_id, indexes in by_topic(places).items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            found.append(TopicPartition(topic.name, indexes))
    return encode_versioned(ConsumerProtocolAssignment(found), _ASSIGNMENT_VERSION)
