"""OffsetForLeaderEpoch: where an epoch ended, also after a crash."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.tests.support.clients.raw import Raw, batch_of


async def ask(raw: Raw, epoch: int, current: int = -1, partition: int = 0, version: int = 4) -> tuple[int, int, int]:
    """(error, epoch, end offset)."""
    asked = OffsetForLeaderTopic("t", [OffsetForLeaderPartition(partition, current, epoch)])
    response = await raw.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, OffsetForLeaderEpochRequest(topics=[asked]))
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_the_present_epoch_ends_where_the_log_does(raw: Raw, version: int) -> None:
    await raw.create_topic("t")
    await raw.produce("t", batch_of(b"a", b"b"))
    assert await ask(raw, 0, version=version) == (0, 0, 2)
    assert await ask(raw, 1, version=version) == (0, -1, -1)
    assert await ask(raw, -1, version=version) == (0, -1, -1)


async def test_errors(raw: Raw) -> None:
    await raw.create_topic("t")
    assert (await ask(raw, 0, partition=4))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await ask(raw, 0, current=9))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_after_a_crash_the_old_epoch_ends_where_the_new_one_began(config: BrokerConfig, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        await raw.produce("t", batch_of(b"a", b"b"))
        # What a crash leaves: the files as they are now, without what a clean stop adds.
        shutil.copytree(config.data_dir, crashed, ignore=shutil.ignore_patterns("*.tmp"))
    async with Broker(replace(config, log_dirs=(str(crashed),))) as broker:
        async with await Raw.connect(broker.address) as raw:
            assert await ask(raw, 0) == (0, 0, 2)
            assert await ask(raw, 1) == (0, 1, 2)
            await raw.produce("t", batch_of(b"c"))
            assert await ask(raw, 0, current=1) == (0, 0, 2)
            assert await ask(raw, 1, current=1) == (0, 1, 3)
            assert (await ask(raw, 0, current=0))[0] == ErrorCode.FENCED_LEADER_EPOCH
            assert (await raw.fetch("t", 2)).high_watermark == 3
