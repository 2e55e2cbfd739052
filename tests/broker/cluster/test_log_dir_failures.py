"""A broker whose disk fails while it runs: the controller learns of it, and other replicas lead."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker
from odradek.broker.cluster.znodes import LOG_DIR_EVENT_PREFIX, LOG_DIR_EVENTS, encode_log_dir_event
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.cluster.test_changes import assign, view
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.members import Members, member
from odradek.tests.support.disks.ruled_disk import FullDisk
from odradek.tests.support.waiting import until
from odradek.zookeeper.operations import Create, children, write


def home(folders: list[Path], partition: str) -> Path:
    """The data directory that holds a partition."""
    return next(each for each in folders if (each / partition).is_dir())


@pytest.mark.parametrize("directories", [1, 2])
async def test_leaders_move_away_from_a_directory_that_fails(cluster: Members, directories: int) -> None:
    """With one directory the whole broker is without a disk; with two the partitions of the other stay as they are."""
    controller = await cluster.start(1)
    disk = FullDisk(number=errno.EIO)
    folders = [cluster.folder / f"disk-{number}" for number in range(directories)]
    config = replace(cluster.config("disk", broker_id=2), log_dirs=tuple(map(str, folders)))
    failing = Broker(config, disk=disk)
    await failing.start()
    cluster.stack.push_async_callback(failing.stop)
    raw = await cluster.raw(controller)
    assert (await assign(raw, [[2, 1], [2, 1]])).error_code == 0
    # The answer comes before all brokers know the topic.
    await until(lambda: all(view(failing, "t", index) is not None for index in (0, 1)))
    leader = await cluster.raw(failing)
    for index in (0, 1):
        assert (await leader.produce("t", batch_of(b"x"), partition=index)).error_code == 0
    disk.fill(home(folders, "t-0"))
    assert (await leader.produce("t", batch_of(b"y"))).error_code == int(ErrorCode.KAFKA_STORAGE_ERROR)
    await until(lambda: view(controller).leader == 1)
    assert view(controller).isr == (1,) and view(controller).offline == (2,)
    assert (await raw.produce("t", batch_of(b"z"))).error_code == 0
    if directories == 2:
        assert (view(controller, "t", 1).leader, view(controller, "t", 1).isr) == (2, (2, 1))
    # The notices are removed once they are acted on.
    zookeeper = member(controller).zookeeper
    assert await zookeeper.run(children(LOG_DIR_EVENTS)) == []
    # With the disk well again, a start brings the replica back.
    await failing.stop()
    disk.free()
    await failing.start()
    await until(lambda: set(view(controller).isr) == {1, 2})
    assert view(controller).offline == ()


async def test_a_notice_of_a_stranger_is_removed_and_one_of_kafka_is_understood(
    cluster: Members, caplog: pytest.LogCaptureFixture
) -> None:
    controller = await cluster.start(1)
    zookeeper = member(controller).zookeeper
    kafkas = b'{"version":1,"broker":1,"event":1}'
    assert encode_log_dir_event(1) == kafkas
    for content in (b"", b"[]", b'{"version":1,"broker":"one"}', b'{"version":1,"broker":77,"event":1}', kafkas):
        await zookeeper.run(write(Create(LOG_DIR_EVENT_PREFIX, content, is_sequential=True)))
    left = [""]
    while left:
        left = await zookeeper.run(children(LOG_DIR_EVENTS))
    assert "replicas of broker 1 are offline" in caplog.text
    assert (await (await cluster.raw(controller)).create_topic("t")).error_code == 0
