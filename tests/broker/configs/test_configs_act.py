"""Every config of the broker changes what the broker does: shown here for each, or where it is said to be shown."""

import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.broker_config import SETTINGS
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.records.batch import read_header
from odradek.protocol.records.compression import Compression, compress, decompress
from odradek.storage.files import DISK
from odradek.tests.support.clock import FakeClock
from odradek.tests.support.raw import Raw, batch_of
from odradek.tests.support.transactional import Transactional

TESTS = Path(__file__).parents[2]
HOUR_MS = 3_600_000
# Hours may pass between two requests of a connection.
AWAKE = {"connections_max_idle_ms": -1}


class World:
    """A broker, a client of it, and the clock that both live by."""

    def __init__(self, broker: Broker, raw: Raw, clock: FakeClock) -> None:
        self.broker = broker
        self.raw = raw
        self.clock = clock

    @property
    def directory(self) -> Path:
        return self.broker.config.data_dir

    def log(self, topic: str = "t") -> Any:
        found = self.broker.topics.get(topic)
        assert found is not None
        return found.partitions[0].log

    def segments(self) -> int:
        return len(list((self.directory / "t-0").glob("*.log")))

    async def create(self) -> None:
        assert (await self.raw.create_topic("t")).error_code == 0

    async def commit(self, group: str = "g", metadata: str = "") -> int:
        partitions = [OffsetCommitRequestPartition(0, 5, committed_metadata=metadata)]
        topics = [OffsetCommitRequestTopic("t", partitions=partitions)]
        answer = await self.raw.ask(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group, -1, "", topics=topics))
        return answer.topics[0].partitions[0].error_code

    async def committed(self) -> int:
        topics = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])
        answer = await self.raw.ask(ApiKey.OFFSET_FETCH, 8, request)
        return answer.groups[0].topics[0].partitions[0].committed_offset

    async def join(self, session_timeout_ms: int = 10_000) -> int:
        await self.raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest("g", session_timeout_ms, 1000, "", None, "consumer", protocols)
        return (await self.raw.ask(ApiKey.JOIN_GROUP, 3, request)).error_code

    async def find_transactions(self) -> None:
        await self.raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("x", 1))

    async def transaction(self) -> str:
        """The state of transactional id x, or the error's name."""
        answer = await self.raw.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(["x"]))
        (state,) = answer.transaction_states
        return ErrorCode(state.error_code).name if state.error_code else state.transaction_state

    def pass_ms(self, time_ms: int) -> None:
        self.clock.advance(time_ms)
        self.broker.timers.fire_due()


Show = Callable[[World], Awaitable[None]]
SHOWN: dict[str, tuple[dict[str, Any], Show]] = {}


def shows(name: str, **given: Any) -> Callable[[Show], Show]:
    """Marks what shows that a config acts; the broker that it gets has the config as `given`."""

    def mark(show: Show) -> Show:
        SHOWN[name] = given, show
        return show

    return mark


# name -> the test that shows it
CLEANER_RULES = "broker/background/test_cleaner.py::test_the_brokers_configs_reach_a_topics_rules"
ELSEWHERE = {
    "log.cleanup.policy": CLEANER_RULES,
    "log.cleaner.min.cleanable.ratio": CLEANER_RULES,
    "log.cleaner.min.compaction.lag.ms": CLEANER_RULES,
    "log.cleaner.max.compaction.lag.ms": CLEANER_RULES,
    "log.cleaner.delete.retention.ms": CLEANER_RULES,
    "log.cleaner.enable": "broker/background/test_cleaner.py::test_without_a_cleaner_nothing_is_cleaned",
    "log.cleaner.threads": "broker/background/test_cleaner.py::test_without_a_cleaner_nothing_is_cleaned",
    "log.cleaner.backoff.ms": (
        "broker/background/test_cleaner.py::test_a_compacted_topic_is_cleaned_and_an_ordinary_one_is_not"
    ),
    "log.cleaner.dedupe.buffer.size": (
        "storage/test_compaction.py::test_keys_that_do_not_fit_are_left_for_the_next_cleaning"
    ),
    "log.cleaner.io.max.bytes.per.second": (
        "broker/background/test_cleaner.py::test_a_stop_in_the_middle_of_a_cleaning_loses_nothing"
    ),
    "node.id": "broker/log_dirs/test_data_dir.py::test_another_nodes_is_refused_and_left_as_it_was",
    "broker.id": "broker/configs/test_broker_config.py::test_broker_id_is_node_id_under_its_older_name",
    "listeners": "broker/test_server.py::test_several_listeners_each_with_its_name_and_port",
    "advertised.listeners": "broker/test_server.py::test_several_listeners_each_with_its_name_and_port",
    "listener.security.protocol.map": "broker/test_server.py::test_several_listeners_each_with_its_name_and_port",
    "controller.listener.names": (
        "broker/configs/test_broker_config.py::test_a_combined_kafka_node_loses_its_controller_listener"
    ),
    "log.dir": "broker/configs/test_configs_act.py::test_log_dir_is_where_the_data_are_unless_log_dirs_says_otherwise",
    "log.dirs": "broker/configs/test_configs_act.py::test_log_dir_is_where_the_data_are_unless_log_dirs_says_otherwise",
    "metadata.log.dir": "broker/log_dirs/test_log_dirs.py::test_a_directory_may_hold_the_metadata_alone",
    "log.retention.ms": "broker/background/test_retention.py::test_the_brokers_time_is_its_topics_time",
    "log.retention.minutes": "broker/background/test_retention.py::test_the_brokers_time_is_its_topics_time",
    "log.retention.hours": "broker/background/test_retention.py::test_the_brokers_time_is_its_topics_time",
    "log.retention.bytes": "broker/background/test_retention.py::test_the_brokers_bytes_are_its_topics_bytes",
    "log.retention.check.interval.ms": (
        "broker/background/test_retention.py::test_by_time_segments_go_whose_newest_record_is_too_old"
    ),
    "log.retention.policy": "broker/background/test_retention.py::test_a_policy_of_ones_own_decides",
    "log.segment.delete.delay.ms": "broker/background/test_retention.py::test_the_brokers_delay_is_its_topics_delay",
    "log.flush.offset.checkpoint.interval.ms": (
        "broker/topics/test_flusher.py::test_a_checkpoint_that_fails_is_a_line_in_the_log_and_the_next_one_comes"
    ),
    "default.replication.factor": (
        "broker/configs/test_broker_config.py::test_a_bad_value_is_refused_by_name_range_and_value"
    ),
    "auto.create.topics.enable": "broker/handlers/test_topics.py::test_auto_creation_switched_off",
    "delete.topic.enable": "broker/handlers/test_topics.py::test_deletion_can_be_switched_off",
    "socket.receive.buffer.bytes": "broker/test_server.py::test_have_the_socket_buffers_of_the_config",
    "socket.send.buffer.bytes": "broker/test_server.py::test_have_the_socket_buffers_of_the_config",
    "num.network.threads": "broker/test_server.py::test_take_turns_at_the_processors",
    "connections.max.idle.ms": (
        "adversity/test_bad_input.py::test_a_client_that_reads_nothing_for_so_long_is_closed_as_an_idle_one"
    ),
    "max.connections": "broker/test_server.py::test_over_max_connections_are_refused",
    "max.connections.per.ip": "broker/test_server.py::test_over_max_connections_of_an_address_are_refused",
    "max.incremental.fetch.session.cache.slots": (
        "broker/handlers/test_fetch.py::test_without_a_free_slot_there_is_no_session_but_an_answer"
    ),
    "producer.id.expiration.check.interval.ms": (
        "broker/background/test_producer_expiry.py::test_the_clock_alone_makes_a_silent_producer_forgotten"
    ),
    "producer.id.expiration.ms": (
        "broker/configs/test_configs_act.py::test_producer_id_expiration_ms_is_how_long_a_silent_producer_is_remembered"
    ),
}


@shows("broker.rack", broker_rack="shelf 5")
async def _(world: World) -> None:
    answer = await world.raw.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
    assert answer.brokers[0].rack == "shelf 5"


@shows("log.segment.bytes", log_segment_bytes=1 << 20)
async def _(world: World) -> None:
    await world.create()
    for _ in range(3):
        await world.raw.produce("t", batch_of(b"x" * 600_000))
    assert world.segments() == 3


@shows("log.scrub.interval.ms", log_scrub_interval_ms=HOUR_MS, log_segment_bytes=1 << 20, **AWAKE)
async def _(world: World) -> None:
    await world.create()
    for _ in range(3):
        await world.raw.produce("t", batch_of(b"x" * 600_000))
    first = world.log().segments[0]
    flip(first.path(".log"), 300_000)
    for passed_ms, found in ((HOUR_MS - 1, 0), (1, 1)):
        world.pass_ms(passed_ms)
        await world.broker.scrubber.rests()
        assert len(first.damages) == found


def flip(path: Path, position: int) -> None:
    """A bit of a file is another one."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


@shows("log.roll.ms", log_roll_ms=1000)
async def _(world: World) -> None:
    await world.create()
    for segments, passed_ms in ((1, 0), (1, 900), (2, 200)):
        world.clock.advance(passed_ms)
        await world.raw.produce("t", batch_of(b"x", timestamp_ms=world.clock.now_ms()))
        assert world.segments() == segments


@shows("log.roll.hours", log_roll_hours=2)
async def _(world: World) -> None:
    await world.create()
    for segments, passed_ms in ((1, 0), (1, 2 * HOUR_MS - 1000), (2, 2000)):
        world.clock.advance(passed_ms)
        await world.raw.produce("t", batch_of(b"x", timestamp_ms=world.clock.now_ms()))
        assert world.segments() == segments


@shows("log.roll.jitter.ms", log_roll_ms=HOUR_MS, log_roll_jitter_ms=HOUR_MS // 2)
async def _(world: World) -> None:
    await closed_early(world, HOUR_MS, HOUR_MS // 2)


@shows("log.roll.jitter.hours", log_roll_hours=4, log_roll_jitter_hours=2)
async def _(world: World) -> None:
    await closed_early(world, 4 * HOUR_MS, 2 * HOUR_MS)


async def closed_early(world: World, segment_ms: int, jitter_ms: int) -> None:
    """Each partition's first segment is closed at a time of its own, all of them within the jitter."""
    await world.raw.create_topic("t", 8)
    open_ms = dict.fromkeys(range(8), 0)
    start_ms = world.clock.now_ms()
    for passed_ms in range(0, segment_ms + 2, segment_ms // 32):
        world.clock.advance(segment_ms // 32)
        for partition in open_ms:
            await world.raw.produce("t", batch_of(b"x", timestamp_ms=start_ms + passed_ms), partition)
            if len(list((world.directory / f"t-{partition}").glob("*.log"))) == 1:
                open_ms[partition] = passed_ms
    assert all(segment_ms - jitter_ms - segment_ms // 32 < each <= segment_ms for each in open_ms.values())
    assert len(set(open_ms.values())) > 2


@shows("log.index.interval.bytes", log_index_interval_bytes=200)
async def _(world: World) -> None:
    await world.create()
    for _ in range(20):
        await world.raw.produce("t", batch_of(b"x" * 100))
    world.log().flush()
    world.log()._active.seal()
    # By default one entry a 4096 bytes, and all of these are less.
    assert (world.directory / "t-0" / f"{0:020d}.index").stat().st_size >= 8 * 8


@shows("log.index.size.max.bytes", log_index_size_max_bytes=64, log_index_interval_bytes=0)
async def _(world: World) -> None:
    await world.create()
    for _ in range(20):
        await world.raw.produce("t", batch_of(b"x"))
    # Eight entries of 8 bytes, and the first batch of a segment needs none.
    assert world.segments() == 3


@shows("log.flush.interval.messages", log_flush_interval_messages=2)
async def _(world: World) -> None:
    await world.create()
    await world.raw.produce("t", batch_of(b"x"))
    assert world.log().recovery_point == 0
    await world.raw.produce("t", batch_of(b"x"))
    assert world.log().recovery_point == 2


@shows("log.flush.interval.ms", log_flush_interval_ms=1000)
async def _(world: World) -> None:
    await world.create()
    await world.raw.produce("t", batch_of(b"x"))
    world.pass_ms(1000)
    await world.broker.flusher.stop()
    assert world.log().recovery_point == 1


@shows("log.message.timestamp.type", log_message_timestamp_type="LogAppendTime")
async def _(world: World) -> None:
    await world.create()
    answer = await world.raw.produce("t", batch_of(b"x", timestamp_ms=5))
    assert answer.log_append_time_ms == world.clock.now_ms()


@shows("log.message.timestamp.before.max.ms", log_message_timestamp_before_max_ms=1000)
async def _(world: World) -> None:
    await world.create()
    now_ms = world.clock.now_ms()
    assert (await world.raw.produce("t", batch_of(b"x", timestamp_ms=now_ms - 1000))).error_code == 0
    answer = await world.raw.produce("t", batch_of(b"x", timestamp_ms=now_ms - 1001))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP


@shows("log.message.timestamp.after.max.ms", log_message_timestamp_after_max_ms=1000)
async def _(world: World) -> None:
    await world.create()
    now_ms = world.clock.now_ms()
    assert (await world.raw.produce("t", batch_of(b"x", timestamp_ms=now_ms + 1000))).error_code == 0
    answer = await world.raw.produce("t", batch_of(b"x", timestamp_ms=now_ms + 1001))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP


@shows("compression.type", compression_type="gzip")
async def _(world: World) -> None:
    assert await stored_bytes(world, Compression.GZIP) < TEXT_BYTES


@shows("compression.gzip.level", compression_type="gzip", compression_gzip_level=1)
async def _(world: World) -> None:
    assert await stored_bytes(world, Compression.GZIP) == 61 + len(compress(Compression.GZIP, await body(world), 1))


@shows("compression.lz4.level", compression_type="lz4", compression_lz4_level=17)
async def _(world: World) -> None:
    assert await stored_bytes(world, Compression.LZ4) == 61 + len(compress(Compression.LZ4, await body(world), 17))


@shows("compression.zstd.level", compression_type="zstd", compression_zstd_level=19)
async def _(world: World) -> None:
    assert await stored_bytes(world, Compression.ZSTD) == 61 + len(compress(Compression.ZSTD, await body(world), 19))


TEXT_BYTES = 6000


async def stored_bytes(world: World, codec: Compression) -> int:
    """The size of the batch that is stored of one with a text that levels compress differently."""
    await world.create()
    text = b"".join(b"%d " % (number * number) for number in range(1000))[:TEXT_BYTES]
    assert (await world.raw.produce("t", batch_of(text))).error_code == 0
    header = read_header((await world.raw.fetch("t", 0)).records)
    assert header.compression is codec
    return header.size_bytes


async def body(world: World) -> bytes:
    """The records of that batch, decompressed."""
    data = bytes((await world.raw.fetch("t", 0)).records)
    return decompress(read_header(data).compression, data[61:])


@shows("message.max.bytes", message_max_bytes=1000)
async def _(world: World) -> None:
    await world.create()
    assert (await world.raw.produce("t", batch_of(b"x" * 1000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await world.raw.produce("t", batch_of(b"x" * 900))).error_code == 0


@shows("num.partitions", num_partitions=5)
async def _(world: World) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
    assert len((await world.raw.ask(ApiKey.METADATA, 9, asked)).topics[0].partitions) == 5


@shows("max.request.partition.size.limit", max_request_partition_size_limit=2)
async def _(world: World) -> None:
    await world.raw.create_topic("t", 3)
    response = await world.raw.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest())
    assert len(response.topics[0].partitions) == 2


@shows("socket.request.max.bytes", socket_request_max_bytes=1000)
async def _(world: World) -> None:
    await world.create()
    assert (await world.raw.produce("t", batch_of(b"x" * 500))).error_code == 0
    world.raw.send_bytes(struct.pack(">i", 1001))
    assert await world.raw.is_closed()


@shows("socket.listen.backlog.size", socket_listen_backlog_size=7)
async def _(world: World) -> None:
    (_, server), *_ = world.broker._servers
    if sys.platform == "linux":
        # tcpi_sacked of a listening socket is its backlog.
        info = server.sockets[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        assert struct.unpack_from("=I", info, 28)[0] == 7


@shows("fetch.max.bytes", fetch_max_bytes=1024)
async def _(world: World) -> None:
    await world.create()
    for _ in range(5):
        await world.raw.produce("t", batch_of(b"x" * 500))
    records = bytes((await world.raw.fetch("t", 0)).records)
    assert len(records) == 1024


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
    actor = world.broker.groups.groups["g"]
    world.pass_ms(699)
    assert actor.group.generation == 0
    world.pass_ms(1)
    assert (await world.raw.receive(ApiKey.JOIN_GROUP, 3)).generation_id == 1


@shows("group.max.size", group_max_size=1)
async def _(world: World) -> None:
    assert await world.join() == 0
    assert await world.join() == ErrorCode.GROUP_MAX_SIZE_REACHED


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


@pytest.mark.parametrize("name", SHOWN)
async def test_acts(config: BrokerConfig, name: str) -> None:
    given, show = SHOWN[name]
    clock = FakeClock()
    config = replace(config, **given)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await show(World(broker, raw, clock))


def test_every_config_is_shown_to_act() -> None:
    assert sorted([*SHOWN, *ELSEWHERE]) == sorted(SETTINGS)


@pytest.mark.parametrize("where", sorted(set(ELSEWHERE.values())))
def test_what_is_shown_elsewhere_is_there(where: str) -> None:
    path, _, test = where.partition("::")
    assert f"def {test}" in (TESTS / path).read_text()


async def test_log_dir_is_where_the_data_are_unless_log_dirs_says_otherwise(
    config: BrokerConfig, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for dirs, used in ((None, one), ((str(other),), other)):
        async with Broker(replace(config, log_dir=(str(one),), log_dirs=dirs)):
            assert DISK.exists(used / "meta.properties")
            assert DISK.exists(other) is (used == other)


@shows("transaction.partition.verification.enable", transaction_partition_verification_enable=False)
async def _(world: World) -> None:
    await world.raw.create_topic("t")
    producer = Transactional(world.raw, "tx")
    await producer.begin()
    # Transactions version 1: nobody has added the partition, nor the group's.
    assert (await producer.send("t", b"a", version=11)).error_code == 0
    assert await producer.commit_offset("g", "t", 1, version=4) == 0


async def test_producer_id_expiration_ms_is_how_long_a_silent_producer_is_remembered(config: BrokerConfig) -> None:
    clock = FakeClock()
    config = replace(config, producer_id_expiration_ms=1000)
    batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
    for passed_ms, offset in ((0, 0), (999, 0), (1000, 1)):
        # A restart is one of the moments at which they are forgotten.
        clock.advance(passed_ms)
        async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
            if not passed_ms:
                await raw.create_topic("t")
            assert (await raw.produce("t", batch)).base_offset == offset
