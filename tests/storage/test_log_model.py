"""The log against a plain list: whatever is done to it, in whatever order, it holds the batches that the list holds."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from odradek.protocol.records.batch import BatchHeader, decode_batch, read_header
from odradek.storage.errors import DiskError, OffsetOutOfRange
from odradek.storage.known_logs import KnownLog
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.log import Log, LogConfig
from odradek.storage.producers import ProducerStates
from odradek.storage.retention import facts_of, new_start, standard
from odradek.tests.storage.batches import NEVER, batch, cut, find_time, headers_of, read_all, roll
from odradek.tests.support.disks.disk import FaultyDisk
from odradek.tests.support.seeds import examples

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, segment_index_bytes=84, segment_ms=5000)


@dataclass
class Model:
    """What the log should be."""

    batches: list[tuple[BatchHeader, bytes]] = field(default_factory=list[tuple[BatchHeader, bytes]])
    start: int = 0
    flushed: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1][0].next_offset if self.batches else self.start

    def visible(self) -> list[tuple[BatchHeader, bytes]]:
        return [each for each in self.batches if each[0].next_offset > self.start]

    def keep_below(self, offset: int) -> None:
        self.batches = [each for each in self.batches if each[0].next_offset <= offset]


class LogMachine(RuleBasedStateMachine):
    """Rules are what a broker, a full disk, a killed process and a power cut do."""

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.disk = FaultyDisk()
        self.model = Model()
        self.now_ms = 1000
        self.producers = {1: (0, 0), 2: (0, 0)}  # epoch and next sequence
        self.point = 0
        self.log = self.open(clean=False)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory)

    def open(self, *, clean: bool, known: KnownLog | None = None) -> Log:
        self.appended_bytes = 0
        return Log.open(
            self.directory, CONFIG, clean=clean, now_ms=self.now_ms, recovery_point=self.point,
            log_start_offset=self.model.start, known=known, disk=self.disk,
        )  # fmt: skip

    def make(self, records: int, size: int, timestamp: int, producer: int, epoch: int, gap: int) -> bytes:
        sequence = 0
        if producer in self.producers:
            sequence = self.producers[producer][1]
            self.producers[producer] = (0, sequence + records)
        return batch(
            self.log.log_end_offset + gap, records, size=size, timestamp_ms=timestamp, producer_id=producer,
            sequence=sequence, leader_epoch=max(epoch, self.log.epochs.latest, 0),
        )  # fmt: skip

    # -- what is done ------------------------------------------------------------------------------

    @rule(
        records=st.integers(1, 4),
        size=st.integers(0, 120),
        timestamp=st.integers(-1, 3000),
        producer=st.integers(-1, 2),
        epoch=st.integers(0, 3),
        gap=st.sampled_from([0, 0, 0, 0, 7]),
        passed_ms=st.integers(0, 300),
        is_staged=st.booleans(),
    )
    def append(
        self,
        records: int,
        size: int,
        timestamp: int,
        producer: int,
        epoch: int,
        gap: int,
        passed_ms: int,
        is_staged: bool = False,
    ) -> None:
        self.now_ms += passed_ms
        data = self.make(records, size, timestamp, producer or -1, epoch, gap)
        header = read_header(data)
        staged = self.log.stage(0, bytes(12) + data[12:]) if is_staged else None
        self.log.append(data, header, self.now_ms, staged=staged)
        self.appended_bytes += len(data)
        self.model.batches.append((header, data))

    @rule(room=st.integers(0, 400), size=st.integers(0, 200))
    def append_on_a_full_disk(self, room: int, size: int) -> None:
        self.disk.room_bytes = room
        data = self.make(1, size, 1500, -1, 0, 0)
        header = read_header(data)
        try:
            self.log.append(data, header, self.now_ms)
        except DiskError:
            pass
        else:
            self.model.batches.append((header, data))
            self.appended_bytes += len(data)
        finally:
            self.disk.room_bytes = None

    @rule()
    def roll(self) -> None:
        roll(self.log, self.now_ms)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.log.log_end_offset
        self.model.flushed = self.log.recovery_point

    @rule()
    def checkpoint(self) -> None:
        self.point = self.log.checkpoint()

    @rule(back=st.integers(0, 30))
    def truncate(self, back: int) -> None:
        offset = max(self.log.log_end_offset - back, self.model.start)
        cut(self.log, offset)
        if offset < self.model.end:
            self.model.keep_below(offset)
            # A batch that straddles the log's start goes whole, and the start with it.
            self.model.start = min(self.model.start, self.log.log_end_offset)
        self.model.flushed = self.point = min(self.point, self.log.log_end_offset)

    @rule(forward=st.integers(0, 10), segments=st.integers(0, 3))
    def advance_start(self, forward: int, segments: int) -> None:
        offset = min(self.log.log_start_offset + forward, self.log.log_end_offset)
        self.log.advance_log_start(offset, segments)
        self.model.start = offset

    @rule(
        retention_ms=st.integers(-1, 3000),
        retention_bytes=st.sampled_from([-1, 0, 500, 1000, 3000]),
        held=st.integers(0, 20),
    )
    def retain(self, retention_ms: int, retention_bytes: int, held: int) -> None:
        """What retention does: by the list, whole segments go that are old or too many, from the front on."""
        config = replace(CONFIG, retention_ms=retention_ms, retention_bytes=retention_bytes)
        facts = facts_of(self.log, 3500, max(self.log.log_end_offset - held, 0))._replace(config=config)
        start = new_start(standard, facts)
        for segment in facts.deletable:
            inside = [h for h, _ in self.model.batches if segment.base_offset <= h.base_offset < segment.end_offset]
            stamps = [header.max_timestamp for header in inside]
            if stamps and max(stamps) >= 0 and segment.end_offset > self.model.start:
                assert segment.newest_ms == max(stamps)
        if start >= self.log.log_end_offset:
            self.log.begin_anew(self.now_ms)
        else:
            self.log.advance_log_start(start)
        self.model.start = max(self.model.start, start)

    @rule()
    def remove_retired(self) -> None:
        for segment in self.log.take_retired():
            segment.unlink()

    @rule(loses_power=st.booleans())
    def reopen_clean(self, loses_power: bool) -> None:
        """The start is given what the stop knew. After a power cut the files have other times, so it opens them."""
        self.log.close()
        self.point = self.log.recovery_point
        for segment in self.log.take_retired():
            segment.unlink()  # as a stop does
        known = self.log.known()
        if loses_power:
            self.disk.lose(seed=0)
        else:
            self.disk.kill()
        self.log = self.open(clean=True, known=known)
        assert self.log.recovery.clean and self.log.recovery.checked_bytes == 0
        assert self.log.recovery_point == self.log.log_end_offset
        assert self.log.segments[-1].is_resting == (known is not None and not loses_power)
        self.model.flushed = self.log.log_end_offset

    @rule()
    def reopen_after_a_kill(self) -> None:
        self.disk.kill()
        self.log = self.open(clean=False)
        assert self.log.recovery.cuts == []
        self.check_is_whole()

    @rule(seed=st.integers(0, 2**16))
    def reopen_after_a_power_cut(self, seed: int) -> None:
        self.disk.lose(seed)
        self.log = self.open(clean=False)
        end = self.log.log_end_offset
        assert self.model.flushed <= end or not self.model.visible()
        kept = self.kept_batches()
        # A log that lost all up to its start begins there, with nothing.
        self.model.batches = kept if self.log.size_bytes else []
        self.point = min(self.point, end)
        self.producers = {1: (0, 0), 2: (0, 0)}
        for header, _ in kept:
            if header.producer_id in self.producers:
                self.producers[header.producer_id] = (0, header.last_sequence + 1)

    def kept_batches(self) -> list[tuple[BatchHeader, bytes]]:
        """What a power cut left: of each segment the beginning, at least what was flushed. Later segments stay."""
        held = {header.base_offset for header in headers_of(self.log)}
        bases = [segment.base_offset for segment in self.log.segments]
        for (before, _), (after, _) in pairwise(self.model.visible()):
            if before.base_offset not in held:
                assert before.base_offset >= self.model.flushed
                is_next_segment = any(before.base_offset < base <= after.base_offset for base in bases)
                assert after.base_offset not in held or is_next_segment
        return [each for each in self.model.batches if each[0].base_offset in held]

    @rule(torn=st.integers(1, 100), kind=st.sampled_from(["zeros", "batch", "garbage"]))
    def reopen_with_a_torn_tail(self, torn: int, kind: str) -> None:
        self.disk.kill()
        newest = sorted(self.directory.glob("*.log"))[-1]
        half = batch(self.log.log_end_offset, size=100)[:torn]
        tails = {"zeros": bytes(torn), "batch": half, "garbage": b"\xa5" * torn}
        with newest.open("ab") as file:
            file.write(tails[kind])
        self.log = self.open(clean=False)
        self.check_is_whole()

    # -- what must hold ----------------------------------------------------------------------------

    def check_is_whole(self) -> None:
        if self.model.batches:
            assert self.log.log_end_offset == self.model.end

    @invariant()
    def ends_agree(self) -> None:
        assert self.log.log_start_offset == self.model.start
        assert self.log.log_start_offset <= self.log.log_end_offset
        assert self.log.recovery_point <= self.log.log_end_offset
        assert self.log.appended_bytes == self.appended_bytes

    @rule(limit=st.integers(0, 800))
    def everything_is_read(self, limit: int) -> None:
        assert read_all(self.log, limit) == b"".join(data for _, data in self.model.visible())

    @rule(offset=st.integers(-2, 150), limit=st.integers(0, 800), up_to=st.integers(0, 150), minimum_one=st.booleans())
    def read(self, offset: int, limit: int, up_to: int, minimum_one: bool) -> None:
        offset += self.model.start
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, limit, up_to, minimum_one)
            return
        data = self.log.read(offset, limit, up_to, minimum_one).read()
        expected = b"".join(data for header, data in self.model.batches if offset < header.next_offset <= up_to)
        assert expected.startswith(data)
        first = next((data for header, data in self.model.batches if offset < header.next_offset), b"")
        if expected and minimum_one:
            assert len(first) <= len(data) <= max(limit, len(first))
        assert len(data) <= max(limit, len(first))

    @rule(timestamp=st.integers(-1, 3010))
    def find_time(self, timestamp: int) -> None:
        stamps = [
            (record.timestamp_ms, record.offset, header.partition_leader_epoch)
            for header, data in self.model.visible()
            for record in decode_batch(data)
            if record.offset >= self.model.start
        ]
        assert find_time(self.log, timestamp, NEVER) == next((each for each in stamps if each[0] >= timestamp), None)

    @precondition(lambda self: self.model.start == 0)
    @rule()
    def producers_and_epochs_are_those_of_the_batches(self) -> None:
        states, epochs = ProducerStates(), LeaderEpochs(Path("none"))
        for header, _ in self.model.batches:
            states.apply(header)
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        assert self.log.epochs.entries == epochs.entries
        assert _windows(self.log.producers) == _windows(states)


def _windows(states: ProducerStates) -> dict[int, tuple[int, list[tuple[int, int, int]]]]:
    """What idempotence rests on; when a producer was last heard is told by the clock, not by its batches."""
    return {
        producer_id: (
            each.epoch,
            [(batch.last_sequence, batch.last_offset, batch.offset_delta) for batch in each.batches],
        )
        for producer_id, each in states.items()
    }


TestLogAgainstAList = LogMachine.TestCase
TestLogAgainstAList.settings = settings(
    max_examples=examples(36), stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_a_segment_that_lost_its_end_in_a_power_cut_leaves_a_gap() -> None:
    left = {kept_after(seed) for seed in range(40)}
    assert {(0, 4, 5), (5,)} <= left


def kept_after(seed: int) -> tuple[int, ...]:
    """Write two segments, cut the power, and return the base offsets of the batches that are left."""
    machine = LogMachine()
    machine.begin()
    try:
        for records, size in ((4, 115), (1, 0), (2, 1)):
            machine.append(records=records, size=size, timestamp=0, producer=0, epoch=0, gap=0, passed_ms=0)
        assert len(machine.log.segments) == 2
        machine.disk.lose(seed)
        machine.log = machine.open(clean=False)
        return tuple(header.base_offset for header, _ in machine.kept_batches())
    finally:
        machine.teardown()
