"""The plan of a read: from options to ranges of offsets, once for a DataFrame, on the driver.

Topics and patterns become partitions, and sentinels become offsets. Each range is compared with the offsets in the log:
offsets that no longer exist fail the plan (`failOnDataLoss`), or are left out with a warning. Every run of the
DataFrame reads the same ranges.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection

from ...protocol.errors import ErrorCode, KafkaError
from ..errors import UnknownTopic
from ..metadata import ClusterView
from ..record import EARLIEST, LATEST, TopicPartition
from .brokers import Brokers
from .errors import DataLoss, OptionError
from .offsets import OffsetLimit, OffsetRange, divide
from .options import SourceOptions, Subscription

log = logging.getLogger(__name__)


def plan(options: SourceOptions, brokers: Brokers) -> list[OffsetRange]:
    """Return the ranges to read, one a task, none empty. Raises OptionError, UnknownTopic, DataLoss, KafkaError."""
    view, partitions = brokers.retry(lambda: _resolve(options.subscription, brokers))
    _check_complete("startingOffsets", options.starting, partitions)
    _check_complete("endingOffsets", options.ending, partitions)
    if not partitions:
        return []
    earliest = brokers.retry(lambda: brokers.offsets(partitions, EARLIEST))
    latest = brokers.retry(lambda: brokers.offsets(partitions, LATEST))
    ranges = [_range(options, view, each, earliest[each], latest[each]) for each in partitions]
    return divide(ranges, options.min_partitions, options.max_records_per_partition)


def _resolve(wanted: Subscription, brokers: Brokers) -> tuple[ClusterView, list[TopicPartition]]:
    """Return the partitions that the options mean, sorted. Raises UnknownTopic, KafkaError."""
    if wanted.pattern is not None:
        view = brokers.view(None)
        topics = [
            name for name, info in view.topics.items() if not info.is_internal and re.fullmatch(wanted.pattern, name)
        ]
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


def _range(options: SourceOptions, view: ClusterView, of: TopicPartition, earliest: int, latest: int) -> OffsetRange:
    sentinels = {EARLIEST: earliest, LATEST: latest}
    given_start, given_end = options.starting.of(of), options.ending.of(of)
    start, end = sentinels.get(given_start, given_start), sentinels.get(given_end, given_end)
    name = f"{of.topic}-{of.partition}"
    if given_start >= 0 and given_end >= 0 and start > end:
        raise OptionError("startingOffsets", f"{name} starts at {start}, behind its end at {end}")
    lost = ""
    if start < earliest:
        lost, start = f"{name} was to be read from {start}, but its log begins at {earliest}", earliest
    if max(start, end) > latest:
        lost = f"{name} was to be read from {start} to {end}, but its log ends at {latest}"
        start, end = min(start, latest), min(end, latest)
    if lost:
        if options.fail_on_data_loss:
            raise DataLoss(lost)
        log.warning("%s: going on with the records that exist", lost)
    return OffsetRange(of.topic, view.topic_id(of.topic), of.partition, start, max(start, end))
