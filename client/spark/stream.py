"""The micro-batches of a stream: from which offset to which each goes, on the driver.

Offsets are exactly those of Spark's own connector, {"topic": {"0": 23}} in one stable order, so that a checkpoint of
either goes on with the other. Spark does not keep the initial offset, and asks for it twice: a crash in the first batch
would lose records with `latest`. So the initial offset is a constant. `earliest` and offsets that are named can be
resolved again after a crash. Where `latest` or a time was resolved, the offsets at which the stream really began stand
in the end of its first batch, which Spark writes ahead, under names that no topic can have:

    {}  ->  {"start:flights": {"0": 5}, "flights": {"0": 9}}  ->  {"flights": {"0": 14}}  ->  ...

Spark's own connector takes such names for topics that are gone: it can go on after the second batch.

A partition that comes later is read from its beginning. One that is gone, or whose offsets are, is lost data.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from ..arrow.brokers import Brokers
from ..arrow.fetch import OffsetRange
from ..core.metadata import ClusterView
from ..record import EARLIEST, LATEST, TopicPartition
from .columns import ForeignOffsets, TopicRecreated
from .options import SourceOptions
from .plan import bytes_per_offset, divided, note_loss, positions, range_of, resolve, share, share_bytes

# Before the name of a topic: where the first batch began.
START = "start:"

# Topic -> partition as text -> offset: as JSON has it.
Offsets = dict[str, dict[str, int]]
Ends = dict[TopicPartition, int]

log = logging.getLogger(__name__)


class FirstBatchLost(TopicRecreated):
    """A checkpoint of which the first batch was not written: where the stream began is unknown."""


class MicroBatches:
    """The progress of one stream. Not safe for threads; Spark asks one thing at a time."""

    def __init__(self, options: SourceOptions, brokers: Brokers, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._brokers = brokers
        self._clock = clock
        # The ends at which Trigger.AvailableNow stops.
        self._target: Ends | None = None
        # The ids of topics that were seen, so that one that is made again is noticed.
        self._topic_ids: dict[str, bytes] = {}
        # Those that were, and of which no batch was planned since.
        self._anew: set[str] = set()
        # The cluster when it was last asked for its topics, and the ends of all logs then.
        self._view = ClusterView()
        self._seen: Ends | None = None
        # Whether the stream began before there was a partition: all that come later are new.
        self._began_empty = False
        # When the last batch was planned, for maxTriggerDelay.
        self._last_batch_s: float | None = None

    def stop_at_present_ends(self) -> None:
        """Read nothing that comes later."""
        self._target = self._ends()

    def log_ends(self) -> Offsets:
        """Return the ends of all logs, as the planning of the last batch found them."""
        return to_json(self._ends() if self._seen is None else self._seen)

    # -- The end of a batch

    def next_end(self, start: Mapping[str, Any], *, limited: bool) -> Offsets:
        """Return where the batch after `start` ends; `start` itself where there is nothing to read yet."""
        ends = self._ends()
        begun = from_json(start)
        if not start:
            return self._first_end(self._within_target(ends), limited=limited)
        end = self._limited(*self._from_new_starts(begun, ends), limited=limited)
        return _same_text(start, to_json(end), to_json(begun))

    def _within_target(self, ends: Ends) -> Ends:
        if self._target is None:
            return ends
        return {each: min(end, self._target[each]) for each, end in ends.items() if each in self._target}

    def _first_end(self, ends: Ends, *, limited: bool) -> Offsets:
        """Return the end of the first batch, with the offsets at which the stream begins."""
        self._began_empty = self._began_empty or not ends
        begun = self._offsets(ends, EARLIEST) if self._began_empty else self._first_begin(ends)
        end = to_json(self._limited(begun, ends, limited=limited))
        if self._begins_alike:
            return end
        return {START + topic: offsets for topic, offsets in to_json(begun).items()} | end

    @property
    def _begins_alike(self) -> bool:
        """Whether the options mean the same beginning whenever they are resolved."""
        starting = self._options.starting
        return not starting.is_time and starting.everywhere != LATEST and LATEST not in starting.specific.values()

    def _first_begin(self, ends: Ends) -> Ends:
        """Return where the options begin each partition, within its log up to its end."""
        given = positions("startingOffsets", self._options.starting, sorted(ends), self._brokers)
        earliest = self._offsets(ends, EARLIEST)
        begun = {each: {EARLIEST: earliest[each], LATEST: ends[each]}.get(at, at) for each, at in given.items()}
        for each, offset in begun.items():
            if offset > ends[each] or offset < earliest[each]:
                note_loss(self._options, f"{each} was to be read from {offset}, which its log does not have")
                begun[each] = min(max(offset, earliest[each]), ends[each])
        return begun

    def _limited(self, begun: Ends, ends: Ends, *, limited: bool) -> Ends:
        """Return the ends of a batch within the limits of a trigger."""
        # The target may lie before where the stream is: of a topic that was made again since.
        ends = {each: max(end, begun.get(each, 0)) for each, end in self._within_target(ends).items()}
        full = begun | ends
        for each in sorted(set(begun) - set(ends)):
            self._note_gone(each)
            del full[each]
        if self._target is None and self._waits_for_more(begun, full):
            return begun
        self._last_batch_s = self._clock()
        self._anew.clear()
        if not limited:
            return full
        # A log does not always begin at 0: a share that ends before its beginning would be lost data in the next batch.
        begun = self._offsets(set(ends) - set(begun), EARLIEST) | begun
        most, most_bytes = self._options.stream.max_offsets, self._options.stream.max_bytes
        if most_bytes is not None:
            full = share_bytes(begun, full, self._bytes_per_offset(begun, full), most_bytes)
        return full if most is None else share(begun, full, most)

    def _bytes_per_offset(self, begun: Ends, ends: Ends) -> Mapping[TopicPartition, float]:
        """Return the mean size of an offset in each partition that has more: of its whole log, as the leader has it."""
        more = [each for each in sorted(ends) if ends[each] > begun.get(each, 0)]
        if not more:
            return {}
        first, last = self._offsets(more, EARLIEST), self._offsets(more, LATEST)
        sizes = self._brokers.retry(lambda: self._brokers.sizes(more))
        return bytes_per_offset(sizes, first, last)

    def _from_new_starts(self, begun: Ends, ends: Ends) -> tuple[Ends, Ends]:
        """Return where a batch begins and may end, with topics that were made again read from their beginnings.

        Such a batch ends below the offset at which the stream was: by that `ranges` knows it, also in another process.
        """
        anew = [each for each in sorted(begun) if each in ends and self._is_anew(each, begun[each], ends[each])]
        if not anew:
            return begun, ends
        first = self._offsets(anew, EARLIEST)
        return begun | first, ends | {each: max(first[each], min(ends[each], begun[each] - 1)) for each in anew}

    def _is_anew(self, partition: TopicPartition, begun: int, end: int) -> bool:
        if end < begun:
            self._note_shorter(partition, begun, end)
        elif partition.topic not in self._anew:
            return False
        return begun > 0

    def _note_shorter(self, partition: TopicPartition, begun: int, end: int) -> None:
        """Note that a log ends before the offset at which the stream is: its topic was made again while it was down."""
        what = f"{partition} ends at {end}, before {begun}, where the stream is: its topic was made again"
        if self._options.fail_on_data_loss:
            raise TopicRecreated(what)
        log.warning("%s: going on at the beginning of the new one", what)

    def _note_gone(self, partition: TopicPartition) -> None:
        note_loss(self._options, f"{partition} is gone, and with it what was not read")

    def _waits_for_more(self, begun: Ends, ends: Ends) -> bool:
        """Return whether minOffsetsPerTrigger lets the batch wait, which maxTriggerDelay bounds."""
        least = self._options.stream.min_offsets
        if least is None or self._last_batch_s is None:
            return False
        if self._clock() - self._last_batch_s >= self._options.stream.max_delay_ms / 1000:
            return False
        return sum(end - begun.get(each, 0) for each, end in ends.items()) < least

    def _ends(self) -> Ends:
        """Return the end of the log of each partition that the options mean."""
        self._seen = self._offsets(self._partitions(), LATEST)
        return self._seen

    def _partitions(self) -> list[TopicPartition]:
        """Return the partitions that the options mean now. Raises TopicRecreated for a topic that was made again."""
        self._view, partitions = resolve(self._options.subscription, self._brokers)
        for topic in sorted({each.topic for each in partitions}):
            self._check_id(topic, self._view.topic_id(topic))
        return partitions

    def _offsets(self, partitions: Collection[TopicPartition], sentinel: int) -> Ends:
        """Return the first or last offsets of logs."""
        return self._brokers.log_ends(partitions, sentinel, self._view) if partitions else {}

    def _check_id(self, topic: str, topic_id: bytes) -> None:
        known = self._topic_ids.setdefault(topic, topic_id)
        if any(known) and any(topic_id) and known != topic_id:
            if self._options.fail_on_data_loss:
                raise TopicRecreated(f"topic '{topic}' was deleted and created again")
            log.warning("topic '%s' was deleted and created again: going on with the new one", topic)
            self._topic_ids[topic] = topic_id
            self._anew.add(topic)

    # -- The ranges of a batch

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[OffsetRange]:
        """Return what the batch from `start` to `end` reads, one range a task."""
        begun, ends = from_json(start), from_json(end)
        if not start:
            begun = begin_of(end)
        if ends and not start and not begun:
            begun = self._begun_again(ends)
        known = self._partitions()
        # A batch that ends before its beginning is the first one of a topic that was made again.
        begun = {each: offset for each, offset in begun.items() if offset <= ends.get(each, offset)}
        wanted = [each for each in sorted(ends) if ends[each] > begun.get(each, 0) or each not in begun]
        gone = [each for each in wanted if each not in known and self._view.partition(each) is None]
        for each in gone:
            self._note_gone(each)
        wanted = [each for each in wanted if each not in gone]
        if not wanted:
            return []
        earliest = self._offsets(wanted, EARLIEST)
        found: list[OffsetRange] = []
        for each in wanted:
            # The ends are those that the batch was planned with, and retention may have come behind them since.
            log_bounds = earliest[each], max(earliest[each], ends[each])
            given = begun.get(each, EARLIEST), ends[each]
            found.append(range_of(self._options, self._view, each, given, log_bounds))
        # After a restart the ends of the logs were not asked for yet: those of the batch lead to coarser means.
        return divided(found, self._options, self._brokers, (earliest, ends | (self._seen or {})))

    def _begun_again(self, ends: Ends) -> Ends:
        """Return where a first batch began that was cut off and does not say so. Raises FirstBatchLost."""
        if not self._begins_alike:
            why = "the first batch of this checkpoint does not say where it began"
            raise FirstBatchLost(f"{why}: start with the connector that began it, or with a new checkpoint")
        return self._first_begin(ends)


def to_json(offsets: Ends) -> Offsets:
    """Return offsets as JSON has them, topics and partitions in order."""
    found: Offsets = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(offsets: object) -> Ends:
    """Return the offsets that a batch goes from or to. Raises ForeignOffsets for those of another source."""
    return {place: offset for place, offset in _places(offsets).items() if not place.topic.startswith(START)}


def _places(offsets: object) -> Ends:
    """Return offsets with their partitions, those of topics that begin with START too. Raises ForeignOffsets."""
    try:
        found = {
            TopicPartition(topic, int(number)): offset
            for topic, numbers in cast("Mapping[str, Mapping[str, int]]", offsets).items()
            for number, offset in numbers.items()
        }
    except (AttributeError, ValueError):
        found = None
    if found is None or not all(type(offset) is int for offset in found.values()):
        why = f"offsets in the checkpoint are not those of topics: {str(offsets)[:100]}"
        raise ForeignOffsets(f"{why}; another source has written it, so give this query one of its own")
    return found


def begin_of(end: Mapping[str, Mapping[str, int]]) -> Ends:
    """Return where the first batch began, which its end says."""
    begun = {place: offset for place, offset in _places(end).items() if place.topic.startswith(START)}
    return {TopicPartition(topic.removeprefix(START), number): offset for (topic, number), offset in begun.items()}


def _same_text(start: Mapping[str, Any], end: Offsets, begun: Offsets) -> Offsets:
    """Return `start` itself where nothing is new: Spark compares texts, and the first end has more names."""
    return dict(start) if end == begun else end
