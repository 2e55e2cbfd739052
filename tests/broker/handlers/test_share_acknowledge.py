"""ShareAcknowledge: what is accepted, what is rejected, and what becomes of a change that cannot be written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.coordination.share_states.share_state import StateBatch
from odradek.broker.handlers import share_acknowledge
from odradek.broker.share_partitions.machine import Acknowledgement
from odradek.broker.share_partitions.sessions import FINAL_EPOCH
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clients.share_member import ACCEPT, GAP, REJECT, RELEASE, RENEW, Said, data_of
from odradek.tests.support.fakes.memory_persister import MemoryPersister
from odradek.tests.support.simulations.share_world import GROUP, LOCK_MS, ShareWorld, share_world


@pytest.fixture
async def world(config: BrokerConfig, persister: MemoryPersister) -> AsyncIterator[ShareWorld]:
    async with share_world(config, persister) as made:
        await made.raw.produce("t", batch_of(*[b"x"] * 10))
        yield made


async def test_each_record_may_have_a_type_of_its_own(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == [(0, 9, 1)]
    response = await ann.acknowledge(0, (0, 3, (ACCEPT, REJECT, RELEASE, GAP)), (4, 9, (ACCEPT,)))
    assert data_of(response).error_code == 0
    assert world.state().batches == (
        StateBatch(0, 0, 2, 1),
        StateBatch(1, 1, 4, 1),
        StateBatch(2, 2, 0, 1),
        StateBatch(3, 3, 4, 1),
        StateBatch(4, 9, 2, 1),
    )
    assert await world.gets(ann) == [(2, 2, 2)]


async def test_at_level_0_of_share_version_nothing_is_fetched_or_acknowledged(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    world.broker.services.groups.set_share_version(0)
    # As Kafka: no session is looked for.
    for response in (await ann.acknowledge(0, (0, 9, (ACCEPT,))), await ann.fetch()):
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


INVALID: list[tuple[ErrorCode, tuple[Said, ...]]] = [
    (ErrorCode.INVALID_REQUEST, ((3, 2, (ACCEPT,)),)),
    (ErrorCode.INVALID_REQUEST, ((0, 2, ()),)),
    (ErrorCode.INVALID_REQUEST, ((0, 2, (ACCEPT, ACCEPT)),)),
    (ErrorCode.INVALID_REQUEST, ((0, 2, (5,)),)),
    (ErrorCode.INVALID_REQUEST, ((0, 2, (-1,)),)),
    (ErrorCode.INVALID_REQUEST, ((0, 2, (RENEW,)),)),
    (ErrorCode.INVALID_REQUEST, ((0, 3, (ACCEPT,)), (1, 4, (ACCEPT,)))),
    (ErrorCode.INVALID_RECORD_STATE, ((0, 3, (ACCEPT,)), (3, 4, (ACCEPT,)))),
    (ErrorCode.INVALID_REQUEST, ((0, 10, (ACCEPT,)),)),
    (ErrorCode.INVALID_REQUEST, ((20, 30, (ACCEPT,)),)),
]


@pytest.mark.parametrize(("code", "said"), INVALID)
async def test_what_contradicts_itself_changes_nothing(
    world: ShareWorld, code: ErrorCode, said: tuple[Said, ...]
) -> None:
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == [(0, 9, 1)]
    assert data_of(await ann.acknowledge(0, *said)).error_code == code
    assert world.state().batches == ()
    assert data_of(await ann.acknowledge(0, (0, 9, (ACCEPT,)))).error_code == 0


async def test_only_the_holder_may_acknowledge(world: ShareWorld) -> None:
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(ann) == [(0, 9, 1)]
    assert data_of(await bob.acknowledge(0, (0, 9, (ACCEPT,)))).error_code == ErrorCode.INVALID_RECORD_STATE
    assert data_of(await ann.acknowledge(0, (0, 4, (ACCEPT,)))).error_code == 0
    # A part of these is acknowledged already: the rest stays as it is.
    assert data_of(await ann.acknowledge(0, (3, 9, (REJECT,)))).error_code == 0
    assert world.state().batches == (StateBatch(5, 9, 4, 1),)


async def test_a_topic_that_nobody_fetched_has_nothing_to_acknowledge(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert data_of(await ann.acknowledge(1, (0, 0, (ACCEPT,))), 1).error_code == unknown
    assert data_of(await ann.acknowledge(9, (0, 0, (ACCEPT,))), 9).error_code == unknown
    # As in Kafka, one that is missing is told, also where nothing of it is acknowledged.
    assert data_of(await ann.acknowledge(9), 9).error_code == unknown
    assert (await ann.acknowledge(1)).responses == []
    ann.topic_id = b"\1" * 16
    assert data_of(await ann.acknowledge(0, (0, 0, (ACCEPT,)))).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert data_of(await ann.acknowledge(0)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_version_1_knows_no_renewal(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    ann.version = 1
    assert await world.gets(ann) == [(0, 9, 1)]
    assert data_of(await ann.acknowledge(0, (0, 9, (RENEW,)))).error_code == ErrorCode.INVALID_REQUEST
    assert (await ann.acknowledge(0, (0, 9, (ACCEPT,)))).error_code == 0


async def test_a_group_may_forbid_renewals(world: ShareWorld) -> None:
    world.broker.services.metadata.group_configs["g"] = {"share.renew.acknowledge.enable": "false"}
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == [(0, 9, 1)]
    response = await ann.acknowledge(0, (0, 4, (ACCEPT,)), (5, 9, (RENEW,)), is_renew_ack=True)
    assert response.acquisition_lock_timeout_ms == LOCK_MS
    assert data_of(response).error_code == ErrorCode.INVALID_RECORD_STATE
    assert world.state().batches == ()


async def test_a_change_that_cannot_be_written_is_taken_back(world: ShareWorld) -> None:
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(ann) == [(0, 9, 1)]
    world.persister.failure = ErrorCode.NOT_COORDINATOR
    response = await ann.acknowledge(0, (0, 9, (RELEASE,)))
    assert data_of(response).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await world.gets(bob) == []
    world.persister.failure = ErrorCode.NONE
    assert data_of(await ann.acknowledge(0, (0, 9, (ACCEPT,)))).error_code == 0


async def test_a_lock_ends_also_where_that_cannot_be_written(world: ShareWorld) -> None:
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(ann) == [(0, 9, 1)]
    world.persister.failure = ErrorCode.NOT_COORDINATOR
    world.advance(LOCK_MS)
    waiting = asyncio.ensure_future(bob.fetch(max_wait_ms=1000))
    response = await waiting
    assert [(each.first_offset, each.delivery_count) for each in data_of(response).acquired_records] == [(0, 2)]


async def test_a_leader_that_is_fenced_reads_the_state_again(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == [(0, 9, 1)]
    # The offsets of the group are altered.
    world.begins_at(0, 5)
    key = next(iter(world.persister.states))
    world.persister.states[key] = world.persister.states[key]._replace(state_epoch=2)
    data = data_of(response := await ann.acknowledge(0, (0, 9, (ACCEPT,))))
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (world.broker.node_id, 0)
    assert [each.node_id for each in response.node_endpoints] == [world.broker.node_id]
    await ann.fetch()
    await world.loaded()
    assert await world.gets(ann) == [(5, 9, 1)]


async def test_an_uninitialized_state_is_an_error_of_the_fetch(world: ShareWorld) -> None:
    world.persister.states.clear()
    ann = await world.member("ann")
    response = await ann.fetch(0, max_wait_ms=60_000)
    assert data_of(response).error_code == ErrorCode.INVALID_REQUEST


async def test_a_write_that_others_have_passed_does_not_set_the_start_back(
    world: ShareWorld, persister: MemoryPersister, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write is tried again while its coordinator moves, and acknowledgements that come later are written before."""
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(bob) == [(0, 9, 1)]
    await world.raw.produce("t", batch_of(b"x"))
    assert await world.gets(ann) == [(10, 10, 1)]
    begun, may_go_on = asyncio.Event(), asyncio.Event()
    write = persister.write

    async def held(*arguments: Any) -> None:
        monkeypatch.setattr(persister, "write", write)
        begun.set()
        await may_go_on.wait()
        await write(*arguments)

    monkeypatch.setattr(persister, "write", held)
    waiting = asyncio.ensure_future(ann.acknowledge(0, (10, 10, (ACCEPT,))))
    await begun.wait()
    for first, last in ((0, 4), (5, 9)):
        assert data_of(await bob.acknowledge(0, (first, last, (ACCEPT,)))).error_code == 0
    assert world.state().start_offset == 5
    may_go_on.set()
    assert data_of(await waiting).error_code == 0
    assert world.state().start_offset == 10
    # Nor for a moment: the broker may be killed after each write.
    assert persister.starts == sorted(persister.starts)


async def test_a_partition_that_is_named_twice_is_answered_once_both_are_written(
    world: ShareWorld, persister: MemoryPersister, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == [(0, 9, 1)]
    write = persister.write

    async def fails_late(*arguments: Any) -> None:
        monkeypatch.setattr(persister, "write", write)
        await asyncio.sleep(0)
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    monkeypatch.setattr(persister, "write", fails_late)
    twice = [AcknowledgePartition(0, [AcknowledgementBatch(*each, [ACCEPT])]) for each in ((0, 4), (5, 9))]
    request = ShareAcknowledgeRequest("g", "ann", ann.epoch, topics=[AcknowledgeTopic(world.topic_id, twice)])
    response = await ann.raw.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, request)
    assert data_of(response).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.state().batches == (StateBatch(5, 9, 2, 1),)


async def test_a_session_that_ends_gives_back_what_its_acknowledgements_leave(world: ShareWorld) -> None:
    """They take turns. A member that closes does not wait for them."""
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(ann) == [(0, 9, 1)]
    leader = world.broker.services.share_leader
    actor = leader.partitions.find(GROUP, (world.topic_id, 0))
    assert actor is not None
    end_slices_after(1)
    written = actor.acknowledge("ann", [Acknowledgement(0, 3, (ACCEPT, REJECT, ACCEPT, REJECT))])
    assert written is not None
    await leader.sessions.end(leader.sessions.go_on(GROUP, "ann", FINAL_EPOCH))
    await written
    assert await world.gets(bob) == [(4, 9, 2)]


async def test_types_that_would_hold_the_loop_are_rejected(world: ShareWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of the log may have a hundred thousand records, and each could be a batch of the share coordinator."""
    monkeypatch.setattr(share_acknowledge, "MAX_BATCHES", 4)
    ann = await world.member("ann", 0)
    assert await world.gets(ann) == [(0, 9, 1)]
    data = data_of(await ann.acknowledge(0, (0, 4, [ACCEPT, REJECT, ACCEPT, REJECT, ACCEPT])))
    assert data.error_code == ErrorCode.INVALID_REQUEST
    assert data_of(await ann.acknowledge(0, (0, 4, [ACCEPT, REJECT, ACCEPT, REJECT, REJECT]))).error_code == 0
