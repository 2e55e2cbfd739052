"""Crashes at each write of a transaction: after the next start all of the transaction is there, or nothing.

A producer writes to two partitions, commits a group's offset in the same transaction, and ends it. The test copies
the disk before every step and in the middle of each write: records of the coordinator, data, markers, indexes and
checkpoints. Each copy gets a broker of its own.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import uvloop
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.records import batch
from odradek.protocol.records.control import ControlType, control_type
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.disks.crash_points import CrashPoints, Point
from odradek.tests.support.histories.transactional import Transactional
from odradek.tests.support.seeds import IS_SOAK

READ_COMMITTED = 1
# An fsync on a busy machine may take its time.
PATIENCE_S = 20
NOT_YET = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


Step = Callable[[], Awaitable[int]]


class Seen(NamedTuple):
    """What a reader of committed data sees: both partitions, and the group's offset (None: undecided)."""

    first: list[bytes | None]
    second: list[bytes | None]
    offset: int | None


BEFORE = Seen([b"before"], [b"before"], 1)
ALL = Seen([b"before", b"a"], [b"before", b"b"], 2)


class Told(NamedTuple):
    """What a producer knows: its id, epoch and sequences, and how many steps of the transaction got a response."""

    producer_id: int
    epoch: int
    sequences: dict[tuple[str, int], int]
    steps: int


class Writer(Transactional):
    """Takes the steps of a transaction. Each may be repeated, as a client does that got no response."""

    version = 2

    def __init__(self, raw: Raw) -> None:
        super().__init__(raw, "tx")
        self.taken = 0

    def told(self) -> Told:
        return Told(self.producer_id, self.epoch, dict(self.sequences), self.taken)

    def remember(self, told: Told) -> None:
        self.producer_id, self.epoch, self.sequences, self.taken = copy.deepcopy(told)

    async def take(self, steps: list[Step], start: int = 0) -> None:
        self.taken = start
        for step in steps[start:]:
            await patiently(step)
            self.taken += 1

    def steps(self, first: bytes, second: bytes, offset: int, ending: str) -> list[Step]:
        """Return the steps of a transaction: records of each partition, the group's offset, and the end."""
        return [
            lambda: self.write(first, 0),
            lambda: self.write(second, 1),
            lambda: self.commit(offset),
            self.ending(ending),
        ]

    def ending(self, how: str) -> Step:
        if how == "taken over":
            return self.again
        return lambda: self.end(commit=how == "commit")

    async def write(self, value: bytes, partition: int) -> int:
        return (await self.send("t", value, partition=partition)).error_code

    async def commit(self, offset: int) -> int:
        return await self.commit_offset("g", "t", offset)

    async def again(self) -> int:
        """Initialize another producer with the same transactional id."""
        await self.begin()
        return 0


class OldWriter(Writer):
    """Speaks transactions version 1, in which each partition is added by itself and the epoch stays."""

    version = 1

    def steps(self, first: bytes, second: bytes, offset: int, ending: str) -> list[Step]:
        write_first, write_second, commit, end = super().steps(first, second, offset, ending)
        return [lambda: self.add(0), write_first, lambda: self.add(1), write_second, self.add_group, commit, end]

    async def add(self, partition: int) -> int:
        topics = [AddPartitionsToTxnTopic("t", [partition])]
        who = "tx", self.producer_id, self.epoch
        answer = await self.raw.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, AddPartitionsToTxnRequest([], *who, topics))
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    async def add_group(self) -> int:
        request = AddOffsetsToTxnRequest("tx", self.producer_id, self.epoch, "g")
        return (await self.raw.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, request)).error_code

    async def write(self, value: bytes, partition: int) -> int:
        return (await self.send("t", value, partition=partition, version=11)).error_code

    async def commit(self, offset: int) -> int:
        return await self.commit_offset("g", "t", offset, version=3)

    async def end(self, *, commit: bool) -> int:
        request = EndTxnRequest("tx", self.producer_id, self.epoch, commit)
        return (await self.raw.ask(ApiKey.END_TXN, 4, request)).error_code


async def patiently(ask: Step) -> None:
    """Repeat a request until it succeeds. Fail on an error that is not retriable."""
    async with asyncio.timeout(PATIENCE_S):
        while (error := await ask()) in NOT_YET:
            await asyncio.sleep(0.002)  # leaves the processor to the thread that is waited for
    assert error == 0, ErrorCode(error)


async def see(raw: Raw) -> Seen:
    return Seen(await committed(raw, 0), await committed(raw, 1), await group_offset(raw))


async def committed(raw: Raw, partition: int) -> list[bytes | None]:
    """Return the values that a read_committed consumer gets."""
    values: list[bytes | None] = []
    offset = 0
    while True:
        answer = await raw.fetch("t", offset, partition, isolation_level=READ_COMMITTED)
        assert answer.error_code == 0
        if offset == answer.last_stable_offset:
            return values
        data = bytes(answer.records)
        begun = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions)
        aborted: set[int] = set()
        for position, header in batch.iter_headers(data):
            while begun and begun[0][0] <= header.base_offset:
                aborted.add(begun.pop(0)[1])
            records = batch.decode_batch(data, position)
            if header.is_control:
                if control_type(records[0]) is ControlType.ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                values += [record.value for record in records]
            offset = header.base_offset + header.last_offset_delta + 1


async def group_offset(raw: Raw) -> int | None:
    asked = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])
    request = OffsetFetchRequest(groups=[asked], require_stable=True)
    place = (await raw.ask(ApiKey.OFFSET_FETCH, 8, request)).groups[0].topics[0].partitions[0]
    assert place.error_code in (0, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return place.committed_offset if place.error_code == 0 else None


# What every append, or every append to the topic, is forced to disk by; only then the tests cut the power.
EVERYWHERE, ONE_TOPIC = "broker's config", "topic's config"


def config_of(directory: Path, power: str) -> BrokerConfig:
    return BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(directory),),
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
        log_flush_interval_messages=1 if power == EVERYWHERE else 2**63 - 1,
    )


async def film(directory: Path, kind: type[Writer], ending: str, power: str) -> list[Point[Told]]:
    """Return every crash point of one transaction that follows a committed one."""
    disk: CrashPoints[Told] = CrashPoints(directory, power=bool(power))
    async with Broker(config_of(directory, power), disk=disk) as broker, await Raw.connect(broker.address) as raw:
        configs = {"flush_messages": "1"} if power == ONE_TOPIC else {}
        assert (await raw.create_topic("t", 2, **configs)).error_code == 0
        writer = kind(raw)
        await writer.begin()
        await writer.take(writer.steps(b"before", b"before", 1, "commit"))
        await at_rest(raw)
        assert await see(raw) == BEFORE
        writer.taken = 0
        disk.watch(writer.told)
        await writer.take(writer.steps(b"a", b"b", 2, ending))
        await at_rest(raw)
        return disk.end()


async def at_rest(raw: Raw) -> None:
    """Return when the decision is carried out: the last marker and the record of the end are on disk."""

    async def look() -> int:
        answer = await raw.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(["tx"]))
        state = answer.transaction_states[0].transaction_state
        return ErrorCode.CONCURRENT_TRANSACTIONS if state.startswith("Prepare") else 0

    await patiently(look)


def check_outcome(seen: Seen, told: Told, steps: int, ending: str) -> Seen:
    """Check all or nothing, and the promises; return what a reader must see from then on."""
    outcome = ALL if seen == ALL else BEFORE
    assert seen in (outcome, outcome._replace(offset=None))
    if ending != "commit" or told.steps < steps - 1:
        assert outcome is BEFORE
    elif told.steps == steps:
        assert seen == ALL
    return outcome


async def goes_on(writer: Writer, outcome: Seen) -> None:
    """Write another transaction, and check that it is read after the records before it."""
    await writer.take(writer.steps(b"next", b"next", 3, "commit"))
    await at_rest(writer.raw)
    assert await see(writer.raw) == Seen([*outcome.first, b"next"], [*outcome.second, b"next"], 3)


async def newcomer(raw: Raw, kind: type[Writer], point: Point[Told], ending: str) -> None:
    """Check that a new producer with the transactional id changes nothing that was seen before."""
    writer = kind(raw)
    steps = writer.steps(b"a", b"b", 2, ending)
    await at_rest(raw)
    outcome = check_outcome(await see(raw), point.noted, len(steps), ending)
    await writer.begin()
    assert await see(raw) == outcome
    await goes_on(writer, outcome)


async def same(raw: Raw, kind: type[Writer], point: Point[Told], ending: str) -> None:
    """Check that the producer repeats what got no response, and goes on: exactly once."""
    writer = kind(raw)
    writer.remember(point.noted)
    steps = writer.steps(b"a", b"b", 2, ending)
    await at_rest(raw)
    check_outcome(await see(raw), point.noted, len(steps), ending)
    await writer.take(steps, point.noted.steps)
    await at_rest(raw)
    outcome = ALL if ending == "commit" else BEFORE
    assert await see(raw) == outcome
    await goes_on(writer, outcome)


STATE, GROUPS = "__transaction_state-0", "__consumer_offsets-0"
MARKERS = [GROUPS, "t-0", "t-1"]
END = [STATE, *MARKERS, STATE]
# A new epoch is written down once the end is reached.
WRITES = {"commit": END, "abort": END, "taken over": [*END, STATE]}


def writes(points: list[Point[Told]]) -> list[str]:
    """Return the partitions that were appended to, in order."""
    ends = [point.path for point in points if point.operation == "write" and point.path is not None]
    halves = [path.parent.name for path in ends if path.suffix == ".log"]
    assert halves[::2] == halves[1::2]
    return halves[::2]


def some(points: list[Point[Told]], every: int) -> list[tuple[int, Point[Told]]]:
    """Return the numbered points; in `make test` one in so many, an odd number: both checks have their turns."""
    return list(enumerate(points))[:: 1 if IS_SOAK else every]


@pytest.mark.parametrize("ending", ["commit", "abort", "taken over"])
@pytest.mark.parametrize("kind", [Writer, OldWriter], ids=["version 2", "version 1"])
def test_a_kill_at_any_step_loses_nothing(tmp_path: Path, kind: type[Writer], ending: str) -> None:
    points = uvloop.run(film(tmp_path / "whole", kind, ending, power=""))
    begin = [STATE, "t-0", STATE, "t-1", STATE, GROUPS]
    assert writes(points) == [*begin, *WRITES[ending]]
    # The older version and the other endings are the same coordinator's.
    for number, point in some(points, 1 if kind is Writer and ending == "commit" else 3):
        how = (newcomer, same)[number % 2]
        uvloop.run(start(point.restore(tmp_path / str(number)), how, kind, point, ending, power=""))


def test_a_power_cut_at_any_step_loses_nothing_if_every_append_is_flushed(tmp_path: Path) -> None:
    points = uvloop.run(film(tmp_path / "whole", Writer, "commit", power=EVERYWHERE))
    assert sum(point.operation == "fsync" for point in points) >= len(END)
    for number, point in some(points, 3):
        how = (newcomer, same)[number % 2]
        uvloop.run(start(point.restore(tmp_path / str(number)), how, Writer, point, "commit", power=EVERYWHERE))


@pytest.mark.parametrize("ending", ["commit", "abort", "taken over"])
@pytest.mark.parametrize("kind", [Writer, OldWriter], ids=["version 2", "version 1"])
def test_a_power_cut_at_any_step_loses_nothing_if_the_topic_asks_for_flushes(
    tmp_path: Path, kind: type[Writer], ending: str
) -> None:
    points = uvloop.run(film(tmp_path / "whole", kind, ending, power=ONE_TOPIC))
    for number, point in some(points, 5 if kind is Writer else 9):
        # The epoch of a producer that has not begun a transaction belongs to no topic yet, so it may be lost.
        how = newcomer if ending == "taken over" else (newcomer, same)[number % 2]
        directory = point.restore(tmp_path / str(number))
        uvloop.run(start(directory, how, kind, point, ending, power=ONE_TOPIC))


async def start(
    directory: Path,
    goes_on: Callable[[Raw, type[Writer], Point[Told], str], Awaitable[None]],
    kind: type[Writer],
    point: Point[Told],
    ending: str,
    *,
    power: str,
) -> None:
    """Start a broker on what the crash left."""
    async with Broker(config_of(directory, power)) as broker, await Raw.connect(broker.address) as raw:
        await goes_on(raw, kind, point, ending)
