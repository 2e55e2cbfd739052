"""ShareFetch: sessions, what a member gets and when, and its limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.coordination.share_states.share_state import StateBatch
from odradek.broker.handlers import share_fetch
from odradek.broker.share_partitions.sessions import FINAL_EPOCH
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import batch
from odradek.protocol.records.compression import Compression
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clients.share_member import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    acquired,
    data_of,
)
from odradek.tests.support.disks.cold_disk import ColdDisk
from odradek.tests.support.fakes.memory_persister import MemoryPersister
from odradek.tests.support.histories.transactional import Transactional
from odradek.tests.support.simulations.share_world import GROUP, LOCK_MS, ShareWorld, share_world
from odradek.tests.support.waiting import until

RECORD_LIMIT = 1


@pytest.fixture
async def world(config: BrokerConfig, persister: MemoryPersister) -> AsyncIterator[ShareWorld]:
    async with share_world(config, persister) as made:
        yield made


def offsets(records: object) -> list[int]:
    """The offsets of the records in every whole batch."""
    data = bytes(records)  # type: ignore[call-overload]
    return [each.offset for at, _ in batch.iter_headers(data) for each in batch.decode_batch(data, at)]


# -- What a member gets


async def test_a_member_gets_records_and_accepts_them(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(b"a", b"b", b"c"))
    ann = await world.member("ann", 0)
    response = await ann.fetch()
    assert acquired(response) == [(0, 2, 1)]
    assert offsets(data_of(response).records) == [0, 1, 2]
    assert response.acquisition_lock_timeout_ms == LOCK_MS
    assert data_of(await ann.acknowledge(0, (0, 2, (ACCEPT,)))).error_code == 0
    assert (world.state().start_offset, world.state().delivery_complete_count) == (0, 3)
    assert await world.gets(ann) == []


async def test_two_members_share_the_records(world: ShareWorld) -> None:
    for value in (b"a", b"b", b"c"):
        await world.raw.produce("t", batch_of(value))
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(ann, max_records=1) == [(0, 0, 1)]
    assert await world.gets(bob, max_records=1) == [(1, 1, 1)]
    assert await world.gets(ann) == [(2, 2, 1)]
    assert await world.gets(bob) == []


async def test_only_the_batches_of_acquired_records_are_sent(world: ShareWorld) -> None:
    for _ in range(4):
        await world.raw.produce("t", batch_of(b"a", b"b"))
    ann = await world.member("ann", 0)
    assert await world.gets(ann, max_records=2) == [(0, 1, 1)]
    response = await ann.fetch(max_records=4)
    assert acquired(response) == [(2, 5, 1)]
    assert offsets(data_of(response).records) == [2, 3, 4, 5]


async def test_whole_batches_are_acquired_unless_the_limit_is_strict(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(*[b"x"] * 10))
    await world.raw.produce("t", batch_of(*[b"x"] * 10))
    ann = await world.member("ann", 0)
    assert await world.gets(ann, max_records=3, share_acquire_mode=RECORD_LIMIT) == [(0, 2, 1)]
    assert await world.gets(ann, max_records=3, share_acquire_mode=RECORD_LIMIT) == [(3, 5, 1)]
    assert await world.gets(ann, max_records=3) == [(6, 9, 1)]
    assert await world.gets(ann, max_records=3) == [(10, 19, 1)]


async def test_acquired_records_are_told_in_pieces_of_the_batch_size(world: ShareWorld) -> None:
    for _ in range(5):
        await world.raw.produce("t", batch_of(b"a", b"b"))
    ann = await world.member("ann", 0)
    assert await world.gets(ann, batch_size=3) == [(0, 3, 1), (4, 7, 1), (8, 9, 1)]


async def test_max_records_counts_over_all_partitions(world: ShareWorld) -> None:
    for partition in (0, 1):
        for _ in range(3):
            await world.raw.produce("t", batch_of(b"a"), partition)
    ann = await world.member("ann", 0, 1)
    response = await ann.fetch(max_records=4)
    got = acquired(response, 0), acquired(response, 1)
    assert sum(last - first + 1 for told in got for first, last, _ in told) == 4


async def test_max_bytes_is_shared_by_the_partitions(world: ShareWorld) -> None:
    for partition in (0, 1):
        for _ in range(10):
            await world.raw.produce("t", batch_of(b"x" * 1000), partition)
    ann = await world.member("ann", 0, 1)
    response = await ann.fetch(max_bytes=8000)
    for partition in (0, 1):
        assert acquired(response, partition) == [(0, 2, 1)]


async def test_the_partitions_take_turns_in_being_first(world: ShareWorld) -> None:
    for partition in (0, 1):
        for _ in range(2):
            await world.raw.produce("t", batch_of(b"x"), partition)
    ann = await world.member("ann", 0, 1)
    first, second = [await ann.fetch(max_records=1) for _ in range(2)]
    assert {bool(acquired(first, 0)), bool(acquired(second, 0))} == {True, False}


async def test_a_batch_that_did_not_fit_comes_with_the_next_fetch(world: ShareWorld) -> None:
    for partition in (0, 1):
        await world.raw.produce("t", batch_of(b"x" * 5000), partition)
    ann = await world.member("ann", 0, 1)
    responses = [await ann.fetch(max_bytes=6000) for _ in range(2)]
    assert {partition for each in responses for partition in (0, 1) if acquired(each, partition)} == {0, 1}


# -- When it gets them


async def test_a_fetch_waits_for_records(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    waiting = asyncio.ensure_future(ann.fetch(max_wait_ms=60_000))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await world.raw.produce("t", batch_of(b"a"))
    assert acquired(await waiting) == [(0, 0, 1)]


async def test_a_fetch_waits_for_min_bytes_and_not_longer_than_it_says(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    waiting = asyncio.ensure_future(ann.fetch(max_wait_ms=5000, min_bytes=10_000))
    await world.raw.produce("t", batch_of(b"a"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    world.advance(5000)
    assert acquired(await waiting) == [(0, 0, 1)]


async def test_waiting_fetches_look_at_what_was_woken_alone(
    config: BrokerConfig, persister: MemoryPersister, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []
    find = share_fetch._ShareFetch._find
    monkeypatch.setattr(
        share_fetch._ShareFetch, "_find", lambda self, place: (looked.append(place), find(self, place))[1]
    )
    async with share_world(config, persister, 40) as world:
        members = [await world.member(name, *range(40)) for name in ("ann", "bob", "cid")]
        waiting = [asyncio.ensure_future(each.fetch(max_wait_ms=60_000)) for each in members]
        await until(lambda: len(world.broker.services.purgatory) >= 3)
        looked.clear()
        await world.raw.produce("t", batch_of(b"a"), 7)
        done, late = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        # One of them has the record, and the others wait on.
        assert [acquired(each.result(), 7) for each in done] == [[(0, 0, 1)]] and len(late) == 2
        assert 1 <= len(looked) <= 6 and {place[1] for place in looked} == {7}
        await world.raw.produce("t", batch_of(b"a"), 11)
        await world.raw.produce("t", batch_of(b"a"), 12)
        for index in (11, 12):
            assert index in {place[1] for place in looked}
        got = [acquired(each, index) for each in await asyncio.gather(*late) for index in (11, 12)]
        assert sorted(got) == [[], [], [(0, 0, 1)], [(0, 0, 1)]]


async def test_a_session_forgets_what_is_gone(world: ShareWorld) -> None:
    ann, shares = await world.member("ann", 0), world.broker.services.share_leader
    place = (world.topic_id, 0)
    session = shares.sessions.go_on(GROUP, "ann", 1)
    ann.epoch += 1
    for _ in range(2 * share_fetch.MIN_GONE):
        shares.partitions.drop(shares.partitions.open(GROUP, place, shares.partitions.partition(place)))
        await ann.fetch()
        await world.loaded()
    assert session.seen is not None
    assert len(session.seen.watched) <= 4 + share_fetch.MIN_GONE + 1


async def test_a_fetch_whose_session_ends_elsewhere_is_answered_and_opens_nothing_again(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    waiting = asyncio.ensure_future(ann.fetch(max_wait_ms=60_000))
    await until(lambda: len(world.broker.services.purgatory))
    same = ShareMember(world.raw, GROUP, "ann", world.topic_id)
    assert (await same.fetch(epoch=FINAL_EPOCH)).error_code == 0
    async with asyncio.timeout(20):
        assert acquired(await waiting) == []
    assert len(world.broker.services.share_leader.partitions) == 0


async def test_a_fetch_that_was_replaced_acquires_nothing(world: ShareWorld) -> None:
    """Its connection may be dead: the records would be locked for nobody."""
    ann = await world.member("ann", 0)
    waiting = asyncio.ensure_future(ann.fetch(max_wait_ms=60_000))
    await until(lambda: len(world.broker.services.purgatory))
    again = ShareMember(world.raw, GROUP, "ann", world.topic_id)
    assert (await again.fetch(0, max_records=0)).error_code == 0
    await world.raw.produce("t", batch_of(b"a"))
    async with asyncio.timeout(20):
        assert acquired(await waiting) == []
    assert await world.gets(again) == [(0, 0, 1)]


async def test_a_load_that_fails_as_nobody_foresaw_is_answered_and_logged(
    world: ShareWorld, persister: MemoryPersister, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise ValueError("a planted bug")

    monkeypatch.setattr(persister, "read", broken)
    ann = ShareMember(world.raw, GROUP, "ann", world.topic_id)
    async with asyncio.timeout(20):
        response = await ann.fetch(0, max_wait_ms=60_000)
    assert data_of(response).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a planted bug" in caplog.text


async def test_a_release_answers_a_fetch_that_waits(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(b"a"))
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(ann) == [(0, 0, 1)]
    waiting = asyncio.ensure_future(bob.fetch(max_wait_ms=60_000))
    await asyncio.sleep(0.05)
    assert data_of(await ann.acknowledge(0, (0, 0, (RELEASE,)))).error_code == 0
    assert acquired(await waiting) == [(0, 0, 2)]
    assert world.state().batches == (StateBatch(0, 0, 0, 1),)


async def test_a_lock_ends(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(b"a"))
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(ann) == [(0, 0, 1)]
    waiting = asyncio.ensure_future(bob.fetch(max_wait_ms=2 * LOCK_MS))
    await asyncio.sleep(0.05)
    world.advance(LOCK_MS - 1)
    await asyncio.sleep(0.05)
    assert not waiting.done()
    world.advance(1)
    assert acquired(await waiting) == [(0, 0, 2)]
    assert data_of(await ann.acknowledge(0, (0, 0, (ACCEPT,)))).error_code == ErrorCode.INVALID_RECORD_STATE


async def test_a_renewed_lock_lasts_longer(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(b"a"))
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == [(0, 0, 1)]
    world.advance(LOCK_MS - 1)
    response = await ann.fetch(said={0: [(0, 0, (RENEW,))]}, is_renew_ack=True, min_bytes=0, max_bytes=0, max_records=0)
    assert data_of(response).acknowledge_error_code == 0
    world.advance(LOCK_MS - 1)
    assert data_of(await ann.acknowledge(0, (0, 0, (ACCEPT,)))).error_code == 0


async def test_a_request_that_renews_fetches_nothing(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    assert (await ann.fetch(is_renew_ack=True)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_record_is_given_up_after_its_last_delivery(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(b"a"))
    ann = await world.member("ann", 0)
    for count in range(1, 6):
        assert await world.gets(ann) == [(0, 0, count)]
        assert data_of(await ann.acknowledge(0, (0, 0, (RELEASE,)))).error_code == 0
    assert await world.gets(ann) == []
    assert world.state().batches == (StateBatch(0, 0, 4, 5),)


# -- Acknowledgements of a fetch


async def test_a_fetch_acknowledges_and_says_how_it_ended(world: ShareWorld) -> None:
    for _ in range(2):
        await world.raw.produce("t", batch_of(b"a"))
    ann = await world.member("ann", 0)
    assert await world.gets(ann, max_records=1) == [(0, 0, 1)]
    response = await ann.fetch(said={0: [(0, 0, (REJECT,))]})
    assert acquired(response) == [(1, 1, 1)]
    assert data_of(response).acknowledge_error_code == 0
    response = await ann.fetch(said={0: [(0, 0, (ACCEPT,))], 1: [(7, 7, (ACCEPT,))]})
    # What is below the start offset is done with already.
    assert data_of(response, 0).acknowledge_error_code == 0
    assert data_of(response, 1).acknowledge_error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert bytes(data_of(response, 0).records) == b""


# -- Sessions


async def test_epochs_of_a_session(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    assert (await ann.fetch(epoch=7)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (await ann.acknowledge(0, epoch=0)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (await ann.fetch(said={0: [(0, 0, (ACCEPT,))]}, epoch=0)).error_code == ErrorCode.INVALID_REQUEST
    assert (await ann.acknowledge(0)).error_code == 0
    assert (await ann.fetch()).error_code == 0
    assert (await ann.fetch(epoch=-1)).error_code == 0
    assert (await ann.fetch(epoch=-1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (await ann.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize("member_id", ["", "x" * 37])
async def test_a_member_id_is_a_uuid_or_shorter(world: ShareWorld, member_id: str) -> None:
    ann = ShareMember(world.raw, "g", member_id, world.topic_id)
    assert (await ann.fetch(0)).error_code == ErrorCode.INVALID_REQUEST
    assert (await ann.acknowledge(0, epoch=1)).error_code == ErrorCode.INVALID_REQUEST


async def test_an_answer_has_news_alone(world: ShareWorld) -> None:
    ann = ShareMember(world.raw, "g", "ann", world.topic_id)
    first = await ann.fetch(0, 1)
    assert [each.partition_index for each in first.responses[0].partitions] == [0, 1]
    assert (await ann.fetch()).responses == []
    assert data_of(await ann.fetch(0)) is None


async def test_the_end_of_a_session_gives_back_what_the_member_holds(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(b"a"))
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(ann) == [(0, 0, 1)]
    assert (await ann.fetch(epoch=-1)).error_code == 0
    assert await world.gets(bob) == [(0, 0, 2)]


async def test_the_end_of_a_connection_ends_its_sessions(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(b"a"))
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(ann) == [(0, 0, 1)]
    waiting = asyncio.ensure_future(bob.fetch(max_wait_ms=60_000))
    ann.raw.close()
    assert acquired(await waiting) == [(0, 0, 2)]
    assert len(world.broker.services.share_leader.sessions) == 1


async def test_a_new_session_keeps_what_the_member_holds(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(b"a"))
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == [(0, 0, 1)]
    ann.epoch = 0
    assert acquired(await ann.fetch(0)) == []
    assert data_of(await ann.acknowledge(0, (0, 0, (ACCEPT,)))).error_code == 0


async def test_a_forgotten_partition_is_fetched_no_more_and_given_back_at_the_end(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(b"a"))
    ann, bob = await world.member("ann", 0, 1), await world.member("bob", 0)
    assert await world.gets(ann) == [(0, 0, 1)]
    await world.raw.produce("t", batch_of(b"b"))
    assert (await ann.fetch(forget=[0])).responses == []
    assert (await ann.fetch(epoch=-1)).error_code == 0
    assert await world.gets(bob) == [(0, 0, 2), (1, 1, 1)]


async def test_there_are_at_most_so_many_sessions(config: BrokerConfig, persister: MemoryPersister) -> None:
    async with share_world(replace(config, group_share_max_share_sessions=1), persister) as world:
        ann = await world.member("ann", 0)
        bob = ShareMember(world.raw, "g", "bob", world.topic_id)
        waiting = asyncio.ensure_future(bob.fetch(0, max_wait_ms=500))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        world.advance(500)
        assert (await waiting).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        ann.epoch = 0
        assert (await ann.fetch(0)).error_code == 0
        assert (await ann.fetch(epoch=-1)).error_code == 0
        assert (await bob.fetch(0)).error_code == 0


async def test_the_last_session_of_a_group_takes_its_partitions_with_it(world: ShareWorld) -> None:
    ann, bob = await world.member("ann", 0), await world.member("bob", 1)
    shares = world.broker.services.share_leader.partitions
    await ann.fetch(epoch=-1)
    assert len(shares) == 2
    await bob.fetch(epoch=-1)
    assert len(shares) == 0


# -- What happens to the partition


async def test_records_below_the_start_of_the_log_are_passed_over(world: ShareWorld) -> None:
    for _ in range(5):
        await world.raw.produce("t", batch_of(b"a"))
    ann = await world.member("ann", 0)
    assert await world.gets(ann, max_records=2) == [(0, 1, 1)]
    assert (await world.raw.delete_records("t", 3)).error_code == 0
    assert await world.gets(ann) == [(3, 4, 1)]
    assert data_of(await ann.acknowledge(0, (0, 1, (ACCEPT,)), (3, 4, (ACCEPT,)))).error_code == 0
    assert world.state().start_offset == 3


async def test_a_deleted_topic_ends_the_wait(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    waiting = asyncio.ensure_future(ann.fetch(max_wait_ms=60_000))
    await asyncio.sleep(0.05)
    await world.raw.delete_topic("t")
    assert data_of(await waiting).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_unknown_topics_and_partitions(world: ShareWorld) -> None:
    ann = ShareMember(world.raw, "g", "ann", world.topic_id)
    response = await ann.fetch(0, 9)
    assert data_of(response, 0).error_code == 0
    assert data_of(response, 9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bob = ShareMember(world.raw, "g", "bob", b"\1" * 16)
    assert data_of(await bob.fetch(0, max_wait_ms=60_000)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


# -- Where a group begins


@pytest.mark.parametrize(
    ("reset", "begins"), [("latest", 3), ("earliest", 0), ("by_duration:PT0.005S", 1), ("by_duration:PT0S", 3)]
)
async def test_where_a_group_begins(world: ShareWorld, reset: str, begins: int) -> None:
    now_ms = world.clock.now_ms()
    for ago_ms in (10, 4, 1):
        await world.raw.produce("t", batch_of(b"a", timestamp_ms=now_ms - ago_ms))
    world.begins_at(0, -1)
    world.broker.services.metadata.group_configs["g"] = {"share.auto.offset.reset": reset}
    ann = await world.member("ann", 0)
    assert world.state().start_offset == begins
    await world.raw.produce("t", batch_of(b"new"))
    assert await world.gets(ann) == [(begins, 3, 1)]


async def test_a_group_does_not_begin_behind_a_record_that_grows_too_much(
    world: ShareWorld, caplog: pytest.LogCaptureFixture
) -> None:
    squeezed = batch_of(bytes(5000), timestamp_ms=world.clock.now_ms(), compression=Compression.GZIP)
    await world.raw.produce("t", squeezed)
    await world.raw.configure(2, "t", max_decompressed_message_bytes="1000")
    world.begins_at(0, -1)
    world.broker.services.metadata.group_configs["g"] = {"share.auto.offset.reset": "by_duration:PT1S"}
    ann = ShareMember(world.raw, GROUP, "ann", world.topic_id)
    async with asyncio.timeout(20):
        response = await ann.fetch(0, max_wait_ms=60_000)
    assert data_of(response).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "1000 is the most" in caplog.text
    # It is no defect of the broker.
    assert "Traceback" not in caplog.text


async def test_a_restart_of_the_leader_keeps_counts_and_gaps(world: ShareWorld) -> None:
    for _ in range(6):
        await world.raw.produce("t", batch_of(b"a"))
    world.begins_at(0, 0, StateBatch(1, 1, 2, 1), StateBatch(3, 3, 0, 2), StateBatch(5, 5, 4, 1))
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == [(0, 0, 1), (2, 2, 1), (3, 3, 3), (4, 4, 1)]
    assert data_of(await ann.acknowledge(0, (0, 0, (ACCEPT,)), (2, 4, (ACCEPT,)))).error_code == 0
    assert await world.gets(ann) == []
    assert (world.state().start_offset, world.state().delivery_complete_count) == (0, 6)


async def test_a_group_goes_on_where_a_torn_log_ends_also_after_a_restart(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(b"a"))
    world.begins_at(0, 7)
    ann = await world.member("ann", 0)
    assert world.state().start_offset == 1, "the records that come now would be skipped"
    await world.raw.produce("t", batch_of(b"b"))
    assert await world.gets(ann) == [(1, 1, 1)]


async def test_suspects_come_in_ever_smaller_pieces(world: ShareWorld) -> None:
    await world.raw.produce("t", batch_of(*[b"x"] * 8))
    await world.raw.produce("t", batch_of(b"y"))
    world.begins_at(0, 0, StateBatch(0, 7, 0, 3))
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == [(0, 3, 4)]
    assert data_of(await ann.acknowledge(0, (0, 3, (RELEASE,)))).error_code == 0
    assert await world.gets(ann) == [(0, 0, 5)]
    assert await world.gets(ann) == [(1, 1, 5)]


# -- What is read


async def test_aborted_records_are_left_out_where_the_group_reads_what_is_committed(world: ShareWorld) -> None:
    world.broker.services.metadata.group_configs["g"] = {"share.isolation.level": "read_committed"}
    producer = Transactional(world.raw, "tx")
    await producer.begin()
    await producer.send("t", b"aborted", b"aborted")
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == []
    await producer.end(commit=False)
    await producer.begin()
    await producer.send("t", b"committed")
    assert await world.gets(ann) == [(2, 2, 1)]
    await producer.end(commit=True)
    assert await world.gets(ann) == [(3, 4, 1)]
    assert data_of(await ann.acknowledge(0, (2, 4, (GAP, ACCEPT, GAP)))).error_code == 0
    assert await world.gets(ann) == []


async def test_a_range_of_aborted_records_alone_is_passed_over(world: ShareWorld) -> None:
    world.broker.services.metadata.group_configs["g"] = {"share.isolation.level": "read_committed"}
    producer = Transactional(world.raw, "tx")
    await producer.begin()
    for _ in range(5):
        await producer.send("t", b"aborted")
    await producer.end(commit=False)
    await world.raw.produce("t", batch_of(b"a"))
    ann = await world.member("ann", 0)
    # One batch of one record a fetch; what was aborted counts as in Kafka.
    got = [await world.gets(ann, max_records=1) for _ in range(6)]
    assert got == [[], [], [], [], [], [(5, 5, 1)]]


async def test_what_is_on_disk_alone_is_read_in_a_thread(config: BrokerConfig, persister: MemoryPersister) -> None:
    disk = ColdDisk()
    async with share_world(config, persister, disk=disk) as world:
        for _ in range(3):
            await world.raw.produce("t", batch_of(b"x" * 10_000))
        ann = await world.member("ann", 0)
        disk.chill()
        waiting = asyncio.ensure_future(ann.fetch())
        async with asyncio.timeout(20):
            while not disk.waiting:
                await asyncio.sleep(0)
        disk.open_up()
        response = await waiting
        assert acquired(response) == [(0, 2, 1)]
        assert offsets(data_of(response).records) == [0, 1, 2]
        disk.thaw()
