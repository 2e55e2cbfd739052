"""The files that a running broker holds for a backup: of one moment, for one tool, and gone with its lease."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.topics import live_backup
from odradek.protocol.apis import OwnApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.odradek_begin_backup import OdradekBeginBackupRequest
from odradek.protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest
from odradek.storage.held_files import Held
from odradek.tests.support.clients.raw import Raw, batch_of


async def begin(raw: Raw) -> Any:
    return await raw.ask(OwnApiKey.ODRADEK_BEGIN_BACKUP, 0, OdradekBeginBackupRequest())


async def end(raw: Raw, lease_id: int) -> Any:
    return await raw.ask(OwnApiKey.ODRADEK_RENEW_LEASE, 0, OdradekRenewLeaseRequest(lease_id, True))


def left(config: BrokerConfig) -> list[str]:
    return [each.name for each in Path(config.log_dirs[0]).iterdir() if each.name.startswith("backup.")]


async def test_what_is_appended_later_does_not_belong_to_the_backup(raw: Raw) -> None:
    await raw.create_topic("t")
    await raw.produce("t", batch_of(b"before"))
    response = await begin(raw)
    await raw.produce("t", batch_of(b"after"))
    (directory,) = map(Path, response.directories)
    held = Held.read(directory)
    ((_, link, size),) = [each for each in held.files if each[0].startswith("t-0/")]
    content = (directory / link).read_bytes()
    assert b"before" in content[:size] and b"after" in content[size:]
    texts = dict(held.texts)
    assert response.cluster_id in texts["meta.properties"] and "topic_id: " in texts["t-0/partition.metadata"]
    assert "t 0 0" in texts["log-start-offset-checkpoint"]


async def test_one_backup_is_made_at_a_time(raw: Raw, config: BrokerConfig, broker: Broker) -> None:
    first = await begin(raw)
    second = await begin(raw)
    assert second.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED and "wait for its end" in second.error_message
    assert len(left(config)) == 1
    assert (await end(raw, first.lease_id)).error_code == 0
    assert (await begin(raw)).error_code == 0


async def test_the_next_start_removes_what_a_dead_broker_held(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await begin(raw)
    assert len(left(config)) == 1
    async with Broker(config) as broker:
        pass
    assert left(config) == []


async def test_files_that_come_and_go_too_fast_are_told(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_backup, "MAX_ATTEMPTS", 1)
    response = await begin(raw)
    assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR and "come and go" in response.error_message
