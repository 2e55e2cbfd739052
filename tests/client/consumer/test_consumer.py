"""Reading against a broker that fails on the way, with and without a group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from odradek.client import Consumer, ConsumerRecord, KafkaError, OffsetAndMetadata, TopicPartition
from odradek.client.errors import (
    ClientStopped,
    CorruptRecords,
    GroupRequired,
    InvalidOption,
    NoOffsetForPartition,
    NotAssigned,
    OffsetOutOfRange,
)
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.shapes.answers import items_rejection
from odradek.protocol.shapes.table import lists_in
from odradek.tests.support.fakes.fake_cluster import FakeCluster, FakeLog
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call, Step, in_pieces, keep_silent
from odradek.tests.support.waiting import until

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def consumer_for(cluster: FakeCluster, *topics: str, **options: Any) -> Consumer:
    quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "auto_offset_reset": "earliest"}
    return Consumer(*topics, bootstrap_servers=cluster.address, **quick | options)


async def read(consumer: Consumer, count: int, **options: Any) -> list[ConsumerRecord]:
    """The next `count` records, in the order in which they are handed out."""
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(10):
        while len(records) < count:
            for some in (await consumer.getmany(timeout_ms=1000, **options)).values():
                records += some
    return records


def numbers(records: Iterable[ConsumerRecord]) -> list[int]:
    return [int(record.value or b"") for record in records]


def refuse_fetch(code: ErrorCode) -> Step:
    """Answer every partition of a Fetch with an error."""

    async def step(call: Call) -> Any:
        (topics,) = lists_in(call.key, call.version)
        return items_rejection(call.request, call.version, topics, code)

    return step


# -- reading -----------------------------------------------------------------------------------------


async def test_topics_are_read_whole_without_a_group() -> None:
    async with FakeCluster({"t": 2, "u": 1}) as cluster, consumer_for(cluster, "t", "u") as consumer:
        write(cluster.log("t", 0), range(25), 10)
        write(cluster.log("t", 1), range(100, 125), 10)
        write(cluster.log("u"), range(200, 225), 10)
        records = await read(consumer, 75)
        assert sorted(numbers(records)) == [*range(25), *range(100, 125), *range(200, 225)]
        assert consumer.assignment() == {T0, T1, TopicPartition("u", 0)}
        assert records[0] == ("t", 0, 0, 7, 0, None, b"0", ())


async def test_records_come_one_at_a_time_and_the_position_with_them() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t"), range(1200), 10)
        seen: list[int] = []
        async for record in consumer:
            seen.append(record.offset)
            assert await consumer.position(T0) == record.offset + 1
            if record.offset == 1199:
                break
        assert seen == list(range(1200))


async def test_asking_for_many_goes_on_where_asking_for_one_stopped() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t"), range(50), 10)
        async for record in consumer:
            if record.offset == 4:
                break
        assert numbers(await read(consumer, 45)) == list(range(5, 50))


async def test_no_more_than_max_records_are_handed_out() -> None:
    async with FakeCluster({"t": 2}) as cluster, consumer_for(cluster, "t", max_poll_records=7) as consumer:
        write(cluster.log("t", 0), range(20), 10)
        write(cluster.log("t", 1), range(20), 10)
        for limit, options in ((7, {}), (3, {"max_records": 3})):
            batches: dict[TopicPartition, list[ConsumerRecord]] = {}
            while not batches:
                batches = await consumer.getmany(timeout_ms=1000, **options)
            assert 0 < sum(map(len, batches.values())) <= limit
        assert len(await read(consumer, 30)) == 30


async def test_nothing_there_is_an_empty_answer_in_time() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer:
        assert await consumer.getmany(timeout_ms=20) == {}
        assert await consumer.getmany() == {}


async def test_a_loop_without_a_timeout_lets_others_run() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t"), range(3))
        async with asyncio.timeout(10):
            while not (batches := await consumer.getmany()):
                pass
        assert len(batches[T0]) == 3


async def test_new_records_wake_who_waits() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer:
        waiting = asyncio.ensure_future(read(consumer, 1))
        assert await consumer.position(T0) == 0
        write(cluster.log("t"), [5])
        assert numbers(await waiting) == [5]


async def test_all_partitions_have_their_turn() -> None:
    async with FakeCluster({"t": 2}) as cluster:
        for partition in (0, 1):
            write(cluster.log("t", partition), range(1000), 10)
        # Each fetch brings one batch of ten, so a busy partition comes back while the other waits.
        async with consumer_for(cluster, "t", max_partition_fetch_bytes=1) as consumer:
            records = await read(consumer, 200, max_records=10)
        assert min(sum(record.partition == p for record in records) for p in (0, 1)) > 50


async def test_what_is_fetched_ahead_is_bounded(cluster: FakeCluster) -> None:
    write(cluster.log("t"), range(5000), 10)
    size = len(cluster.log("t").batches[0])
    async with consumer_for(cluster, "t", max_partition_fetch_bytes=4 * size) as consumer:
        await read(consumer, 1, max_records=1)
        await consumer.getmany(timeout_ms=50, max_records=1)
        fetched = len(cluster.calls(ApiKey.FETCH))
        assert fetched <= 3, "the user has taken two records: two pieces ahead are enough"
        assert len(await read(consumer, 4998)) == 4998


async def test_a_partition_that_appears_later_is_read_from_its_beginning(cluster: FakeCluster) -> None:
    async with consumer_for(cluster, "t", auto_offset_reset="latest", metadata_max_age_ms=20) as consumer:
        assert await consumer.position(T0) == 0
        log = FakeLog(1)
        write(log, [1, 2])
        cluster.topics["t"].append(log)
        assert numbers(await read(consumer, 2)) == [1, 2]


async def test_a_topic_that_is_out_of_sight_for_a_while_keeps_its_positions() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t", metadata_max_age_ms=10) as consumer:
        write(cluster.log("t"), range(10))
        assert len(await read(consumer, 10)) == 10
        hidden = cluster.topics.pop("t")
        asked = len(cluster.calls(ApiKey.METADATA))
        while len(cluster.calls(ApiKey.METADATA)) < asked + 3:
            await consumer.getmany(timeout_ms=5)
        cluster.topics["t"] = hidden
        write(cluster.log("t"), range(10, 20))
        assert numbers(await read(consumer, 10)) == list(range(10, 20))


# -- positions ---------------------------------------------------------------------------------------


async def test_latest_begins_behind_what_is_there(cluster: FakeCluster) -> None:
    write(cluster.log("t"), range(10))
    async with consumer_for(cluster, "t", auto_offset_reset="latest") as consumer:
        assert await consumer.position(T0) == 10
        write(cluster.log("t"), [10])
        assert numbers(await read(consumer, 1)) == [10]


async def test_a_reset_while_the_connection_to_the_leader_opens_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    opening, sought = asyncio.Event(), asyncio.Event()

    async def late(call: Call) -> Any:
        opening.set()
        await sought.wait()
        return await cluster.defaults[ApiKey.API_VERSIONS](call)

    async def later(call: Call) -> Any:
        for _ in range(200):  # turns of the loop, in which the connection opens
            await asyncio.sleep(0)
        return await cluster.defaults[ApiKey.LIST_OFFSETS](call)

    async with FakeCluster({"t": 1}) as cluster:
        write(cluster.log("t"), range(100), 10)
        async with consumer_for(cluster) as consumer, asyncio.timeout(10):
            cluster.on(ApiKey.API_VERSIONS, late)
            consumer.assign([T0])
            consumer.seek(T0, 50)
            polling = asyncio.create_task(consumer.getone())
            await opening.wait()
            cluster.on(ApiKey.LIST_OFFSETS, later)
            consumer.seek_to_beginning(T0)
            sought.set()
            assert (await polling).offset == 0
    assert "AssertionError" not in caplog.text


async def test_seeking_goes_on_from_there_and_drops_what_was_fetched() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster) as consumer:
        write(cluster.log("t"), range(100), 10)
        consumer.assign([T0])
        await read(consumer, 5, max_records=5)
        consumer.seek(T0, 95)
        assert numbers(await read(consumer, 5)) == [95, 96, 97, 98, 99]
        consumer.seek_to_beginning(T0)
        assert numbers(await read(consumer, 1, max_records=1)) == [0]
        consumer.seek_to_end()
        assert await consumer.position(T0) == 100
        assert await consumer.getmany(timeout_ms=20) == {}


async def test_a_paused_partition_waits_and_nothing_of_it_is_lost() -> None:
    async with FakeCluster({"t": 2}) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t", 0), range(100), 10)
        async for record in consumer:
            if record.offset == 9:
                break
        consumer.pause(T0)
        assert consumer.paused() == {T0}
        write(cluster.log("t", 1), range(500, 510))
        assert numbers(await read(consumer, 10)) == list(range(500, 510))
        assert await consumer.getmany(timeout_ms=20) == {}
        consumer.resume(T0)
        assert numbers(await read(consumer, 90)) == list(range(10, 100))


async def test_what_paused_partitions_hold_keeps_no_other_from_being_fetched() -> None:
    options = {"max_partition_fetch_bytes": 2_000, "fetch_max_bytes": 4_000}
    async with FakeCluster({"t": 5}) as cluster, consumer_for(cluster, "t", **options) as consumer, asyncio.timeout(10):
        for number in range(4):
            for _ in range(20):
                write(cluster.log("t", number), range(100), 10)
        await until(lambda: sum(state.buffered_bytes for state in consumer._positions) >= 4_000)
        consumer.pause(*(TopicPartition("t", number) for number in range(4)))
        write(cluster.log("t", 4), range(10))
        assert numbers(await read(consumer, 10)) == list(range(10))


async def test_a_reset_is_logged_with_both_offsets_and_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster) as consumer:
        log = cluster.log("t")
        write(log, range(30), 10)
        consumer.assign([T0])
        assert numbers(await read(consumer, 10, max_records=10)) == list(range(10))
        log.start, log.batches = 20, log.batches[2:]
        consumer.seek(T0, 12)
        with caplog.at_level("INFO", "odradek.client"):
            assert numbers(await read(consumer, 10)) == list(range(20, 30))
        assert "t-0: reset from offset 12 to offset 20: offset 12 is not in the log (any more)" in caplog.text


async def test_an_offset_out_of_range_is_an_error_where_nothing_is_to_be_reset() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, auto_offset_reset="none") as consumer:
        write(cluster.log("t"), range(10))
        consumer.assign([T0])
        with pytest.raises(NoOffsetForPartition, match="t-0 has no committed offset"):
            await read(consumer, 1)
        consumer.seek(T0, 50)
        with pytest.raises(OffsetOutOfRange, match="t-0 has no offset 50"):
            await read(consumer, 1)
        consumer.seek(T0, 5)
        assert numbers(await read(consumer, 5)) == [5, 6, 7, 8, 9]


async def test_ends_of_the_log_are_told() -> None:
    async with FakeCluster({"t": 2}, nodes=2) as cluster, consumer_for(cluster) as consumer:
        write(cluster.log("t", 0), range(10))
        cluster.log("t", 0).start = 3
        assert await consumer.beginning_offsets([T0, T1]) == {T0: 3, T1: 0}
        assert await consumer.end_offsets([T0, T1]) == {T0: 10, T1: 0}
        assert await consumer.partitions_for("t") == [0, 1]
        with pytest.raises(KafkaError, match="has no partition 7"):
            await consumer.end_offsets([TopicPartition("t", 7)])


# -- trouble -----------------------------------------------------------------------------------------


async def test_answers_come_a_few_bytes_at_a_time() -> None:
    async with FakeCluster({"t": 2}) as cluster:
        for partition in (0, 1):
            write(cluster.log("t", partition), range(30), 10)
        cluster.on(ApiKey.FETCH, in_pieces(100), in_pieces(100))
        async with consumer_for(cluster, "t", max_partition_fetch_bytes=200) as consumer:
            records = await read(consumer, 60)
        for number in (0, 1):
            assert [record.offset for record in records if record.partition == number] == list(range(30))


async def test_a_broker_that_is_silent_is_asked_again(cluster: FakeCluster) -> None:
    write(cluster.log("t"), range(3))
    cluster.on(ApiKey.FETCH, keep_silent)
    async with consumer_for(cluster, "t", request_timeout_ms=60, fetch_max_wait_ms=20) as consumer:
        assert len(await read(consumer, 3)) == 3


async def test_a_rejection_is_raised_once_and_the_other_partitions_go_on() -> None:
    async with FakeCluster({"t": 2}) as cluster, consumer_for(cluster, "t") as consumer:

        async def refuse_the_first(call: Call) -> FetchResponse:
            write(cluster.log("t", 1), [1])
            response = await call.default()
            response.responses[0].partitions[0].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return response

        cluster.on(ApiKey.FETCH, refuse_the_first)
        seen: list[str] = []
        async with asyncio.timeout(10):
            while len(seen) < 2:
                try:
                    seen += ["read"] * len(await consumer.getmany(timeout_ms=1000))
                except KafkaError as error:
                    assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    seen.append("refused")
        assert sorted(seen) == ["read", "refused"]


async def test_what_the_broker_cannot_read_is_raised_and_can_be_passed() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster) as consumer:
        write(cluster.log("t"), range(30), 10)
        cluster.on(ApiKey.FETCH, refuse_fetch(ErrorCode.CORRUPT_MESSAGE))
        consumer.assign([T0])
        consumer.seek(T0, 10)
        with pytest.raises(CorruptRecords, match="t-0: the broker cannot read what it has at offset 10"):
            await read(consumer, 1)
        consumer.seek(T0, 20)
        assert numbers(await read(consumer, 10)) == list(range(20, 30))


async def test_a_damaged_batch_is_raised_after_what_stands_before_it(cluster: FakeCluster) -> None:
    log = cluster.log("t")
    write(log, range(20), 10)
    log.batches[1] = log.batches[1][:-1] + b"\xff"
    async with consumer_for(cluster, "t") as consumer:
        assert len(await read(consumer, 10)) == 10
        with pytest.raises(CorruptRecords, match="offset 10"):
            await read(consumer, 1)
        consumer.seek(T0, 20)
        write(log, [20])
        assert numbers(await read(consumer, 1)) == [20]


# -- offsets in a group, partitions by hand ----------------------------------------------------------


async def test_partitions_by_hand_keep_their_offsets_in_a_group() -> None:
    async with FakeCluster({"t": 2}) as cluster:
        write(cluster.log("t", 0), range(10))
        async with consumer_for(cluster, group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([T0])
            await read(consumer, 4, max_records=4)
            await consumer.commit()
            assert await consumer.committed() == {T0: OffsetAndMetadata(4, leader_epoch=0)}
            await consumer.commit({T1: 7, T0: OffsetAndMetadata(5, "a note")})
            assert (await consumer.committed(T1))[T1] == OffsetAndMetadata(7)
        async with consumer_for(cluster, group_id="g") as consumer:
            consumer.assign([T0])
            assert numbers(await read(consumer, 5)) == [5, 6, 7, 8, 9]
        assert cluster.group.committed == {("t", 0): 10, ("t", 1): 7}
        assert cluster.calls(ApiKey.JOIN_GROUP) == []


@pytest.mark.parametrize("newest", [1, 7, 8, 9, 10])
async def test_committed_offsets_are_read_in_every_form(cluster: FakeCluster, newest: int) -> None:
    cluster.versions[ApiKey.OFFSET_FETCH] = (0, newest)
    cluster.versions[ApiKey.OFFSET_COMMIT] = (0, newest)
    cluster.group.committed["t", 0] = 3
    async with consumer_for(cluster, group_id="g") as consumer:
        assert await consumer.committed(T0, T1) == {T0: OffsetAndMetadata(3), T1: None}
        await consumer.commit({T0: 8})
    assert cluster.group.committed["t", 0] == 8


# -- bounds and rejections -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"auto_offset_reset": "newest"}, "auto_offset_reset"),
        ({"isolation_level": "serializable"}, "isolation_level"),
        ({"group_id": ""}, "group_id"),
        ({"heartbeat_interval_ms": 50_000}, "heartbeat_interval_ms"),
        ({"request_timeout_ms": 400}, "request_timeout_ms"),
        ({"partition_assignment_strategy": ()}, "partition_assignment_strategy"),
        ({"bootstrap_servers": "a:b"}, "bootstrap_servers"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(options: dict[str, Any], names: str) -> None:
    with pytest.raises(InvalidOption, match=names):
        Consumer(**options)


async def test_what_makes_no_sense_is_refused(cluster: FakeCluster) -> None:
    stopped = consumer_for(cluster, "t")
    with pytest.raises(ClientStopped, match=r"start\(\) first"):
        await stopped.getmany()
    async with consumer_for(cluster, "t") as consumer:
        with pytest.raises(GroupRequired):
            await consumer.commit()
        with pytest.raises(NotAssigned, match="u-0"):
            consumer.seek(TopicPartition("u", 0), 0)
        with pytest.raises(NotAssigned, match=r"unsubscribe\(\) first"):
            consumer.assign([T0])
        await consumer.unsubscribe()
        consumer.assign([T0])
        with pytest.raises(NotAssigned, match=r"unsubscribe\(\) first"):
            consumer.subscribe("t")
        with pytest.raises(InvalidOption):
            consumer.seek(T0, -5)


async def test_another_subscription_replaces_the_first() -> None:
    async with FakeCluster({"t": 1, "u": 1}) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t"), [1])
        write(cluster.log("u"), [2])
        assert numbers(await read(consumer, 1)) == [1]
        consumer.subscribe("u")
        assert numbers(await read(consumer, 1)) == [2]
        assert consumer.subscription() == {"u"}
        assert consumer.assignment() == {TopicPartition("u", 0)}
        await consumer.stop()
        await consumer.stop()


async def test_a_waiting_task_learns_that_the_consumer_is_stopped(cluster: FakeCluster) -> None:
    for wait, ends in (
        (lambda c: c.getmany(timeout_ms=60_000), ClientStopped),
        (lambda c: c.getone(), ClientStopped),
        (lambda c: anext(c), StopAsyncIteration),
    ):
        consumer = consumer_for(cluster, "t")
        await consumer.start()
        waiting = asyncio.ensure_future(wait(consumer))
        await consumer.position(T0)
        await consumer.stop()
        with pytest.raises(ends):
            await waiting


async def test_whole_batches_move_the_position_and_come_in_bounded_answers() -> None:
    async with FakeCluster({"t": 2}) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t", 0), range(50), 10)
        write(cluster.log("t", 1), range(50, 70), 10)
        values: dict[int, list[bytes | None]] = {0: [], 1: []}
        async with asyncio.timeout(10):
            while sum(map(len, values.values())) < 70:
                found = await consumer.getbatches(timeout_ms=1000, max_bytes=1)
                assert sum(map(len, found.values())) <= 1
                for partition, batches in found.items():
                    values[partition.partition] += [value for batch in batches for value in batch.values()]
        assert values == {0: [b"%d" % n for n in range(50)], 1: [b"%d" % n for n in range(50, 70)]}
        assert await consumer.position(T0) == 50
        consumer.seek(T0, 45)
        async with asyncio.timeout(10):
            while not (again := await consumer.getbatches(timeout_ms=1000)):
                pass
        assert [record.offset for record in again[T0][0].records()] == [45, 46, 47, 48, 49]
