"""The share consumer, through what a coordinator and leaders can answer, and connections that break."""

from __future__ import annotations

import asyncio
import gc
import json
from concurrent.futures import Future
from typing import Any

import pytest
from odradek.client import KafkaError, ShareConsumer, ShareRecord, TopicPartition
from odradek.client.core.serialization import SchemaMissing
from odradek.client.errors import (
    ClientStopped,
    ConcurrentPoll,
    DeserializationFailed,
    InvalidAcknowledgement,
    InvalidOption,
    NotAssigned,
    RequestTimedOut,
    SchemaRegistryUnavailable,
    UnsupportedVersion,
)
from odradek.client.share import leaders
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from odradek.protocol.messages.share_fetch import ShareFetchResponse
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.client.share.workers import explicit, kinds, take, worker
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call, answer, do_and_drop, drop
from odradek.tests.support.waiting import until

HEARTBEAT, FETCH, ACKNOWLEDGE = ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE
T0 = TopicPartition("t", 0)
ACCEPT, RELEASE, REJECT = 1, 2, 3
LOST = ErrorCode.INVALID_RECORD_STATE


async def test_a_stop_accepts_what_was_returned_and_gives_the_rest_back() -> None:
    async with FakeCluster({"t": 2}) as cluster:
        write(cluster.log("t"), 10)
        async with worker(cluster) as consumer:
            records = await take(consumer, 4)
            assert [(each.offset, each.delivery_count) for each in records] == [(n, 1) for n in range(4)]
            assert consumer.acquisition_lock_timeout_ms() == 30_000
        assert kinds(cluster) == dict.fromkeys(range(4), ACCEPT)
        assert (cluster.share_group.acquired, cluster.share_group.sessions) == ({}, {})
        assert len(cluster.share_group.left) == 1


async def test_an_error_of_the_user_gives_the_record_back(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    with pytest.raises(ZeroDivisionError):
        async with worker(cluster) as consumer:
            async for record in consumer:
                if record.offset == 6:
                    raise ZeroDivisionError
    assert kinds(cluster) == dict.fromkeys(range(6), ACCEPT)


async def test_what_became_of_records_goes_with_the_next_fetch(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 4)
    async with worker(cluster) as consumer:
        await take(consumer, 4)
        await consumer.getmany(timeout_ms=100)
        assert kinds(cluster) == dict.fromkeys(range(4), ACCEPT)
        assert not cluster.calls(ACKNOWLEDGE)


async def test_records_are_accepted_released_and_rejected_one_by_one(cluster: FakeCluster) -> None:
    told: list[tuple[TopicPartition, list[int], KafkaError | None]] = []
    write(cluster.log("t"), 4)
    listener = lambda *said: told.append(said)  # noqa: E731
    async with explicit(cluster, acknowledgement_listener=listener) as consumer:
        records = await take(consumer, 4)
        with pytest.raises(InvalidAcknowledgement, match="t-0 at offset 0: accept, release, reject or renew it"):
            await consumer.getmany()
        consumer.accept(*records[:2])
        consumer.release(records[2])
        consumer.reject(records[3])
        await consumer.commit()
        assert kinds(cluster) == {0: ACCEPT, 1: ACCEPT, 3: REJECT}
        assert told == [(T0, [0, 1, 2, 3], None)]
        (again,) = await take(consumer, 1)
        assert (again.offset, again.delivery_count) == (2, 2)
        consumer.accept(again)
    assert kinds(cluster)[2] == ACCEPT


async def test_a_listener_that_raises_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(partition: TopicPartition, *_: object) -> None:
        told.append(partition)
        raise ZeroDivisionError

    told: list[TopicPartition] = []
    async with FakeCluster({"t": 2}) as cluster:
        for partition in range(2):
            write(cluster.log("t", partition), 2)
        async with worker(cluster, acknowledgement_listener=broken) as consumer:
            await take(consumer, 4)
            await consumer.commit()
            write(cluster.log("t"), 1)
            await take(consumer, 1)
        assert len(cluster.share_group.left) == 1
    assert sorted(told) == [T0, T0, TopicPartition("t", 1)]
    assert "acknowledgement_listener raised" in caplog.text


async def test_a_renewed_record_is_kept_past_polls(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    async with explicit(cluster) as consumer:
        (record,) = await take(consumer, 1)
        await consumer.renew(record)
        assert cluster.share_group.renewed == [0]
        assert cluster.calls(ACKNOWLEDGE)[-1].request.is_renew_ack
        assert await consumer.getmany(timeout_ms=20) == {}
        assert consumer.lock_left_ms(record) > 0
        consumer.accept(record)
        await consumer.commit()
        assert consumer.lock_left_ms(record) == 0
    assert kinds(cluster) == {0: ACCEPT}


async def test_a_leader_that_cannot_renew_is_not_asked(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    cluster.versions[ACKNOWLEDGE] = (1, 1)
    async with explicit(cluster) as consumer:
        (record,) = await take(consumer, 1)
        with pytest.raises(UnsupportedVersion):
            await consumer.renew(record)
        consumer.accept(record)
        await consumer.commit()
    assert kinds(cluster) == {0: ACCEPT}


async def test_a_lock_that_has_ended_is_told_to_who_commits(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    async with explicit(cluster) as consumer:
        (record,) = await take(consumer, 1)
        cluster.share_group.unlock()
        consumer.accept(record)
        with pytest.raises(KafkaError) as caught:
            await consumer.commit()
        assert caught.value.code is ErrorCode.INVALID_RECORD_STATE


async def test_a_commit_that_takes_too_long_says_so_and_goes_on(cluster: FakeCluster) -> None:
    may_answer = asyncio.Event()
    acknowledge = cluster.defaults[ACKNOWLEDGE]

    async def slowly(call: Call) -> Any:
        await may_answer.wait()
        return await acknowledge(call)

    write(cluster.log("t"), 1)
    cluster.defaults[ACKNOWLEDGE] = slowly
    async with worker(cluster, default_api_timeout_ms=100) as consumer:
        await take(consumer, 1)
        with pytest.raises(RequestTimedOut, match=r"within 100 ms \(default_api_timeout_ms\)"):
            await consumer.commit()
        may_answer.set()
    assert kinds(cluster) == {0: ACCEPT}


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_commit_waits_for_what_a_fetch_tells(cluster: FakeCluster, is_lost: bool) -> None:
    may_answer, asked = asyncio.Event(), asyncio.Event()
    fetch = cluster.defaults[FETCH]

    async def slowly(call: Call) -> Any:
        asked.set()
        await may_answer.wait()
        return await (drop(call) if is_lost else fetch(call))

    write(cluster.log("t"), 1)
    async with worker(cluster) as consumer:
        await take(consumer, 1)
        cluster.defaults[FETCH] = slowly
        assert await consumer.getmany(timeout_ms=10) == {}
        await asked.wait()
        committing = asyncio.create_task(consumer.commit())
        await asyncio.sleep(0.02)
        assert not committing.done()
        may_answer.set()
        if is_lost:
            with pytest.raises(KafkaError, match="closed the connection"):
                await committing
        else:
            await committing
            assert kinds(cluster) == {0: ACCEPT}
        cluster.defaults[FETCH] = fetch
        await consumer.commit()


@pytest.mark.parametrize("is_soon", [False, True])
async def test_a_commit_raises_what_a_fetch_was_told_also_beside_later_acknowledgements(is_soon: bool) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        fetch = cluster.defaults[FETCH]

        async def rejecting(call: Call) -> Any:
            response = await fetch(call)
            for topic in response.responses:
                for each in topic.partitions:
                    each.acknowledge_error_code = LOST
            return response

        write(cluster.log("t"), 1)
        async with explicit(cluster) as consumer:
            consumer.accept(*await take(consumer, 1))
            cluster.on(FETCH, rejecting)
            write(cluster.log("t"), 1)
            consumer.accept(*await take(consumer, 1))
            if is_soon:
                consumer.commit_soon()
            with pytest.raises(KafkaError) as raised:
                await consumer.commit()
            assert raised.value.code == LOST


async def test_records_whose_lock_ends_before_they_are_returned_are_not_returned(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 4)
    cluster.share_group.lock_ms = 0
    async with worker(cluster) as consumer:
        assert await consumer.getmany(timeout_ms=100) == {}
        cluster.share_group.unlock()
        cluster.share_group.lock_ms = 30_000
        assert [each.delivery_count for each in await take(consumer, 4)] == [2] * 4


# -- Trouble


@pytest.mark.parametrize("call", ["commit", "renew"])
async def test_a_call_that_is_cancelled_loses_no_session(cluster: FakeCluster, call: str) -> None:
    write(cluster.log("t"), 4)
    async with explicit(cluster) as consumer:
        first, *others = await take(consumer, 4)
        if call == "commit":
            consumer.accept(first)
        calling = asyncio.create_task(consumer.commit() if call == "commit" else consumer.renew(first))
        async with asyncio.timeout(20):
            while not cluster.calls(ACKNOWLEDGE):
                await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        consumer.accept(*(others if call == "commit" else (first, *others)))
        await consumer.commit()
    assert kinds(cluster) == dict.fromkeys(range(4), ACCEPT)
    assert [each.request.share_session_epoch for each in cluster.calls(ACKNOWLEDGE)][:2] == [1, 2]


async def test_polls_beside_a_long_fetch_leave_one_acknowledgement_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "_TELL_AFTER_MS", 0)
    async with FakeCluster({"t": 1}) as cluster:
        write(cluster.log("t"), 1)
        async with explicit(cluster) as consumer:
            (record,) = await take(consumer, 1)
            await consumer.renew(record)
            cluster.share_group.wait_s, fetches = 0.2, len(cluster.calls(FETCH))
            async with asyncio.timeout(20):
                while len(cluster.calls(FETCH)) == fetches:
                    await consumer.getmany()
            consumer.accept(record)
            tasks = len(asyncio.all_tasks())
            for _ in range(20):
                await consumer.getmany()
                consumer.commit_soon()
            assert len(asyncio.all_tasks()) == tasks + 1
        assert kinds(cluster) == {0: ACCEPT}


async def test_a_session_that_is_lost_is_begun_again_and_what_it_acquired_is_told_as_lost(cluster: FakeCluster) -> None:
    told: list[Any] = []
    write(cluster.log("t"), 4)
    async with worker(cluster, acknowledgement_listener=lambda *said: told.append(said)) as consumer:
        await take(consumer, 4)
        cluster.share_group.lose_sessions()
        again = await take(consumer, 4)
        assert [each.delivery_count for each in again] == [2] * 4, "all again: nothing was accepted"
        ((place, offsets, error),) = told
        assert (place, offsets) == (T0, [0, 1, 2, 3])
        assert error is not None
    assert kinds(cluster) == dict.fromkeys(range(4), ACCEPT)


async def test_an_answer_without_a_partition_takes_nothing_of_it(cluster: FakeCluster) -> None:
    told: list[Any] = []
    write(cluster.log("t"), 4)
    async with worker(cluster, acknowledgement_listener=lambda *said: told.append(said)) as consumer:
        await take(consumer, 2)
        cluster.on(ACKNOWLEDGE, answer(ShareAcknowledgeResponse()))
        with pytest.raises(KafkaError, match="does not say that it took") as caught:
            await consumer.commit()
        assert caught.value.code is LOST
        await take(consumer, 2)
        cluster.on(FETCH, answer(ShareFetchResponse(acquisition_lock_timeout_ms=30_000)))
        await consumer.getmany(timeout_ms=200)
        assert [(place, offsets, error and error.code) for place, offsets, error in told] == [
            (T0, [0, 1], LOST),
            (T0, [2, 3], LOST),
        ]


@pytest.mark.parametrize("step", [drop, do_and_drop])
async def test_a_fetch_without_an_answer_begins_another_session(cluster: FakeCluster, step: Any) -> None:
    write(cluster.log("t"), 4)
    cluster.on(FETCH, step)
    async with worker(cluster) as consumer:
        if step is do_and_drop:
            while len(cluster.calls(FETCH)) < 2:
                assert await consumer.getmany(timeout_ms=20) == {}
            cluster.share_group.unlock()  # as a leader does when the connection is gone
        assert len(await take(consumer, 4)) == 4
        assert [call.request.share_session_epoch for call in cluster.calls(FETCH)][:2] == [0, 0]


async def test_a_leader_that_has_moved_is_followed() -> None:
    async with FakeCluster({"t": 1}, nodes=2) as cluster:
        async with worker(cluster, metadata_max_age_ms=60_000) as consumer:
            assert await consumer.getmany(timeout_ms=200) == {}
            cluster.log("t").leader = 2
            write(cluster.log("t"), 3)
            assert len(await take(consumer, 3)) == 3
        assert set(kinds(cluster).values()) == {ACCEPT}


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_MAX_SIZE_REACHED])
async def test_a_rejection_for_good_is_raised_by_the_poll(cluster: FakeCluster, code: ErrorCode) -> None:
    cluster.on(HEARTBEAT, answer(ShareGroupHeartbeatResponse(error_code=code, error_message="for this reason")))
    async with worker(cluster) as consumer:
        with pytest.raises(KafkaError, match="for this reason"):
            await consumer.getmany(timeout_ms=10_000)


async def test_an_error_of_a_fetch_that_stays_is_raised_once(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    cluster.on(FETCH, answer(ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    async with worker(cluster) as consumer:
        with pytest.raises(KafkaError, match="a share fetch failed"):
            await consumer.getmany(timeout_ms=10_000)
        assert len(await take(consumer, 1)) == 1


class ByRegistry:
    """A deserializer that must ask a schema registry first, which does not answer the first time."""

    def __init__(self) -> None:
        self.answers: list[Exception | None] = [SchemaRegistryUnavailable("nobody answers"), None]
        self.is_known = False

    def decode_at_once(self, content: bytes, topic: str, field: str) -> str:
        if not self.is_known:
            raise SchemaMissing(self.ask)
        return f"{field} {content.decode()}"

    def ask(self) -> Future[None]:
        asked, error = Future[None](), self.answers.pop(0)
        self.is_known = error is None
        asked.set_result(None) if error is None else asked.set_exception(error)
        return asked


async def test_records_wait_for_their_schema_and_none_is_lost(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 3)
    async with worker(cluster, value_deserializer=ByRegistry()) as consumer:
        with pytest.raises(SchemaRegistryUnavailable):
            await take(consumer, 3)
        assert [record.value for record in await take(consumer, 3)] == ["value 0", "value 1", "value 2"]
        await consumer.commit()
    assert kinds(cluster) == {0: ACCEPT, 1: ACCEPT, 2: ACCEPT}


async def test_a_poll_ends_in_time_while_the_schema_registry_is_silent(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    registry, asked = ByRegistry(), list[Future[None]]()
    setattr(registry, "ask", lambda: asked.append(Future()) or asked[-1])  # noqa: B010
    async with worker(cluster, value_deserializer=registry) as consumer, asyncio.timeout(20):
        while not asked:
            assert await consumer.getmany(timeout_ms=1) == {}
        assert await consumer.getmany(timeout_ms=1) == {}
        registry.is_known = True
        asked[0].set_result(None)
        assert [record.value for record in await take(consumer, 1)] == ["value 0"]


async def test_records_wait_for_a_registry_that_their_deserializer_asks_and_none_is_lost(cluster: FakeCluster) -> None:
    answers: list[Exception | None] = [None, SchemaRegistryUnavailable("nobody answers")]

    def decode(content: bytes) -> str:
        if answers and (error := answers.pop(0)) is not None:
            raise error
        return content.decode()

    write(cluster.log("t"), 3)
    async with worker(cluster, value_deserializer=decode) as consumer:
        assert [each.value for each in await take(consumer, 1)] == ["0"]
        with pytest.raises(SchemaRegistryUnavailable):
            await consumer.getmany(timeout_ms=10_000)
        assert [each.value for each in await take(consumer, 2)] == ["1", "2"]


async def test_a_record_that_cannot_be_deserialized_is_released(cluster: FakeCluster) -> None:
    cluster.log("t").write(encode_batch([Record(-1, 7, None, value) for value in (b"1", b"{", b"3")]))
    async with worker(cluster, value_deserializer=json.loads) as consumer:
        assert [each.value for each in await take(consumer, 1)] == [1]
        with pytest.raises(DeserializationFailed):
            await take(consumer, 2)
        assert [each.value for each in await take(consumer, 1)] == [3]
        await consumer.commit()
        assert kinds(cluster) == {0: ACCEPT, 2: ACCEPT}


async def test_records_that_are_corrupt_are_rejected_and_raised(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 2)
    batch = bytearray(cluster.log("t").batches[0])
    batch[-1] ^= 1
    cluster.log("t").batches[0] = bytes(batch)
    async with worker(cluster) as consumer:
        with pytest.raises(KafkaError) as caught:
            await consumer.getmany(timeout_ms=10_000)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert kinds(cluster) == {0: REJECT, 1: REJECT}


async def test_records_that_are_cut_off_are_delivered_again(cluster: FakeCluster) -> None:
    async def cut(call: Call) -> Any:
        response = await call.default()
        partition = response.responses[0].partitions[0]
        partition.records = bytes(partition.records)[:-1]
        return response

    write(cluster.log("t"), 2, per_batch=1)
    cluster.on(FETCH, cut)
    async with worker(cluster) as consumer:
        for offset, count in ((0, 1), (1, 2)):
            (record,) = await take(consumer, 1)
            assert (record.offset, record.delivery_count) == (offset, count)
    assert kinds(cluster) == {0: ACCEPT, 1: ACCEPT}


# -- Use


async def test_an_error_of_a_leader_waits_behind_another() -> None:
    async with FakeCluster({"t": 1}) as cluster, worker(cluster) as consumer:
        session = consumer._running()
        session.leaders.error = KafkaError(ErrorCode.CORRUPT_MESSAGE, "of the leader")
        session._membership._hindrance = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "of the group")
        for expected in ("of the group", "of the leader"):
            with pytest.raises(KafkaError, match=expected):
                await consumer.getmany(timeout_ms=10_000)


async def test_a_stop_under_way_returns_no_more_records(cluster: FakeCluster) -> None:
    may_close = asyncio.Event()
    acknowledge = cluster.defaults[ACKNOWLEDGE]

    async def slowly(call: Call) -> Any:
        await may_close.wait()
        return await acknowledge(call)

    write(cluster.log("t"), 3)
    cluster.defaults[ACKNOWLEDGE] = slowly
    consumer = worker(cluster)
    await consumer.start()
    await take(consumer, 1)
    stopping = asyncio.create_task(consumer.stop())
    await asyncio.sleep(0)
    try:
        with pytest.raises(ClientStopped):
            await consumer.getmany(timeout_ms=10_000)
    finally:
        may_close.set()
        await stopping
    assert kinds(cluster) == {0: ACCEPT}


async def test_only_one_task_polls_and_a_stop_ends_its_iteration(cluster: FakeCluster) -> None:
    consumer = worker(cluster)
    await consumer.start()

    async def iterate() -> list[ShareRecord[Any, Any]]:
        return [record async for record in consumer]

    waiting = asyncio.create_task(iterate())
    await asyncio.sleep(0.01)
    with pytest.raises(ConcurrentPoll):
        await consumer.getone()
    await consumer.stop()
    assert await waiting == []
    with pytest.raises(ClientStopped):
        await consumer.getmany()


async def test_wrong_use_is_named() -> None:
    with pytest.raises(InvalidOption, match="group_id must not be empty"):
        ShareConsumer("t", group_id="")
    with pytest.raises(InvalidOption, match="share_acknowledgement_mode must be one of implicit, explicit"):
        ShareConsumer("t", group_id="g", share_acknowledgement_mode="often")
    async with FakeCluster({"t": 1}) as cluster, worker(cluster) as consumer:
        write(cluster.log("t"), 2)
        with pytest.raises(InvalidAcknowledgement, match="acknowledgement is implicit"):
            consumer.accept(*await take(consumer, 2))
        consumer.subscribe()
        with pytest.raises(NotAssigned):
            await consumer.getmany()
    async with FakeCluster({"t": 1}) as cluster, explicit(cluster) as consumer:
        write(cluster.log("t"), 2)
        first, second = await take(consumer, 2)
        with pytest.raises(TypeError, match=r"accept takes ShareRecord\(\.\.\.\), from odradek.client, not 't'"):
            consumer.accept("t")  # type: ignore[arg-type]
        consumer.accept([first, second])
        with pytest.raises(InvalidAcknowledgement, match="does not hold that record"):
            consumer.release(first)


async def test_a_consumer_that_the_program_has_lost_leaves_its_group(cluster: FakeCluster) -> None:
    consumer = worker(cluster)
    await consumer.start()
    await consumer.getmany(timeout_ms=200)
    with pytest.warns(ResourceWarning):
        del consumer
        gc.collect()
    await until(lambda: bool(cluster.share_group.left))
