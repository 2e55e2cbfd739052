"""Several data directories: where partitions go, what is told of them, and what the failure of one takes along."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig, StartError
from odradek.broker.topics.topic import Topic
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.storage import checkpoints
from odradek.storage.errors import DiskError
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.ruled_disk import FullDisk, RuledDisk, disk_error
from odradek.tests.support.histories.transactional import Transactional
from odradek.tests.support.waiting import until

OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in "abc"]


@pytest.fixture
def config(config: BrokerConfig, dirs: list[Path]) -> BrokerConfig:
    return replace(config, log_dirs=tuple(map(str, dirs)))


async def test_partitions_without_metadata_of_ours_are_refused_and_left_as_they_were(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    """Kafka's own directory has a meta.properties that could be ours: its topics were set aside once, all of them."""
    (dirs[0] / "flights-0").mkdir(parents=True)
    (dirs[0] / "flights-0" / "00000000000000000000.log").write_bytes(b"x")
    (dirs[0] / ".kafka_cleanshutdown").write_text("{}")
    checkpoints.write_meta_properties(dirs[0], checkpoints.MetaProperties("cluster", config.node_id, "directory"))
    before = sorted(dirs[0].rglob("*"))
    with pytest.raises(StartError, match=r"holds partitions \(flights-0\), and .* no metadata of ours"):
        await Broker(config).start()
    assert sorted(dirs[0].rglob("*")) == before
    assert not dirs[1].exists()


@pytest.mark.parametrize("left", [None, b"", bytes(100)], ids=["gone", "empty", "zeros"])
async def test_a_lost_journal_is_reported_before_any_partition_is_set_aside(
    config: BrokerConfig, dirs: list[Path], left: bytes | None
) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 3)
    for path in dirs[0].glob("metadata-*"):
        path.unlink()
        if left is not None:
            path.write_bytes(left)
    with pytest.raises(StartError, match=r"no metadata of ours|the last stop was clean and left"):
        await Broker(config).start()
    assert home(dirs, "t-0")


def home(dirs: list[Path], name: str) -> Path:
    (found,) = [each for each in dirs if (each / name).is_dir()]
    return found


async def fill(raw: Raw, partitions: int) -> None:
    """Create a topic with a record in each partition."""
    await raw.create_topic("t", partitions)
    for index in range(partitions):
        assert (await raw.produce("t", batch_of(b"x"), partition=index)).error_code == 0


async def watermarks(raw: Raw, partitions: int) -> list[int]:
    return [(await raw.fetch("t", 0, partition=index)).high_watermark for index in range(partitions)]


async def check_served(raw: Raw, gone: set[int]) -> None:
    """All partitions take a record and give theirs but those that are `gone`, and each API says which."""
    for index in range(6):
        expected = OFFLINE if index in gone else 0
        assert (await raw.produce("t", batch_of(b"z"), partition=index)).error_code == expected
        assert (await raw.fetch("t", 0, partition=index)).error_code == expected
    await check_look_ups(raw, gone)
    await check_metadata(raw, gone)


async def describe(raw: Raw, version: int = 4, topics: list[DescribableLogDirTopic] | None = None) -> dict[str, object]:
    response = await raw.ask(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics))
    assert response.error_code == 0
    return {Path(each.log_dir).name: each for each in response.results}


async def test_new_partitions_go_to_the_directory_with_the_fewest(config: BrokerConfig, dirs: list[Path]) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        for name, partitions in (("t", 4), ("u", 2), ("v", 3)):
            await raw.create_topic(name, partitions)
        counts = Counter(each.log.directory.parent for each in broker.topics.partitions())
        assert counts == dict.fromkeys(dirs, 3)
        await raw.delete_topic("t")
        await raw.create_topic("w", 4)
        counts = Counter(each.log.directory.parent for each in broker.topics.partitions())
        assert counts == dict.fromkeys(dirs, 3)
    assert all((each / "meta.properties").exists() and (each / ".kafka_cleanshutdown").exists() for each in dirs)


async def test_a_restart_finds_all_partitions_in_their_directories(config: BrokerConfig, dirs: list[Path]) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 6)
        for index in range(6):
            await raw.produce("t", batch_of(b"%d" % index), partition=index)
        await raw.delete_records("t", -1, partition=4)
        before = {each.log.directory for each in broker.topics.partitions()}
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert {each.log.directory for each in broker.topics.partitions()} == before
        assert all(each.log.recovery.clean for each in broker.topics.partitions())
        for index in range(6):
            fetched = await raw.fetch("t", 0 if index != 4 else 1, partition=index)
            assert (b"%d" % index in bytes(fetched.records)) is (index != 4)
            assert fetched.log_start_offset == (1 if index == 4 else 0)


async def test_a_directory_may_hold_the_metadata_alone(config: BrokerConfig, dirs: list[Path]) -> None:
    config = replace(config, log_dirs=tuple(map(str, dirs[:2])), metadata_log_dir=str(dirs[2]))
    for start in range(2):
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            if not start:
                await raw.create_topic("t", 2)
            assert len(broker.topics.partitions()) == 2
            assert all(each.log.recovery.clean for each in broker.topics.partitions())
    assert [bool(list(each.glob("metadata*"))) for each in dirs] == [False, False, True]
    assert not list(dirs[2].glob("t-*"))


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
async def test_log_dirs_are_described(config: BrokerConfig, dirs: list[Path], version: int) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 3)
        batch = batch_of(b"x" * 100)
        await raw.produce("t", batch)
        found = await describe(raw, version)
        assert sorted(found) == ["a", "b", "c"]
        sizes = {}
        for each in found.values():
            assert (each.error_code, each.is_cordoned) == (0, False)
            assert (each.total_bytes > each.usable_bytes > 0) is (version >= 4)
            for topic in each.topics:
                sizes.update({(topic.name, p.partition_index): p.partition_size for p in topic.partitions})
                assert all((p.offset_lag, p.is_future_key) == (0, False) for p in topic.partitions)
        assert sizes == {("t", 0): len(batch), ("t", 1): 0, ("t", 2): 0}
        found = await describe(raw, version, [DescribableLogDirTopic("t", [1, 9]), DescribableLogDirTopic("no", [0])])
        held = [
            (topic.name, [p.partition_index for p in topic.partitions]) for e in found.values() for topic in e.topics
        ]
        assert held == [("t", [1])]


async def test_one_that_dies_takes_only_its_partitions(config: BrokerConfig, dirs: list[Path]) -> None:
    disk = FullDisk(number=errno.EIO)
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw, 6)
        dead = home(dirs, "t-1")
        disk.fill(dead)
        gone = {int(each.name[2:]) for each in dead.glob("t-*")}
        assert len(gone) == 2
        # The first to be written to finds it out; it is everybody's then.
        waiting = await Raw.connect(broker.address)
        other = max(gone)
        fetch = asyncio.ensure_future(waiting.fetch("t", 1, partition=other, max_wait_ms=60_000))
        assert (await raw.produce("t", batch_of(b"y"), partition=min(gone))).error_code == OFFLINE
        assert (await fetch).error_code == OFFLINE
        waiting.close()
        await check_served(raw, gone)
        found = await describe(raw)
        assert (found[dead.name].error_code, found[dead.name].topics) == (OFFLINE, [])
        # New ones go elsewhere.
        await raw.create_topic("u", 6)
        assert not list(dead.glob("u-*"))
        await raw.delete_topic("u")
    assert [(each / ".kafka_cleanshutdown").exists() for each in dirs] == [each != dead for each in dirs]
    # The disk is well again, and so is everything.
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await watermarks(raw, 6) == [1 if index in gone else 2 for index in range(6)]
        await check_metadata(raw, set())


async def check_look_ups(raw: Raw, gone: set[int]) -> None:
    """Look up offsets in every partition with one request: only those that are `gone` get an error."""
    for version in (0, 1, 7, 11):
        for timestamp in (-1, -2, 0) if version < 7 else (-1, -2, -3, 0):
            for isolation_level in (0, 1) if version >= 2 else (0,):
                wanted = [ListOffsetsPartition(index, timestamp=timestamp, max_num_offsets=1) for index in range(6)]
                request = ListOffsetsRequest(isolation_level=isolation_level, topics=[ListOffsetsTopic("t", wanted)])
                response = await raw.ask(ApiKey.LIST_OFFSETS, version, request)
                errors = {each.partition_index: each.error_code for each in response.topics[0].partitions}
                assert errors == {index: OFFLINE if index in gone else 0 for index in range(6)}
    kept = [DeleteRecordsPartition(index, 0) for index in range(6)]
    deleted = await raw.ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest([DeleteRecordsTopic("t", kept)], 1000))
    described = await raw.ask(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest([TopicRequest("t", [*range(6)])]))
    for response in (deleted, described):
        errors = {each.partition_index: each.error_code for each in response.topics[0].partitions}
        assert errors == {index: OFFLINE if index in gone else 0 for index in range(6)}
    epochs = OffsetForLeaderTopic("t", [OffsetForLeaderPartition(index) for index in range(6)])
    found = await raw.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(topics=[epochs]))
    errors = {each.partition: each.error_code for each in found.topics[0].partitions}
    assert errors == {index: OFFLINE if index in gone else 0 for index in range(6)}


async def check_metadata(raw: Raw, gone: set[int]) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    topic = (await raw.ask(ApiKey.METADATA, 12, request)).topics[0]
    for each in topic.partitions:
        is_gone = each.partition_index in gone
        assert each.error_code == (ErrorCode.LEADER_NOT_AVAILABLE if is_gone else 0)
        assert (each.leader_id, each.offline_replicas) == ((-1, [1]) if is_gone else (1, []))
        assert (each.replica_nodes, each.isr_nodes) == ([1], [1])


async def test_one_that_is_out_of_reach_at_start_is_offline_and_its_partitions_wait_for_it(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw, 6)
    gone = {int(each.name[2:]) for each in dirs[1].glob("t-*")}
    away = dirs[1].with_name("away")
    dirs[1].rename(away)
    dirs[1].write_bytes(b"")  # no directory
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await check_served(raw, gone)
        assert (await describe(raw))["b"].error_code == OFFLINE
        await raw.create_topic("u", 3)
    dirs[1].unlink()
    away.rename(dirs[1])
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await watermarks(raw, 6) == [1 if index in gone else 2 for index in range(6)]
        assert len(broker.topics.partitions()) == 9


async def test_a_partition_in_two_directories_stops_the_start(config: BrokerConfig, dirs: list[Path]) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 1)
    (dirs[1] / "t-0").mkdir()
    (dirs[1] / "t-0" / "partition.metadata").write_bytes((dirs[0] / "t-0" / "partition.metadata").read_bytes())
    with pytest.raises(StartError, match=r"t-0 is in .*a and in .*b: move one of them away"):
        await Broker(config).start()


async def test_another_clusters_directory_stops_the_start(config: BrokerConfig, dirs: list[Path]) -> None:
    async with Broker(replace(config, log_dirs=(str(dirs[0]),))):
        pass
    async with Broker(replace(config, log_dirs=(str(dirs[1]),))):
        pass
    with pytest.raises(StartError, match="belongs to cluster"):
        await Broker(config).start()


async def test_a_full_disk_refuses_writes_serves_reads_and_works_again_when_there_is_room(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    disk = FullDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        await raw.produce("t", batch_of(b"kept"))
        disk.fill(home(dirs, "t-0") / "t-0")
        refused = await raw.produce("t", batch_of(b"x"))
        assert (refused.error_code, refused.base_offset) == (OFFLINE, -1)
        assert "No space left" in refused.error_message
        assert b"kept" in bytes((await raw.fetch("t", 0)).records)
        await check_metadata(raw, set())
        disk.free()
        assert (await raw.produce("t", batch_of(b"room"))).base_offset == 1
        assert b"room" in bytes((await raw.fetch("t", 1)).records)


async def test_a_full_disk_keeps_no_log_start_of_another_disk_from_being_written(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    disk = FullDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw, 3)
        disk.is_full = lambda path: path.parent == home(dirs, "t-1")
        wanted = [DeleteRecordsPartition(index, 1) for index in range(3)]
        request = DeleteRecordsRequest([DeleteRecordsTopic("t", wanted)], 1000)
        (topic,) = (await raw.ask(ApiKey.DELETE_RECORDS, 2, request)).topics
        assert [each.error_code for each in topic.partitions] == [0, OFFLINE, 0]
        logs = [each.log for each in broker.topics.partitions()]
        assert [each.start_on_disk for each in logs] == [1, 0, 1]


async def test_a_full_disk_keeps_no_name_from_a_topic_of_another_disk(config: BrokerConfig, dirs: list[Path]) -> None:
    disk = FullDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("others", 3)
        for _ in range(2):
            assert (await raw.create_topic("t")).error_code == 0
            disk.free()
            broker.topics.take_checkpoint().write()
            place = home(dirs, "t-0")
            await raw.delete_topic("t")
            # What the checkpoint knows of the deleted topic must go; those of other disks know nothing of it.
            disk.is_full = lambda path, place=place: "recovery-point" in path.name and path.parent != place
        disk.free()


@pytest.mark.parametrize("refused", ["", "recovery-point-offset-checkpoint", "partition.metadata"])
async def test_a_start_after_a_crash_goes_on_without_a_directory_that_is_full(
    config: BrokerConfig, dirs: list[Path], refused: str
) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw, 3)
    full = home(dirs, "t-1")
    for each in dirs:
        (each / checkpoints.CLEAN_SHUTDOWN).unlink()
    metadata = FullDisk(lambda path: path.parent == dirs[0] and path.name.startswith("recovery-point"))
    with pytest.raises(StartError, match="No space left"):
        await Broker(config, disk=metadata).start()
    (full / "t-1" / "partition.metadata").unlink()
    disk = FullDisk(lambda path: full in path.parents and path.name.startswith(refused))
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        codes = [(await raw.produce("t", batch_of(b"y"), partition=index)).error_code for index in range(3)]
        assert codes == [0, OFFLINE, 0]
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await watermarks(raw, 3) == [2, 1, 2]


async def test_a_topic_is_not_created_while_every_directory_is_offline(config: BrokerConfig, dirs: list[Path]) -> None:
    config = replace(config, log_dirs=tuple(map(str, dirs[:2])), metadata_log_dir=str(dirs[2]))
    disk = FullDisk(number=errno.EIO)
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        for index in range(2):
            disk.fill(home(dirs, f"t-{index}"))
            assert (await raw.produce("t", batch_of(b"x"), partition=index)).error_code == OFFLINE
        disk.free()
        for attempt in range(2):
            assert (await raw.create_topic("u", 3)).error_code == OFFLINE, attempt
            growth = CreatePartitionsRequest([CreatePartitionsTopic("t", 4, None)], timeout_ms=1000)
            assert (await raw.ask(ApiKey.CREATE_PARTITIONS, 3, growth)).results[0].error_code == OFFLINE
            by_name = MetadataRequest(topics=[MetadataRequestTopic(name="v")], allow_auto_topic_creation=True)
            assert (await raw.ask(ApiKey.METADATA, 12, by_name)).topics[0].error_code == OFFLINE
            # This one creates an internal topic, a partition a turn.
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
            assert (await raw.ask(ApiKey.FIND_COORDINATOR, 4, find)).coordinators[0].error_code != 0
        assert list(broker.services.metadata.topics) == ["t"]
        assert broker.services.metadata.topics["t"].partitions == 2
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert [each.name for each in broker.topics.all()] == ["t"]
        assert (await raw.create_topic("u", 3)).error_code == 0


@pytest.mark.parametrize("left", [0, 1], ids=["none", "one"])
async def test_directories_that_die_while_a_topic_is_created_take_no_waiter_along(
    config: BrokerConfig, dirs: list[Path], left: int
) -> None:
    config = replace(config, log_dirs=tuple(map(str, dirs[:2])), metadata_log_dir=str(dirs[2]))
    disk = FullDisk(number=errno.EIO)
    async with Broker(config, disk=disk) as broker:
        creation = broker.topics.begin("u", 100, {})
        waiters = [asyncio.ensure_future(creation.wait()) for _ in range(2)]
        await until(lambda: len(creation.made) >= 10)
        for each in broker.services.log_dirs.all[left:]:
            broker.topics.disk_failures.directory_failed(each, DiskError("write", each.path, OSError(errno.EIO, "EIO")))
        results = await asyncio.gather(*waiters, return_exceptions=True)
        if left:
            assert all(isinstance(each, Topic) for each in results)
            partitions = creation.finish().partitions
            assert 0 < sum(not each.is_online for each in partitions) < 20
            assert all(each.is_online is (each.log.directory.parent == dirs[0]) for each in partitions)
            return
        assert all(isinstance(each, KafkaError) and each.code == OFFLINE for each in results)
        assert broker.topics.coming("u") is None
        assert not broker.services.metadata.topics
        with pytest.raises(KafkaError):
            await creation.wait()
        with pytest.raises(KafkaError):
            creation.finish()


async def test_a_directory_that_cannot_take_a_new_partition_is_offline_and_the_next_topic_goes_elsewhere(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    disk = FullDisk(number=errno.EIO)
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 6)
        dead = home(dirs, "t-1")
        disk.fill(dead)
        assert (await raw.create_topic("u", 3)).error_code == OFFLINE
        assert [each.path for each in broker.services.log_dirs.online] == [each for each in dirs if each != dead]
        assert (await raw.create_topic("u", 4)).error_code == 0
        assert [each.count for each in broker.services.log_dirs.online] == [4, 4]


async def test_a_directory_that_cannot_force_names_to_disk_keeps_no_later_topic_from_the_others(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    def refuse(operation: str, path: Path) -> None:
        if (operation, path) == ("fsync_dir", dirs[1]):
            raise disk_error("fsync", path, errno.EIO)

    disk = RuledDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        disk.rule = refuse
        assert (await raw.create_topic("t", 3)).error_code == OFFLINE
        assert [each.path for each in broker.services.log_dirs.online] == [dirs[0], dirs[2]]
        assert (await raw.create_topic("t", 3)).error_code == 0


async def test_metadata_of_an_earlier_hour_give_out_no_epoch_and_no_producer_id_that_a_log_knows(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    config = replace(config, log_dirs=tuple(map(str, dirs[:2])), metadata_log_dir=str(dirs[2]))

    async def write_first(broker: Broker, value: bytes) -> int:
        """Write the first record of a new producer, and return its offset."""
        async with await Raw.connect(broker.address) as raw:
            new = await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 60_000))
            who = {"producer_id": new.producer_id, "producer_epoch": new.producer_epoch, "base_sequence": 0}
            return (await raw.produce("t", batch_of(value, **who))).base_offset

    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 1)
        assert await write_first(broker, b"a") == 0
    shutil.copytree(dirs[2], dirs[2].with_name("copy"))
    (dirs[0] / checkpoints.CLEAN_SHUTDOWN).unlink()
    async with Broker(config) as broker:
        assert await write_first(broker, b"b") == 1
        epoch = broker.topics.partitions()[0].leader_epoch
    shutil.rmtree(dirs[2])
    dirs[2].with_name("copy").rename(dirs[2])
    async with Broker(config) as broker:
        assert await write_first(broker, b"c") == 2, "it passed for the record of the other producer"
        assert broker.topics.partitions()[0].leader_epoch == epoch == 1


async def test_a_transaction_that_is_open_in_a_copy_of_an_earlier_hour_holds_nobody_up(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    config = replace(config, transaction_state_log_num_partitions=1)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 3)
        writer = Transactional(raw, "tx")
        await writer.begin()
        for index in range(3):
            assert (await writer.send("t", b"x", partition=index)).error_code == 0
    copied = next(index for index in range(3) if home(dirs, f"t-{index}") != home(dirs, "__transaction_state-0"))
    path = home(dirs, f"t-{copied}")
    shutil.copytree(path, path.with_name("copy"))
    async with Broker(config) as broker, await Raw.connect(broker.address) as writer.raw:
        assert await writer.end(commit=True) == 0
        # It waits for the markers to be written.
        await writer.begin()
    shutil.rmtree(path)
    path.with_name("copy").rename(path)
    async with Broker(config) as broker:
        partition = next(each for each in broker.topics.partitions() if (each.topic, each.index) == ("t", copied))
        await until(lambda: partition.last_stable_offset == partition.high_watermark == 2)
        assert partition.leader_epoch == 1, "a client that knows the records which are gone must notice"


async def test_a_lack_of_descriptors_takes_no_directory_offline(
    config: BrokerConfig, dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Any, flags: int, *more: Any, **options: Any) -> int:
        if flags & os.O_DIRECTORY and path == dirs[1]:
            raise OSError(errno.EMFILE, "Too many open files")
        return open_file(path, flags, *more, **options)

    open_file = os.open
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            assert (await raw.create_topic("t", 3)).error_code == OFFLINE
        assert [each.path for each in broker.services.log_dirs.online] == dirs
        assert (await raw.create_topic("t", 3)).error_code == 0


async def test_a_start_after_a_crash_goes_on_without_a_directory_that_cannot_force_names_to_disk(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    def refuse(operation: str, path: Path) -> None:
        if (operation, path) == ("fsync_dir", dead):
            raise disk_error("fsync", path, errno.EIO)

    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw, 3)
    dead, disk = home(dirs, "t-1"), RuledDisk()
    for each in dirs:
        (each / checkpoints.CLEAN_SHUTDOWN).unlink()
    disk.rule = refuse
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        codes = [(await raw.produce("t", batch_of(b"y"), partition=index)).error_code for index in range(3)]
        assert codes == [0, OFFLINE, 0]
