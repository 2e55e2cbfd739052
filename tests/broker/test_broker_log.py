"""The broker's log: what it says of a recovery, and what more there is at level debug."""

from __future__ import annotations

import logging

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.client import Consumer
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.storage.checkpoints import CLEAN_SHUTDOWN
from odradek.tests.support.clients.raw import Raw, batch_of


async def test_a_start_after_a_crash_says_what_was_recovered_and_how_long_it_took(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "odradek")
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        await raw.produce("t", batch_of(b"one"))
    (config.data_dir / CLEAN_SHUTDOWN).unlink()
    segment = config.data_dir / "t-0" / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes() + bytes(100))
    caplog.clear()
    async with Broker(config):
        pass
    (line,) = [each for each in caplog.messages if "the last stop was not clean" in each]
    assert "recovered 2 of 2 partitions in 0." in line and "tails cut: 1" in line
    caplog.clear()
    async with Broker(config):
        pass
    assert not any("not clean" in each for each in caplog.messages)


async def test_level_debug_shows_connections_and_requests_with_their_api_and_client(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "odradek.broker")
    async with Broker(config) as broker:
        async with await Raw.connect(broker.address) as raw:
            await raw.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
        async with Consumer("t", bootstrap_servers=broker.address, group_id="g", client_id="reader"):
            pass
    said = "\n".join(caplog.messages)
    assert ": connected to listener PLAINTEXT" in said and ": disconnected" in said
    assert "ListGroups version 4, client id" in said
    assert "Metadata version 13, client id 'reader'" in said


async def test_without_debug_no_request_is_logged(config: BrokerConfig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek.broker")
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
    assert not any("ListGroups" in each for each in caplog.messages)
