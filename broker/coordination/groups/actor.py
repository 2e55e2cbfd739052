"""The actor of a consumer group: the events, timers and answers of its machine.

Offset commits do not wait for one another: they leave the state of the group alone. An event that deletes offsets waits
for the commits that are under way, because what these bring would stay. So does the end of a transaction, and what may
make a share group, because no group that has offsets is one.

What a group is (classic, consumer or share) is decided in the turn of the event: until then it may become another.
"""

from __future__ import annotations

from typing import get_args

from ....protocol.errors import ErrorCode
from ..actor import Actor
from ..classic import machine
from ..machine import Machine, append_error
from ..modern.events import TargetComputed
from . import events, records
from .events import Event, Outcome
from .group import Group

# A step of more topics, or of more partitions of one member, takes a slice and more.
MANY_TOPICS = 1_000
# And so does one that reads more bytes of what classic members subscribe: each two may be a topic.
MANY_BYTES = 20_000

GroupActor = Actor[Group, Event, Outcome]

_WAIT_FOR_COMMITS = (
    events.Delete,
    events.DeleteOffsets,
    events.DropTopic,
    events.EndTransaction,
    events.ExpireOffsets,
    events.ShareHeartbeat,
    events.AlterStates,
)


def _locks(outcome: Outcome) -> bool:
    return not isinstance(outcome.records[-1], records.OffsetRecord)


def _waits(event: Event) -> bool:
    return isinstance(event, _WAIT_FOR_COMMITS)


# The events for which all subscriptions of a classic group are read.
_READ_SUBSCRIPTIONS = (events.ConsumerHeartbeat, events.DeleteOffsets, events.ExpireOffsets)


def _is_long(group: Group, event: Event) -> bool:
    """Return whether a step is of very many topics or partitions."""
    if isinstance(event, TargetComputed):
        return sum(map(len, event.targets.values())) > MANY_TOPICS
    if group.consumer is None and isinstance(event, _READ_SUBSCRIPTIONS) and _subscribed_bytes(group) > MANY_BYTES:
        return True
    if not isinstance(event, (events.ConsumerHeartbeat, events.ShareHeartbeat)):
        return False
    body = group.consumer if isinstance(event, events.ConsumerHeartbeat) else group.share
    member = None if body is None else body.members.get(event.member_id)
    said = None if member is None else member.said
    many = max(len(event.topics or ()), 0 if member is None else len(member.target))
    return max(many, 0 if said is None else len(said.subscribed_topic_names)) > MANY_TOPICS


def _subscribed_bytes(group: Group) -> int:
    return sum(len(metadata) for member in group.roster.members.values() for _, metadata in member.protocols)


def _reject(event: Event, error: ErrorCode) -> None:
    if isinstance(event, events.Request):
        token, answer = events.rejection(event, error)
        token.answer(answer)


GROUPS: Machine[Group, Event, Outcome] = Machine(
    noun="group",
    step=machine.step,
    apply=Group.apply,
    encode=records.encode,
    is_blank=Group.is_blank,
    timer_events=get_args(events.TimerEvent),
    locks=_locks,
    waits=_waits,
    long_events=(*_READ_SUBSCRIPTIONS, events.ShareHeartbeat, TargetComputed),
    is_long=_is_long,
    append_error=append_error,
    reject=_reject,
    error_answer=events.error_answer,
)
