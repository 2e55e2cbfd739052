"""The state of the producers of a partition: the sequence numbers that each has written last, for idempotence.

The last five batches of a producer are remembered (KIP-98: a client has at most five in flight). A batch that is sent
again gets the offset that it got the first time. A sequence follows the last one, and 0 follows 2^31 - 1. A new epoch
starts at 0. An unknown producer may start anywhere, because its earlier batches may have been deleted. State comes from
the log alone: appends and replays call `apply`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import NamedTuple

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from .segments.transaction_index import AbortedTransaction

WINDOW_BATCHES = 5
# Half a KiB each with one batch, 1.4 KiB with five: the producers of one partition take at most some 90 MiB. Past the
# bound, the producers that were silent for longest are forgotten.
PRODUCERS_MAX = 65_536
# So many at once, so that a flood of new ids pays for the search for the oldest only once in thousands.
FORGOTTEN_AT_ONCE = PRODUCERS_MAX // 8
# At most so many producers are kept whose first batch a coordinator has not allowed yet.
_MOST_ASKED = 1_000
# At most so many transactions that have ended, and may not be replicated yet, are kept one by one.
_MOST_ENDED = 10_000

NONE = -1  # Kafka's mark for "no sequence", "no offset", "no epoch"
MAX_INT32 = 2**31 - 1
# The last epoch of a producer id: a marker cannot bump it any further.
MAX_EPOCH = 2**15 - 1
# KIP-890: from this version of transactions on a marker carries the epoch after that of the records.
BUMPING_VERSION = 2


class OutOfOrderSequence(KafkaError):
    """The sequence of an idempotent batch does not follow the last one: a batch between is missing."""

    def __init__(self, producer_id: int, epoch: int, sequence: int, expected: int) -> None:
        why = f"producer {producer_id} epoch {epoch}: sequence {sequence} came where {expected} was due"
        super().__init__(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, why)


class InvalidProducerEpoch(KafkaError):
    """A batch comes from a producer that a newer epoch has fenced."""

    def __init__(self, producer_id: int, epoch: int, current: int) -> None:
        why = f"producer {producer_id}: epoch {epoch} is older than the current {current}"
        super().__init__(ErrorCode.INVALID_PRODUCER_EPOCH, why)


class CoordinatorFenced(KafkaError):
    """A marker comes from a coordinator that has been replaced."""

    def __init__(self, producer_id: int, epoch: int, current: int) -> None:
        why = f"producer {producer_id}: a marker of coordinator epoch {epoch}, the current one is {current}"
        super().__init__(ErrorCode.TRANSACTION_COORDINATOR_FENCED, why)


class Duplicate(NamedTuple):
    """The place of a batch that is in the log already."""

    base_offset: int
    last_offset: int
    timestamp_ms: int


class WrittenBatch(NamedTuple):
    """A batch of a producer's window."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_INT32


# A written batch as it is kept: (base offset, last offset delta, largest timestamp, base sequence). One that came
# without a sequence has -1 as its last one, whatever its size, so that 0 follows.
_Kept = tuple[int, int, int, int]
_NOTHING: _Kept = (NONE, 0, NONE, NONE)


@dataclass(slots=True)
class Producer:
    """The state of one producer id."""

    epoch: int
    last_timestamp_ms: int = NONE
    coordinator_epoch: int = NONE
    current_txn_first_offset: int = NONE
    # The timestamp of its last marker.
    last_marker_ms: int = NONE
    # Invariant: the newest of `window`, _NOTHING where that is empty.
    last: _Kept = _NOTHING
    # Invariant: all of the current epoch, oldest first, none missing in between, at most five. A deque would be
    # half a KiB more for each producer.
    window: list[_Kept] = field(default_factory=list[_Kept])

    @property
    def last_sequence(self) -> int:
        """NONE without a batch."""
        return _last_sequence(self.last)

    @property
    def batches(self) -> list[WrittenBatch]:
        """The batches that are remembered: at most five, all of the current epoch, oldest first."""
        return [WrittenBatch(_last_sequence(each), each[0] + each[1], each[1], each[2]) for each in self.window]

    def find(self, sequence: int, delta: int) -> Duplicate | None:
        """Return the remembered batch of exactly these sequences, None if there is none."""
        for base_offset, its_delta, timestamp_ms, its_sequence in self.window:
            if its_sequence == sequence and its_delta == delta:
                return Duplicate(base_offset, base_offset + delta, timestamp_ms)
        return None

    def begin_epoch(self, epoch: int) -> None:
        """Begin a new epoch of the producer, which counts from 0."""
        self.epoch = epoch
        self.last = _NOTHING
        self.window.clear()

    def add(self, kept: _Kept) -> None:
        """Remember a batch of the current epoch, and forget the sixth last."""
        self.last = kept
        window = self.window
        window.append(kept)
        if len(window) > WINDOW_BATCHES:
            del window[0]


_LAST_TIMESTAMP = attrgetter("last_timestamp_ms")


def _last_sequence(kept: _Kept) -> int:
    _, delta, _, sequence = kept
    return NONE if sequence < 0 else (sequence + delta) & MAX_INT32


class ProducerStates:
    """The producers of one partition."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        # Producer id -> first offset. Invariant: in the order of the offsets.
        self._open_transactions: dict[int, int] = {}
        # (offset of the marker, first offset) of transactions that ended at or past the high watermark. Invariant: both
        # ascend. An entry that began later than the next one is left out: the next one holds readers up for longer.
        self._ended: deque[tuple[int, int]] = deque()
        # Producer id -> (epoch, lowest sequence) of what a coordinator was asked about. No producer here is in both.
        self._asked: dict[int, tuple[int, int]] = {}
        # How many producers there may be before the longest silent ones are forgotten.
        self._room = PRODUCERS_MAX

    def __len__(self) -> int:
        return len(self._producers)

    def items(self) -> Iterator[tuple[int, Producer]]:
        """Yield (producer id, state): what DescribeProducers shows."""
        return iter(self._producers.items())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def check(self, header: BatchHeader) -> Duplicate | None:
        """Check a client's batch before it is appended. Return None where it is new and in order.

        Raises OutOfOrderSequence, InvalidProducerEpoch. Rules: Kafka's ProducerStateManager and ProducerAppendInfo.
        """
        _, _, _, _, _, attributes, delta, _, _, producer_id, epoch, sequence, _ = header
        producer = self._producers.get(producer_id)
        if producer is None:
            if epoch < NONE:
                raise InvalidProducerEpoch(producer_id, epoch, NONE)
            asked = self._asked.get(producer_id)
            if asked is not None and epoch == asked[0] and sequence > asked[1]:
                # The batch before was refused for now, and its producer sends it again.
                raise OutOfOrderSequence(producer_id, epoch, sequence, asked[1])
            return None
        if epoch == producer.epoch:
            _, last_delta, _, last_sequence = producer.last
            expected = (last_sequence + last_delta + 1) & MAX_INT32
            if sequence == expected:
                if producer.current_txn_first_offset != NONE and not attributes & TRANSACTIONAL:
                    why = f"producer {producer_id} writes outside of the transaction that it has open here"
                    raise KafkaError(ErrorCode.INVALID_TXN_STATE, why)
                return None
            duplicate = producer.find(sequence, delta)
            if duplicate is not None:
                return duplicate
        elif epoch < producer.epoch:
            raise InvalidProducerEpoch(producer_id, epoch, producer.epoch)
        elif sequence == 0:
            return None
        else:
            expected = 0
        raise OutOfOrderSequence(producer_id, epoch, sequence, expected)

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Check a transactional batch that the broker made, which has no sequence. Raises InvalidProducerEpoch."""
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise InvalidProducerEpoch(producer_id, epoch, producer.epoch)

    def ask(self, header: BatchHeader, first: int) -> None:
        """Note that a coordinator is asked about a batch: none past the sequence `first` may come before it.

        Of a producer that is known, its last batch says what comes next.
        """
        if header.producer_id in self._producers:
            return
        asked = self._asked.pop(header.producer_id, None)
        new = header.producer_epoch, max(first, 0)
        self._asked[header.producer_id] = new if asked is None or asked[0] != new[0] else min(asked, new)
        if len(self._asked) > _MOST_ASKED:
            del self._asked[next(iter(self._asked))]

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Check a transaction marker. A marker that is sent again, for a transaction that has ended, is no error.

        Raises InvalidProducerEpoch, CoordinatorFenced. Rules: Kafka's ProducerAppendInfo.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        is_bumped = transaction_version >= BUMPING_VERSION
        is_again = epoch == producer.epoch and (producer.current_txn_first_offset == NONE or epoch == MAX_EPOCH)
        if epoch < producer.epoch or (is_bumped and epoch == producer.epoch and not is_again):
            raise InvalidProducerEpoch(producer_id, epoch, producer.epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise CoordinatorFenced(producer_id, coordinator_epoch, producer.coordinator_epoch)

    def with_open_transaction(self, producer_id: int) -> Producer | None:
        """Return the producer where it has an open transaction, otherwise None."""
        return self._producers[producer_id] if producer_id in self._open_transactions else None

    def open_transactions(self) -> list[tuple[int, Producer]]:
        """Return the producers that have an open transaction, with their ids."""
        return [(each, self._producers[each]) for each in self._open_transactions]

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether the producer has a transaction of this epoch open in the partition."""
        return producer_id in self._open_transactions and self._producers[producer_id].epoch == epoch

    def aborted_by(self, header: BatchHeader) -> AbortedTransaction | None:
        """Return the transaction that an abort marker with this header ends, None where none is open."""
        first = self._open_transactions.get(header.producer_id)
        if first is None:
            return None
        own = header.producer_id
        others = (offset for producer_id, offset in self._open_transactions.items() if producer_id != own)
        stable = next(others, header.last_offset + 1)
        return AbortedTransaction(header.producer_id, first, header.last_offset, stable)

    def apply(self, header: BatchHeader, now_ms: int = NONE, *, coordinator_epoch: int = NONE) -> None:
        """Account for a batch that is in the log. `coordinator_epoch` is that of a transaction marker.

        The producer was last heard at `now_ms`; without it, at the timestamp of its records, which may be old.
        """
        base_offset, _, _, _, _, attributes, delta, _, timestamp_ms, producer_id, epoch, sequence, _ = header
        if producer_id < 0:
            return
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, Producer(epoch))
            self._asked.pop(producer_id, None)
        elif producer.epoch != epoch:
            producer.begin_epoch(epoch)
        producer.last_timestamp_ms = timestamp_ms if now_ms == NONE else now_ms
        if attributes & CONTROL:
            producer.coordinator_epoch = max(producer.coordinator_epoch, coordinator_epoch)
            producer.current_txn_first_offset = NONE
            producer.last_marker_ms = timestamp_ms
            first = self._open_transactions.pop(producer_id, None)
            if first is not None:
                ended = self._ended
                while ended and ended[-1][1] > first:
                    ended.pop()
                ended.append((base_offset, first))
                if len(ended) > _MOST_ENDED:
                    # The two oldest count as one, which is replicated when both are.
                    (_, oldest), (marker, _) = ended.popleft(), ended.popleft()
                    ended.appendleft((marker, oldest))
            return
        # The same as `add`, whose call would cost a tenth of the time.
        producer.last = base_offset, delta, timestamp_ms, sequence if sequence >= 0 else NONE - delta
        window = producer.window
        window.append(producer.last)
        if len(window) > WINDOW_BATCHES:
            del window[0]
        if attributes & TRANSACTIONAL and producer.current_txn_first_offset == NONE:
            producer.current_txn_first_offset = base_offset
            self._open_transactions[producer_id] = base_offset

    def replicated(self, high_watermark: int) -> None:
        """Take down that every leader to come has what lies below the high watermark."""
        ended = self._ended
        while ended and ended[0][0] < high_watermark:
            ended.popleft()

    def first_undecided_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of the oldest transaction that is open, or whose marker is not replicated yet.

        The last stable offset cannot pass it: for a leader without the marker the transaction is open again.
        """
        if self._ended:
            self.replicated(high_watermark)
        first = next(iter(self._open_transactions.values()), None)
        if self._ended and (first is None or self._ended[0][1] < first):
            return self._ended[0][1]
        return first

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers silent for `expiration_ms` (producer.id.expiration.ms), unless a transaction is open."""
        gone = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.current_txn_first_offset == NONE and now_ms - producer.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in gone:
            del self._producers[producer_id]
        return len(gone)

    def _add(self, producer_id: int, producer: Producer) -> Producer:
        if len(self._producers) >= self._room:
            self._forget_oldest()
        self._producers[producer_id] = producer
        return producer

    def _forget_oldest(self) -> None:
        """Make room. Producers with an open transaction stay; if nearly all have one, the next search comes later."""
        producers, kept = self._producers, self._open_transactions
        heard = sorted(map(_LAST_TIMESTAMP, producers.values()))
        # So many of the longest silent ones are enough to find FORGOTTEN_AT_ONCE without an open transaction.
        latest_ms = heard[min(FORGOTTEN_AT_ONCE + len(kept), len(heard)) - 1]
        silent = [(each.last_timestamp_ms, i) for i, each in producers.items() if each.last_timestamp_ms <= latest_ms]
        gone = [producer_id for _, producer_id in sorted(silent) if producer_id not in kept]
        for producer_id in gone[:FORGOTTEN_AT_ONCE]:
            del producers[producer_id]
        self._room = max(PRODUCERS_MAX, len(producers) + FORGOTTEN_AT_ONCE)

    # -- Snapshots ---------------------------------------------------------------------------------

    def restore(
        self, producer_id: int, epoch: int, batch: WrittenBatch, coordinator_epoch: int, current_txn_first_offset: int
    ) -> None:
        """Take over one entry of a snapshot; those of one producer come oldest first.

        A first one without a batch has the timestamp of the last marker.
        """
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            marker_ms = batch.timestamp_ms if batch.last_offset < 0 else NONE
            producer = self._add(producer_id, Producer(epoch, last_marker_ms=marker_ms))
        producer.last_timestamp_ms = batch.timestamp_ms
        producer.coordinator_epoch = coordinator_epoch
        producer.current_txn_first_offset = current_txn_first_offset
        if current_txn_first_offset != NONE:
            self._open_transactions[producer_id] = current_txn_first_offset
        last_sequence, last_offset, delta, timestamp_ms = batch
        if last_offset >= 0:
            first = (last_sequence - delta) & MAX_INT32 if last_sequence >= 0 else NONE - delta
            producer.add((last_offset - delta, delta, timestamp_ms, first))

    def sort_open_transactions(self) -> None:
        """Put the open transactions in the order of their offsets, after the last restore()."""
        self._open_transactions = dict(sorted(self._open_transactions.items(), key=itemgetter(1)))
