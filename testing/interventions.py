"""What a test does to brokers, on their loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from ..broker.clock import Clock
from ..broker.configs.definition import suggestion
from ..broker.coordination.groups.events import Rebalance, SessionExpired
from ..broker.coordination.groups.group import Group
from ..broker.coordination.modern.events import MemberSilent
from ..broker.coordination.shards import Shards
from ..broker.server import Broker
from ..broker.services import Services
from ..broker.topics.topic import Topic
from ..protocol.errors import ErrorCode, KafkaError
from .door import Door

# How often a wait for background work looks again.
_LOOK_AGAIN_S = 0.001
_SETTLED_WITHIN_S = 60.0


class MovableClock(Clock):
    """The real clock of a broker plus what a test has added. Clients have clocks of their own, which stay real."""

    def __init__(self) -> None:
        # Written by the broker's thread alone.
        self.added_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.added_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.added_ms


async def clear(broker: Broker, door: Door, users: Mapping[str, str], left: Set[str]) -> None:
    """Remove all topics, groups, transactional ids, dynamic configs, ACLs, quotas and users other than these.

    First all connections end, and the broker listens on ports that it has not `left` before.
    """
    await broker.acceptor.renew()
    while not left.isdisjoint(_moving(broker)):
        await broker.acceptor.renew()
    await door.wake()
    services = broker.services
    coordinators: tuple[Shards[Any, Any], ...] = (services.groups.shards, services.transactions.shards)
    owned = [(shards, list(shards.owned)) for shards in coordinators]
    for shards, partitions in owned:
        for each in partitions:
            shards.unload(each)
    for topic in services.topics.all():
        services.delete_topic(topic)
    for shards, partitions in owned:
        for each in partitions:
            shards.load(each)
    for node, configs in list(services.metadata.broker_configs.items()):
        if configs:
            services.reconfiguration.alter(node, {})
    metadata = services.metadata
    for group, configs in list(metadata.group_configs.items()):
        if configs:
            services.reconfiguration.alter_group(group, {})
    security = services.security
    await security.change_acls((), list(security.acls))
    await security.put_quotas([(entity, {}) for entity in security.quotas])
    kept = [(user, mechanism) for user, found in security.passwords.items() for mechanism in found if user not in users]
    await security.put_passwords((user, mechanism, None) for user, mechanism in kept)


def _moving(broker: Broker) -> list[str]:
    """Return the addresses whose ports the config leaves free."""
    listeners = zip(broker.config.endpoints, broker.addresses, strict=True)
    return [address for endpoint, address in listeners if endpoint.port == 0]


# -- Time


async def advance(brokers: Sequence[Broker], clock: MovableClock, added_ms: int) -> None:
    """Move the clock, run the timers that are due, and wait for the work that they begin."""
    clock.added_ms += added_ms
    while any(each.timers.is_due for each in brokers):
        for each in brokers:
            each.timers.fire_due()
        await asyncio.sleep(0)
    await _until(lambda: not any(_is_working(each.services) for each in brokers))


def _is_working(services: Services) -> bool:
    background = services.background
    transactions = services.transactions.ids.values()
    return background.retention.is_busy or any(each.is_busy for each in transactions)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(_SETTLED_WITHIN_S):
        while not true():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(_LOOK_AGAIN_S)


# -- Groups


async def rebalance(brokers: Sequence[Broker], group: str) -> None:
    """Let the members of a group join again."""
    for each in brokers:
        actor = each.services.groups.groups.get(group)
        if actor is not None and (actor.state.consumer or actor.state.share) is not None:
            kind = "share group (KIP-932)" if actor.state.consumer is None else "consumer group (KIP-848)"
            why = f"group {group!r} is a {kind}, whose members never join again: use expire(member)"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, why)
        if actor is not None:
            actor.feed(Rebalance())


async def expire(brokers: Sequence[Broker], member: str, group: str | None) -> None:
    """End the session of a member. UNKNOWN_MEMBER_ID names the nearest one."""
    coordinated = [each.services.groups.groups for each in brokers]
    actors = [actor for groups in coordinated for key, actor in groups.items() if group in (None, key)]
    for actor in actors:
        if member in actor.state.roster.members:
            actor.ring(SessionExpired(member))
            return
        if member in _modern_members(actor.state):
            actor.ring(MemberSilent(member))
            return
    known = [each for actor in actors for each in _members(actor.state)]
    why = f"no group has a member {member!r}{suggestion(member, known)}; there are {known}"
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, why)


def _members(group: Group) -> list[str]:
    return [*group.roster.members, *_modern_members(group)]


def _modern_members(group: Group) -> Iterable[str]:
    """Return the members of a consumer or share group, who never join again."""
    modern = group.consumer or group.share
    return () if modern is None else modern.members


# -- Logs


async def apply_retention(brokers: Sequence[Broker], topic: str | None) -> None:
    """Run a round of retention, after one that is under way."""
    for each in brokers:
        retention = each.services.background.retention
        await _until(lambda retention=retention: not retention.is_busy)
        retention.check(topic)
        await _until(lambda retention=retention: not retention.is_busy)


async def compact(brokers: Sequence[Broker], name: str) -> None:
    """Close the segments of a topic, and clean them. POLICY_VIOLATION where the topic is not compacted."""
    for each in brokers:
        topic = each.services.topics.get(name)
        if topic is not None:
            await _compact(each.services, topic)


async def _compact(services: Services, topic: Topic) -> None:
    if not topic.config.is_compacted:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"topic {topic.name!r} does not have cleanup.policy=compact")
    cleaner = services.background.cleaner
    await _until(lambda: not cleaner.is_busy)
    for partition in (each for each in services.topics.partitions() if each.topic == topic.name):
        partition.log.roll(services.clock.now_ms())
    cleaner.clean_now(topic)
    await _until(lambda: not cleaner.is_busy)
