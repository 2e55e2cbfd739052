"""The share coordinator on the wire (83 to 87), as a running Kafka 4.3.1 answered, and its records in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.coordination.share_states import coordinator, records
from odradek.broker.coordination.share_states.share_state import ShareKey, ShareState, StateBatch
from odradek.broker.topics.topic_names import MAX_PARTITIONS_PER_TOPIC, SHARE_STATE_TOPIC
from odradek.broker.turns import keeper
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages import delete_share_group_state as delete_api
from odradek.protocol.messages import initialize_share_group_state as initialize_api
from odradek.protocol.messages import read_share_group_state as read_api
from odradek.protocol.messages import read_share_group_state_summary as summary_api
from odradek.protocol.messages import write_share_group_state as write_api
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.share_state_records import ShareSnapshotValue, ShareUpdateValue
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.fakes.clock import FakeClock

GROUP = "s"


class States:
    """Requests about the states of one topic. Each method returns the result of the one partition."""

    def __init__(self, raw: Raw, topic_id: bytes, group: str = GROUP) -> None:
        self.raw = raw
        self.topic_id = topic_id
        self.group = group

    async def initialize(self, partition: int, state_epoch: int, start_offset: int) -> Any:
        part = initialize_api.PartitionData(partition, state_epoch, start_offset)
        data = initialize_api.InitializeStateData(self.topic_id, [part])
        return await self._ask(initialize_api.InitializeShareGroupStateRequest(self.group, [data]))

    async def read(self, partition: int, leader_epoch: int) -> Any:
        data = read_api.ReadStateData(self.topic_id, [read_api.PartitionData(partition, leader_epoch)])
        return await self._ask(read_api.ReadShareGroupStateRequest(self.group, [data]))

    async def write(
        self, partition: int, epochs: tuple[int, int], start: int, count: int, batches: Sequence[tuple[int, ...]] = ()
    ) -> Any:
        written = [write_api.StateBatch(*each) for each in batches]
        part = write_api.PartitionData(partition, *epochs, start, count, written)
        data = write_api.WriteStateData(self.topic_id, [part])
        return await self._ask(write_api.WriteShareGroupStateRequest(self.group, [data]), version=1)

    async def delete(self, partition: int) -> Any:
        data = delete_api.DeleteStateData(self.topic_id, [delete_api.PartitionData(partition)])
        return await self._ask(delete_api.DeleteShareGroupStateRequest(self.group, [data]))

    async def summary(self, partition: int) -> Any:
        data = summary_api.ReadStateSummaryData(self.topic_id, [summary_api.PartitionData(partition, -1)])
        return await self._ask(summary_api.ReadShareGroupStateSummaryRequest(self.group, [data]), version=1)

    async def _ask(self, request: Any, version: int = 0) -> Any:
        (result,) = (await self.raw.ask(ApiKey(request.KEY), version, request)).results
        return result.partitions[0]


async def states_of(broker: Broker, raw: Raw, name: str = "t") -> States:
    if broker.topics.get(name) is None:
        await raw.create_topic(name, 2)
    topic = broker.topics.get(name)
    assert topic is not None
    return States(raw, topic.id)


def written(broker: Broker, partition: int) -> list[Any]:
    """The values in the log of one partition of the topic of share states."""
    topic = broker.topics.get(SHARE_STATE_TOPIC)
    assert topic is not None
    found = topic.partition(partition)
    assert found is not None
    batches = (each for _, batch in found.replay_batches() for each in batch)
    decoded = [records.decode_record(each.key or b"", each.value) for each in batches]
    return [None if each is None else each.value for each in decoded]


def partition_of(broker: Broker, states: States, partition: int = 0) -> int:
    key = coordinator.key_text(ShareKey(states.group, states.topic_id, partition))
    return broker.services.share_states.shards.partition_of(key)


async def test_a_state_is_initialized_read_written_and_deleted_as_in_kafka(broker: Broker, raw: Raw) -> None:
    states = await states_of(broker, raw)
    nothing = await states.summary(0)
    assert (nothing.state_epoch, nothing.leader_epoch, nothing.start_offset) == (0, 0, -1)
    read, wrote = await states.read(0, 0), await states.write(0, (0, 0), 0, -1)
    assert (read.error_code, read.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Read operation on uninitialized share partition not allowed.",
    )
    assert wrote.error_message == "Write operation on uninitialized share partition not allowed."
    assert (await states.delete(0)).error_code == 0
    assert (await states.initialize(0, 2, -1)).error_code == 0
    assert (await states.initialize(0, 1, 5)).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert (await states.read(0, 5)).state_epoch == 2
    assert (await states.read(0, 4)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await states.write(0, (2, 4), 0, -1)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await states.write(0, (1, 5), 0, -1)).error_code == ErrorCode.FENCED_STATE_EPOCH
    below = [states.write(0, epochs, 0, -1) for epochs in [(-1, 5), (2, -1)]]
    for asked in (states.initialize(0, -1, 5), states.read(0, -1), *below):
        assert (await asked).error_code == ErrorCode.INVALID_REQUEST
    assert (await states.write(0, (2, 5), 0, 0, [(0, 4, 0, 1), (5, 9, 2, 1)])).error_code == 0
    # A newer leader that has not read is let in, and its epoch is not kept. Without a start offset the count stays.
    assert (await states.write(0, (2, 6), -1, 5, [(2, 6, 4, 1)])).error_code == 0
    assert (await states.summary(0)).delivery_complete_count == 0
    await states.write(0, (2, 5), 0, 5)
    await states.write(0, (2, 5), 0, -1)
    read = await states.read(0, 5)
    batches = [(each.first_offset, each.last_offset, each.delivery_state) for each in read.state_batches]
    assert (read.start_offset, batches) == (0, [(0, 1, 0), (2, 6, 4), (7, 9, 2)])
    summary = await states.summary(0)
    assert (summary.leader_epoch, summary.start_offset, summary.delivery_complete_count) == (5, 0, 5)
    await states.write(0, (2, 5), 5, 3)
    assert [each.first_offset for each in (await states.read(0, 5)).state_batches] == [5, 7]
    assert (await states.initialize(0, 2, 7)).error_code == 0
    summary = await states.summary(0)
    assert (summary.leader_epoch, summary.start_offset, summary.delivery_complete_count) == (0, 7, 0)
    assert (await states.delete(0)).error_code == 0
    assert (await states.summary(0)).start_offset == -1

    values = written(broker, partition_of(broker, states))
    kinds = [
        None if each is None else (type(each), each.snapshot_epoch, each.leader_epoch, each.start_offset)
        for each in values
    ]
    assert kinds == [
        (ShareSnapshotValue, 0, 0, -1),
        (ShareUpdateValue, 0, 5, -1),
        (ShareUpdateValue, 0, 5, 0),
        *[(ShareUpdateValue, 0, 5, 0)] * 3,
        (ShareUpdateValue, 0, 5, 5),
        (ShareSnapshotValue, 1, 0, 7),
        None,
    ]


async def test_what_no_topic_has_is_rejected(broker: Broker, raw: Raw) -> None:
    states = await states_of(broker, raw)
    negative = [
        await states.initialize(-1, 0, 0),
        await states.read(-1, 0),
        await states.write(-1, (0, 0), 0, 0),
        await states.summary(-1),
        await states.delete(-1),
    ]
    assert {each.error_message for each in negative} == {"The partition id cannot be a negative number."}
    for each in (await states.initialize(99, 0, 0), await states.summary(99), await states.delete(99)):
        assert each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await states.read(99, 0)).error_code == ErrorCode.INVALID_REQUEST
    nobody = delete_api.DeleteShareGroupStateRequest(
        "", [delete_api.DeleteStateData(states.topic_id, [delete_api.PartitionData(0)])]
    )
    assert (await raw.ask(ApiKey.DELETE_SHARE_GROUP_STATE, 0, nobody)).results == []
    await states.initialize(0, 1, 0)
    backwards = await states.write(0, (1, 0), 0, 0, [(9, 3, 2, 1)])
    assert backwards.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("updates", [0, 500])
async def test_a_write_that_comes_late_does_not_set_the_start_back(config: BrokerConfig, updates: int) -> None:
    config = replace(config, share_coordinator_snapshot_update_records_per_snapshot=updates)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        states = await states_of(broker, raw)
        await states.initialize(0, 1, 0)
        await states.read(0, 1)
        late = (1, 1), 2, 3, [(2, 4, 2, 1)]
        await states.write(0, *late)
        await states.write(0, (1, 1), 10, 1, [(5, 9, 2, 1), (12, 12, 2, 1)])
        assert (await states.write(0, *late)).error_code == 0
        assert [(each.first_offset, each.last_offset) for each in (await states.read(0, 1)).state_batches] == [(12, 12)]
        summary = await states.summary(0)
        assert (summary.start_offset, summary.delivery_complete_count) == (10, 1)


async def test_a_state_that_is_begun_twice_goes_on(broker: Broker, raw: Raw) -> None:
    states = await states_of(broker, raw)
    await states.initialize(0, 1, -1)
    await states.read(0, 4)
    await states.write(0, (1, 4), 7, 0)
    assert (await states.initialize(0, 1, -1)).error_code == 0
    assert (await states.read(0, 3)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await states.summary(0)).start_offset == 7
    await states.initialize(0, 2, -1)
    assert (await states.summary(0)).start_offset == -1


async def test_states_are_there_after_a_restart(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        states = await states_of(broker, raw)
        await states.initialize(0, 3, 0)
        await states.read(0, 1)
        await states.write(0, (3, 1), 2, 1, [(2, 2, 0, 1), (3, 5, 2, 2)])
        await states.initialize(1, 3, 9)
        await states.delete(1)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        states = await states_of(broker, raw)
        kept = await broker.services.coordinators.persister.read(ShareKey(GROUP, states.topic_id, 0), 1)
        assert kept == ShareState(3, 1, 2, 1, [StateBatch(2, 2, 0, 1), StateBatch(3, 5, 2, 2)])
        assert (await states.summary(1)).start_offset == -1


async def test_the_states_of_a_deleted_topic_go_with_it(broker: Broker, raw: Raw) -> None:
    states = await states_of(broker, raw)
    await states.initialize(0, 1, 0)
    await raw.delete_topic("t")
    assert written(broker, partition_of(broker, states))[-1] is None
    assert broker.services.share_states.shards.actors == {}


async def test_the_states_of_a_deleted_topic_go_a_few_a_turn(broker: Broker, raw: Raw) -> None:
    states = await states_of(broker, raw)
    for partition in (0, 1):
        await states.initialize(partition, 1, 0)
    end_slices_after(1)
    broker.services.share_states.forget_topic(states.topic_id)
    assert len(broker.services.share_states.shards.actors) == 1
    await asyncio.sleep(0)
    assert broker.services.share_states.shards.actors == {}


async def test_every_so_many_updates_a_snapshot_holds_all(config: BrokerConfig) -> None:
    config = replace(config, share_coordinator_snapshot_update_records_per_snapshot=2)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        states = await states_of(broker, raw)
        await states.initialize(0, 1, 0)
        for number in range(3):
            await states.write(0, (1, 0), -1, 0, [(2 * number, 2 * number, 2, 1)])
        values = written(broker, partition_of(broker, states))
        assert [type(each) for each in values] == [
            ShareSnapshotValue,
            ShareUpdateValue,
            ShareUpdateValue,
            ShareSnapshotValue,
        ]
        assert (values[-1].snapshot_epoch, len(values[-1].state_batches)) == (1, 3)


async def test_records_before_every_last_snapshot_are_deleted(config: BrokerConfig) -> None:
    clock = FakeClock()
    config = replace(
        config,
        share_coordinator_snapshot_update_records_per_snapshot=0,
        connections_max_idle_ms=-1,
        share_coordinator_state_topic_num_partitions=1,
    )
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        states = await states_of(broker, raw)
        await states.initialize(0, 1, 0)
        await states.initialize(1, 1, 0)
        for number in range(150):
            await states.write(0, (1, 0), number, 0)
        topic = broker.topics.get(SHARE_STATE_TOPIC)
        assert topic is not None
        log = topic.partitions[0].log
        # The state that is not written keeps everything behind its snapshot, until that is renewed.
        assert (log.log_start_offset, log.log_end_offset) == (0, 152)
        for _ in range(2):
            clock.advance(300_000)
            broker.timers.fire_due()
            # A round takes some turns of the loop.
            for _ in range(5):
                await asyncio.sleep(0)
        assert (log.log_start_offset, log.log_end_offset) == (151, 153)
        assert (await states.summary(1)).start_offset == 0
        assert (await states.summary(0)).start_offset == 149


async def test_states_are_read_one_a_turn_because_each_may_have_very_many_batches(
    broker: Broker, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, share_states = await states_of(broker, raw), broker.services.share_states
    ask, turns = share_states.ask, list[int]()

    def noted(*arguments: Any) -> Any:
        turns.append(keeper().begin())
        return ask(*arguments)

    monkeypatch.setattr(share_states, "ask", noted)
    end_slices_after(1)
    topics = [read_api.ReadStateData(states.topic_id, [read_api.PartitionData(index, 0) for index in range(3)])]
    await raw.ask(ApiKey.READ_SHARE_GROUP_STATE, 0, read_api.ReadShareGroupStateRequest(GROUP, topics))
    assert len(set(turns)) == len(turns) == 3


async def test_cold_states_are_written_again_one_a_step(config: BrokerConfig) -> None:
    clock = FakeClock()
    config = replace(config, connections_max_idle_ms=-1, share_coordinator_state_topic_num_partitions=1)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        states = await states_of(broker, raw)
        await states.initialize(0, 1, 0)
        await states.initialize(1, 1, 0)
        for number in range(coordinator.MIN_BEHIND):
            await states.write(0, (1, 0), number, 0)
        clock.advance(300_000)
        steps = broker.services.share_states._snapshot_cold()  # pyright: ignore[reportPrivateUsage]
        assert [sum(isinstance(each, ShareSnapshotValue) for each in written(broker, 0)) for _ in steps] == [3, 4]


async def test_a_state_whose_topic_cannot_be_created_is_answered_for_each_partition(config: BrokerConfig) -> None:
    config = replace(config, share_coordinator_state_topic_num_partitions=MAX_PARTITIONS_PER_TOPIC + 1)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        states = await states_of(broker, raw)
        for _ in range(2):
            assert (await states.initialize(0, 1, 0)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await states.summary(0)).state_epoch == 0


async def test_a_key_of_a_state_has_a_coordinator(broker: Broker, raw: Raw) -> None:
    states = await states_of(broker, raw)
    right = coordinator.key_text(ShareKey("a:b", states.topic_id, 0))
    keys = [right, "s", "s:xx:0", right[3:], f"{right}x", right.removeprefix("a:b")]
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=keys)
    found = (await raw.ask(ApiKey.FIND_COORDINATOR, 6, request)).coordinators
    assert [each.error_code for each in found[:3]] == [0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    assert found[4].error_code == found[5].error_code == ErrorCode.INVALID_REQUEST
    assert coordinator.key_of(right) == ShareKey("a:b", states.topic_id, 0)
    topic = broker.topics.get(SHARE_STATE_TOPIC)
    assert topic is not None and topic.config.cleanup_policy == ("delete",)
    with pytest.raises(KafkaError):
        coordinator.key_of("nothing")
