"""The configs that apply to a group: the broker's, and those that a group has of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ...configs.group_bounds import (
    ASSIGNMENT,
    HEARTBEAT,
    SESSION,
    SHARE_ASSIGNMENT,
    SHARE_HEARTBEAT,
    SHARE_SESSION,
    effective,
)


class GroupsConfig(Protocol):
    """What the coordinator needs of the broker's configuration."""

    @property
    def group_min_session_timeout_ms(self) -> int: ...
    @property
    def group_max_session_timeout_ms(self) -> int: ...
    @property
    def group_initial_rebalance_delay_ms(self) -> int: ...
    @property
    def group_max_size(self) -> int: ...
    @property
    def group_consumer_max_size(self) -> int: ...
    @property
    def group_consumer_assignors(self) -> tuple[str, ...]: ...
    @property
    def group_consumer_migration_policy(self) -> str: ...
    @property
    def group_coordinator_rebalance_protocols(self) -> tuple[str, ...]: ...
    @property
    def group_share_max_size(self) -> int: ...
    @property
    def group_share_assignors(self) -> tuple[str, ...]: ...
    @property
    def offset_metadata_max_bytes(self) -> int: ...
    @property
    def offsets_retention_minutes(self) -> int: ...
    @property
    def offsets_retention_check_interval_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ConsumerLimits:
    """The configs of consumer groups, of the broker or of a group."""

    # `group.consumer.session.timeout.ms`.
    session_timeout_ms: int = 45_000
    # `group.consumer.heartbeat.interval.ms`: what members are told.
    heartbeat_interval_ms: int = 5000
    # `group.consumer.assignment.interval.ms`: the least time between two targets.
    assignment_interval_ms: int = 1000
    # `group.consumer.max.size`, in members.
    max_size: int = 2**31 - 1
    # `group.consumer.assignors`: the first one is for members that ask for none.
    assignors: tuple[str, ...] = ("uniform", "range")
    # `group.consumer.migration.policy`: whether a classic group with members becomes a consumer group (upgrade), and
    # the other way (downgrade).
    may_upgrade: bool = True
    may_downgrade: bool = True


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """The configs of share groups, of the broker or of a group."""

    # `group.share.session.timeout.ms`.
    session_timeout_ms: int = 45_000
    # `group.share.heartbeat.interval.ms`: what members are told.
    heartbeat_interval_ms: int = 5000
    # `group.share.assignment.interval.ms`: the least time between two targets.
    assignment_interval_ms: int = 1000
    # `group.share.max.size`, in members.
    max_size: int = 200


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The configs that apply to a group."""

    # `group.initial.rebalance.delay.ms`.
    initial_rebalance_delay_ms: int = 3000
    # `group.max.size`, in members.
    max_size: int = 2**31 - 1
    consumer: ConsumerLimits = ConsumerLimits()
    share: ShareLimits = ShareLimits()


def limits_of(config: GroupsConfig, overrides: Mapping[str, str]) -> GroupLimits:
    """Return the limits of a group that has these configs of its own."""
    policy = config.group_consumer_migration_policy.lower()
    consumer = ConsumerLimits(
        effective(config, overrides, SESSION),
        effective(config, overrides, HEARTBEAT),
        effective(config, overrides, ASSIGNMENT),
        config.group_consumer_max_size,
        config.group_consumer_assignors,
        policy in ("bidirectional", "upgrade"),
        policy in ("bidirectional", "downgrade"),
    )
    share = ShareLimits(
        effective(config, overrides, SHARE_SESSION),
        effective(config, overrides, SHARE_HEARTBEAT),
        effective(config, overrides, SHARE_ASSIGNMENT),
        config.group_share_max_size,
    )
    return GroupLimits(config.group_initial_rebalance_delay_ms, config.group_max_size, consumer, share)
