"""Leases of segments: what a reader on this machine is told, and that its files stay until the lease ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.quotas.entities import CONSUMER_BYTE_RATE, Entity
from odradek.broker.topics import segment_leases
from odradek.protocol.apis import OwnApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.odradek_lease_segments import OdradekLeaseSegmentsRequest
from odradek.protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest
from odradek.protocol.records import batch
from odradek.tests.support.clients.raw import Raw, batch_of

SMALL = {"segment_bytes": "1048576", "segment_index_bytes": "16", "index_interval_bytes": "0"}


@pytest.fixture
def config(config: BrokerConfig) -> BrokerConfig:
    return replace(config, direct_read_max_leases=3)


@pytest.fixture(autouse=True)
async def topic(raw: Raw) -> None:
    """A topic `t` of twelve batches in several segments."""
    assert (await raw.create_topic("t", file_delete_delay_ms="0", **SMALL)).error_code == 0
    for number in range(12):
        assert (await raw.produce("t", batch_of(b"%d" % number))).error_code == 0


async def lease(raw: Raw, start: int = 0, end: int = 12, **rest: Any) -> Any:
    request = OdradekLeaseSegmentsRequest(topic="t", start_offset=start, end_offset=end, **rest)
    return await raw.ask(OwnApiKey.ODRADEK_LEASE_SEGMENTS, 0, request)


async def renew(raw: Raw, number: int, *, is_end: bool = False) -> Any:
    request = OdradekRenewLeaseRequest(lease_id=number, is_end=is_end)
    return await raw.ask(OwnApiKey.ODRADEK_RENEW_LEASE, 0, request)


def values(leased: Any) -> list[bytes | None]:
    found: list[bytes | None] = []
    for file in leased.files:
        data = (Path(leased.directory) / file.name).read_bytes()[file.position : file.end]
        for position, _ in batch.iter_headers(data):
            found += [record.value for record in batch.decode_batch(data, position)]
    return found


EVERYTHING = [b"%d" % number for number in range(12)]


def lease_directories(config: BrokerConfig) -> list[str]:
    return [each.name for each in Path(config.log_dirs[0]).iterdir() if ".lease" in each.name]


def exists(path: Path) -> bool:
    return path.exists()


async def gone(path: Path) -> None:
    async with asyncio.timeout(20):
        while exists(path):
            await asyncio.sleep(0.01)


async def test_the_files_hold_the_range_and_prove_whose_they_are(raw: Raw, config: BrokerConfig) -> None:
    leased = await lease(raw)
    assert leased.error_code == 0
    assert values(leased) == EVERYTHING
    assert len(leased.files) > 2
    assert (leased.high_watermark, leased.last_stable_offset, leased.log_start_offset) == (12, 12, 0)
    meta = (Path(leased.directory).parent / "meta.properties").read_text()
    assert f"cluster.id={leased.cluster_id}" in meta
    assert f"directory.id={leased.directory_id}" in meta
    assert values(await lease(raw, 5, 7)) == [b"5", b"6"]


async def test_the_files_outlive_record_deletion_and_the_topic_until_the_lease_ends(raw: Raw, broker: Broker) -> None:
    leased = await lease(raw)
    partition = broker.services.topics.get("t").partitions[0]
    directory = partition.log.directory
    before = partition.log.segments
    broker.services.background.record_deletion.delete_records(partition, 12)
    for segment in before[:-1]:
        await gone(segment.path(".log"))
    assert values(leased) == EVERYTHING
    assert (await lease(raw)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    await raw.delete_topic("t")
    assert (await lease(raw)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await gone(directory)
    assert values(leased) == EVERYTHING
    assert (await renew(raw, leased.lease_id, is_end=True)).error_code == 0
    await gone(Path(leased.directory))
    assert (await renew(raw, leased.lease_id)).error_code == ErrorCode.RESOURCE_NOT_FOUND


async def test_without_links_the_files_would_go(raw: Raw, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: the broker hands out the log's own files. The test above finds it."""
    monkeypatch.setattr(segment_leases, "link_files", lambda parts, target, disk: None)
    partition = broker.services.topics.get("t").partitions[0]
    monkeypatch.setattr(segment_leases, "deleted_path", lambda directory, name: directory)
    leased = await lease(raw)
    assert values(leased) == EVERYTHING
    first = partition.log.segments[0].path(".log")
    broker.services.background.record_deletion.delete_records(partition, 12)
    await gone(first)
    with pytest.raises(FileNotFoundError):
        values(leased)


async def test_a_range_goes_on_where_the_first_files_end(raw: Raw) -> None:
    at, found = 0, []
    while at < 12:
        leased = await lease(raw, at, max_files=1)
        assert len(leased.files) == 1
        found += values(leased)
        assert leased.files[0].next_offset > at
        at = leased.files[0].next_offset
        await renew(raw, leased.lease_id, is_end=True)
    assert found == EVERYTHING


async def test_at_the_end_of_the_log_nothing_is_leased(raw: Raw, config: BrokerConfig) -> None:
    leased = await lease(raw, 12, 20)
    assert (leased.error_code, leased.lease_id, leased.files) == (0, -1, [])
    assert lease_directories(config) == []


async def test_what_a_fetch_rejects_is_rejected(raw: Raw) -> None:
    for changes, code in (
        ({"start": 13, "end": 14}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"start": 13}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"start": -1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"topic_id": b"x" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 7}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"isolation_level": 2}, ErrorCode.INVALID_REQUEST),
        ({"max_files": 0}, ErrorCode.INVALID_REQUEST),
    ):
        assert (await lease(raw, **changes)).error_code == code, changes


async def test_there_are_only_so_many_leases(raw: Raw) -> None:
    first = await lease(raw)
    for _ in range(2):
        assert (await lease(raw)).error_code == 0
    full = await lease(raw)
    assert full.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert "direct.read.max.leases" in full.error_message
    await renew(raw, first.lease_id, is_end=True)
    assert (await lease(raw)).error_code == 0


async def test_direct_read_can_be_off(config: BrokerConfig, tmp_path: Path) -> None:
    config = replace(config, direct_read_max_leases=0, log_dirs=(str(tmp_path / "off"),))
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        assert (await lease(raw)).error_code == ErrorCode.POLICY_VIOLATION


async def test_read_committed_ends_at_an_open_transaction(raw: Raw, broker: Broker) -> None:
    open_one = batch_of(b"open", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    partition = broker.services.topics.get("t").partitions[0]
    log = partition.log
    data = bytearray(open_one)
    header = batch.assign(data, 0, batch.read_header(data), log.log_end_offset, 0)
    log.append(bytes(data), header, 0)
    partition.advance(log.log_end_offset)
    assert values(await lease(raw, 10, 100, isolation_level=1)) == [b"10", b"11"]
    assert values(await lease(raw, 10, 100)) == [b"10", b"11", b"open"]


async def test_a_file_system_without_links_is_no_broken_disk(
    raw: Raw, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    answer = await lease(raw)
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "Operation not permitted" in answer.error_message
    assert (await raw.fetch("t", 0)).error_code == 0
    assert len(broker.services.segment_leases) == 0


async def test_leased_bytes_count_against_the_quota_of_the_consumer(broker: Broker, raw: Raw) -> None:
    assert (await lease(raw)).throttle_time_ms == 0
    quota = {Entity(user="ANONYMOUS"): {CONSUMER_BYTE_RATE: 10.0}}
    await broker.services.security.put_quotas(list(quota.items()))
    leased = await lease(raw)
    assert leased.error_code == 0 and values(leased) == EVERYTHING
    assert leased.throttle_time_ms > 1_000
