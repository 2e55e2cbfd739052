"""The fields of lines in the JSON log: by them an operator finds the lines of a client, a topic or a group."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.tests.support.clients.raw import Raw, batch_of


def _fields(caplog: pytest.LogCaptureFixture, text: str) -> dict[str, Any]:
    return vars(next(record for record in caplog.records if text in record.getMessage()))


async def test_a_rejected_batch_names_client_api_partition_and_error(
    broker: Broker, raw: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    await raw.create_topic("t")
    damaged = bytearray(batch_of(b"a"))
    damaged[-1] ^= 1
    await raw.produce("t", bytes(damaged))
    found = _fields(caplog, "a batch for t-0 rejected")
    names = ("client_id", "api", "topic", "partition", "error")
    assert [found[name] for name in names] == ["raw", "Produce", "t", 0, "CORRUPT_MESSAGE"]
    assert found["connection"] in found["message"]


async def test_a_closed_connection_is_named(broker: Broker, raw: Raw, caplog: pytest.LogCaptureFixture) -> None:
    raw.send_bytes(b"\0\0\0\2\7\7")
    assert await raw.is_closed()
    found = _fields(caplog, "closed")
    assert found["message"].startswith(f"{found['connection']}: ")
    assert found["listener"] == "PLAINTEXT"


async def test_a_line_about_a_group_names_it(broker: Broker, raw: Raw, caplog: pytest.LogCaptureFixture) -> None:
    # Simulations that ran before in this process keep the coordinators quiet.
    caplog.set_level(logging.INFO, "odradek.broker.coordination.groups.coordinator")
    join = JoinGroupRequest("g", 60_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    join.member_id = (await raw.ask(ApiKey.JOIN_GROUP, 6, join)).member_id
    generation = (await raw.ask(ApiKey.JOIN_GROUP, 6, join)).generation_id
    assignments = [SyncGroupRequestAssignment(join.member_id, b"a")]
    sync = SyncGroupRequest("g", generation, join.member_id, None, "consumer", "range", assignments)
    assert (await raw.ask(ApiKey.SYNC_GROUP, 5, sync)).error_code == 0
    assert any(getattr(record, "group", None) == "g" for record in caplog.records)
