"""The plan of a read: from options to ranges of offsets, once for a DataFrame, on the driver.

Topics and patterns become partitions, and sentinels become offsets. Each range is compared with the offsets in the log:
offsets that no longer exist fail the plan (`failOnDataLoss`), or are left out with a warning. Every run of the
DataFrame reads the same ranges.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from ...protocol.errors import ErrorCode, KafkaError
from ..arrow.brokers import Brokers, known_leader
from ..arrow.fetch import OffsetRange
from ..core.metadata import ClusterView
from ..errors import UnknownTopic
from ..record import EARLIEST, LATEST, TopicPartition
from .errors import DataLoss, OptionError
from .offsets import OffsetLimit, divide
from .options import Slice, SourceOptions, Subscription

log = logging.getLogger(__name__)


def plan(options: SourceOptions, brokers: Brokers) -> list[OffsetRange]:
    """Return the ranges to read, one a task, none empty. Raises OptionError, UnknownTopic, DataLoss, KafkaError."""
    view, partitions = resolve(options.subscription, brokers)
    starts = positions("startingOffsets", options.starting, partitions, brokers)
    ends = positions("endingOffsets", options.ending, partitions, brokers)
    if not partitions:
        return []
    earliest, latest = (log_ends(partitions, each, brokers, view) for each in (EARLIEST, LATEST))
    ranges = [
        _range(options, view, each, (starts[each], ends[each]), (earliest[each], latest[each])) for each in partitions
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


def log_ends(
    partitions: Collection[TopicPartition], sentinel: int, brokers: Brokers, view: ClusterView
) -> dict[TopicPartition, int]:
    """Return the first or last offsets of logs, whose leaders `view` knew. Raises KafkaError."""
    if not partitions:
        return {}
    # Leaders may have moved since: after a failure they are asked for again.
    views = iter([view])
    return dict(brokers.retry(lambda: brokers.offsets(partitions, sentinel, next(views, None))))


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
        _check_exists(view, topic)
    if not wanted.partitions:
        return view, [TopicPartition(name, number) for name in sorted(topics) for number in _numbers(view, name)]
    for partition in wanted.partitions:
        if view.partition(partition) is None:
            raise UnknownTopic(f"topic '{partition.topic}' has no partition {partition.partition}")
    return view, list(wanted.partitions)


def _numbers(view: ClusterView, topic: str) -> range:
    return range(len(view.topics[topic].partitions))


def _check_exists(view: ClusterView, topic: str) -> None:
    if topic in view.topics:
        return
    code = view.errors.get(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(f"topic '{topic}' does not exist")
    raise KafkaError(code, f"topic '{topic}': {code.text}")


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
    return ", ".join(f"{topic}-{number}" for topic, number in partitions)


def _range(
    options: SourceOptions, view: ClusterView, of: TopicPartition, given: tuple[int, int], log_ends: tuple[int, int]
) -> OffsetRange:
    """Return the range of a partition: from the offsets or sentinels given, and its log's own ends."""
    earliest, latest = log_ends
    sentinels = {EARLIEST: earliest, LATEST: latest}
    start, end = (sentinels.get(each, each) for each in given)
    name = f"{of.topic}-{of.partition}"
    if min(given) >= 0 and start > end and not options.starting.is_time:
        raise OptionError("startingOffsets", f"{name} starts at {start}, behind its end at {end}")
    lost = ""
    if start < earliest:
        lost, start = f"{name} was to be read from {start}, but its log begins at {earliest}", earliest
    if max(start, end) > latest:
        lost = f"{name} was to be read from {start} to {end}, but its log ends at {latest}"
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
