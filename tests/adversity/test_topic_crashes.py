"""Crashes while topics are created or deleted: the next start completes or removes them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.broker.background.file_removal import remove_directories
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.log_dirs.data_dir import DataDir
from odradek.broker.log_dirs.log_dirs import LogDir, LogDirs
from odradek.broker.purgatory import Purgatory
from odradek.broker.threads import DiskThreads
from odradek.broker.timers import Timers
from odradek.broker.topics.flusher import Flusher
from odradek.broker.topics.metadata_journal import Metadata
from odradek.broker.topics.partition import Partition
from odradek.broker.topics.topic import Topic
from odradek.broker.topics.topics import Topics
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.records.batch import decode_batch
from odradek.storage import checkpoints
from odradek.storage.checkpoints import MetaProperties
from odradek.storage.errors import CorruptBatch
from odradek.storage.files import DISK, DirectoryLock, Disk
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut
from odradek.tests.support.fakes.clock import FakeClock

LONGEST = "n" * 249


class Node:
    """The topics of a broker, without the rest of it."""

    def __init__(self, directory: Path, disk: Disk = DISK, clean: bool = False) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        clock = FakeClock()
        timers = Timers(clock)
        self.metadata = Metadata(directory, disk)
        self.disk = disk
        lock = DirectoryLock(directory, DISK)
        lock.release()
        data = DataDir(directory, lock, MetaProperties("c", 1, "d"), {} if clean else None, disk)
        dirs = LogDirs([LogDir(directory, data, None, disk)], data, disk)
        self.topics = Topics(
            BrokerConfig(),
            dirs,
            self.metadata,
            clock,
            Purgatory(timers),
            Flusher(timers, DiskThreads(timers, clock), lambda: None),
            lambda _: None,
            disk,
        )
        remove_directories(self.topics.open_all(), disk)

    def topic(self, name: str) -> Topic:
        topic = self.topics.get(name)
        assert topic is not None
        return topic

    def append(self, name: str, value: bytes, index: int = 0) -> None:
        self.topic(name).partitions[index].append(memoryview(bytearray(batch_of(value))), 9)

    def rename(self, name: str) -> Topic:
        """Delete a topic, whose files stay for now."""
        topic = self.topic(name)

        async def delete() -> None:
            self.topics.delete(topic, lambda _: None)
            self.topics.abandon_creations()

        asyncio.run(delete())
        return topic

    def delete(self, name: str) -> None:
        topic = self.rename(name)
        self.disk.fsync_dir(self.directory)
        remove_directories([each.log.directory for each in topic.partitions], self.disk)

    def names(self, suffix: str = "") -> list[str]:
        return sorted(each.name for each in self.directory.iterdir() if each.is_dir() and each.name.endswith(suffix))

    def stop(self) -> None:
        for close in self.topics.closers(self.directory, 1):
            close()
        self.topics.take_checkpoint().write()
        self.metadata.close()


@pytest.fixture
def start(tmp_path: Path) -> Callable[[], Node]:
    """Start a node on the same directory each time, as after a crash."""
    return lambda: Node(tmp_path / "data")


def values(partition: Partition) -> list[bytes | None]:
    return [
        record.value
        for _, data in partition.log.iter_batches(partition.log.log_start_offset)
        for record in decode_batch(data)
    ]


def crashed(node: Node) -> Path:
    """Return the directory of t-0 after a crash of the node."""
    return node.directory / "t-0"


class TestLeftovers:
    def test_a_partition_without_a_directory_begins_empty(self, start: Callable[[], Node]) -> None:
        node = start()
        node.topics.create("t", 2, {})
        node.append("t", b"kept", 1)
        shutil.rmtree(crashed(node))
        node = start()
        assert [values(each) for each in node.topic("t").partitions] == [[], [b"kept"]]
        node.append("t", b"new")

    def test_an_empty_directory_counts_as_missing(self, start: Callable[[], Node]) -> None:
        node = start()
        node.topics.create("t", 1, {})
        shutil.rmtree(crashed(node))
        crashed(node).mkdir()
        node = start()
        node.append("t", b"new")
        assert node.names() == ["t-0"]

    def test_a_directory_of_no_topic_is_set_aside_with_all_that_it_holds(self, start: Callable[[], Node]) -> None:
        node = start()
        node.topics.create("t", 1, {})
        node.append("t", b"somebody's")
        node.metadata.delete_topic("t")
        node = start()
        assert node.topics.get("t") is None
        (stray,) = node.names()
        assert stray.startswith("t-0.") and stray.endswith("-stray")
        assert b"somebody's" in (node.directory / stray / f"{0:020d}.log").read_bytes()
        assert start().names() == [stray]

    def test_a_directory_with_another_topics_id_is_set_aside(self, start: Callable[[], Node]) -> None:
        node = start()
        node.topics.create("t", 1, {})
        node.append("t", b"of the old one")
        checkpoints.write_partition_metadata(crashed(node), b"\x05" * 16)
        node = start()
        assert values(node.topic("t").partitions[0]) == []
        assert len(node.names("-stray")) == 1

    @pytest.mark.parametrize("left", [None, b"", b"version: 0\n", b"\xff"])
    def test_a_directory_that_lost_its_id_belongs_to_the_topic_in_the_journal(
        self, start: Callable[[], Node], left: bytes | None
    ) -> None:
        node = start()
        topic_id = node.topics.create("t", 1, {}).id
        node.append("t", b"kept")
        path = crashed(node) / checkpoints.PARTITION_METADATA
        if left is None:
            path.unlink()
        else:
            path.write_bytes(left)
        node = start()
        assert values(node.topic("t").partitions[0]) == [b"kept"]
        assert checkpoints.read_partition_metadata(crashed(node)) == topic_id

    def test_a_deletion_that_was_cut_short_is_finished(self, start: Callable[[], Node]) -> None:
        node = start()
        node.topics.create("t", 2, {})
        node.append("t", b"x")
        node.rename("t")
        assert node.names("-delete") == ["t-0.0-delete", "t-1.0-delete"]
        assert start().names() == []

    def test_files_of_others_are_left_alone(self, start: Callable[[], Node]) -> None:
        node = start()
        for name in ("lost+found", "backup", "t-x"):
            (node.directory / name).mkdir()
        (node.directory / "t-7").write_text("a file")
        assert start().names() == ["backup", "lost+found", "t-x"]

    def test_the_longest_name_can_be_made_set_aside_and_deleted(self, start: Callable[[], Node]) -> None:
        node = start()
        node.topics.create(LONGEST, 1, {})
        node.append(LONGEST, b"x")
        node.delete(LONGEST)
        assert node.names() == []
        node.topics.create(LONGEST, 1, {})
        node.append(LONGEST, b"x")
        node.metadata.delete_topic(LONGEST)
        assert len(start().names("-stray")) == 1


class TestSameNameAgain:
    def test_gets_nothing_of_the_old_topics_files(self, start: Callable[[], Node]) -> None:
        node = start()
        old = node.topics.create("t", 1, {}).id
        node.append("t", b"old")
        node.delete("t")
        assert node.topics.create("t", 1, {}).id != old
        assert values(node.topic("t").partitions[0]) == []
        node.append("t", b"new")
        assert values(start().topic("t").partitions[0]) == [b"new"]

    @pytest.mark.parametrize("seed", range(8))
    def test_gets_nothing_of_them_where_power_fails_before_its_directories_are_made(
        self, tmp_path: Path, seed: int
    ) -> None:
        disk = FaultyDisk()
        node = Node(tmp_path / "data", disk)
        node.topics.create("t", 1, {})
        node.append("t", b"old")
        node.topic("t").partitions[0].log.flush()
        node.rename("t")
        node.topics.begin("t", 1, {})
        disk.lose(seed)
        assert values(Node(tmp_path / "data", disk).topic("t").partitions[0]) == []

    def test_is_created_although_the_old_files_could_not_be_moved(self, start: Callable[[], Node]) -> None:
        node = start()
        node.topics.create("t", 1, {})
        node.append("t", b"old")
        shutil.copytree(crashed(node), node.directory / "copy")
        node.delete("t")
        (node.directory / "copy").rename(crashed(node))
        node.topics.create("t", 1, {})
        assert values(node.topic("t").partitions[0]) == []
        assert len(node.names("-stray")) == 1

    def test_trusts_no_offset_of_the_old_one(self, start: Callable[[], Node]) -> None:
        node = start()
        node.topics.create("t", 1, {})
        for _ in range(5):
            node.append("t", b"old")
        node.topics.partitions()[0].log.flush()
        late = node.topics.take_checkpoint()
        node.delete("t")
        node.topics.create("t", 1, {})
        # A thread that was slow to write what it had seen of the old topic.
        late.write()
        for _ in range(3):
            node.append("t", b"new")
        log = crashed(node) / f"{0:020d}.log"
        data = bytearray(log.read_bytes())
        data[-1] ^= 1
        log.write_bytes(data)
        assert values(start().topic("t").partitions[0]) == [b"new", b"new"]


class TestFullDisk:
    @pytest.fixture(autouse=True)
    def untroubled(self) -> None:
        """Allow errors in the log: these tests expect them."""

    def test_a_topic_whose_creation_failed_leaves_nothing(self, tmp_path: Path) -> None:
        disk = FaultyDisk()
        node = Node(tmp_path / "data", disk)
        node.topics.create("before", 1, {})
        refused = 0
        while node.topics.get("t") is None:
            disk.room_bytes = refused * 20
            try:
                node.topics.create("t", 3, {})
            except KafkaError as error:
                assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
                assert node.topics.coming("t") is None
                assert node.names() == ["before-0"]
                refused += 1
            disk.room_bytes = None
        assert refused > 5
        assert len(Node(tmp_path / "data", disk).topic("t").partitions) == 3


def test_damage_to_what_was_forced_to_disk_is_not_cut_away_in_silence(
    start: Callable[[], Node], caplog: pytest.LogCaptureFixture
) -> None:
    node = start()
    node.topics.create("t", 1, {})
    for _ in range(3):
        node.append("t", b"x")
    node.topics.partitions()[0].log.flush()
    node.topics.take_checkpoint().write()
    log = crashed(node) / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    node = start()
    assert f"t-0/{0:020d}.log is damaged at" in caplog.text
    sound = node.topic("t").partitions[0].log.iter_batches(0)
    assert [header.base_offset for header, _ in (next(sound), next(sound))] == [0, 1]
    with pytest.raises(CorruptBatch):
        next(sound)
    assert node.topic("t").partitions[0].log.log_end_offset == 3, "an offset that was acknowledged is given to another"


def story(node: Node, done: list[str]) -> None:
    """Create and delete topics; `done` gets what was promised to a client."""
    node.topics.create("a", 2, {})
    done.append("a made")
    node.append("a", b"a1")
    node.topic("a").partitions[0].log.flush()
    done.append("a1 forced")
    node.topics.create("b", 1, {})
    done.append("b made")
    node.append("b", b"b1")
    node.topic("b").partitions[0].log.flush()
    done.append("b1 forced")
    node.delete("a")
    done.append("a gone")
    node.topics.create("a", 2, {"segment.ms": "7"})
    done.append("a made again")
    node.append("a", b"a2")
    node.topic("a").partitions[0].log.flush()
    done.append("a2 forced")
    node.stop()
    done.append("stopped")


def check(node: Node, done: list[str]) -> None:
    """Check that nothing promised is missing, and that no record is in a topic that it was not written to."""
    a, b = node.topics.get("a"), node.topics.get("b")
    found = values(a.partitions[0]) if a is not None else None
    if "a2 forced" in done:
        assert found == [b"a2"]
    elif "a made again" in done:
        assert found in ([], [b"a2"])
    elif "a gone" in done:
        assert found in (None, [])
    elif "a1 forced" in done:
        assert found in ([b"a1"], None) if "b1 forced" in done else found == [b"a1"]
    elif "a made" in done:
        assert found in ([], [b"a1"])
    else:
        assert found in (None, [])
    if "b1 forced" in done:
        assert b is not None and values(b.partitions[0]) == [b"b1"]
    elif "b made" in done:
        assert b is not None
    for topic in node.topics.all():
        assert [each.index for each in topic.partitions] == list(range(topic.record.partitions))
        for partition in topic.partitions:
            assert checkpoints.read_partition_metadata(partition.log.directory) == topic.id
        node.append(topic.name, b"goes on")


@pytest.mark.parametrize("power", [False, True], ids=["process killed", "power lost"])
def test_creation_and_deletion_survive_a_crash_at_any_step(tmp_path: Path, power: bool) -> None:
    disk = FaultyDisk()
    node = Node(tmp_path / "whole", disk)
    begun = disk.steps
    story(node, [])
    # Every other step for each kind of end, so that it takes seconds and not half a minute.
    cuts = sorted({each for each in disk.marks if each >= begun})[power::2]
    assert len(cuts) > 50
    for cut in cuts:
        directory = tmp_path / str(cut)
        disk = FaultyDisk()
        node = Node(directory, disk)
        disk.stop_after(cut - begun)
        done: list[str] = []
        with pytest.raises(PowerCut):
            story(node, done)
        if power:
            disk.lose(seed=cut)
        else:
            disk.kill()
        check(Node(directory, disk), done)
        shutil.rmtree(directory)
