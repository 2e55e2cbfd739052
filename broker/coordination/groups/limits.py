"""The configs that apply to a group: the broker's, and those that a group has of its own."""

from __future__ import annotations

from dataclasses import dataclass


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
class ConsumerLimits(ShareLimits):
    """The configs of consumer groups: those of share groups with `consumer` in their names, and some more."""

    max_size: int = 2**31 - 1
    # `group.consumer.assignors`: the first one is for members that ask for none.
    assignors: tuple[str, ...] = ("uniform", "range")
    # `group.consumer.migration.policy`: whether a classic group with members becomes a consumer group (upgrade), and
    # the other way (downgrade).
    may_upgrade: bool = True
    may_downgrade: bool = True


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The configs that apply to a group."""

    # `group.initial.rebalance.delay.ms`.
    initial_rebalance_delay_ms: int = 3000
    # `group.max.size`, in members.
    max_size: int = 2**31 - 1
    consumer: ConsumerLimits = ConsumerLimits()
    share: ShareLimits = ShareLimits()
