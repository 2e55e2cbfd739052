"""A power cut takes records of the transaction coordinator, but leaves the batches of the transactions they tell of."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.clock import Clock
from odradek.broker.coordination.transactions.records import decode_record
from odradek.broker.coordination.transactions.states import TransactionState
from odradek.broker.topics.partition import Partition
from odradek.protocol.records import batch
from odradek.storage import checkpoints
from odradek.tests.adversity.test_transaction_crashes import (
    ALL,
    BEFORE,
    OldWriter,
    Seen,
    Writer,
    at_rest,
    config_of,
    goes_on,
    see,
)
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.disks.ruled_disk import FullDisk, RuledDisk
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until

STATE_LOG = Path("__transaction_state-0", f"{0:020}.log")


def forget_from(path: Path, state: TransactionState, number: int) -> None:
    """Cut the log of the coordinator off before the record of this state that has this number."""
    content, met = path.read_bytes(), 0
    for position, _ in batch.iter_headers(content):
        found = [decode_record(each.key or b"", each.value) for each in batch.decode_batch(content, position)]
        if any(each and each.standing and each.standing.state is state for each in found):
            met += 1
            if met == number:
                path.write_bytes(content[:position])
                return
    raise AssertionError(f"there are no {number} records of {state}")


def forget_completion(path: Path, number: int = 1) -> None:
    forget_from(path, TransactionState.COMPLETE_COMMIT, number)


@asynccontextmanager
async def life(
    folder: Path, kind: type[Writer] = OldWriter, clock: Clock | None = None
) -> AsyncIterator[tuple[Broker, Writer]]:
    """Run a broker with a writer to topic t; `cut` has what is on its disk at the end, when it still runs."""
    async with (
        Broker(config_of(folder / "whole", ""), clock=clock) as broker,
        await Raw.connect(broker.address) as raw,
    ):
        assert (await raw.create_topic("t", 2)).error_code == 0
        writer = kind(raw)
        await writer.begin()
        yield broker, writer
        shutil.copytree(folder / "whole", folder / "cut", ignore=shutil.ignore_patterns("*.tmp"))


async def committed(writer: Writer, *values: bytes, number: int = 1) -> None:
    await writer.take(writer.steps(*values, number, "commit"))
    await at_rest(writer.raw)


async def seen_after(folder: Path) -> Seen:
    """Return what a reader sees of what was cut."""
    async with Broker(config_of(folder / "cut", "")) as broker, await Raw.connect(broker.address) as raw:
        await at_rest(raw)
        return await see(raw)


def forget_markers(folder: Path) -> None:
    """Cut each log off before its last batch, which is a marker."""
    for index in (0, 1):
        path = max((folder / "cut" / f"t-{index}").glob("*.log"))
        content = path.read_bytes()
        *_, (position, header) = batch.iter_headers(content)
        assert header.is_control
        path.write_bytes(content[:position])


@pytest.mark.parametrize("kind", [Writer, OldWriter], ids=["version 2", "version 1"])
async def test_the_next_transaction_is_not_committed_with_the_one_before(tmp_path: Path, kind: type[Writer]) -> None:
    async with life(tmp_path, kind) as (_, writer):
        await committed(writer, b"before", b"before")
        await writer.take(writer.steps(b"a", b"b", 2, "commit")[:-1])
    forget_completion(tmp_path / "cut" / STATE_LOG)
    async with Broker(config_of(tmp_path / "cut", "")) as broker, await Raw.connect(broker.address) as raw:
        await at_rest(raw)
        assert await see(raw) == BEFORE
        writer = kind(raw)
        await writer.begin()
        await goes_on(writer, BEFORE)


def forget_all(path: Path) -> None:
    """Cut off all that the coordinator has written."""
    path.write_bytes(b"")


@pytest.mark.parametrize("forget", [forget_completion, forget_all])
@pytest.mark.parametrize("kind", [Writer, OldWriter], ids=["version 2", "version 1"])
async def test_a_transaction_that_the_coordinator_has_lost_holds_no_reader_back(
    tmp_path: Path, kind: type[Writer], forget: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The one before had nothing in partition 1, nor an offset of the group, so its markers do not end the next one."""
    async with life(tmp_path, kind) as (_, writer):
        first = writer.steps(b"before", b"", 0, "commit")[: 2 if kind is OldWriter else 1]
        await writer.take([*first, writer.ending("commit")])
        await at_rest(writer.raw)
        await writer.take(writer.steps(b"a", b"b", 2, "commit")[:-1])
    forget(tmp_path / "cut" / STATE_LOG)
    async with Broker(config_of(tmp_path / "cut", "")) as broker, await Raw.connect(broker.address) as raw:
        assert await see(raw) == Seen([b"before"], [], -1)
        assert caplog.text.count("is aborted: the coordinator has lost it") == 3
        old = kind(raw)
        old.remember(writer.told())
        # It cannot add to what is aborted.
        assert await old.write(b"late", 1) != 0
        newer = kind(raw)
        await newer.begin()
        await goes_on(newer, Seen([b"before"], [], -1))


async def test_a_lost_transaction_is_aborted_once_a_full_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.broker.coordination.transactions.lost.RETRY_MS", 1)
    async with life(tmp_path) as (_, writer):
        await writer.take(writer.steps(b"a", b"b", 2, "commit")[:-1])
    forget_all(tmp_path / "cut" / STATE_LOG)
    disk = FullDisk(lambda path: path.parent.name == "t-1")
    async with Broker(config_of(tmp_path / "cut", ""), disk=disk) as broker, await Raw.connect(broker.address) as raw:
        assert (await raw.fetch("t", 0, 1)).last_stable_offset == 0
        disk.free()
        partition = broker.services.topics.partition("t", 1)
        assert partition is not None
        await until(lambda: partition.last_stable_offset == 2)
        assert await see(raw) == Seen([], [], -1)


async def test_no_open_transaction_is_aborted_that_the_coordinator_knows(tmp_path: Path) -> None:
    async with life(tmp_path) as (_, writer):
        await writer.take(writer.steps(b"a", b"b", 1, "commit")[:-1])
    async with Broker(config_of(tmp_path / "cut", "")) as broker, await Raw.connect(broker.address) as raw:
        assert await see(raw) == Seen([], [], None)
        same = OldWriter(raw)
        same.remember(writer.told())
        assert await same.end(commit=True) == 0
        await at_rest(raw)
        assert await see(raw) == Seen([b"a"], [b"b"], 1)


@pytest.mark.parametrize("kind", [Writer, OldWriter], ids=["version 2", "version 1"])
async def test_no_owner_gets_an_epoch_that_a_lost_one_has_written_with(tmp_path: Path, kind: type[Writer]) -> None:
    """Its records would pass for repeated ones in version 1, and be refused in version 2."""
    async with life(tmp_path, kind) as (_, writer):
        await committed(writer, b"before", b"before")
        await writer.again()
        await committed(writer, b"a", b"b", number=2)
    forget_from(tmp_path / "cut" / STATE_LOG, TransactionState.EMPTY, 2)
    async with Broker(config_of(tmp_path / "cut", "")) as broker, await Raw.connect(broker.address) as raw:
        newer = kind(raw)
        await newer.begin()
        await goes_on(newer, ALL)


@pytest.mark.parametrize("requires", [True, False])
async def test_what_a_kill_left_in_the_page_cache_is_on_disk_before_an_answer_relies_on_it(
    tmp_path: Path, requires: bool
) -> None:
    """Otherwise a repeated AddPartitionsToTxn changes nothing, and the batches are on disk before the transaction."""
    async with life(tmp_path) as (_, writer):
        if requires:
            assert (await writer.raw.create_topic("u", flush_messages="1")).error_code == 0
        await writer.take(writer.steps(b"a", b"b", 1, "commit")[:1])
    forced: set[Path] = set()
    disk = RuledDisk(lambda operation, path: operation == "fsync" and forced.add(path))
    async with Broker(config_of(tmp_path / "cut", ""), disk=disk):
        assert (tmp_path / "cut" / STATE_LOG in forced) is requires


async def test_what_the_decision_means_is_committed_where_its_marker_is_lost_too(tmp_path: Path) -> None:
    """In version 1 the epoch does not tell one transaction from the next: the time of the marker before does."""
    async with life(tmp_path) as (_, writer):
        for number in (1, 2):
            await committed(writer, b"before", b"before", number=number)
    forget_completion(tmp_path / "cut" / STATE_LOG, number=2)
    forget_markers(tmp_path)
    assert await seen_after(tmp_path) == Seen([b"before"] * 2, [b"before"] * 2, 2)


async def test_a_commit_survives_a_clock_that_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The marker of the transaction before has a later time than the decision that is found."""
    clock, append_marker = FakeClock(), Partition.append_marker

    def append_ahead(*given: Any) -> Any:
        clock.advance(3_600_000)
        try:
            return append_marker(*given)
        finally:
            clock.advance(-3_600_000)

    monkeypatch.setattr(Partition, "append_marker", append_ahead)
    async with life(tmp_path, clock=clock) as (_, writer):
        await committed(writer, b"before", b"before")
        await committed(writer, b"a", b"b", number=2)
    forget_completion(tmp_path / "cut" / STATE_LOG, number=2)
    forget_markers(tmp_path)
    assert await seen_after(tmp_path) == ALL


async def test_a_snapshot_of_the_producers_keeps_the_marker(tmp_path: Path) -> None:
    """A segment begins between the marker and the next transaction: a start reads no batch before it."""
    async with life(tmp_path) as (broker, writer):
        await committed(writer, b"before", b"before")
        for index in (0, 1):
            partition = broker.services.topics.partition("t", index)
            assert partition is not None
            partition.log.roll(broker.clock.now_ms())
            await broker.services.flusher.flush(partition)
        await writer.take(writer.steps(b"a", b"b", 2, "commit")[:-1])
    points = {("t", index): 2 for index in (0, 1)}
    checkpoints.write_offsets(tmp_path / "cut" / checkpoints.RECOVERY_POINT, points)
    forget_completion(tmp_path / "cut" / STATE_LOG)
    assert await seen_after(tmp_path) == BEFORE
