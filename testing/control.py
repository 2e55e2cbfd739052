"""What a test does to a broker, on the broker's loop."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from ..broker.configs.definition import suggestion
from ..broker.coordination.groups.events import Rebalance, SessionExpired
from ..broker.coordination.shards import Shards
from ..broker.security.sasl.scram import HASHES, MIN_ITERATIONS, Credential, credential_of
from ..broker.server import Broker
from ..broker.services import Services
from ..protocol.errors import ErrorCode, KafkaError
from .clock import MovableClock
from .door import Door

# How often a wait for background work looks again.
_LOOK_AGAIN_S = 0.001
_SETTLED_WITHIN_S = 60.0
_SALT_BYTES = 24


async def answer(broker: Broker) -> None:
    """Do nothing: the caller wants to know whether the loop runs."""


async def clear(broker: Broker, door: Door, users: Mapping[str, str]) -> None:
    """Remove all topics, groups, transactional ids, dynamic configs, ACLs, quotas and users other than these.

    Requests that stall go on.
    """
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


async def set_passwords(broker: Broker, users: Mapping[str, str]) -> None:
    """Give users a password for each mechanism of SCRAM."""
    credentials = [(name, each, _credential(each, password)) for name, password in users.items() for each in HASHES]
    await broker.services.security.put_passwords(credentials)


def _credential(mechanism: str, password: str) -> Credential:
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, MIN_ITERATIONS)
    return credential_of(mechanism, salted, salt, MIN_ITERATIONS)


# -- Time


async def advance(broker: Broker, clock: MovableClock, added_ms: int) -> None:
    """Move the clock, run the timers that are due, and wait for the work that they begin."""
    clock.added_ms += added_ms
    while broker.timers.is_due:
        broker.timers.fire_due()
        await asyncio.sleep(0)
    await _until(lambda: not _is_working(broker.services))


def _is_working(services: Services) -> bool:
    background = services.background
    transactions = services.transactions.ids.values()
    return background.retention.is_busy or any(each.is_busy for each in transactions)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(_SETTLED_WITHIN_S):
        while not true():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(_LOOK_AGAIN_S)


# -- Groups


async def rebalance(broker: Broker, group: str) -> None:
    """Let the members of a group join again."""
    broker.services.groups.groups[group].feed(Rebalance())


async def expire(broker: Broker, member: str, group: str | None) -> None:
    """End the session of a member. UNKNOWN_MEMBER_ID names the nearest one."""
    groups = {key: actor for key, actor in broker.services.groups.groups.items() if group in (None, key)}
    for actor in groups.values():
        if member in actor.state.roster.members:
            actor.ring(SessionExpired(member))
            return
    known = [each for actor in groups.values() for each in actor.state.roster.members]
    why = f"no group has a member {member!r}{suggestion(member, known)}; there are {known}"
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, why)


# -- Logs


async def apply_retention(broker: Broker, topic: str | None) -> None:
    """Run a round of retention, after one that is under way."""
    retention = broker.services.background.retention
    await _until(lambda: not retention.is_busy)
    retention.check(topic)
    await _until(lambda: not retention.is_busy)


async def compact(broker: Broker, name: str) -> None:
    """Close the segments of a topic, and clean them. POLICY_VIOLATION where the topic is not compacted."""
    services = broker.services
    topic, cleaner = services.topics.get(name), services.background.cleaner
    if topic is None or not topic.config.is_compacted:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"topic {name!r} does not have cleanup.policy=compact")
    await _until(lambda: not cleaner.is_busy)
    for partition in topic.partitions:
        partition.log.roll(services.clock.now_ms())
    cleaner.clean_now(topic)
    await _until(lambda: not cleaner.is_busy)
