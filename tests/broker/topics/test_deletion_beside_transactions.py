"""What is deleted under an open transaction: the log may begin behind its first record, readers hear of it.

DeleteRecords goes as far as it is asked to, the last stable offset with it (Kafka's stays at the batch before, below
the log's start, until the transaction ends). Retention waits for the transaction.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.tests.broker.background.test_retention import settled, start_of
from odradek.tests.broker.topics.test_transactional_partition import values
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.histories.transactional import Transactional

READ_COMMITTED = 1
START_MS = 1_700_000_000_000
CHECK_MS = 1000
EARLIEST, LATEST, EARLIEST_LOCAL = -2, -1, -4


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START_MS)


@pytest.fixture
def config(config: BrokerConfig) -> BrokerConfig:
    return replace(config, log_retention_check_interval_ms=CHECK_MS, transaction_state_log_num_partitions=1)


@pytest.fixture
async def broker(config: BrokerConfig, clock: FakeClock) -> AsyncIterator[Broker]:
    async with Broker(config, clock=clock) as each:
        yield each


async def delete(raw: Raw, offset: int) -> int:
    """Where the partition begins then."""
    result = await raw.delete_records("t", offset)
    assert result.error_code == 0
    return result.low_watermark


async def offset_of(raw: Raw, timestamp: int) -> int:
    """What ListOffsets says to a reader of what is committed."""
    wanted = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])
    request = ListOffsetsRequest(-1, READ_COMMITTED, [wanted])
    return (await raw.ask(ApiKey.LIST_OFFSETS, 8, request)).topics[0].partitions[0].offset


async def seen(raw: Raw, offset: int) -> tuple[int, int, int, list[int], list[bytes | None]]:
    """Log start, last stable offset, high watermark, where the aborted transactions began, and the values."""
    answer = await raw.fetch("t", offset, isolation_level=READ_COMMITTED)
    assert answer.error_code == 0
    begun = [each.first_offset for each in answer.aborted_transactions]
    return answer.log_start_offset, answer.last_stable_offset, answer.high_watermark, begun, values(answer.records)


async def two_open(raw: Raw, producer: Transactional, other: Transactional, **configs: str) -> None:
    """plain 0 | of a 1-3 | plain 4, 5 | of b 6 | plain 7."""
    await raw.create_topic("t", **configs)
    await raw.produce("t", batch_of(b"p0"))
    await producer.send("t", b"a1", b"a2", b"a3")
    await raw.produce("t", batch_of(b"p4", b"p5"))
    await other.send("t", b"b6")
    await raw.produce("t", batch_of(b"p7"))


@pytest.mark.parametrize("configs", [{}, {"internal_segment_bytes": "100", "file_delete_delay_ms": "0"}])
async def test_the_last_stable_offset_follows_where_the_log_begins(
    raw: Raw, producer: Transactional, other: Transactional, configs: dict[str, str]
) -> None:
    await two_open(raw, producer, other, **configs)
    assert await seen(raw, 0) == (0, 1, 8, [], [b"p0"])
    # Into the first transaction, then past its records: it is open all the same.
    for offset in (2, 5):
        assert await delete(raw, offset) == offset
        assert await seen(raw, offset) == (offset, offset, 8, [], [])
        assert [await offset_of(raw, asked) for asked in (EARLIEST, EARLIEST_LOCAL, LATEST)] == [offset] * 3
    assert await producer.end(commit=False) == 0
    # It had nothing behind the start but its marker, and readers up to there are told of it still.
    assert await seen(raw, 5) == (5, 6, 9, [1], [b"p4", b"p5"])
    assert await delete(raw, 7) == 7
    assert await seen(raw, 7) == (7, 7, 9, [], [])
    await other.send("t", b"b9")
    assert await seen(raw, 7) == (7, 7, 10, [], [])
    assert await other.end(commit=True) == 0
    start, stable, end, _, read = await seen(raw, 7)
    assert (start, stable, end) == (7, 11, 11)
    assert read[:1] == [b"p7"]
    assert (await seen(raw, 9))[4] == [b"b9"]


async def test_what_was_aborted_is_left_out_wherever_the_log_begins(
    raw: Raw, producer: Transactional, other: Transactional
) -> None:
    await two_open(raw, producer, other)
    await delete(raw, 2)
    await producer.end(commit=False)
    await other.end(commit=True)
    # The batch that holds offset 2 begins before it: who reads it must know that its transaction was aborted.
    assert await seen(raw, 2) == (2, 10, 10, [1], [b"a1", b"a2", b"a3", b"p4", b"p5", b"b6", b"p7"])
    await delete(raw, 9)
    assert await seen(raw, 9) == (9, 10, 10, [], [])


async def test_a_transaction_can_end_after_its_records_were_deleted(
    raw: Raw, producer: Transactional, other: Transactional
) -> None:
    await two_open(raw, producer, other)
    assert await delete(raw, -1) == 8
    assert await seen(raw, 8) == (8, 8, 8, [], [])
    await raw.produce("t", batch_of(b"p8"))
    # What follows an open transaction is not decided either, though none of its records is left.
    assert await seen(raw, 8) == (8, 8, 9, [], [])
    await producer.end(commit=True)
    await other.end(commit=False)
    assert (await seen(raw, 8))[1:] == (11, 11, [6], [b"p8"])


@pytest.mark.parametrize("offset", [2, 3, 4, 5])
@pytest.mark.parametrize("how", ["stopped", "crashed"])
async def test_open_transactions_survive_a_restart(
    config: BrokerConfig, tmp_path: Path, how: str, offset: int, raw: Raw, broker: Broker, clock: FakeClock
) -> None:
    producer, other = Transactional(raw, "a"), Transactional(raw, "b")
    await producer.begin()
    await other.begin()
    await two_open(raw, producer, other)
    await delete(raw, offset)
    if how == "stopped":
        await broker.stop()
    copy = tmp_path / "copy"
    shutil.copytree(Path(config.data_dir), copy, ignore=shutil.ignore_patterns(".lock", "*.tmp"))
    async with AsyncExitStack() as stack:
        again = await stack.enter_async_context(Broker(replace(config, log_dirs=(str(copy),)), clock=clock))
        producer.raw = other.raw = new = await stack.enter_async_context(await Raw.connect(again.address))
        # What a crash leaves of a transaction is what its records tell: where none is left, nobody waits for its end.
        is_known = how == "stopped" or offset <= 3
        assert (await seen(new, offset))[:3] == (offset, offset if is_known else 6, 8)
        assert await producer.end(commit=False) == 0
        assert (await seen(new, offset))[:4] == (offset, 6, 9, [1] if is_known else [])
        assert await other.end(commit=True) == 0
        assert (await seen(new, 6))[1:] == (10, 10, [1] if is_known else [], [b"b6", b"p7"])


# Retention.


async def checked(broker: Broker, clock: FakeClock) -> int:
    """Lets a check happen to its end; where the log begins then."""
    clock.advance(CHECK_MS)
    await settled(broker)
    return start_of(broker)


@pytest.mark.parametrize("retention", [{"retention_ms": "0"}, {"retention_bytes": "0"}])
@pytest.mark.parametrize("commit", [True, False])
async def test_retention_waits_for_an_open_transaction(
    broker: Broker, raw: Raw, producer: Transactional, clock: FakeClock, retention: dict[str, str], commit: bool
) -> None:
    await raw.create_topic("t", internal_segment_bytes="100", **retention)
    for number in range(5):
        await raw.produce("t", batch_of(b"%d" % number, timestamp_ms=START_MS - 1000))
    await producer.send("t", b"open", timestamp_ms=START_MS - 1000)
    for number in range(5):
        await raw.produce("t", batch_of(b"%d" % number, timestamp_ms=START_MS - 1000))
    assert await checked(broker, clock) == 5
    assert await checked(broker, clock) == 5
    await producer.end(commit=commit)
    clock.advance(CHECK_MS)
    assert await checked(broker, clock) == 12
