"""Dead letters (KIP-1191): which records become some, what they hold, and what keeps them from being written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.coordination.features import SHARE_VERSION
from odradek.broker.coordination.share_states.share_state import StateBatch
from odradek.broker.security.acls import Operation, ResourceType
from odradek.broker.security.principals import user
from odradek.broker.share_partitions import dead_letter_records, dead_letter_topics, dead_letters
from odradek.broker.share_partitions.machine import DeadLetters
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.records.batch import HEADER_SIZE, encode_batch, read_header, with_body
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.http import get
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clients.share_member import ACCEPT, GAP, REJECT, RELEASE, data_of
from odradek.tests.support.fakes.memory_persister import MemoryPersister
from odradek.tests.support.security.principals import allow, secured
from odradek.tests.support.simulations.share_world import GROUP, LOCK_MS, ShareWorld, share_world
from odradek.tests.support.waiting import until

TOPIC, BROKER, GROUPS = 2, 4, 32
NAME = "errors.deadletterqueue.topic.name"
REJECTED, TOO_OFTEN = dead_letter_records.REJECTED, dead_letter_records.TOO_OFTEN
FLAG = "errors.deadletterqueue.group.enable"


async def with_queue(world: ShareWorld, partitions: int = 1, topic: str = "dlq.g", **configs: str) -> None:
    """Give the group a topic of dead letters."""
    made = await world.raw.create_topic(topic, partitions, **{FLAG: "true", **configs})
    assert made.error_code == 0
    assert await world.raw.configure(GROUPS, GROUP, **{NAME: topic}) == 0


async def with_created_queue(world: ShareWorld) -> None:
    """Give the group a topic of dead letters that the broker creates."""
    auto = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
    assert await world.raw.configure(BROKER, "", **auto) == 0
    assert await world.raw.configure(GROUPS, GROUP, **{NAME: "dlq.new"}) == 0


def queue(world: ShareWorld, topic: str = "dlq.g") -> Any:
    found = world.broker.topics.get(topic)
    assert found is not None
    return found


def written(world: ShareWorld, topic: str = "dlq.g") -> list[Record]:
    """Return what the topic of dead letters has."""
    return [record for _, records in queue(world, topic).partitions[0].replay_batches() for record in records]


def told(records: list[Record], *names: str) -> list[tuple[str, ...]]:
    """Return some headers of dead letters."""
    kept = [{name.removeprefix("__dlq.errors."): (text or b"").decode() for name, text in r.headers} for r in records]
    return [tuple(each[name] for name in names) for each in kept]


@pytest.fixture
async def world(
    config: BrokerConfig, persister: MemoryPersister, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ShareWorld]:
    monkeypatch.setattr(dead_letter_topics, "PAUSES_S", (0.0,) * 4)
    async with share_world(config, persister) as made:
        for partition in (0, 1):
            await made.raw.produce("t", batch_of(*[b"x%d" % at for at in range(10)]), partition=partition)
        yield made


async def settled(world: ShareWorld, partition: int = 0) -> None:
    """Wait until everything is written."""
    actor = world.broker.services.share_leader.partitions.find(GROUP, (world.topic_id, partition))
    assert actor is not None
    await actor.settled()


async def reject(world: ShareWorld, *offsets: int, partition: int = 0) -> None:
    """Acquire everything, reject some, and wait until they are dead."""
    ann = await world.member("ann", partition)
    await world.gets(ann, partition=partition)
    said = [(offset, offset, (REJECT,)) for offset in offsets]
    assert data_of(await ann.acknowledge(partition, *said), partition).error_code == 0
    await settled(world, partition)


async def test_a_dead_letter_says_where_it_comes_from_and_has_nothing_of_its_record(world: ShareWorld) -> None:
    await with_queue(world)
    await reject(world, 3)
    (record,) = written(world)
    assert (record.key, record.value, record.timestamp_ms) == (None, None, world.clock.now_ms())
    assert record.headers == (
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"3"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", REJECTED.encode()),
    )
    assert world.state().batches == (StateBatch(3, 3, 4, 1),)


async def test_which_records_become_dead_letters(world: ShareWorld) -> None:
    await with_queue(world)
    assert await world.raw.configure(GROUPS, GROUP, **{"share.delivery.count.limit": "2"}) == 0
    ann = await world.member("ann", 0)
    await world.gets(ann)
    await ann.acknowledge(0, (0, 3, (ACCEPT, REJECT, RELEASE, GAP)), (4, 5, (RELEASE,)), (6, 9, (ACCEPT,)))
    assert await world.gets(ann) == [(2, 2, 2), (4, 5, 2)]
    await ann.acknowledge(0, (2, 2, (REJECT,)), (4, 4, (RELEASE,)))
    world.advance(LOCK_MS)
    await settled(world)
    assert told(written(world), "offset", "delivery.count", "message") == [
        ("1", "1", REJECTED),
        ("2", "2", REJECTED),
        ("4", "2", TOO_OFTEN),
        ("5", "2", TOO_OFTEN),
    ]
    assert all(each.delivery_state in (2, 4) for each in world.state().batches)


async def test_the_end_of_a_session_may_be_the_last_delivery(world: ShareWorld) -> None:
    await with_queue(world)
    world.begins_at(0, 0, StateBatch(0, 9, 0, 4))
    ann = await world.member("ann", 0)
    taken = await world.gets(ann)
    assert taken == [(0, 0, 5)]
    await ann.fetch(epoch=-1)
    await world.loaded()
    await settled(world)
    assert told(written(world), "offset", "message") == [("0", TOO_OFTEN)]


@pytest.mark.parametrize(("copies", "content"), [("false", (None, None)), ("true", (b"k", b"x"))])
async def test_key_and_value_are_copied_where_the_group_says_so(
    world: ShareWorld, copies: str, content: tuple[bytes | None, bytes | None]
) -> None:
    await with_queue(world)
    assert await world.raw.configure(GROUPS, GROUP, **{"errors.deadletterqueue.copy.record.enable": copies}) == 0
    batch = encode_batch([Record(-1, 5, b"k", b"x", (("h", b"1"),))], compression=Compression.GZIP)
    await world.raw.produce("t", batch)
    world.begins_at(0, 10)
    await reject(world, 10)
    (record,) = written(world)
    assert (record.key, record.value, len(record.headers)) == (*content, 6)


async def test_what_the_log_has_no_more_or_what_is_too_large_has_headers_alone(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_queue(world, **{"max.message.bytes": "400"})
    assert await world.raw.configure(GROUPS, GROUP, **{"errors.deadletterqueue.copy.record.enable": "true"}) == 0
    # A window has one batch.
    monkeypatch.setattr(dead_letter_records, "WINDOW_BYTES", 1)
    await world.raw.produce("t", batch_of(b"y" * 500))
    await world.raw.produce("t", batch_of(b"z", b"w"))
    world.begins_at(0, 8, StateBatch(8, 13, 3, 1))
    await world.loaded()
    await settled(world)
    assert [(each.value, dict(each.headers)["__dlq.errors.offset"]) for each in written(world)] == [
        *((b"x8", b"8"), (b"x9", b"9"), (None, b"10"), (b"z", b"11"), (b"w", b"12")),
    ]


async def test_the_partition_is_that_of_the_record_modulo_the_count(world: ShareWorld) -> None:
    await with_queue(world, 1)
    await reject(world, 0, partition=1)
    assert told(written(world), "partition") == [("1",)]


@pytest.mark.parametrize(("configs", "most_bytes"), [({"max.message.bytes": "500"}, 500), ({}, 2_000)])
async def test_a_batch_has_the_topics_size_and_is_no_larger_than_a_turn_of_the_loop_encodes(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch, configs: dict[str, str], most_bytes: int
) -> None:
    monkeypatch.setattr(dead_letters, "MAX_BYTES", 2_000)
    await with_queue(world, **configs)
    await reject(world, *range(10))
    batches = [header.size_bytes for header, _ in queue(world).partitions[0].replay_batches()]
    assert len(batches) > 1 and all(size <= most_bytes for size in batches)
    assert told(written(world), "offset") == [(str(at),) for at in range(10)]


async def test_a_record_that_was_compressed_to_little_is_not_encoded_to_learn_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letter_records, "encode_batch", lambda _: 1 // 0)
    record = dead_letter_records.dead_letter((), (None, b"x" * 2_001), 0, 2_000)
    assert (record.key, record.value) == (None, None)


def test_originals_that_were_compressed_to_little_are_kept_a_window_at_a_time() -> None:
    records = [Record(-1, 5, b"k", bytes(dead_letter_records.WINDOW_BYTES // 2)) for _ in range(9)]
    batch = encode_batch(records, compression=Compression.GZIP)
    for first in (0, 6):
        kept = dead_letter_records._originals(batch, first, 8)  # pyright: ignore[reportPrivateUsage]
        assert (list(kept.records), kept.last) == ([first, first + 1], first + 1)


async def test_offsets_that_are_being_written_hold_the_start_and_count_for_nothing(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_queue(world)
    seen: list[Any] = []
    produce = dead_letter_topics.OwnWire.produce

    async def watched(self: Any, topic: str, index: int, request: Any) -> Any:
        seen.append(world.state())
        return await produce(self, topic, index, request)

    monkeypatch.setattr(dead_letter_topics.OwnWire, "produce", watched)
    await reject(world, *range(10))
    (before,) = seen
    assert (before.start_offset, before.delivery_complete_count, before.batches) == (0, 0, (StateBatch(0, 9, 3, 1),))
    # The write that says that they are archived does not know yet that the start has moved.
    assert world.state().batches == (StateBatch(0, 9, 4, 1),)


async def test_a_load_writes_again_what_was_under_way(world: ShareWorld) -> None:
    await with_queue(world)
    world.begins_at(0, 0, StateBatch(0, 1, 3, 5), StateBatch(2, 2, 3, 4), StateBatch(3, 9, 2, 1))
    await world.loaded()
    await settled(world)
    assert told(written(world), "offset", "message") == [("0", TOO_OFTEN), ("1", TOO_OFTEN), ("2", REJECTED)]
    assert [each.delivery_state for each in world.state().batches] == [4, 4, 2]


async def test_a_state_that_cannot_be_written_is_no_dead_letter(world: ShareWorld) -> None:
    await with_queue(world)
    ann = await world.member("ann", 0)
    await world.gets(ann)
    world.persister.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert data_of(await ann.acknowledge(0, (0, 0, (REJECT,)))).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.persister.failure = ErrorCode.NONE
    assert data_of(await ann.acknowledge(0, (0, 0, (ACCEPT,)))).error_code == 0
    await settled(world)
    assert written(world) == []


async def test_at_level_1_of_share_version_there_are_no_dead_letters(
    world: ShareWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await with_queue(world)
    lower = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(SHARE_VERSION, 1, upgrade_type=2)])
    assert (await world.raw.ask(ApiKey.UPDATE_FEATURES, 1, lower)).error_code == 0
    await reject(world, 0)
    assert written(world) == [] and errors(caplog) == []
    assert world.state().batches == (StateBatch(0, 0, 4, 1),)


async def test_metrics_tell_what_is_held_and_what_is_dead_and_why(
    config: BrokerConfig, persister: MemoryPersister, caplog: pytest.LogCaptureFixture
) -> None:
    async with share_world(replace(config, http_listener="127.0.0.1:0"), persister) as world:
        await world.raw.produce("t", batch_of(*[b"x"] * 10))
        await with_queue(world)
        world.begins_at(0, 0, StateBatch(0, 0, 3, 5))
        await reject(world, 3, 4)
        await world.raw.configure(GROUPS, GROUP, **{NAME: "dlq.missing"})
        await reject(world, 5)
        address = world.broker.http_address
        assert address is not None
        own, kafka = [(await get(address, path)).text for path in ("/metrics", "/metrics/kafka")]
        assert 'odradek_share_group_records{group="g",state="held"} 6' in own
        assert 'odradek_share_group_records{group="g",state="archiving"} 0' in own
        assert 'odradek_share_group_dead_letters_total{group="g",cause="rejected"} 3' in own
        assert 'odradek_share_group_dead_letters_total{group="g",cause="delivery_count"} 1' in own
        assert 'odradek_share_group_dead_letters_lost_total{group="g"} 1' in own
        name = "kafka_server_sharegroupmetrics_deadletterqueue"
        assert f'{name}recordcount_total{{group="g"}} 3' in kafka
        assert f'{name}totalproducerequests_total{{group="g"}}' in kafka
        assert f'{name}failedproducerequests_total{{group="g"}} 0' in kafka


# -- The topic


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("topic", "flag", "why"),
    [
        ("other", "true", "errors.deadletterqueue.topic.name.prefix"),
        ("dlq.g", "false", "errors.deadletterqueue.group.enable is false"),
        ("dlq.missing", "true", "auto.create.topics.enable is false"),
    ],
)
async def test_a_topic_that_may_not_be_used_costs_the_dead_letters_and_one_line(
    world: ShareWorld, caplog: pytest.LogCaptureFixture, topic: str, flag: str, why: str
) -> None:
    if topic != "dlq.missing":
        await world.raw.create_topic(topic, **{FLAG: flag})
    assert await world.raw.configure(GROUPS, GROUP, **{NAME: topic}) == 0
    await reject(world, 0, 1, 2)
    (line,) = errors(caplog)
    assert why in line and "3 records of t-0, offsets 0 to 2" in line
    assert world.state().batches == (StateBatch(0, 2, 4, 1),)


async def test_any_name_will_do_where_the_prefix_is_empty(world: ShareWorld) -> None:
    await with_queue(world, topic="other")
    assert await world.raw.configure(BROKER, "", **{"errors.deadletterqueue.topic.name.prefix": ""}) == 0
    await reject(world, 0)
    assert len(written(world, "other")) == 1


async def test_the_topic_is_created_with_the_first_dead_letter(world: ShareWorld) -> None:
    await with_created_queue(world)
    await reject(world, 0, 5)
    assert queue(world, "dlq.new").record.configs == {FLAG: "true", "message.timestamp.type": "CreateTime"}
    assert len(written(world, "dlq.new")) == 2


async def test_a_group_may_name_any_topic_but_no_internal_one(world: ShareWorld) -> None:
    for name in ("", "dlq.g", "a b", "." * 250, "x"):
        assert await world.raw.configure(GROUPS, GROUP, **{NAME: name}) == 0
    assert await world.raw.configure(GROUPS, GROUP, **{NAME: "__x"}) == ErrorCode.INVALID_CONFIG


# -- Errors of the write


async def test_a_controller_that_changes_costs_no_dead_letter(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create, tries = dead_letter_topics.OwnWire.create, list[str]()

    async def moved(self: Any, topic: Any) -> None:
        tries.append(topic.name)
        if len(tries) == 1:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        await create(self, topic)

    monkeypatch.setattr(dead_letter_topics.OwnWire, "create", moved)
    await with_created_queue(world)
    await reject(world, 0)
    assert (tries, errors(caplog), len(written(world, "dlq.new"))) == (["dlq.new"] * 2, [], 1)


async def test_a_topic_whose_partitions_are_not_known_yet_is_waited_for() -> None:
    config = SimpleNamespace(errors_deadletterqueue_topic_name_prefix="")
    flagged = SimpleNamespace(errors_deadletterqueue_group_enable=True)
    topics = SimpleNamespace(get=lambda _: SimpleNamespace(partitions=[], config=flagged))
    found: Any = dead_letter_topics.DeadLetterTopics(*cast(Any, (config, topics, None)))
    with pytest.raises(KafkaError) as error:
        await found.find("dlq.new")
    assert error.value.code is ErrorCode.LEADER_NOT_AVAILABLE


Break = Callable[[int], KafkaError | None]


def failing(monkeypatch: pytest.MonkeyPatch, error_of: Break) -> list[int]:
    """Have writes fail, as `error_of` their number says. Return the list that counts them."""
    produce, tries = dead_letter_topics.OwnWire.produce, list[int]()

    async def broken(self: Any, topic: str, index: int, request: Any) -> Any:
        tries.append(index)
        error = error_of(len(tries))
        if error is not None:
            raise error
        return await produce(self, topic, index, request)

    monkeypatch.setattr(dead_letter_topics.OwnWire, "produce", broken)
    return tries


async def test_errors_that_pass_are_tried_again(world: ShareWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await with_queue(world)
    # A leader moves, a replica restarts, and a disk is full.
    passing = iter(("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR", "NETWORK_EXCEPTION"))
    tries = failing(monkeypatch, lambda _: KafkaError(ErrorCode[name]) if (name := next(passing, None)) else None)
    await reject(world, 0)
    assert len(tries) == 5 and len(written(world)) == 1
    counts = world.broker.services.share_leader.dead_letters.counts["g"]
    assert (counts.records, counts.requests, counts.failed_requests) == (1, 5, 0)


async def test_but_five_times_at_most(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await with_queue(world)
    tries = failing(monkeypatch, lambda n: KafkaError(ErrorCode.NETWORK_EXCEPTION) if n <= 5 else None)
    await reject(world, 0, 1)
    assert len(tries) == 5 and len(errors(caplog)) == 1
    counts = world.broker.services.share_leader.dead_letters.counts["g"]
    assert (counts.records, counts.requests, counts.failed_requests) == (0, 5, 1)
    ann = await world.member("bob", 0)
    await world.gets(ann)
    assert world.state().batches == (StateBatch(0, 1, 4, 1),)


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"cleanup.policy": "compact"}, "INVALID_RECORD"),
        ({"max.message.bytes": "60"}, "MESSAGE_TOO_LARGE"),
    ],
)
async def test_other_errors_are_final(
    world: ShareWorld, caplog: pytest.LogCaptureFixture, configs: dict[str, str], code: str
) -> None:
    await with_queue(world, **configs)
    await reject(world, 0)
    (line,) = errors(caplog)
    assert code in line
    assert written(world) == [] and world.state().batches == (StateBatch(0, 0, 4, 1),)


async def test_a_topic_that_is_deleted_meanwhile_is_no_use_to_wait_for(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await with_queue(world)

    def delete(_: int) -> None:
        topic = world.broker.topics.get("dlq.g")
        if topic is not None:
            world.broker.services.delete_topic(topic)

    tries = failing(monkeypatch, delete)
    await reject(world, 0)
    assert len(tries) == 1 and len(errors(caplog)) == 1


async def test_a_failure_that_nobody_foresaw_has_a_line_too(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await with_queue(world)
    monkeypatch.setattr(dead_letters, "encode_batch", lambda _: 1 // 0)
    await reject(world, 0)
    (line,) = errors(caplog)
    assert "ZeroDivisionError" in line
    assert world.state().batches == (StateBatch(0, 0, 4, 1),)


@pytest.mark.parametrize("code", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.MESSAGE_TOO_LARGE])
async def test_what_its_leader_waits_for_no_more_costs_nothing(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: ErrorCode
) -> None:
    await with_queue(world)
    shares = world.broker.services.share_leader.partitions

    def give_up(_: int) -> KafkaError:
        actor = shares.find(GROUP, (world.topic_id, 0))
        assert actor is not None
        for task in actor._work:  # pyright: ignore[reportPrivateUsage]
            task.cancel()
        return KafkaError(code)

    tries = failing(monkeypatch, give_up)
    await reject(world, 0)
    writer = world.broker.services.share_leader.dead_letters
    await until(lambda: not writer._queues)
    # The next leader writes it.
    assert len(tries) == 1 and errors(caplog) == [] and writer.counts[GROUP].lost == 0
    assert world.state().batches == (StateBatch(0, 0, 3, 1),)


async def test_a_batch_of_very_many_offsets_costs_a_batch_at_a_time(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dead_letters, "MAX_RECORDS", 4)
    await with_queue(world)
    failing(monkeypatch, lambda n: KafkaError(ErrorCode.MESSAGE_TOO_LARGE) if n == 3 else None)
    one, count = encode_batch([Record(-1, 5, None, b"x")]), 1 << 31
    # As compaction leaves one.
    sparse = with_body(read_header(one)._replace(last_offset_delta=count - 2), one[HEADER_SIZE:], Compression.NONE)
    world.broker.services.share_leader.partitions.partition((world.topic_id, 0)).append_internal(sparse)
    world.begins_at(0, 8, StateBatch(8, 8, 3, 1), StateBatch(9, 8 + count, 3, 2))
    await world.loaded()
    await settled(world)
    assert told(written(world), "offset") == [(str(at),) for at in range(8, 16)]
    assert f"{count - 7} records of t-0, offsets 16 to {8 + count}" in errors(caplog)[0]


async def test_a_leader_that_hangs_holds_up_a_stop_once(world: ShareWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await with_queue(world)
    asked = asyncio.Event()

    async def hang(*_: object) -> Any:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(dead_letter_topics.OwnWire, "produce", hang)
    ann = await world.member("ann", 0)
    await world.gets(ann)
    await ann.acknowledge(0, (0, 0, (REJECT,)))
    await asked.wait()
    leader, left = world.broker.services.share_leader, list[float]()
    close = leader.partitions.close

    async def noted(deadline_s: float) -> None:
        left.append(deadline_s)
        await close(deadline_s)

    monkeypatch.setattr(leader.partitions, "close", noted)
    await leader.close(0.05)
    # The next leader finds it.
    assert left[0] < 0.01 and world.state().batches[0] == StateBatch(0, 0, 3, 1)


async def test_groups_that_wait_for_a_partition_are_written_together(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_queue(world)
    tries = failing(monkeypatch, lambda _: None)
    ann = await world.member("ann", 0)
    bob = await world.member("bob", 1)
    await world.gets(ann)
    await world.gets(bob, partition=1)
    for at in range(10):
        await ann.acknowledge(0, (at, at, (REJECT,)))
        await bob.acknowledge(1, (at, at, (REJECT,)))
    await settled(world)
    await settled(world, 1)
    assert sorted(told(written(world), "partition", "offset")) == [(str(p), str(o)) for p in (0, 1) for o in range(10)]
    assert len(tries) <= 20


async def test_records_of_one_batch_that_die_one_by_one_are_read_once(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_queue(world)
    read, reads = dead_letters.read_originals, list[int]()

    async def counted(partition: Any, offset: int, last: int, *rest: Any) -> Any:
        reads.append(offset)
        return await read(partition, offset, last, *rest)

    monkeypatch.setattr(dead_letters, "read_originals", counted)
    leader = world.broker.services.share_leader
    source = leader.partitions.partition((world.topic_id, 0))
    settings = leader.settings_of(GROUP)._replace(copies_records=True)
    letters = [DeadLetters(at, at, 1, True) for at in (4, 2, 9, 3)]
    await asyncio.gather(*(leader.dead_letters.write(GROUP, source, [each], settings) for each in letters))
    found = [
        (int(at), record.value) for (at,), record in zip(told(written(world), "offset"), written(world), strict=True)
    ]
    values = {record.offset: record.value for _, records in source.replay_batches() for record in records}
    assert found == [(at, values[at]) for at in (2, 3, 4, 9)] and reads == [2]


async def test_the_broker_needs_rights_of_its_own(
    config: BrokerConfig, persister: MemoryPersister, caplog: pytest.LogCaptureFixture
) -> None:
    # Who has not said who he is may do everything; the broker has a name at its listener.
    guarded = replace(secured(config), super_users="User:ANONYMOUS")
    async with share_world(guarded, persister) as world:
        broker = world.broker
        broker._parts.dispatch._own.principal = user("broker")  # pyright: ignore[reportPrivateUsage]
        await world.raw.produce("t", batch_of(*[b"x"] * 10))
        await with_queue(world)
        await reject(world, 0)
        (line,) = errors(caplog)
        assert "TOPIC_AUTHORIZATION_FAILED" in line and written(world) == []
        allow(broker, "broker", Operation.WRITE, ResourceType.TOPIC, "dlq.g")
        await reject(world, 1)
        assert told(written(world), "offset") == [("1",)]

        await with_created_queue(world)
        await reject(world, 2)
        assert "TOPIC_AUTHORIZATION_FAILED" in errors(caplog)[1] and broker.topics.get("dlq.new") is None
        allow(broker, "broker", Operation.CREATE, ResourceType.TOPIC, "dlq.new")
        allow(broker, "broker", Operation.WRITE, ResourceType.TOPIC, "dlq.new")
        await reject(world, 3)
        assert told(written(world, "dlq.new"), "offset") == [("3",)]


async def test_the_counts_of_the_group_that_had_none_for_longest_go(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "MAX_COUNTED_GROUPS", 1)
    await with_queue(world)
    writer = world.broker.services.share_leader.dead_letters
    writer.counts["deleted"] = dead_letters.Counts()
    await reject(world, 3, 4)
    assert {group: each.records for group, each in writer.counts.items()} == {GROUP: 2}
