"""A broker that has lost records while it was away is elected by nobody who has them in sync."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.cluster.lost_records import MAX_TRIES, lacking, leave_isrs
from odradek.broker.cluster.znodes import (
    ISR_CHANGES,
    Assignment,
    LeaderAndIsr,
    Replicas,
    TopicPartition,
    decode_places,
    decode_state,
    encode_assignment,
    encode_state,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)
from odradek.broker.log_dirs.data_dir import StartError
from odradek.broker.topics.metadata_journal import Metadata
from odradek.broker.topics.partition import Partition
from odradek.client import Admin, NewTopic, Producer
from odradek.storage.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT, write_partition_metadata
from odradek.testing import simulate
from odradek.testing.simulation.cluster import SESSION_S
from odradek.testing.zookeeper import FakeZookeeper
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.members import Members, member
from odradek.tests.support.clusters.steps import run_steps
from odradek.tests.support.clusters.whole_replicas import offsets_on_disk
from odradek.tests.support.simulations.whole.faults import replicas_of, stop
from odradek.tests.support.waiting import until
from odradek.zookeeper.operations import Operation, Put, Steps, WriteAll, read, write

RECORDS = 10
# In a batch.
MAGIC_AT = 16
PLACE = TopicPartition("t", 0)


def partition(broker: Broker) -> Partition:
    topic = broker.topics.get("t")
    assert topic is not None
    return topic.partitions[0]


def leads(broker: Broker) -> bool:
    return broker.topics.get("t") is not None and partition(broker).not_leading is None


async def write_state(broker: Broker, leader: int, isr: tuple[int, ...]) -> None:
    znode = await member(broker).zookeeper.run(read(state_path(PLACE)))
    assert znode is not None
    state = decode_state(PLACE, znode.data, znode.version)
    wanted = LeaderAndIsr(leader, state.leader_epoch + 1, isr, state.controller_epoch)
    assert await member(broker).zookeeper.run(write(Put(state_path(PLACE), encode_state(wanted)))) is None


def lose_log(directory: Path) -> None:
    shutil.rmtree(directory / "t-0")


def lose_all(directory: Path) -> None:
    shutil.rmtree(directory)


def lose_journal_and_log(directory: Path) -> None:
    """As a directory of an hour ago, when the topic was not yet there."""
    shutil.rmtree(directory / "t-0")
    for each in (directory / CLEAN_SHUTDOWN, *directory.glob("metadata*")):
        each.unlink()


def lose_topic(directory: Path) -> None:
    """As a directory of an hour ago, when an earlier topic had this name."""
    old = Metadata(directory)
    old.put_topic(replace(old.topics["t"], id=bytes(16)))
    old.close()
    write_partition_metadata(directory / "t-0", bytes(16))


def lose_records(directory: Path, kept: float = 0.0) -> None:
    """As a power cut, after which a start has ended before it could leave the ISRs."""
    for name in (RECOVERY_POINT, CLEAN_SHUTDOWN):
        (directory / name).unlink()
    (log,) = (directory / "t-0").glob("*.log")
    os.truncate(log, int(log.stat().st_size * kept))


def lose_last_records(directory: Path) -> None:
    """As a power cut between two batches."""
    lose_records(directory, kept=0.5)
    (directory / ".lock").write_text("pid 1\nan earlier boot\n")


def lose_an_hour(directory: Path) -> None:
    """As a copy that was made by `cp` after a clean stop, before the last records came."""
    shutil.rmtree(directory)
    shutil.copytree(copy_of(directory), directory)


def restore_an_hour(directory: Path) -> None:
    """As a backup of that time, which has no lock file."""
    lose_an_hour(directory)
    (directory / ".lock").unlink()


def copy_of(directory: Path) -> Path:
    return directory.with_name("an hour ago")


def lose_one_record(directory: Path) -> None:
    """As a bad sector in the middle, which the next start but a clean one meets."""
    (directory / CLEAN_SHUTDOWN).unlink()
    (log,) = (directory / "t-0").glob("*.log")
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // RECORDS * 4 + MAGIC_AT)
        file.write(b"\xff")


LOSSES = (lose_one_record, lose_log, lose_all, lose_journal_and_log, lose_topic, lose_records, lose_last_records)
LOSSES += (lose_an_hour, restore_an_hour)


async def write_records(cluster: Members, brokers: tuple[Broker, Broker], count: int) -> None:
    """Write more records to the leader, one of two brokers, and wait until both have them."""
    end = max(partition(each).log.log_end_offset for each in brokers) + count
    raw = await cluster.raw(next(each for each in brokers if leads(each)))
    for number in range(count):
        assert (await raw.produce("t", batch_of(b"%d" % number), acks=-1)).error_code == 0
    await until(lambda: all(partition(each).log.log_end_offset == end for each in brokers))


@pytest.mark.parametrize("fails_first", [False, True])
@pytest.mark.parametrize("lose", LOSSES)
async def test_a_broker_without_its_records_waits_for_one_that_has_them(
    cluster: Members, lose: Callable[[Path], None], fails_first: bool
) -> None:
    """Also one whose first start ends after its logs are open: that start alone may see that records are missing."""
    first, second = await cluster.start(1), await cluster.start(2)
    raw = await cluster.raw(first)
    assert (await raw.create_topic("t", 1, 2)).error_code == 0
    witness = await cluster.start(3)
    await until(lambda: any(leads(each) for each in (first, second)))
    if lose in (lose_an_hour, restore_an_hour):
        await write_records(cluster, (first, second), 1)
        await first.stop()
        shutil.copytree(first.config.data_dir, copy_of(Path(first.config.data_dir)))
        first = await cluster.start(1)
        await until(lambda: any(leads(each) for each in (first, second)))
        await write_records(cluster, (first, second), RECORDS - 1)
    else:
        await write_records(cluster, (first, second), RECORDS)
    await first.stop()
    await second.stop()
    replicas = witness.services.replicas
    assert replicas is not None
    await until(lambda: set(replicas.view.brokers) == {3})
    # As after a power cut of all: no controller has seen them go.
    await write_state(witness, 1, (1, 2))
    lose(Path(first.config.data_dir))
    if fails_first:
        with pytest.raises(StartError, match="in use"):
            await cluster.start(1, listeners=(f"PLAINTEXT://{witness.address}",))
    first = await cluster.start(1)
    znode = await member(first).zookeeper.run(read(state_path(PLACE)))
    assert znode is not None
    state = json.loads(znode.data)
    assert (state["leader"], state["isr"]) == (-1, [2])
    if lose is lose_one_record:
        # Perhaps nobody else ever comes back: what lies behind the loss stays until somebody leads.
        assert partition(first).log.log_end_offset == RECORDS
    second = await cluster.start(2)
    await until(lambda: partition(first).log.lost_from is None)
    await until(lambda: partition(first).log.log_end_offset == partition(second).high_watermark == RECORDS)
    assert offsets_on_disk(Path(first.config.data_dir) / "t-0") == list(range(RECORDS))


def test_a_broker_without_its_records_is_no_last_member_while_its_earlier_run_passes_for_alive() -> None:
    """The others stop in order, and a stop leaves the ISR to those whose sessions live."""
    with simulate(1, nodes=3) as world:

        async def write() -> None:
            async with Admin(world.address) as admin, Producer(world.address) as producer:
                await admin.create_topics([NewTopic("t", assignments={0: (1, 2, 3)})])
                await producer.send_and_wait("t", b"acknowledged")

        async def end() -> Any:
            async with Admin(world.addresses) as admin:
                return (await admin.list_offsets({("t", 0): -1}))["t", 0].offset

        world.run(write())
        empty, *others = world.cluster.nodes.values()
        empty.kill()
        empty.lose_directory({})
        empty.boot()
        cluster = world.cluster
        world.world.run_until(lambda: all(1 not in isr for _, _, isr, _ in replicas_of(cluster)), SESSION_S / 2)
        for each in others:
            world.run(stop(each))
        for each in others:
            world.start(each.number)
        assert world.run(end()) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (LeaderAndIsr(1, 3, (1, 2), 7), LeaderAndIsr(-1, 4, (2,), 7)),
        (LeaderAndIsr(2, 3, (2, 1), 7), LeaderAndIsr(2, 3, (2,), 7)),
    ],
)
def test_a_member_leaves_the_isr_and_tells_the_controller(before: LeaderAndIsr, after: LeaderAndIsr) -> None:
    zookeeper = with_state(before)
    run(zookeeper, leave_isrs(1, [PLACE]))
    assert state_of(zookeeper) == after
    (name,) = zookeeper.children_of(ISR_CHANGES)
    assert decode_places(name, zookeeper.get(f"{ISR_CHANGES}/{name}")) == [PLACE]


@pytest.mark.parametrize("isr", [(1,), (2,)])
def test_the_last_member_stays_and_one_that_is_out_of_sync_changes_nothing(isr: tuple[int, ...]) -> None:
    before = LeaderAndIsr(isr[0], 3, isr, 7)
    zookeeper = with_state(before)
    run(zookeeper, leave_isrs(1, [PLACE]))
    assert state_of(zookeeper) == before
    assert not zookeeper.children_of(ISR_CHANGES)


def test_a_state_that_is_written_meanwhile_is_read_again() -> None:
    zookeeper = with_state(LeaderAndIsr(1, 3, (1, 2, 3), 7))
    other = encode_state(LeaderAndIsr(1, 3, (1, 3), 7))
    run(zookeeper, leave_isrs(1, [PLACE]), lambda: zookeeper.put_by_hand(state_path(PLACE), other))
    assert state_of(zookeeper) == LeaderAndIsr(-1, 4, (3,), 7)


def test_a_state_that_is_always_written_meanwhile_ends_the_start() -> None:
    """A member that stayed in the ISR could be elected."""
    zookeeper = with_state(LeaderAndIsr(1, 3, (1, 2, 3), 7))
    other = encode_state(LeaderAndIsr(1, 3, (1, 3), 7))
    with pytest.raises(StartError, match="all the time"):
        run(zookeeper, leave_isrs(1, [PLACE]), lambda: zookeeper.put_by_hand(state_path(PLACE), other), MAX_TRIES)


def test_a_member_without_a_directory_finds_its_replicas() -> None:
    zookeeper = with_state(LeaderAndIsr(2, 3, (2, 1), 7))
    assignment = Assignment(None, {0: Replicas((1, 2)), 1: Replicas((2, 3))})
    zookeeper.put_by_hand(topic_path("t"), encode_assignment(assignment))
    zookeeper.make(topic_path("damaged"), b"{")
    assert run(zookeeper, lacking(1, lambda *_: True)) == [PLACE]
    assert run(zookeeper, lacking(1, lambda *_: False)) == []


def with_state(state: LeaderAndIsr) -> FakeZookeeper:
    zookeeper = FakeZookeeper()
    for path in (topic_path("t"), partitions_path("t"), partition_path(PLACE)):
        zookeeper.make(path)
    zookeeper.make(state_path(PLACE), encode_state(state))
    return zookeeper


def state_of(zookeeper: FakeZookeeper) -> LeaderAndIsr:
    return decode_state(PLACE, zookeeper.get(state_path(PLACE)), 0)


def run(
    zookeeper: FakeZookeeper, steps: Steps[Any], before_write: Callable[[], None] = lambda: None, times: int = 1
) -> Any:
    def before(operation: Operation) -> None:
        nonlocal times
        if isinstance(operation, WriteAll):
            if times > 0:
                before_write()
            times -= 1

    return run_steps(zookeeper, steps, before)
