"""The plan of a read: from options to ranges of offsets, once for a DataFrame, on the driver.

Topics and patterns become partitions, and sentinels become offsets. Each range is compared with the offsets in the log:
offsets that no longer exist fail the plan (`failOnDataLoss`), or are left out with a warning. Every run of the
DataFrame reads the same ranges.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from heapq import heapify, heapreplace
from itertools import pairwise

from ...protocol.errors import KafkaError
from ..arrow.brokers import Brokers, known_leader
from ..arrow.fetch import OffsetRange
from ..core.metadata import ClusterView
from ..errors import UnknownTopic
from ..record import EARLIEST, LATEST, TopicPartition
from .columns import DataLoss, OptionError
from .option_texts import OffsetLimit
from .options import Slice, SourceOptions, Subscription

log = logging.getLogger(__name__)


def plan(options: SourceOptions, brokers: Brokers) -> list[OffsetRange]:
    """Return the ranges to read, one a task, none empty. Raises OptionError, UnknownTopic, DataLoss, KafkaError."""
    view, partitions = resolve(options.subscription, brokers)
    starts = positions("startingOffsets", options.starting, partitions, brokers)
    ends = positions("endingOffsets", options.ending, partitions, brokers)
    if not partitions:
        return []
    earliest, latest = (brokers.log_ends(partitions, each, view) for each in (EARLIEST, LATEST))
    ranges = [
        range_of(options, view, each, (starts[each], ends[each]), (earliest[each], latest[each])) for each in partitions
    ]
    return divided(cut_to(options.slice, ranges, brokers), options, brokers, (earliest, latest))


def positions(
    option: str, limit: OffsetLimit, partitions: Collection[TopicPartition], brokers: Brokers
) -> dict[TopicPartition, int]:
    """Return the offset or sentinel that `limit` means for each partition. Raises OptionError."""
    _check_complete(option, limit, partitions)
    given = {each: limit.of(each) for each in partitions}
    if not limit.is_time or not given:
        return given
    found = brokers.retry(lambda: brokers.offsets_at(given))
    missing = [each for each in partitions if found[each] < 0]
    if missing and limit.without_record is None:
        where = f"{missing[0].topic}-{missing[0].partition}"
        why = f"no record of {where} has a timestamp of {given[missing[0]]} or later"
        raise OptionError(option, f"{why}; startingOffsetsByTimestampStrategy=latest reads what comes then")
    otherwise = LATEST if limit.without_record is None else limit.without_record
    return {each: otherwise if found[each] < 0 else found[each] for each in partitions}


def cut_to(wanted: Slice, ranges: list[OffsetRange], brokers: Brokers) -> list[OffsetRange]:
    """Return the ranges without what a slice leaves out at their ends. Times cut at the first record at or after."""
    starts = _time_offsets(wanted.min_timestamp_ms, ranges, brokers)
    ends = _time_offsets(wanted.max_timestamp_ms, ranges, brokers)
    cut: list[OffsetRange] = []
    for each in ranges:
        of = TopicPartition(each.topic, each.partition)
        start = max(each.start, wanted.min_offset or 0, starts.get(of, 0))
        end = min(each.end, each.end if wanted.max_offset is None else wanted.max_offset, ends.get(of, each.end))
        cut.append(replace(each, start=start, end=max(start, end)))
    return cut


def _time_offsets(
    timestamp_ms: int | None, ranges: Collection[OffsetRange], brokers: Brokers
) -> Mapping[TopicPartition, int]:
    """Return where each partition's records at or after a time begin; the end of its range where it has none."""
    if timestamp_ms is None or not ranges:
        return {}
    ends = {TopicPartition(each.topic, each.partition): each.end for each in ranges}
    found = brokers.retry(lambda: brokers.offsets(ends, timestamp_ms))
    return {of: ends[of] if offset < 0 else offset for of, offset in found.items()}


def divided(
    ranges: list[OffsetRange],
    options: SourceOptions,
    brokers: Brokers,
    log_bounds: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
) -> list[OffsetRange]:
    """Return the ranges of tasks. Cuts for minPartitions even out their bytes, as far as the brokers tell sizes.

    `log_bounds` are the first and last offsets of the logs.
    """
    least, whole = options.min_partitions, [each for each in ranges if each.size]
    means = None
    if least is not None and least > len(whole) > 1:  # one range is cut evenly in any case
        try:
            sizes = brokers.sizes([TopicPartition(each.topic, each.partition) for each in whole])
            means = bytes_per_offset(sizes, *log_bounds)
        except KafkaError as error:
            log.info("tasks get as many offsets each, whatever their bytes: %s", error.message)
    return divide(ranges, least, options.max_records_per_partition, means)


def bytes_per_offset(
    sizes: Mapping[TopicPartition, int], first: Mapping[TopicPartition, int], last: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    """Return the mean bytes of an offset in each log, from its size and its first and last offsets."""
    return {each: size / max(last[each] - first[each], 1) for each, size in sizes.items()}


def resolve(wanted: Subscription, brokers: Brokers) -> tuple[ClusterView, list[TopicPartition]]:
    """Return the cluster and the partitions that the options mean, sorted. Raises UnknownTopic, KafkaError."""
    view, partitions = brokers.retry(lambda: _resolve(wanted, brokers))
    if wanted.indexes is not None:
        partitions = [each for each in partitions if each.partition in wanted.indexes]
    return view, partitions


def _resolve(wanted: Subscription, brokers: Brokers) -> tuple[ClusterView, list[TopicPartition]]:
    """Return the partitions that the options mean, sorted. Raises UnknownTopic, KafkaError."""
    if wanted.pattern is not None:
        view = brokers.view(None)
        topics = [name for name, info in view.topics.items() if not info.is_internal and wanted.pattern.search(name)]
    else:
        topics = sorted(set(wanted.topics) | {partition.topic for partition in wanted.partitions})
        view = brokers.view(topics)
    for topic in topics:
        if topic not in view.topics:
            view.check_topic(topic)
            raise UnknownTopic(f"topic '{topic}' does not exist")
    if not wanted.partitions:
        known = {name: range(len(view.topics[name].partitions)) for name in sorted(topics)}
        return view, [TopicPartition(name, number) for name, numbers in known.items() for number in numbers]
    for partition in wanted.partitions:
        if view.partition(partition) is None:
            raise UnknownTopic(f"topic '{partition.topic}' has no partition {partition.partition}")
    return view, list(wanted.partitions)


def _check_complete(option: str, limit: OffsetLimit, partitions: Collection[TopicPartition]) -> None:
    """Check that offsets in JSON name exactly the partitions of the read, as Spark's connector demands."""
    if limit.everywhere is not None:
        return
    missing, extra = sorted(set(partitions) - set(limit.specific)), sorted(set(limit.specific) - set(partitions))
    if missing:
        raise OptionError(option, f"must name every partition (-2 earliest, -1 latest); missing: {_listed(missing)}")
    if extra:
        raise OptionError(option, f"names partitions that are not read: {_listed(extra)}")


def _listed(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))


def range_of(
    options: SourceOptions, view: ClusterView, of: TopicPartition, given: tuple[int, int], log_ends: tuple[int, int]
) -> OffsetRange:
    """Return the range of a partition: from the offsets or sentinels given, and its log's own ends."""
    earliest, latest = log_ends
    sentinels = {EARLIEST: earliest, LATEST: latest}
    start, end = (sentinels.get(each, each) for each in given)
    if min(given) >= 0 and start > end and not options.starting.is_time:
        raise OptionError("startingOffsets", f"{of} starts at {start}, behind its end at {end}")
    lost = ""
    if start < earliest:
        lost, start = f"{of} was to be read from {start}, but its log begins at {earliest}", earliest
    if max(start, end) > latest:
        lost = f"{of} was to be read from {start} to {end}, but its log ends at {latest}"
        start, end = min(start, latest), min(end, latest)
    if lost:
        note_loss(options, lost)
    leader = known_leader(view, of)
    return OffsetRange(of.topic, view.topic_id(of.topic), of.partition, start, max(start, end), leader)


def note_loss(options: SourceOptions, what: str) -> None:
    """Raise DataLoss, or log what is lost where the options say so."""
    if options.fail_on_data_loss:
        raise DataLoss(what)
    log.warning("%s: going on with the records that exist", what)


# -- Shares: of tasks, and of the batches of a stream


def divide(
    ranges: list[OffsetRange],
    min_pieces: int | None = None,
    max_size: int | None = None,
    bytes_each: Mapping[TopicPartition, float] | None = None,
) -> list[OffsetRange]:
    """Return the ranges that are not empty, cut into at least `min_pieces`, none with more than `max_size` offsets.

    Cuts for `min_pieces` go where a piece has the most bytes, by the mean bytes of an offset in each partition; without
    `bytes_each` where it has the most offsets. The number of offsets bounds the number of pieces.
    """
    ranges = [found for found in ranges if found.size > 0]
    counts = [1 if max_size is None else -(-found.size // max_size) for found in ranges]
    if min_pieces is not None:
        means = bytes_each or {}
        weights = [found.size * means.get(TopicPartition(found.topic, found.partition), 1.0) for found in ranges]
        _raise_to(min_pieces, [found.size for found in ranges], weights, counts)
    return [piece for found, count in zip(ranges, counts, strict=True) for piece in _cut(found, count)]


def _raise_to(wanted: int, sizes: list[int], weights: list[float], counts: list[int]) -> None:
    """Grow the numbers of pieces until their sum is `wanted`, always cutting where a piece is heaviest."""

    def place(number: int) -> tuple[float, int]:
        # A range of as many pieces as offsets comes last: it cannot be cut again.
        return (-weights[number] / counts[number] if counts[number] < sizes[number] else 1.0), number

    heap = [place(number) for number in range(len(counts))]
    heapify(heap)
    for _ in range(min(wanted, sum(sizes)) - sum(counts)):
        _, number = heap[0]
        counts[number] += 1
        heapreplace(heap, place(number))


def _cut(found: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [found.start + found.size * number // count for number in range(count + 1)]
    pieces = [replace(found, start=start, end=end) for start, end in pairwise(edges)]
    return [pieces[0], *(replace(each, is_first=False) for each in pieces[1:])]


def share(begun: dict[TopicPartition, int], ends: dict[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """Return ends so that a batch has at most `most` offsets, shared out by how much each partition has.

    Each partition that has more gets one offset at least, also where that is more than `most` in all: it would wait as
    long as others are behind, and its rows would come behind the query's watermark.
    """
    sizes = _sizes(begun, ends)
    total = sum(sizes.values())
    if total <= most:
        return dict(ends)
    portions = {each: max(size * most // total, 1) for each, size in sizes.items()}
    # What rounding leaves over goes to those that have the most; what the small ones have too much comes from them.
    left = most - sum(portions.values())
    for each in sorted(portions, key=lambda each: -sizes[each]):
        change = min(left, 1) if left > 0 else max(left, 1 - portions[each])
        portions[each] += change
        left -= change
    return dict(ends) | {each: ends[each] - sizes[each] + portion for each, portion in portions.items()}


def share_bytes(
    begun: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    each_bytes: Mapping[TopicPartition, float],
    most: int,
) -> dict[TopicPartition, int]:
    """Return ends so that a batch has about `most` bytes: of each partition the same part, and one offset at least."""
    sizes = _sizes(begun, ends)
    total = sum(size * each_bytes.get(each, 0) for each, size in sizes.items())
    if total <= most:
        return dict(ends)
    return dict(ends) | {each: ends[each] - size + max(int(size * most / total), 1) for each, size in sizes.items()}


def _sizes(begun: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return how many offsets the partitions have that have more."""
    sizes = {each: end - begun.get(each, 0) for each, end in sorted(ends.items())}
    return {each: size for each, size in sizes.items() if size > 0}
