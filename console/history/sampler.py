"""A sample of a cluster: where logs end, how large topics are, and how far groups are behind.

Bounds: the partitions, groups and reads of a sample. What is beyond them is left out, and said in `problems`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...client import LATEST, Admin, KafkaError, TopicPartition
from ...client.core.descriptions import GroupListing
from ...client.unread_ages import READER_OPTIONS, ages_ms
from ...web.exchange import HttpError
from ..cluster import Cluster
from ..reading.places import led_places, offsets

MAX_PARTITIONS = 50_000
MAX_GROUPS = 500
# Each is a fetch of a batch.
MAX_AGES = 200
_AT_A_TIME = 8
_AGES_WITHIN_S = 3.0

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GroupSample:
    """A group: its state and kind, and its lag in records and seconds; None where it is not known."""

    state: str
    type: str
    lag: int | None
    lag_s: float | None


@dataclass(slots=True)
class Sample:
    """What was seen at one time. `sizes` are bytes of topics, empty where brokers do not tell them."""

    at_ms: float = 0
    # The sum of the ends of each topic's logs.
    topic_ends: dict[str, int] = field(default_factory=dict[str, int])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    groups: dict[str, GroupSample] = field(default_factory=dict[str, GroupSample])
    # Topic -> the groups that have offsets in it, with their lag there.
    readers: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    problems: list[str] = field(default_factory=list[str])


async def take(cluster: Cluster, now_ms: float, sizes: dict[str, int] | None) -> Sample:
    """Return a sample; `sizes` are those of an earlier one, None to ask for them. Raises KafkaError."""
    admin = await cluster.admin()
    sample = Sample(now_ms)
    places = led_places((await admin.describe_topics()).values())
    if len(places) > MAX_PARTITIONS:
        sample.problems.append(f"{len(places) - MAX_PARTITIONS} partitions are not sampled")
    ends = await offsets(admin, dict.fromkeys(places[:MAX_PARTITIONS], LATEST))
    for each, end in ends.items():
        sample.topic_ends[each.topic] = sample.topic_ends.get(each.topic, 0) + end
    sample.sizes = await _sizes(admin, sample) if sizes is None else sizes
    await _add_groups(cluster, admin, ends, sample)
    return sample


async def _sizes(admin: Admin, sample: Sample) -> dict[str, int]:
    """Return the bytes of each topic: of the largest replica of each partition."""
    try:
        dirs = await admin.describe_log_dirs()
    except KafkaError as error:
        sample.problems.append(f"sizes are not known: {error.message}")
        return {}
    largest: dict[TopicPartition, int] = {}
    for replica in (replica for each in dirs for replica in each.replicas if not replica.is_future):
        largest[replica.partition] = max(largest.get(replica.partition, 0), replica.size_bytes)
    sums: dict[str, int] = {}
    for partition, size in largest.items():
        sums[partition.topic] = sums.get(partition.topic, 0) + size
    return sums


async def _add_groups(cluster: Cluster, admin: Admin, ends: Offsets, sample: Sample) -> None:
    listings = await admin.list_groups()
    if len(listings) > MAX_GROUPS:
        sample.problems.append(f"{len(listings) - MAX_GROUPS} groups are not sampled")
    listings = listings[:MAX_GROUPS]
    committed = await _committed(admin, listings, sample)
    lags = {
        group: {each: max(ends[each] - at, 0) for each, at in places.items() if each in ends}
        for group, places in committed.items()
    }
    for group, lag in lags.items():
        for each, left in lag.items():
            of_topic = sample.readers.setdefault(each.topic, {})
            of_topic[group] = of_topic.get(group, 0) + left
    ages = await _ages(cluster, committed, lags, sample)
    for each in listings:
        lag = lags.get(each.group_id)
        sample.groups[each.group_id] = GroupSample(
            each.state, each.type or "classic", sum(lag.values()) if lag else None, ages.get(each.group_id)
        )


async def _committed(admin: Admin, listings: list[GroupListing], sample: Sample) -> dict[str, Offsets]:
    """Return the committed offsets of groups, a few at a time; without groups that do not tell them."""
    slots = asyncio.Semaphore(_AT_A_TIME)
    found: dict[str, Offsets] = {}

    async def ask(group: str) -> None:
        async with slots:
            try:
                offsets = await admin.list_group_offsets(group)
            except KafkaError as error:
                sample.problems.append(f"offsets of group {group!r} are not known: {error.message}")
            else:
                found[group] = {each: at.offset for each, at in offsets.items()}

    # Groups of other kinds keep no offsets, or their own.
    await asyncio.gather(*(ask(each.group_id) for each in listings if each.type in ("", "classic", "consumer")))
    return found


async def _ages(
    cluster: Cluster, committed: Mapping[str, Offsets], lags: Mapping[str, Offsets], sample: Sample
) -> dict[str, float | None]:
    """Return how old the oldest unread record of each group is, in seconds; 0 without lag."""
    unread = {
        (group, each): committed[group][each] for group, lag in lags.items() for each, left in lag.items() if left
    }
    if len(unread) > MAX_AGES:
        sample.problems.append(f"lag in seconds of {len(unread) - MAX_AGES} partitions is not sampled")
    ages: dict[str, float | None] = {group: 0.0 if lag else None for group, lag in lags.items()}
    ages |= {group: None for group, _ in unread}
    for round_ in _rounds(dict(list(unread.items())[:MAX_AGES])):
        try:
            async with cluster.reader(**READER_OPTIONS, auto_offset_reset="earliest") as consumer:
                found = await ages_ms(consumer, {each: at for (_, each), at in round_.items()}, _AGES_WITHIN_S)
        except (KafkaError, HttpError) as error:
            sample.problems.append(f"lag in seconds is not known: {error.message}")
            break
        for group, each in round_:
            if each in found:
                ages[group] = max(ages[group] or 0.0, found[each] / 1000)
    return ages


def _rounds(unread: Mapping[tuple[str, TopicPartition], int]) -> list[dict[tuple[str, TopicPartition], int]]:
    """Return the places in rounds that have each partition once: a consumer reads it at one place."""
    rounds: list[dict[tuple[str, TopicPartition], int]] = []
    seen: dict[TopicPartition, int] = {}
    for key, at in unread.items():
        number = seen[key[1]] = seen.get(key[1], -1) + 1
        if number == len(rounds):
            rounds.append({})
        rounds[number][key] = at
    return rounds
