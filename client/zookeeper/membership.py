"""The life of a consumer in a group of Kafka 0.8, as steps: it registers, and rebalances whenever a watch fires.

    register -> rebalance -> read until a watch fires -> rebalance -> ...

Nobody leads. Each consumer computes its part for itself (registry.py) and takes it in the owner registry. A partition
that another consumer still owns ends the attempt, which gives everything back and begins again after a pause.

Promise: a partition is read only between the moment when its ephemeral znode in the owner registry is made, and the
moment before that is removed. `StopReading` comes before a release, and `StartReading` after a claim.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias, TypeVar

from ...zookeeper.operations import (
    Check,
    Create,
    Delete,
    Failure,
    Operation,
    Steps,
    children,
    read_all,
    write,
    write_all,
)
from ..record import TopicPartition
from . import registry
from .registry import Subscription, View, share, stream_name

T = TypeVar("T")

# -- What a member does besides asking ZooKeeper, as values: connector.py does it, and tests run it against a model.


@dataclass(frozen=True, slots=True)
class StopReading:
    """Hand out no more records, and commit those that are processed."""


@dataclass(frozen=True, slots=True)
class StartReading:
    """Read these partitions from their committed offsets on, each for one stream, by the number of the stream.

    The result is whether the offsets could be read.
    """

    streams: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a watch has fired since the last Wait, or for `timeout_ms`."""

    timeout_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the user that the consumer has no partitions."""

    why: str


Action: TypeAlias = StopReading | StartReading | Wait | Report
MemberSteps: TypeAlias = Generator[Operation | Action, Any, T]


@dataclass(slots=True)
class Member:
    """One consumer, in one session with ZooKeeper."""

    group: str
    consumer: str
    # The number of the session, as the owner of its ephemeral znodes shows it.
    session: int
    subscription: Subscription
    timestamp_ms: int
    max_retries: int
    backoff_ms: float
    # Invariant: every znode of the owner registry that belongs to this session is named here.
    owned: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    # For those who measure: attempts that ended with nothing.
    failed_attempts: int = 0

    @property
    def path(self) -> str:
        """The consumer's own znode."""
        return registry.id_path(self.group, self.consumer)


def live(me: Member) -> MemberSteps[NoReturn]:
    """Be a member until the session or the consumer ends, which closes the steps."""
    yield from register(me)
    while True:
        has_part = yield from rebalance_with_retries(me)
        # Without a part, it tries again by itself: the change that would help may have come already.
        yield Wait(None if has_part else me.backoff_ms * me.max_retries)


# -- Registration


def register(me: Member) -> MemberSteps[None]:
    """Make the consumer known to its group, and watch what its part depends on."""
    yield from _make_parents(me)
    yield from register_id(me)
    yield from watch_consumers(me)
    yield from watch_brokers()
    if me.subscription.has_filter:
        yield from watch_topics()


def _make_parents(me: Member) -> Steps[None]:
    group = me.group
    top = registry.CONSUMERS, registry.group_path(group)
    for path in (*top, registry.ids_path(group), registry.owners_path(group), registry.offsets_path(group)):
        # It is no failure that others have made it.
        yield from write(Create(path))


def register_id(me: Member) -> MemberSteps[None]:
    """Registration, step 1: register the consumer's id under its group."""
    content = registry.encode_subscription(me.subscription, me.timestamp_ms)
    while (yield from write(Create(me.path, content, ephemeral=True))) is not None:
        (found,) = yield from read_all((me.path,))
        if found is not None and found.owner == me.session:
            return
        # The znode of an earlier session of this consumer is still there: it goes with that session.
        yield Wait(me.backoff_ms)


def watch_consumers(me: Member) -> Steps[list[str]]:
    """Registration, step 2: watch the consumers of the group."""
    return (yield from children(registry.ids_path(me.group), watch=True))


def watch_brokers() -> Steps[list[str]]:
    """Registration, step 3: watch the brokers."""
    return (yield from children(registry.BROKER_IDS, watch=True))


def watch_topics() -> Steps[list[str]]:
    """Registration, step 4, for a filter only: watch the topics."""
    return (yield from children(registry.TOPICS, watch=True))


# -- Rebalance


def rebalance_with_retries(me: Member) -> MemberSteps[bool]:
    """Registration, step 5, and the answer to every watch: rebalance until it is done. False: all attempts failed."""
    for attempt in range(me.max_retries):
        if attempt:
            yield Wait(me.backoff_ms)
        if (yield from rebalance(me)):
            return True
        me.failed_attempts += 1
    why = f"consumer {me.consumer} of group {me.group!r} got no partitions in {me.max_retries} attempts"
    yield Report(f"{why}: others still own some of them. It tries again; a higher rebalance_backoff_ms gives them time")
    return False


def rebalance(me: Member) -> MemberSteps[bool]:
    """Make one attempt. Returns whether the consumer owns and reads its part now."""
    view = yield from look(me)
    if me.consumer not in view.consumers:
        # An operator has removed its znode.
        yield from register_id(me)
        yield from release(me)
        return False
    wanted = share(view, me.consumer)  # steps 1 to 7
    yield from release(me)  # step 8
    if not (yield from claim(me, wanted)):  # step 9
        return False
    is_reading: bool = yield StartReading(wanted)
    if not is_reading:
        yield from release(me)
    return is_reading


def look(me: Member) -> Steps[View]:
    """Read what the consumer's part depends on, and watch it."""
    group = me.group
    names = yield from watch_consumers(me)
    found = yield from read_all(registry.id_path(group, each) for each in names)
    consumers: dict[str, Subscription] = {}
    for name, znode in zip(names, found, strict=True):
        subscription = None if znode is None else registry.decode_subscription(znode.data)
        if subscription is not None:
            consumers[name] = subscription
    brokers = yield from watch_brokers()
    mine = list(me.subscription.streams)
    if me.subscription.has_filter:
        known = yield from watch_topics()
        mine = list(me.subscription.topics_of(known))
    topics = yield from read_all((registry.topic_path(each) for each in mine), watch=True)
    return View(
        consumers,
        frozenset(int(each) for each in brokers if each.isdecimal()),
        {name: registry.decode_replicas(znode.data) for name, znode in zip(mine, topics, strict=True) if znode},
    )


def release(me: Member) -> MemberSteps[None]:
    """Step 8: remove the entries that Ci owns from the owner registry. What was read is committed before."""
    yield StopReading()
    # The check is as in `claim`: in another session the entries may be those of others.
    paths = [registry.owner_path(me.group, place) for place in sorted(me.owned)]
    yield from write_all((Check(me.path), Delete(path)) for path in paths)
    me.owned = {}


def claim(me: Member, wanted: Mapping[TopicPartition, int]) -> Steps[bool]:
    """Step 9: add the partitions to the owner registry, all or none. False: another consumer still owns one of them."""
    if not wanted:
        return True
    changes = [
        Create(registry.owner_path(me.group, place), stream_name(me.consumer, number).encode(), ephemeral=True)
        for place, number in sorted(wanted.items())
    ]
    # Invariant: these znodes belong to the session that the consumer is registered in. The check sees to that where the
    # session has changed and the consumer does not know it yet.
    failure = yield from write(Check(me.path), *changes)
    if failure is not None and failure.missing and failure.path != me.path:
        yield from _make_owners_parents(me, wanted)
        failure = yield from write(Check(me.path), *changes)
    if failure is not None:
        return False
    me.owned = wanted
    return True


def _make_owners_parents(me: Member, wanted: Mapping[TopicPartition, int]) -> Steps[list[Failure | None]]:
    top = registry.owners_path(me.group)
    yield from write(Create(top))
    return (yield from write_all((Create(f"{top}/{topic}"),) for topic in sorted({topic for topic, _ in wanted})))


# -- Leaving


def leave(me: Member) -> MemberSteps[None]:
    """Stop reading, give everything back and go."""
    yield from release(me)
    yield from write(Delete(me.path))
