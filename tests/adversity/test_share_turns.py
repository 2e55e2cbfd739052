"""Turns of the event loop while share groups have as many batches in a partition as the broker takes."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.coordination.share_states.machine import MAX_BATCHES
from odradek.broker.share_partitions.machine import MAX_ACQUIRED
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.read_share_group_state import PartitionData, ReadShareGroupStateRequest, ReadStateData
from odradek.protocol.messages.write_share_group_state import PartitionData as Written
from odradek.protocol.messages.write_share_group_state import StateBatch, WriteShareGroupStateRequest, WriteStateData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.loop_turns import LIMIT_MS, WAIT_S, MeasuredBroker, measured_broker
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clients.share_member import ACCEPT, RELEASE, ShareMember, acquired, data_of, initialized

GROUP = "s"
# The broker's loop is its own, in a thread; which loop the client runs on says nothing about it.
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


class Turns:
    """The longest turn of each request, by its name."""

    def __init__(self, measured: MeasuredBroker) -> None:
        self._measured = measured
        self._ms: dict[str, int] = {}

    async def of(self, name: str, response: Awaitable[Any]) -> Any:
        self._measured.begin()
        answer = await response
        self._ms[name] = self._measured.longest_turn_ms
        return answer

    def check(self) -> None:
        assert {name: ms for name, ms in self._ms.items() if ms > LIMIT_MS} == {}


def config_of(folder: Path) -> BrokerConfig:
    return BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(folder),),
        share_coordinator_state_topic_num_partitions=1,
        share_coordinator_snapshot_update_records_per_snapshot=2,
        group_share_partition_max_record_locks=MAX_BATCHES,
        group_share_max_partition_max_record_locks=MAX_BATCHES,
    )


def write(topic_id: bytes, batches: Sequence[StateBatch]) -> WriteShareGroupStateRequest:
    part = Written(0, 1, 0, 0, 0, list(batches))
    return WriteShareGroupStateRequest(GROUP, [WriteStateData(topic_id, [part])])


async def test_a_state_of_as_many_batches_as_may_be(tmp_path: Path) -> None:
    """Each write has all of them: beside those that are there, or across them. Every third is a snapshot."""
    with measured_broker(config_of(tmp_path)) as measured:
        async with await Raw.connect(measured.address, WAIT_S) as raw:
            await raw.create_topic("t")
            topic_id, turns = await initialized(raw, "t", GROUP), Turns(measured)
            for shift in range(4):
                offsets = range(shift, 2 * MAX_BATCHES, 2)
                apart = [StateBatch(at, at, at % 4 // 2 * 2, 1 + shift) for at in offsets]
                await turns.of(f"write {shift}", raw.ask(ApiKey.WRITE_SHARE_GROUP_STATE, 1, write(topic_id, apart)))
            read = ReadShareGroupStateRequest(GROUP, [ReadStateData(topic_id, [PartitionData(0, 0)])])
            response = await turns.of("read", raw.ask(ApiKey.READ_SHARE_GROUP_STATE, 0, read))
            assert len(response.results[0].partitions[0].state_batches) >= MAX_BATCHES
            across = [StateBatch(at, at + MAX_BATCHES, 0, 10 + at % 3) for at in range(MAX_BATCHES)]
            response = await turns.of("across", raw.ask(ApiKey.WRITE_SHARE_GROUP_STATE, 1, write(topic_id, across)))
            assert response.results[0].partitions[0].error_code == 0
    turns.check()


async def test_a_member_that_acknowledges_each_record_by_itself(tmp_path: Path) -> None:
    with measured_broker(config_of(tmp_path)) as measured:
        async with await Raw.connect(measured.address, WAIT_S) as raw:
            await raw.create_topic("t")
            await raw.produce("t", encode_batch([Record(at, 0, None, b"x") for at in range(MAX_BATCHES)]))
            member, turns = ShareMember(raw, GROUP, "m", await initialized(raw, "t", GROUP)), Turns(measured)
            everything = {"max_records": MAX_BATCHES, "batch_size": 1, "max_wait_ms": WAIT_S * 1000}
            await member.fetch(0, max_records=0)
            assert acquired(await turns.of("fetch", member.fetch(0, **everything))) == [(0, MAX_BATCHES - 1, 1)]
            said = [(at, at, [RELEASE if at % 2 else ACCEPT]) for at in range(MAX_BATCHES)]
            response = await turns.of("acknowledge", member.acknowledge(0, *said))
            assert data_of(response).error_code == 0
            again = acquired(await turns.of("fetch again", member.fetch(0, **everything)))
            assert len(again) == MAX_ACQUIRED
            said = [(at, at, [RELEASE]) for at, _, _ in again]
            response = await turns.of("release", member.fetch(0, said={0: said}, max_records=0))
            assert data_of(response).acknowledge_error_code == 0
            await turns.of("end", member.acknowledge(0, epoch=-1))
    turns.check()
