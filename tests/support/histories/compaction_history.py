"""Random histories of a compacted log, by seed: writes, transactions, cleanings and crashes, compared with a list.

The list keeps every record and the end of every transaction. After each step the log is compared with it:

    - a read_committed reader, at any fetch size, gets only records that are in the list, at their offsets;
    - a reader that starts at any offset ends with the same values as a reader of the whole list;
    - a reader that lags less than delete.retention.ms misses no tombstone, also if the cleaner works ahead of it;
    - below the end of a cleaning no key has two records, and no record of an aborted transaction is left;
    - each entry of a transaction index belongs to a marker of its own segment, and no entry comes twice.

At the end everything is cleaned until nothing more can be removed: only the values of the list are left.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from odradek.protocol.records.batch import decode_batch, encode_batch, iter_headers, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlType, Marker, encode_marker, read_marker
from odradek.protocol.records.record import Record
from odradek.storage.known_logs import KnownLog
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments import swap
from odradek.tests.storage.batches import roll
from odradek.tests.storage.cleaning import clean
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut

STEPS = 50
KEYS = (b"a", b"b", b"c", b"d", b"long" * 20)
TRANSACTIONAL = (1, 2, 3)
IDEMPOTENT = (4, 5)
NO_PRODUCER = -1
# Room for two keys, for three, and for all.
BUFFER_BYTES = (24 * 4, 24 * 6, 1 << 20, 1 << 20)
# Enough to set a horizon, to pass it, and to do the same for the markers that the first pass leaves without data.
LAST_CLEANINGS = 5

Pair = tuple[bytes, bytes | None]


@dataclass(slots=True)
class Transaction:
    """A transaction with data; `marker` is the offset of its end."""

    producer_id: int
    first_offset: int
    marker: int | None = None
    is_committed: bool = False


@dataclass(slots=True)
class Written:
    """A record of the list."""

    offset: int
    key: bytes
    value: bytes | None
    transaction: Transaction | None

    @property
    def is_visible(self) -> bool:
        return self.transaction is None or self.transaction.is_committed


@dataclass(slots=True)
class Producer:
    """A producer: its id, its epoch and the sequence that it sends next."""

    epoch: int = 0
    sequence: int = 0


@dataclass(slots=True)
class Reader:
    """A read_committed consumer: its position, the values that it has seen, and the last time it reached the end."""

    start: int
    position: int
    since_ms: int
    state: dict[bytes, bytes | None] = field(default_factory=dict[bytes, "bytes | None"])


class History:
    """One log, and the list."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.directory = directory
        self.disk = FaultyDisk()
        self.config = LogConfig(
            segment_bytes=self.chance.choice([500, 700, 1500]),
            index_interval_bytes=self.chance.choice([1, 100, 400]),
            segment_ms=2**60,
            producer_id_expiration_ms=2**60,
        )
        self.delete_retention_ms = self.chance.choice([0, 1000, 3000])
        self.written: list[Written] = []
        self.open: dict[int, Transaction] = {}
        self.transactions: list[Transaction] = []
        self.producers = {number: Producer() for number in (*TRANSACTIONAL, *IDEMPOTENT)}
        self.reader: Reader | None = None
        self.now_ms = 10_000
        self.start = 0
        self.point = 0
        # As the cleaner's checkpoint says; None: there is none.
        self.clean_up_to: int | None = None
        # Below this offset a cleaning has left one record of each key at most.
        self.unique_up_to = 0
        self.log = self._opened(is_clean=True)

    def run(self) -> None:
        """Do the steps. Raises AssertionError if the log differs from the list."""
        writes = [self.put] * 6 + [self.put_transactional] * 7 + [self.end_transaction] * 6
        others = [self.roll] * 3 + [self.wait] * 3 + [self.read_on] * 3 + [self.flush]
        changes = [self.clean] * 5
        changes += [self.break_off_cleaning, self.delete_records, self.restart, self.crash, self.lose_power]
        for _ in range(STEPS):
            step = self.chance.choice(writes + others + changes)
            step()
            if self.log.recovery.gaps:
                # A segment lost its end in a power cut. The list cannot tell what became of the transactions in it.
                return
            if step in changes:
                self.check()
        self.finish()

    # -- Writing

    def put(self) -> None:
        producer_id = self.chance.choice([NO_PRODUCER, *IDEMPOTENT])
        self._append(producer_id, None)

    def put_transactional(self) -> None:
        producer_id = self.chance.choice(TRANSACTIONAL)
        transaction = self.open.get(producer_id)
        if transaction is None:
            transaction = self.open[producer_id] = Transaction(producer_id, self.log.log_end_offset)
            self.transactions.append(transaction)
        self._append(producer_id, transaction)

    def _append(self, producer_id: int, transaction: Transaction | None) -> None:
        base, count = self.log.log_end_offset, self.chance.randint(1, 4)
        pairs = [self._pair() for _ in range(count)]
        producer = self.producers.get(producer_id)
        data = encode_batch(
            [Record(-1, self.now_ms, key, value) for key, value in pairs],
            base_offset=base,
            compression=self.chance.choice([Compression.NONE, Compression.NONE, Compression.LZ4]),
            producer_id=producer_id,
            producer_epoch=producer.epoch if producer else -1,
            base_sequence=producer.sequence if producer else -1,
            transactional=transaction is not None,
        )
        self.log.append(data, read_header(data), self.now_ms)
        if producer is not None:
            producer.sequence += count
        self.written += [Written(base + at, *pair, transaction) for at, pair in enumerate(pairs)]

    def _pair(self) -> Pair:
        is_tombstone = self.chance.random() < 0.4
        value = None if is_tombstone else b"%d" % self.log.log_end_offset * self.chance.randint(1, 10)
        return self.chance.choice(KEYS), value

    def end_transaction(self) -> None:
        """End a transaction, or send a marker for a transaction without records in this log."""
        self._end(self.chance.choice(TRANSACTIONAL), is_commit=self.chance.random() < 0.5)

    def _end(self, producer_id: int, *, is_commit: bool) -> None:
        offset, producer = self.log.log_end_offset, self.producers[producer_id]
        if self.chance.random() < 0.3:
            # Transaction version 2: each end has a new epoch.
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        marker = Marker(ControlType.COMMIT if is_commit else ControlType.ABORT, 0)
        data = encode_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            timestamp_ms=self.now_ms,
            base_offset=offset,
        )
        self.log.append(data, read_header(data), self.now_ms, marker)
        transaction = self.open.pop(producer_id, None)
        if transaction is not None:
            transaction.marker, transaction.is_committed = offset, is_commit

    def roll(self) -> None:
        roll(self.log, self.now_ms)

    def flush(self) -> None:
        self.log.flush()
        self.point = self.log.checkpoint()

    def wait(self) -> None:
        self.now_ms += self.chance.choice([100, 700, 1500, 4000])

    def delete_records(self) -> None:
        if self.chance.random() < 0.3:
            # By what is flushed: a power cut cannot open a transaction again whose records are below the start.
            flushed = self.log.recovery_point
            unended = [each.first_offset for each in self.transactions if each.marker is None or each.marker >= flushed]
            self.start = self.chance.randint(self.start, max(self.start, min([flushed, *unended])))
            self.log.advance_log_start(self.start)
            self._remove_retired()
            self.reader = None

    # -- Cleaning

    def clean(self) -> None:
        known = {number: (each.epoch, each.last_sequence) for number, each in self.log.producers.items()}
        end = self.log.log_end_offset
        if self.chance.random() < 0.5:
            self._read_on(self.chance.randint(0, 6))
        self.clean_up_to = self._clean()
        self._remove_retired()
        assert self.log.log_end_offset == end
        assert {number: (each.epoch, each.last_sequence) for number, each in self.log.producers.items()} == known
        self.unique_up_to = max(self.unique_up_to, self.clean_up_to)
        if self.chance.random() < 0.3:
            self._read_on(1000)

    def _clean(self, groups: int | None = None) -> int:
        rules = {
            "min_cleanable_dirty_ratio": 0,
            "min_compaction_lag_ms": self.chance.choice([0, 0, 0, 1000]),
            "delete_retention_ms": self.delete_retention_ms,
        }
        return clean(
            self.log, self.clean_up_to, now_ms=self.now_ms, rules=rules,
            buffer_bytes=self.chance.choice(BUFFER_BYTES), groups=groups, disk=self.disk,
        )  # fmt: skip

    def break_off_cleaning(self) -> None:
        """End the cleaning process after some groups. The log goes on."""
        self._clean(groups=self.chance.randint(0, 2))
        swap.tidy(self.log.directory, self.disk)
        self._remove_retired()

    def _remove_retired(self) -> None:
        for segment in self.log.take_retired():
            segment.unlink()

    # -- Stops

    def restart(self) -> None:
        self.log.close()
        self.point = self.log.recovery_point
        self.log = self._opened(is_clean=True, known=self.log.known())

    def crash(self) -> None:
        """Kill the process, perhaps in the middle of a cleaning."""
        self._stop_inside_cleaning()
        self.disk.kill()
        self._forget_checkpoint()
        end = self.log.log_end_offset
        self.log = self._opened(is_clean=False)
        assert (self.log.recovery.cuts, self.log.log_end_offset) == ([], end)

    def lose_power(self) -> None:
        """Cut the power: anything that no fsync has covered may be lost."""
        self._stop_inside_cleaning()
        self.disk.lose(self.chance.randrange(2**32))
        self._forget_checkpoint()
        flushed = self.point
        self.log = self._opened(is_clean=False)
        assert self.log.log_end_offset >= flushed, "a power cut took what was flushed"
        self._cut(self.log.log_end_offset)

    def _stop_inside_cleaning(self) -> None:
        if self.chance.random() < 0.7:
            self.disk.stop_after(int(2 ** self.chance.uniform(0, 11)))
            try:
                self.clean_up_to = self._clean()
                self.unique_up_to = max(self.unique_up_to, self.clean_up_to)
            except PowerCut:
                pass

    def _forget_checkpoint(self) -> None:
        """Take the cleaner's checkpoint away or put back an old one. That may only cost the cleaner work."""
        if self.clean_up_to is not None and self.chance.random() < 0.2:
            self.clean_up_to = self.chance.choice([None, self.chance.randint(0, self.clean_up_to)])

    def _cut(self, end: int) -> None:
        """Remove from the list the records that the log has lost."""
        self.written = [each for each in self.written if each.offset < end]
        self.transactions = [each for each in self.transactions if each.first_offset < end]
        for each in self.transactions:
            if each.marker is not None and each.marker >= end:
                each.marker, each.is_committed = None, False
        self.open = {each.producer_id: each for each in self.transactions if each.marker is None}
        for number, producer in self.producers.items():
            state = self.log.producers.get(number)
            producer.epoch, producer.sequence = (state.epoch, state.last_sequence + 1) if state else (producer.epoch, 0)
        self.point = min(self.point, end)
        self.unique_up_to = min(self.unique_up_to, end)
        # It may have read records that are open or gone now.
        self.reader = None

    def _opened(self, *, is_clean: bool, known: KnownLog | None = None) -> Log:
        return Log.open(
            self.directory, self.config, clean=is_clean, now_ms=self.now_ms, recovery_point=self.point,
            log_start_offset=self.start, known=known, disk=self.disk,
        )  # fmt: skip

    # -- Reading

    @property
    def stable_offset(self) -> int:
        """Return the last stable offset, from the list."""
        return min((each.first_offset for each in self.open.values()), default=self.log.log_end_offset)

    def visible(self, from_offset: int) -> list[Written]:
        """Return the records that a read_committed reader of the list gets."""
        up_to = self.stable_offset
        return [each for each in self.written if each.is_visible and from_offset <= each.offset < up_to]

    def fetch(self, offset: int, up_to: int, max_bytes: int) -> tuple[list[Written], int]:
        """Return the records of one fetch, by the rules of Kafka's consumer, and the offset of the next fetch."""
        fetched = self.log.read(offset, max_bytes, up_to)
        aborted = self.log.aborted_transactions(offset, fetched, up_to)
        left_out: set[int] = set()
        found: list[Written] = []
        position = up_to
        for at, header in iter_headers(data := fetched.read()):
            while aborted and aborted[0].first_offset <= header.last_offset:
                left_out.add(aborted.pop(0).producer_id)
            records = decode_batch(data, at, header)
            position = header.next_offset
            if header.is_control:
                if records and read_marker(records[0]).type is ControlType.ABORT:
                    left_out.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in left_out):
                found += [Written(r.offset, r.key or b"", r.value, None) for r in records if r.offset >= offset]
        return found, position

    def read_from(self, offset: int) -> list[Written]:
        """Read all committed records from `offset` on."""
        up_to, found = self.stable_offset, list[Written]()
        max_bytes = self.chance.choice([1, 300, 10_000])
        while offset < up_to:
            records, offset = self.fetch(offset, up_to, max_bytes)
            found += records
        return found

    def read_on(self) -> None:
        """Let the reader do some fetches, or all."""
        self._read_on(self.chance.choice([1, 4, 12, 1000]))

    def _read_on(self, fetches: int) -> None:
        reader = self.reader
        if reader is None or self.now_ms - reader.since_ms >= self.delete_retention_ms:
            # One that has lagged for so long has no claim to every tombstone.
            reader = self.reader = Reader(self.start, self.start, self.now_ms)
        for _ in range(fetches):
            if reader.position >= self.stable_offset:
                break
            found, reader.position = self.fetch(reader.position, self.stable_offset, 1)
            reader.state.update({each.key: each.value for each in found})
        if reader.position >= self.stable_offset:
            known = {key: value for key, value in reader.state.items() if value is not None}
            assert known == values_of(self.visible(reader.start)), "a reader in time has missed a tombstone"
            reader.since_ms = self.now_ms

    # -- Comparing

    def check(self) -> None:
        undecided = self.log.producers.first_undecided_offset(self.log.log_end_offset)
        assert (self.log.log_end_offset if undecided is None else undecided) == self.stable_offset
        for offset in {self.start, self.chance.randint(self.start, self.log.log_end_offset)}:
            found = self.read_from(offset)
            visible = {each.offset: (each.key, each.value) for each in self.visible(offset)}
            offsets = [each.offset for each in found]
            assert offsets == sorted(set(offsets)), "records come twice, or out of order"
            assert all(visible.get(each.offset) == (each.key, each.value) for each in found), "a foreign record"
            assert values_of(found) == values_of(self.visible(offset)), f"other values from offset {offset} on"
        self._check_cleaned()
        self._check_transaction_indexes()

    def _check_cleaned(self) -> None:
        """Check that no key comes twice below the end of a cleaning."""
        keys: set[bytes | None] = set()
        for header, data in self.log.iter_batches(self.start):
            if header.is_control:
                continue
            for record in decode_batch(data, 0, header):
                if self.start <= record.offset < self.unique_up_to:
                    assert record.key not in keys, f"key {record.key!r} comes twice below {self.unique_up_to}"
                    keys.add(record.key)

    def _check_transaction_indexes(self) -> None:
        aborted = {(each.producer_id, each.marker) for each in self.transactions if not each.is_committed}
        segments = self.log.segments
        ends = [each.base_offset for each in segments[1:]] + [self.log.log_end_offset]
        for segment, end in zip(segments, ends, strict=True):
            markers = [each.last_offset for each in segment.aborted.entries()]
            assert markers == sorted(set(markers)), "an aborted transaction comes twice"
            assert all(segment.base_offset <= each < end for each in markers), "an entry of another segment's marker"
            assert {(each.producer_id, each.last_offset) for each in segment.aborted.entries()} <= aborted

    # -- The end

    def finish(self) -> None:
        """End open transactions, and clean until nothing more can be removed."""
        for producer_id in list(self.open):
            self._end(producer_id, is_commit=self.chance.random() < 0.5)
        self.reader = None
        rules = {
            "min_cleanable_dirty_ratio": 0,
            "min_compaction_lag_ms": 0,
            "delete_retention_ms": self.delete_retention_ms,
        }
        for _ in range(LAST_CLEANINGS):
            self.put_filler()
            self.roll()
            self.clean_up_to = clean(self.log, self.clean_up_to, now_ms=self.now_ms, rules=rules, disk=self.disk)
            self._remove_retired()
            self.unique_up_to = max(self.unique_up_to, self.clean_up_to)
            self.now_ms += self.delete_retention_ms + 1
            self.check()
        left = [(each.offset, each.key, each.value) for each in self.read_from(self.start)]
        last = {each.key: each for each in self.visible(self.start)}.values()
        assert left == sorted((each.offset, each.key, each.value) for each in last if each.value is not None)
        assert self._has_empty_batches() or not any(len(each.aborted) for each in self.log.segments)
        self._check_recovery()

    def _check_recovery(self) -> None:
        """Check that a start without a recovery point cuts nothing, and knows the same producers."""
        known = {number: (each.epoch, each.last_sequence) for number, each in self.log.producers.items()}
        end, self.point = self.log.log_end_offset, 0
        self.log.close()
        for path in self.directory.glob("*.snapshot"):
            path.unlink()
        self.disk.kill()
        self.log = self._opened(is_clean=False)
        assert (self.log.recovery.cuts, self.log.log_end_offset) == ([], end)
        if not self.start:
            assert {number: (each.epoch, each.last_sequence) for number, each in self.log.producers.items()} == known

    def put_filler(self) -> None:
        """Write a record, so that the cleaner has work."""
        offset = self.log.log_end_offset
        data = encode_batch([Record(-1, self.now_ms, b"filler", b"x")], base_offset=offset)
        self.log.append(data, read_header(data), self.now_ms)
        self.written.append(Written(offset, b"filler", b"x", None))

    def _has_empty_batches(self) -> bool:
        """Return whether a producer's last batch keeps the marker of its transaction."""
        return any(
            not header.record_count and header.is_transactional for header, _ in self.log.iter_batches(self.start)
        )


def values_of(records: list[Written]) -> dict[bytes, bytes]:
    """Return the values that a reader has at the end. A tombstone counts as no record."""
    state = {each.key: each.value for each in records}
    return {key: value for key, value in state.items() if value is not None}


def run(directory: Path, seed: int) -> None:
    """Run the history of a seed. Raises AssertionError if the log differs from the list."""
    History(directory, seed).run()
