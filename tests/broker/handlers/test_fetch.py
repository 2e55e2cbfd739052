"""Fetch: what comes, when it comes, and sessions."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from odradek.protocol.records import batch
from odradek.protocol.records.batch import read_header
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.waiting import until


@pytest.fixture(autouse=True)
async def topic(raw: Raw) -> None:
    assert (await raw.create_topic("t", 3)).error_code == 0


def values(records: object) -> list[bytes | None]:
    """The values of every whole batch."""
    data = bytes(records)  # type: ignore[call-overload]
    return [record.value for position, _ in batch.iter_headers(data) for record in batch.decode_batch(data, position)]


async def test_from_the_middle_of_a_batch_comes_the_whole_batch(raw: Raw) -> None:
    await raw.produce("t", batch_of(b"a", b"b", b"c"))
    await raw.produce("t", batch_of(b"d"))
    answer = await raw.fetch("t", 1)
    assert read_header(answer.records).base_offset == 0
    assert values(answer.records) == [b"a", b"b", b"c", b"d"]
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (4, 4, 0)


async def test_the_first_batch_comes_whole_even_if_it_is_larger_than_every_limit(raw: Raw) -> None:
    await raw.produce("t", batch_of(b"x" * 5000))
    await raw.produce("t", batch_of(b"y" * 5000))
    for limits in ({"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0, "partition_max_bytes": 0}):
        assert values((await raw.fetch("t", 0, **limits)).records) == [b"x" * 5000]


async def test_a_limit_inside_a_segment_leaves_no_gap(raw: Raw) -> None:
    await raw.create_topic("rolled", segment_index_bytes="16", index_interval_bytes="0")
    for value in range(50):
        assert (await raw.produce("rolled", batch_of(b"%d" % value, b"x" * 100))).error_code == 0
    offset, seen = 0, []
    while offset < 100:
        answer = await raw.fetch("rolled", offset, partition_max_bytes=500)
        got = values(answer.records)
        assert got, f"nothing at offset {offset}"
        seen += got
        data = bytes(answer.records)
        offset = max(header.next_offset for _, header in batch.iter_headers(data))
    assert seen == [each for value in range(50) for each in (b"%d" % value, b"x" * 100)]


async def test_max_bytes_counts_over_all_partitions_and_the_first_that_has_data_gets_it(raw: Raw) -> None:
    for partition in (1, 2):
        await raw.produce("t", batch_of(b"z" * 4000), partition=partition)
    wanted = [FetchPartition(index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(3)]
    request = FetchRequest(max_bytes=4500, min_bytes=1, topics=[FetchTopic("t", partitions=wanted)])
    response = await raw.ask(ApiKey.FETCH, 11, request)
    sizes = [len(each.records or b"") for each in response.responses[0].partitions]
    assert sizes[0] == 0
    assert sizes[1] > 4000
    assert sizes[1] + sizes[2] <= 4500 or sizes[2] == 0


@pytest.mark.parametrize("offset", [-1, 3, 100])
async def test_an_offset_out_of_range_is_an_error_at_once(raw: Raw, offset: int) -> None:
    await raw.produce("t", batch_of(b"a", b"b"))
    answer = await raw.fetch("t", offset, max_wait_ms=60_000, min_bytes=1000)
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (answer.high_watermark, answer.preferred_read_replica) == (-1, -1)


@pytest.mark.parametrize(("partition_max_bytes", "max_bytes"), [(1 << 20, 1), (0, 1 << 20)])
async def test_an_offset_out_of_range_is_an_error_also_where_there_is_no_room(
    raw: Raw, partition_max_bytes: int, max_bytes: int
) -> None:
    await raw.produce("t", batch_of(b"a"))
    wanted = [
        FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20),
        FetchPartition(1, fetch_offset=7, partition_max_bytes=partition_max_bytes),
        FetchPartition(2, fetch_offset=0, partition_max_bytes=partition_max_bytes),
    ]
    request = FetchRequest(max_bytes=max_bytes, min_bytes=1, topics=[FetchTopic("t", partitions=wanted)])
    response = await raw.ask(ApiKey.FETCH, 11, request)
    codes = [each.error_code for each in response.responses[0].partitions]
    assert codes == [0, ErrorCode.OFFSET_OUT_OF_RANGE, 0]


async def test_at_the_end_there_is_nothing_and_no_error(raw: Raw) -> None:
    await raw.produce("t", batch_of(b"a"))
    answer = await raw.fetch("t", 1)
    assert (answer.error_code, len(answer.records or b""), answer.high_watermark) == (0, 0, 1)


async def test_waits_for_data_and_gets_it_as_soon_as_it_comes(broker: Broker, raw: Raw) -> None:
    async with await Raw.connect(broker.address) as producer:
        waiting = asyncio.ensure_future(raw.fetch("t", 0, max_wait_ms=60_000))
        await until(lambda: len(broker.services.purgatory))
        await producer.produce("t", batch_of(b"news"))
        assert values((await waiting).records) == [b"news"]
    assert len(broker.services.purgatory) == 0


async def test_waits_for_min_bytes_or_the_time(broker: Broker, raw: Raw) -> None:
    await raw.produce("t", batch_of(b"little"))
    answer = await raw.fetch("t", 0, max_wait_ms=50, min_bytes=100_000)
    assert values(answer.records) == [b"little"]
    assert len(broker.services.purgatory) == 0


async def test_an_unknown_partition_does_not_end_the_wait_of_others(broker: Broker, raw: Raw) -> None:
    wanted = [FetchPartition(index, partition_max_bytes=100) for index in (0, 7)]
    request = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic("t", partitions=wanted)])
    raw.send(ApiKey.FETCH, 11, request)
    async with await Raw.connect(broker.address) as other:
        await other.produce("t", batch_of(b"x"))
    there, missing = (await raw.receive(ApiKey.FETCH, 11)).responses[0].partitions
    assert values(there.records) == [b"x"]
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("topic", ["t", "none"])
async def test_a_fetch_of_unknown_partitions_only_does_not_wait(raw: Raw, topic: str) -> None:
    answer = await raw.fetch(topic, 0, partition=7, max_wait_ms=3_600_000, min_bytes=1)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_more_than_fits_is_not_waited_for(raw: Raw) -> None:
    await raw.produce("t", batch_of(b"x" * 100))
    answer = await raw.fetch("t", 0, max_wait_ms=3_600_000, min_bytes=1000, max_bytes=100)
    assert values(answer.records) == [b"x" * 100]


async def test_half_a_first_batch_is_not_sent(raw: Raw) -> None:
    for partition in (0, 1):
        await raw.produce("t", batch_of(b"x" * 100), partition=partition)
    size = len(batch_of(b"x" * 100))
    wanted = [FetchPartition(index, partition_max_bytes=size - 1) for index in (0, 1)]
    response = await raw.ask(ApiKey.FETCH, 11, FetchRequest(topics=[FetchTopic("t", partitions=wanted)]))
    assert [len(each.records) for each in response.responses[0].partitions] == [size, 0]


async def test_no_topic_has_the_zero_id(raw: Raw) -> None:
    request = FetchRequest(topics=[FetchTopic(topic_id=bytes(16), partitions=[FetchPartition(0)])])
    response = await raw.ask(ApiKey.FETCH, 13, request)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def last_fetched(raw: Raw, offset: int, epoch: int, **rest: int) -> Any:
    wanted = FetchPartition(0, fetch_offset=offset, last_fetched_epoch=epoch, partition_max_bytes=1000)
    request = FetchRequest(max_wait_ms=3_600_000, min_bytes=1, topics=[FetchTopic("t", partitions=[wanted])], **rest)
    return (await raw.ask(ApiKey.FETCH, 12, request)).responses[0].partitions[0]


async def test_a_diverged_follower_is_told_where_the_logs_diverge(broker: Broker, raw: Raw) -> None:
    found = broker.topics.get("t")
    assert found is not None
    partition = found.partition(0)
    assert partition is not None
    for partition.leader_epoch in (0, 3):
        await raw.produce("t", batch_of(b"a", b"b"))
    for epoch in (0, 3):
        answer = await last_fetched(raw, 2, epoch)
        assert (answer.diverging_epoch.epoch, values(answer.records)) == (-1, [b"a", b"b"])
    for offset, epoch in ((3, 0), (2, 2)):
        answer = await last_fetched(raw, offset, epoch)
        assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 2)
        assert (answer.error_code, answer.high_watermark, len(answer.records)) == (0, 4, 0)
        assert (await last_fetched(raw, offset, epoch, isolation_level=1)).aborted_transactions is None
    assert (await last_fetched(raw, 2, 4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_leader_epochs_older_and_newer_are_refused(broker: Broker, raw: Raw) -> None:
    for epoch, code in ((0, 0), (-1, 0), (-2, 0), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        wanted = FetchPartition(0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=100)
        response = await raw.ask(ApiKey.FETCH, 11, FetchRequest(topics=[FetchTopic("t", partitions=[wanted])]))
        assert response.responses[0].partitions[0].error_code == code


async def test_read_committed_says_that_nothing_was_aborted(raw: Raw) -> None:
    assert (await raw.fetch("t", 0, isolation_level=1)).aborted_transactions == []
    assert (await raw.fetch("t", 0, isolation_level=0)).aborted_transactions is None


async def test_a_topic_that_was_created_again_is_not_fetched_by_its_old_id(broker: Broker, raw: Raw) -> None:
    old = broker.topics.get("t")
    assert old is not None
    broker.services.delete_topic(old)
    await raw.create_topic("t")
    await raw.produce("t", batch_of(b"new"))
    wanted = FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(max_wait_ms=10, min_bytes=1, topics=[FetchTopic(topic_id=old.id, partitions=[wanted])])
    response = await raw.ask(ApiKey.FETCH, 13, request)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("partition", [0, 1])
async def test_a_session_by_id_is_told_that_its_topic_is_gone_or_another(
    broker: Broker, raw: Raw, partition: int
) -> None:
    old = broker.topics.get("t")
    assert old is not None
    wanted = FetchPartition(partition, fetch_offset=0, partition_max_bytes=1000)
    begin = FetchRequest(session_epoch=0, topics=[FetchTopic(topic_id=old.id, partitions=[wanted])])
    session_id = (await raw.ask(ApiKey.FETCH, 13, begin)).session_id

    async def go_on(epoch: int) -> int:
        request = FetchRequest(session_id=session_id, session_epoch=epoch)
        return (await raw.ask(ApiKey.FETCH, 13, request)).responses[0].partitions[0].error_code

    broker.services.delete_topic(old)
    assert await go_on(1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await raw.create_topic("t", 1)
    await raw.produce("t", batch_of(b"new"))
    gone, other = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID
    assert await go_on(2) == (other if partition == 0 else gone)


async def test_a_deleted_topic_ends_the_wait_of_its_readers_with_an_error(broker: Broker, raw: Raw) -> None:
    waiting = asyncio.ensure_future(raw.fetch("t", 0, max_wait_ms=300))
    await until(lambda: len(broker.services.purgatory))
    topic = broker.topics.get("t")
    assert topic is not None
    broker.services.delete_topic(topic)
    assert (await waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_empty_read_has_an_empty_list_of_aborted_transactions_and_an_error_has_none(
    raw: Raw,
) -> None:
    assert (await raw.fetch("t", 0, partition=9)).aborted_transactions == []
    assert (await raw.fetch("nowhere", 0)).aborted_transactions == []
    assert (await raw.fetch("t", 99)).aborted_transactions is None


async def test_a_partition_that_comes_twice_is_read_as_asked_for_last(raw: Raw) -> None:
    await raw.produce("t", batch_of(b"first"))
    await raw.produce("t", batch_of(b"second"))
    wanted = [FetchPartition(0, fetch_offset=at, partition_max_bytes=1 << 20) for at in (0, 1)]
    response = await raw.ask(ApiKey.FETCH, 11, FetchRequest(topics=[FetchTopic("t", partitions=wanted)]))
    (answer,) = response.responses[0].partitions
    assert values(answer.records) == [b"second"]


@pytest.mark.parametrize("version", [12, 15, 16])
async def test_a_follower_is_told_that_it_has_no_replica(broker: Broker, raw: Raw, version: int) -> None:
    await raw.produce("t", batch_of(b"v"))
    topic = broker.topics.get("t")
    assert topic is not None
    wanted = [FetchPartition(index, fetch_offset=0, partition_max_bytes=1000) for index in (0, 9)]
    fetch_topic = (
        FetchTopic("t", partitions=wanted) if version < 13 else FetchTopic(topic_id=topic.id, partitions=wanted)
    )
    refused, epoch = ErrorCode.NOT_LEADER_OR_FOLLOWER, topic.partitions[0].leader_epoch
    for replica_id, knows, code in (
        (77, -1, refused), (0, -1, refused), (77, epoch, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, epoch, 0)
    ):  # fmt: skip
        wanted[0].current_leader_epoch = knows
        who = {"replica_id": replica_id} if version < 15 else {"replica_state": ReplicaState(replica_id)}
        response = await raw.ask(ApiKey.FETCH, version, FetchRequest(**who, topics=[fetch_topic]))
        codes = [each.error_code for each in response.responses[0].partitions]
        assert codes == [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert response.node_endpoints == []


# Sessions (KIP-227).


class Session:
    """A client's side of a fetch session on partitions of `t`."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.id = 0
        self.epoch = 0

    async def fetch(self, offsets: dict[int, int], forget: tuple[int, ...] = (), **rest: int) -> dict[int, object]:
        """Sends what changed; returns the answers by partition."""
        wanted = [FetchPartition(index, fetch_offset=at, partition_max_bytes=1 << 20) for index, at in offsets.items()]
        request = FetchRequest(
            **{"min_bytes": 0, "session_id": self.id, "session_epoch": self.epoch, **rest},
            topics=[FetchTopic("t", partitions=wanted)] if wanted else [],
            forgotten_topics_data=[ForgottenTopic("t", partitions=list(forget))] if forget else [],
        )
        response = await self.raw.ask(ApiKey.FETCH, 11, request)
        self.error_code = response.error_code
        self.id = response.session_id
        self.epoch += 1
        return {each.partition_index: each for topic in response.responses for each in topic.partitions}


@pytest.fixture
async def session(raw: Raw) -> Session:
    each = Session(raw)
    assert set(await each.fetch({0: 0, 1: 0, 2: 0})) == {0, 1, 2}
    assert each.id > 0
    return each


async def test_a_session_answers_only_what_changed(raw: Raw, session: Session) -> None:
    assert await session.fetch({}) == {}
    await raw.produce("t", batch_of(b"news"), partition=1)
    answer = await session.fetch({})
    assert set(answer) == {1}
    assert values(answer[1].records) == [b"news"]  # type: ignore[attr-defined]
    assert await session.fetch({1: 1}) == {}


async def test_a_session_that_was_told_all_is_told_what_comes_then(broker: Broker, raw: Raw, session: Session) -> None:
    """Partitions without news are passed over: none of these changes may be missed."""
    for partition in range(3):
        await raw.produce("t", batch_of(b"a", b"b"), partition=partition)
    assert set(await session.fetch({0: 2, 1: 2, 2: 2})) == {0, 1, 2}
    for _ in range(3):
        assert await session.fetch({}) == {}
    await raw.delete_records("t", 1)
    assert {at: each.log_start_offset for at, each in (await session.fetch({})).items()} == {0: 1}  # type: ignore[attr-defined]
    assert await session.fetch({}) == {}
    # What is too little to be told now is told later.
    await raw.produce("t", batch_of(b"c"), partition=1)
    waiting = asyncio.ensure_future(session.fetch({}, min_bytes=200, max_wait_ms=60_000))
    await until(lambda: len(broker.services.purgatory))
    async with await Raw.connect(broker.address) as other:
        await other.produce("t", batch_of(b"d" * 200), partition=2)
        assert set(await waiting) == {1, 2}
        assert set(await session.fetch({1: 3, 2: 3})) == set()
        waiting = asyncio.ensure_future(session.fetch({}, min_bytes=1, max_wait_ms=60_000))
        await until(lambda: len(broker.services.purgatory))
        await other.delete_topic("t")
        await other.produce("none", batch_of(b"x"))
        broker.services.purgatory.expire_all()
        errors = {at: each.error_code for at, each in (await waiting).items()}  # type: ignore[attr-defined]
        assert errors == dict.fromkeys(range(3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def test_a_session_with_one_change_looks_at_one_partition(broker: Broker, raw: Raw) -> None:
    """What a wide session costs, without noise: Python calls. Each look at a partition is some twenty."""
    count = 100
    await raw.create_topic("wide", count)
    names = [FetchPartition(index, fetch_offset=0, partition_max_bytes=1000) for index in range(count)]
    begin = FetchRequest(session_epoch=0, topics=[FetchTopic("wide", partitions=names)])
    session_id = (await raw.ask(ApiKey.FETCH, 11, begin)).session_id
    for epoch in (1, 2):
        await raw.ask(ApiKey.FETCH, 11, FetchRequest(session_id=session_id, session_epoch=epoch))
    await raw.produce("wide", batch_of(b"news"), partition=7)
    calls = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        response = await raw.ask(ApiKey.FETCH, 11, FetchRequest(session_id=session_id, session_epoch=3))
    finally:
        sys.setprofile(None)
    assert [each.partition_index for each in response.responses[0].partitions] == [7]
    assert calls < 800  # the client's among them; before it was over 2,000


async def test_a_session_takes_changes_and_forgets(raw: Raw, session: Session) -> None:
    await raw.produce("t", batch_of(b"a"), partition=0)
    await raw.produce("t", batch_of(b"b"), partition=1)
    assert set(await session.fetch({}, forget=(0,))) == {1}
    assert set(await session.fetch({0: 0, 1: 1})) == {0}


async def test_a_session_that_forgets_all_it_has_is_over(broker: Broker, session: Session) -> None:
    assert await session.fetch({}, forget=(0, 1, 2)) == {}
    assert (session.error_code, session.id) == (0, 0)
    assert len(broker.services.fetch_sessions) == 0


async def test_a_wrong_epoch_or_id_is_refused(session: Session) -> None:
    await session.fetch({}, session_epoch=7)
    assert session.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    await session.fetch({}, session_id=123456, session_epoch=1)
    assert session.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_epoch_minus_one_ends_a_session_and_answers_in_full(broker: Broker, session: Session) -> None:
    assert set(await session.fetch({0: 0, 1: 0}, session_epoch=-1)) == {0, 1}
    assert session.id == 0
    assert len(broker.services.fetch_sessions) == 0


async def test_epoch_zero_replaces_a_session(broker: Broker, session: Session) -> None:
    first = session.id
    await session.fetch({0: 0}, session_epoch=0)
    assert session.id not in (0, first)
    assert len(broker.services.fetch_sessions) == 1


async def test_partitions_that_got_data_go_to_the_end_of_the_queue(raw: Raw, broker: Broker) -> None:
    """But not by the first response, which has all partitions in the order of the request."""
    for partition in range(3):
        for _ in range(2):
            await raw.produce("t", batch_of(b"x" * 3000), partition=partition)
    session = Session(raw)
    await session.fetch({2: 0, 0: 0, 1: 0}, max_bytes=3100)
    served = [await session.fetch({}, max_bytes=3100) for _ in range(3)]
    assert [[at for at, each in answer.items() if each.records] for answer in served] == [[2], [0], [1]]


async def test_a_session_waits_as_any_other_fetch(broker: Broker, raw: Raw, session: Session) -> None:
    async with await Raw.connect(broker.address) as producer:
        waiting = asyncio.ensure_future(session.fetch({}, min_bytes=1, max_wait_ms=60_000))
        await until(lambda: len(broker.services.purgatory))
        await producer.produce("t", batch_of(b"late"), partition=2)
        assert set(await waiting) == {2}


async def test_without_a_free_slot_there_is_no_session_but_an_answer(config: BrokerConfig, tmp_path: Path) -> None:
    config = replace(config, max_incremental_fetch_session_cache_slots=1, log_dirs=(str(tmp_path / "other"),))
    async with Broker(config) as broker:
        async with await Raw.connect(broker.address) as raw:
            await raw.create_topic("t", 3)
            first, second = Session(raw), Session(raw)
            await first.fetch({0: 0})
            assert set(await second.fetch({1: 0})) == {1}
            assert first.id > 0
            assert second.id == 0
