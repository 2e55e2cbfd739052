"""Is a cluster healthy? One list of findings for `odradek cluster health`, `odradek doctor` and the console.

Any Kafka is asked, by APIs that all of them have. What a cluster has much of is looked at up to a bound, and the
finding says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..core.cluster import Cluster
from ..core.descriptions import ConfigResource
from ..core.metadata import PartitionInfo, TopicInfo
from ..core.options import items_of
from ..errors import ErrorCode, KafkaError, NoBrokerReachable
from ..record import TopicPartition
from . import brokers, configs, groups, topics, transactions
from .brokers import LogDir
from .findings import (
    OK,
    PROBLEM,
    WARNING,
    Finding,
    ask_brokers,
    check_clocks,
    check_damage,
    duration_text,
    found_or_fine,
    named,
)

R = TypeVar("R")

_MIN_ISR = "min.insync.replicas"
# The largest batch of a default config has 1 MB. A disk that cannot take it, its index and what clients commit is full.
_FULL_BELOW_BYTES = 2 << 20
_LOW_SHARE = 0.05
_WATCH_BELOW = 0.2
# A disk that is full soon at the present rate is told: a look foretells so many times as long as it lasts.
_FORESEEN = 300
# A group whose first unread record has used so much of its retention is told.
_RETENTION_USED = 0.8
# A transaction that is older than its timeout by this much is stuck: the coordinator looks each ten seconds.
_STUCK_AFTER_MS = 60_000
_CERTIFICATE_SOON_S = 14 * 86_400
# How many groups, and how many open transactions, are looked at.
_MOST = 1_000
# What was listed and has gone before it was looked at.
_GONE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


@dataclass(frozen=True, slots=True)
class DiskSample:
    """The data directories at one moment, by which a later look knows how fast the disks fill. Monotonic seconds."""

    time_s: float
    directories: tuple[LogDir, ...]


async def check_health(cluster: Cluster, *, watch_s: float = 2.0) -> list[Finding]:
    """Return the finding of each check. What the cluster does not tell, or forbids, is a finding, too.

    Where less than a fifth of a disk is free, all disks are watched for `watch_s`, to tell when they are full.
    """
    described = await brokers.describe_cluster(cluster)
    is_there = any(node.node_id == described.controller_id for node in described.nodes)
    controller = f"broker {described.controller_id} of {len(described.nodes)}" if is_there else "there is none"
    remedy = None if is_there else "start the brokers that are down, and look into the log of the others"
    known = await topics.describe_topics(cluster)
    reports = await ask_brokers(cluster)
    return [
        Finding("controller", OK if is_there else PROBLEM, controller, remedy),
        *await _check_partitions(cluster, list(known.values())),
        *await _looked_at("data directories", _watch_disks(cluster, watch_s)),
        *await _looked_at("retention", _check_groups(cluster, known)),
        *await _looked_at("transactions", _check_transactions(cluster)),
        *check_damage(reports),
        *check_clocks(reports),
        *check_certificates(cluster.certificate_ends(), time.time()),
    ]


async def _looked_at(check: str, work: Coroutine[None, None, Sequence[Finding]]) -> Sequence[Finding]:
    """Return the findings of `work`; where the cluster does not answer it, or forbids it, one that says why."""
    try:
        return await work
    except KafkaError as error:
        return [_not_seen(check, error)]


async def _each_of(names: Sequence[str], ask: Callable[[str], Awaitable[R]]) -> tuple[dict[str, R], str]:
    """Return what is found of each name, and of which of them nothing is, such as those that this user may not see."""
    found: dict[str, R] = {}
    failed: list[str] = []
    for name in names:
        try:
            found[name] = await ask(name)
        except NoBrokerReachable:
            raise
        except KafkaError as error:
            if error.code not in _GONE:
                failed.append(f"{name} ({error.code.name})")
    return found, named("not seen", failed)


def _not_seen(check: str, error: KafkaError) -> Finding:
    return Finding(check, WARNING, f"not looked at: {error.message}", "mend what is said above, and look again")


# -- Partitions


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    """A partition of a topic with its min.insync.replicas."""

    topic: str
    partition: PartitionInfo
    min_isr: int

    @property
    def is_under_replicated(self) -> bool:
        return bool(self.partition.offline) or len(self.partition.isr) < len(self.partition.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether acks=all is rejected. As in Kafka, more than there are replicas is never asked for."""
        return len(self.partition.isr) < min(self.min_isr, len(self.partition.replicas))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition.partition}"


async def placed_partitions(
    cluster: Cluster, found: TopicInfo | Iterable[TopicInfo] = (), *more: TopicInfo
) -> list[PlacedPartition]:
    """Return every partition. Only topics that lack replicas in sync are asked for their configs."""
    topics = items_of("placed_partitions", TopicInfo, (found, *more))
    lacking = [each.name for each in topics if any(len(p.isr) < len(p.replicas) for p in each.partitions)]
    described = await configs.describe_configs(
        cluster, [ConfigResource.topic(each) for each in lacking], names=[_MIN_ISR]
    )
    min_isr = {resource.name: int(entries[_MIN_ISR].value or 1) for resource, entries in described.items()}
    return [
        PlacedPartition(topic.name, each, min_isr.get(topic.name, 1)) for topic in topics for each in topic.partitions
    ]


async def _check_partitions(cluster: Cluster, known: list[TopicInfo]) -> Sequence[Finding]:
    """Return whether all is well with the partitions. Who may not ask for configs is told the rest."""
    try:
        return list(check_partitions(await placed_partitions(cluster, known)))
    except KafkaError as error:
        placed = [PlacedPartition(topic.name, each, 1) for topic in known for each in topic.partitions]
        return [*(each for each in check_partitions(placed) if each.check != _MIN_ISR), _not_seen(_MIN_ISR, error)]


def check_partitions(placed: list[PlacedPartition]) -> Iterator[Finding]:
    """Yield whether all have a leader, all replicas, and enough of them in sync."""
    leaderless = [str(each) for each in placed if each.partition.leader < 0]
    behind = [str(each) for each in placed if each.is_under_replicated]
    too_few = [str(each) for each in placed if each.is_under_min_isr]
    led = f"all {len(placed)} partitions have one"
    start = "start the brokers that hold them: odradek topics describe --unavailable"
    yield found_or_fine("leaders", PROBLEM, named("without a leader", leaderless), led, start)
    wait = "wait for the replicas to copy, or start their brokers: odradek topics describe --under-replicated"
    yield found_or_fine("replicas", PROBLEM, named("with replicas missing", behind), "all are in sync", wait)
    why = named("that reject acks=all", too_few)
    yield found_or_fine(_MIN_ISR, PROBLEM, why, "all partitions have as many", wait)


# -- Disks


async def _watch_disks(cluster: Cluster, watch_s: float) -> Sequence[Finding]:
    earlier = await _sample_disks(cluster)
    if any(_free_share(each) < _WATCH_BELOW for each in earlier.directories):
        await asyncio.sleep(watch_s)
    return list(check_disks(await _sample_disks(cluster), earlier))


async def _sample_disks(cluster: Cluster) -> DiskSample:
    return DiskSample(time.monotonic(), tuple(await brokers.describe_log_dirs(cluster, partitions=[])))


def check_disks(now: DiskSample, earlier: DiskSample | None) -> Iterator[Finding]:
    """Yield whether all data directories work and have room, and, by an earlier sample, for how long."""
    broken = [f"{_place(each)} ({each.error.name})" for each in now.directories if each.error]
    broken += [f"the disk of {_place(each)} is full: {_free(each)}" for each in now.directories if _is_full(each)]
    works = f"all {len(now.directories)} work" if len(now.directories) > 1 else "the only one works"
    how = "look into the broker's log, and free some space"
    yield found_or_fine("data directories", PROBLEM, "; ".join(broken), works, how)
    scarce = [each for each in now.directories if _free_share(each) < _LOW_SHARE and not _is_full(each)]
    low = [f"{_place(each)}: {_free(each)}" for each in scarce]
    low += _filling(now, earlier) if earlier is not None else []
    how = "free some space, or shorten retention: odradek config set log.retention.ms=... --all-brokers"
    yield found_or_fine("disk space", WARNING, "; ".join(low), "enough", how)


def _filling(now: DiskSample, earlier: DiskSample) -> Iterator[str]:
    before = {(each.node_id, each.path): each.usable_bytes for each in earlier.directories}
    looked_s = now.time_s - earlier.time_s
    for each in now.directories:
        old, left = before.get((each.node_id, each.path)), each.usable_bytes
        if old is None or left is None or old <= left or looked_s <= 0:
            continue
        rate = (old - left) / looked_s
        if left / rate < _FORESEEN * looked_s:
            seen = f"{rate / 1e6:.1f} MB/s of the last {duration_text(looked_s)}"
            yield f"{_place(each)} is full in {duration_text(left / rate)} at the {seen}"


def _is_full(each: LogDir) -> bool:
    return each.usable_bytes is not None and each.usable_bytes < _FULL_BELOW_BYTES


def _free_share(each: LogDir) -> float:
    """Return how much of the disk is free: 1 where the broker does not say."""
    return each.usable_bytes / each.total_bytes if each.usable_bytes is not None and each.total_bytes else 1.0


def _free(each: LogDir) -> str:
    return f"{(each.usable_bytes or 0) / 1e6:.1f} MB are free"


def _place(each: LogDir) -> str:
    return f"{each.path} of broker {each.node_id}"


# -- Groups


async def _check_groups(cluster: Cluster, known: dict[str, TopicInfo]) -> Sequence[Finding]:
    """Return which groups have not read what retention deletes soon, or has deleted. Who may not be asked is told."""
    listed = [each.group_id for each in await groups.list_groups(cluster) if each.type != "share"]
    led = {TopicPartition(t.name, p.partition) for t in known.values() for p in t.partitions if p.leader >= 0}
    committed: dict[str, dict[TopicPartition, int]] = {}
    read, unseen = await _each_of(listed[:_MOST], lambda each: groups.list_group_offsets(cluster, each))
    for group, offsets in read.items():
        committed[group] = {each: value.offset for each, value in offsets.items() if each in led}
    wanted = {each for offsets in committed.values() for each in offsets}
    old = await _oldest_safe_offsets(cluster, wanted)
    ends = await topics.list_offsets(cluster, dict.fromkeys(wanted, -1), partial=True)
    behind: list[str] = []
    for group, offsets in committed.items():
        answered = {each: offset for each, offset in offsets.items() if each in ends}
        losing = [each for each, offset in answered.items() if offset < min(old.get(each, -1), ends[each].offset)]
        if losing:
            behind.append(f"{group} ({min(losing)})")
    checked = f"none of {len(committed)} groups" if len(listed) <= _MOST else f"none of the first {_MOST} groups"
    what = "; ".join(filter(None, [named("that lose unread records soon, or have", behind), unseen]))
    how = "let them catch up, or lengthen retention.ms of the topic: odradek groups describe GROUP --lag-time"
    return [found_or_fine("retention", WARNING, what, f"{checked} loses unread records soon", how)]


async def _oldest_safe_offsets(cluster: Cluster, wanted: set[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the first offset of each partition that retention by time does not delete soon."""
    resources = [ConfigResource.topic(name) for name in sorted({each.topic for each in wanted})]
    names = ["cleanup.policy", "retention.ms"]
    described = await configs.describe_configs(cluster, resources, names=names) if resources else {}
    now_ms = int(time.time() * 1000)
    times: dict[str, int] = {}
    for resource, entries in described.items():
        retention_ms = int(entries["retention.ms"].value or -1)
        if retention_ms > 0 and "delete" in (entries["cleanup.policy"].value or ""):
            times[resource.name] = now_ms - int(_RETENTION_USED * retention_ms)
    asked = {each: times[each.topic] for each in wanted if each.topic in times}
    starts = await topics.list_offsets(cluster, dict.fromkeys(wanted, -2), partial=True)
    found = await topics.list_offsets(cluster, asked, partial=True)
    ends = await topics.list_offsets(cluster, dict.fromkeys(asked, -1), partial=True)
    # No record that is younger: every record is old.
    safe = {each: at.offset if at.offset >= 0 else ends[each].offset for each, at in found.items() if each in ends}
    return {each: max(safe.get(each, -1), start.offset) for each, start in starts.items()}


# -- Transactions and certificates


async def _check_transactions(cluster: Cluster) -> Sequence[Finding]:
    """Return which transactions are open for longer than their timeout."""
    listed = await transactions.list_transactions(cluster, states=_OPEN_STATES)
    names = [each.transactional_id for each in listed[:_MOST]]
    described, unseen = await _each_of(names, lambda each: transactions.describe_transaction(cluster, each))
    now_ms = time.time() * 1000
    stuck = [
        name
        for name, each in described.items()
        if each.began_ms is not None and now_ms > each.began_ms + each.timeout_ms + _STUCK_AFTER_MS
    ]
    how = "readers wait for them: odradek transactions abort TRANSACTIONAL_ID"
    fine = f"{len(listed)} are open, none for too long" if listed else "none is open"
    what = "; ".join(filter(None, [named("open for longer than their timeout", stuck), unseen]))
    return [found_or_fine("transactions", WARNING, what, fine, how)]


def check_certificates(ends: dict[str, float], now_s: float) -> Iterator[Finding]:
    """Yield whether the brokers' certificates end soon; nothing without TLS. `ends`: seconds since 1970 by address."""
    if not ends:
        return
    soon = [
        f"that of {address} ends in {duration_text(end_s - now_s)}"
        for address, end_s in sorted(ends.items())
        if end_s - now_s < _CERTIFICATE_SOON_S
    ]
    first = duration_text(min(ends.values()) - now_s)
    how = "put a new certificate in its place: the broker reads the file again"
    yield found_or_fine("certificates", WARNING, "; ".join(soon), f"the first one ends in {first}", how)
