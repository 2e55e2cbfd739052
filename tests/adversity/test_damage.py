"""Damaged files: the broker starts, readers of the damaged partition get an error, and all others are served."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from odradek.protocol.records.batch import iter_headers
from odradek.tests.support.clients.raw import Raw, batch_of


@pytest.fixture(autouse=True)
def untroubled() -> Iterator[None]:
    """Allow errors in the log: these tests look for them."""
    yield


async def fetch(raw: Raw, offset: int) -> list[PartitionData]:
    """Fetch both partitions from that offset on."""
    wanted = [FetchTopic("t", partitions=[FetchPartition(n, fetch_offset=offset) for n in range(2)])]
    for each in wanted[0].partitions:
        each.partition_max_bytes = 1 << 20
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=wanted)
    return (await raw.ask(ApiKey.FETCH, 11, request)).responses[0].partitions


def offsets(data: PartitionData) -> list[int]:
    assert data.error_code == 0
    return [header.base_offset for _, header in iter_headers(bytes(data.records or b""))]


@pytest.mark.parametrize("clean", [True, False])
async def test_a_damaged_batch_is_refused_and_all_else_served(
    config: BrokerConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool
) -> None:
    data = tmp_path / "data"
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        for _ in range(6):
            for index in range(2):
                assert (await raw.produce("t", batch_of(b"x" * 50), index)).error_code == 0
    size = len(batch_of(b"x" * 50))
    path = data / "t-0" / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.seek(3 * size + 8)
        file.write(b"\0\0\0\0")
    if not clean:
        (data / ".kafka_cleanshutdown").unlink()
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert [offsets(each) for each in await fetch(raw, 0)] == [[0, 1, 2], [0, 1, 2, 3, 4, 5]]
        for _ in range(3):
            damaged, sound = await fetch(raw, 3)
            assert damaged.error_code == ErrorCode.CORRUPT_MESSAGE
            assert offsets(sound) == [3, 4, 5]
        assert (await raw.produce("t", batch_of(b"new"))).base_offset == 6
        assert [offsets(each) for each in await fetch(raw, 4)] == [[4, 5, 6], [4, 5]]
    told = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert all(f"{path} is damaged at {3 * size}" in each for each in told), told
    assert len(told) in (1, 2)
