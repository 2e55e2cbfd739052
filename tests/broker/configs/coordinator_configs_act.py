"""Show that the configs of groups and transactions change what the broker does."""

from __future__ import annotations

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.tests.broker.configs.world import AWAKE, World, shows
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.histories.transactional import Transactional


@shows("group.min.session.timeout.ms", group_min_session_timeout_ms=10_001)
async def _(world: World) -> None:
    assert await world.join(10_000) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert await world.join(10_001) == 0


@shows("group.max.session.timeout.ms", group_max_session_timeout_ms=9_999)
async def _(world: World) -> None:
    assert await world.join(10_000) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert await world.join(9_999) == 0


@shows("group.initial.rebalance.delay.ms", group_initial_rebalance_delay_ms=700)
async def _(world: World) -> None:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    world.raw.send(ApiKey.JOIN_GROUP, 3, JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", protocols))
    async with await Raw.connect(world.broker.address) as other:
        await other.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
    actor = world.broker.services.groups.groups["g"]
    world.pass_ms(699)
    assert actor.state.generation == 0
    world.pass_ms(1)
    assert (await world.raw.receive(ApiKey.JOIN_GROUP, 3)).generation_id == 1


@shows("group.max.size", group_max_size=1)
async def _(world: World) -> None:
    assert await world.join() == 0
    assert await world.join() == ErrorCode.GROUP_MAX_SIZE_REACHED


@shows(
    "group.consumer.heartbeat.interval.ms",
    group_consumer_heartbeat_interval_ms=123,
    group_consumer_min_heartbeat_interval_ms=123,
)
async def _(world: World) -> None:
    assert (await world.beat("m")).heartbeat_interval_ms == 123


@shows(
    "group.consumer.session.timeout.ms",
    group_consumer_session_timeout_ms=700,
    group_consumer_min_session_timeout_ms=700,
    group_consumer_heartbeat_interval_ms=500,
    group_consumer_min_heartbeat_interval_ms=500,
)
async def _(world: World) -> None:
    epoch = (await world.beat("m")).member_epoch
    world.pass_ms(699)
    assert (await world.beat("m", epoch)).error_code == 0
    world.pass_ms(701)
    assert (await world.beat("m", epoch)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@shows("group.consumer.assignment.interval.ms", group_consumer_assignment_interval_ms=0)
async def _(world: World) -> None:
    assert (await world.beat("m")).member_epoch == 2
    # The next target is computed at once, for the epoch to which the second member raised the group.
    assert (await world.beat("n")).member_epoch == 3


@shows("group.consumer.min.session.timeout.ms", group_consumer_min_session_timeout_ms=45_000)
async def _(world: World) -> None:
    assert await world.configure_group("consumer.session.timeout.ms", 44_999) == ErrorCode.INVALID_CONFIG
    assert await world.configure_group("consumer.session.timeout.ms", 45_000) == 0


@shows("group.consumer.max.session.timeout.ms", group_consumer_max_session_timeout_ms=50_000)
async def _(world: World) -> None:
    assert await world.configure_group("consumer.session.timeout.ms", 50_001) == ErrorCode.INVALID_CONFIG
    assert await world.configure_group("consumer.session.timeout.ms", 50_000) == 0


@shows("group.consumer.min.heartbeat.interval.ms", group_consumer_min_heartbeat_interval_ms=100)
async def _(world: World) -> None:
    assert await world.configure_group("consumer.heartbeat.interval.ms", 99) == ErrorCode.INVALID_CONFIG
    assert await world.configure_group("consumer.heartbeat.interval.ms", 100) == 0
    assert (await world.beat("m")).heartbeat_interval_ms == 100


@shows("group.consumer.max.heartbeat.interval.ms", group_consumer_max_heartbeat_interval_ms=6000)
async def _(world: World) -> None:
    assert await world.configure_group("consumer.heartbeat.interval.ms", 6001) == ErrorCode.INVALID_CONFIG
    assert await world.configure_group("consumer.heartbeat.interval.ms", 6000) == 0


@shows("group.consumer.min.assignment.interval.ms", group_consumer_min_assignment_interval_ms=10)
async def _(world: World) -> None:
    assert await world.configure_group("consumer.assignment.interval.ms", 9) == ErrorCode.INVALID_CONFIG
    assert await world.configure_group("consumer.assignment.interval.ms", 10) == 0


@shows("group.consumer.max.assignment.interval.ms", group_consumer_max_assignment_interval_ms=2000)
async def _(world: World) -> None:
    assert await world.configure_group("consumer.assignment.interval.ms", 2001) == ErrorCode.INVALID_CONFIG
    assert await world.configure_group("consumer.assignment.interval.ms", 2000) == 0


@shows("group.consumer.assignors", group_consumer_assignors=("range",))
async def _(world: World) -> None:
    assert (await world.beat("m", assignor="uniform")).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert (await world.beat("m", assignor="range")).error_code == 0


@shows("group.consumer.regex.refresh.interval.ms", group_consumer_regex_refresh_interval_ms=10_000)
async def _(world: World) -> None:
    epoch = (await world.beat("m", regex="t.*")).member_epoch
    body = world.broker.services.groups.groups["g"].state.consumer
    assert body is not None
    for _ in range(100):
        if body.matched:
            break
        await world.beat("m", epoch)
    first = body.matched["t.*"].at_ms
    for by_ms, again in ((9_999, False), (1, True)):
        world.pass_ms(by_ms)
        await world.beat("m", epoch)
        await world.beat("m", epoch)
        assert (body.matched["t.*"].at_ms > first) is again


@shows("group.consumer.migration.policy", group_consumer_migration_policy="Disabled")
async def _(world: World) -> None:
    assert (await world.beat("m")).error_code == 0
    assert await world.join() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@shows("group.coordinator.rebalance.protocols", group_coordinator_rebalance_protocols=("classic",))
async def _(world: World) -> None:
    assert (await world.beat("m")).error_code == ErrorCode.UNSUPPORTED_VERSION


@shows("group.consumer.max.size", group_consumer_max_size=1)
async def _(world: World) -> None:
    assert (await world.beat("m")).error_code == 0
    assert (await world.beat("n")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@shows("offset.metadata.max.bytes", offset_metadata_max_bytes=3)
async def _(world: World) -> None:
    await world.create()
    assert await world.commit(metadata="abcd") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert await world.commit(metadata="abc") == 0


@shows("offsets.topic.num.partitions", offsets_topic_num_partitions=7)
async def _(world: World) -> None:
    await world.raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
    assert len(list(world.directory.glob("__consumer_offsets-*"))) == 7


@shows("offsets.topic.segment.bytes", offsets_topic_segment_bytes=2 << 20)
async def _(world: World) -> None:
    await world.raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
    assert world.log("__consumer_offsets").config.segment_bytes == 2 << 20


@shows("offsets.retention.minutes", offsets_retention_minutes=60, offsets_retention_check_interval_ms=60_000, **AWAKE)
async def _(world: World) -> None:
    await world.create()
    assert await world.commit() == 0
    for _ in range(59):
        world.pass_ms(60_000)
    assert await world.committed() == 5
    for _ in range(2):
        world.pass_ms(60_000)
    assert await world.committed() == -1


@shows(
    "offsets.retention.check.interval.ms",
    offsets_retention_minutes=1,
    offsets_retention_check_interval_ms=300_000,
    **AWAKE,
)
async def _(world: World) -> None:
    await world.create()
    assert await world.commit() == 0
    world.pass_ms(299_999)
    assert await world.committed() == 5
    world.pass_ms(1)
    assert await world.committed() == -1


@shows("transaction.state.log.num.partitions", transaction_state_log_num_partitions=7)
async def _(world: World) -> None:
    await world.find_transactions()
    assert len(list(world.directory.glob("__transaction_state-*"))) == 7


@shows("transaction.state.log.segment.bytes", transaction_state_log_segment_bytes=2 << 20)
async def _(world: World) -> None:
    await world.find_transactions()
    assert world.log("__transaction_state").config.segment_bytes == 2 << 20


@shows("transaction.max.timeout.ms", transaction_max_timeout_ms=5000)
async def _(world: World) -> None:
    await world.find_transactions()
    for timeout_ms, code in ((5001, ErrorCode.INVALID_TRANSACTION_TIMEOUT), (5000, 0)):
        answer = await world.raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest("x", timeout_ms))
        assert answer.error_code == code


@shows(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    transaction_abort_timed_out_transaction_cleanup_interval_ms=300_000,
    **AWAKE,
)
async def _(world: World) -> None:
    await world.create()
    producer = Transactional(world.raw, "x")
    await producer.begin()
    assert (await producer.send("t", b"x")).error_code == 0
    # Its time-out is over after a minute; nobody looks before the fifth.
    world.pass_ms(299_999)
    assert await world.transaction() == "Ongoing"
    world.pass_ms(1)
    while (state := await world.transaction()) != "CompleteAbort":
        assert state == "PrepareAbort"


@shows(
    "transactional.id.expiration.ms",
    transactional_id_expiration_ms=3_000_000,
    transaction_remove_expired_transaction_cleanup_interval_ms=60_000,
    **AWAKE,
)
async def _(world: World) -> None:
    await Transactional(world.raw, "x").begin()
    for _ in range(49):
        world.pass_ms(60_000)
    assert await world.transaction() == "Empty"
    world.pass_ms(60_000)
    assert await world.transaction() == "TRANSACTIONAL_ID_NOT_FOUND"


@shows(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    transactional_id_expiration_ms=60_000,
    transaction_remove_expired_transaction_cleanup_interval_ms=300_000,
    **AWAKE,
)
async def _(world: World) -> None:
    await Transactional(world.raw, "x").begin()
    world.pass_ms(299_999)
    assert await world.transaction() == "Empty"
    world.pass_ms(1)
    assert await world.transaction() == "TRANSACTIONAL_ID_NOT_FOUND"


@shows("transaction.partition.verification.enable", transaction_partition_verification_enable=False)
async def _(world: World) -> None:
    await world.raw.create_topic("t")
    producer = Transactional(world.raw, "tx")
    await producer.begin()
    # Transactions version 1: nobody has added the partition, nor the group's.
    assert (await producer.send("t", b"a", version=11)).error_code == 0
    assert await producer.commit_offset("g", "t", 1, version=4) == 0
