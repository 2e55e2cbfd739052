"""Errors of this program while it follows and leads: replication goes on behind them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from odradek.broker.replication import fetcher
from odradek.broker.replication.alter_partition import IsrChanges
from odradek.broker.replication.follower_log import FollowerLog
from odradek.broker.topics.partition import Partition
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.waiting import until


class Bug:
    """Fails a method where `fails` says so, and else calls it."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.hits = 0
        self.is_on = True
        original = getattr(owner, name)

        async def broken(itself: Any, *given: Any) -> Any:
            if self.is_on and self.fails(*given):
                self.hits += 1
                raise RuntimeError("a bug")
            return await original(itself, *given)

        patch.setattr(owner, name, broken)

    def fails(self, *given: Any) -> bool:
        """Return whether this call fails."""
        return True


class BugInOnePartition(Bug):
    """Fails the appends of partition 0."""

    def fails(self, *given: Any) -> bool:
        partition = given[0]
        assert isinstance(partition, Partition)
        return partition.index == 0


@pytest.mark.parametrize("has_fsync", [False, True])
async def test_a_partition_that_fails_is_tried_again_and_the_others_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, has_fsync: bool
) -> None:
    configs = {"log_flush_interval_messages": 1} if has_fsync else {}
    bug = BugInOnePartition(monkeypatch, FollowerLog, "flush" if has_fsync else "append")
    async with HandCluster(tmp_path, 2, **configs) as cluster:
        await cluster.assign("t", 0, leader=1)
        await cluster.assign("t", 1, leader=1)
        async with await cluster.connect(1) as raw:
            count = 0
            # An fsync that began for another reason may have covered the first ones.
            while not bug.hits:
                assert (await raw.produce("t", batch_of(b"x"), acks=1)).error_code == 0
                count += 1
            assert (await raw.produce("t", batch_of(b"y"), partition=1, timeout_ms=20_000)).error_code == 0
        await until(lambda: bug.hits > 2)
        bug.is_on = False
        await until(lambda: cluster.partition(2).high_watermark == count)
    told = [each for each in caplog.records if each.levelno == logging.ERROR and each.exc_info]
    assert [each.getMessage() for each in told] == [
        "t-0 could not be fetched, which is tried again: RuntimeError('a bug')"
    ]


async def test_a_fetcher_that_fails_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = Bug(monkeypatch, fetcher.Fetcher, "_take_all")
    async with HandCluster(tmp_path, 2) as cluster:
        await cluster.assign("t", leader=1)
        async with await cluster.connect(1) as raw:
            assert (await raw.produce("t", batch_of(b"x"), acks=1)).error_code == 0
        await until(lambda: bug.hits > 2)
        bug.is_on = False
        await until(lambda: cluster.partition(2).high_watermark == 1)


async def test_a_change_of_the_isr_that_fails_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.broker.replication.alter_partition.FAILURE_PAUSE_S", 0.01)
    bug = Bug(monkeypatch, IsrChanges, "_send")
    async with HandCluster(tmp_path, 2, replica_lag_time_max_ms=100) as cluster:
        await cluster.assign("t", leader=1, to=(1,))
        await until(lambda: bug.hits > 2)
        bug.is_on = False
        await until(lambda: cluster.controller.changes == [("t", 0, (1,))])
