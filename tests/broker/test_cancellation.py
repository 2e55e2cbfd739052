"""What a broker does at any await may be interrupted: by a stop, a cancellation, or a connection that closes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.log_dirs.data_dir import StartError
from odradek.protocol.messages.update_metadata import UpdateMetadataResponse
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.cancellation import InterruptedAt
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.clusters.lone_cluster import lone_member, modelled_zookeeper
from odradek.tests.support.waiting import until

CONFIG = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), num_network_threads=1)


async def started_and_stopped_at(config: BrokerConfig, number: int) -> bool:
    """Stop a broker at the n-th await of its start. Return whether there are so many."""
    broker, stops = Broker(config), list[asyncio.Task[None]]()
    watched = InterruptedAt(broker._open(), number, lambda: stops.append(asyncio.create_task(broker.stop())))

    async def start() -> None:
        await watched

    broker._open = start
    with suppress(StartError):
        await broker.start()
    async with asyncio.timeout(20):
        for each in stops:
            await each
        if not stops:
            await broker.stop()
    assert not broker.addresses
    return bool(stops)


@pytest.mark.parametrize("is_member", [False, True], ids=["lone", "member"])
async def test_a_stop_ends_a_start_that_is_under_way(tmp_path: Path, is_member: bool) -> None:
    config = replace(CONFIG, log_dirs=(str(tmp_path),))
    before = asyncio.all_tasks()
    with modelled_zookeeper():
        config = lone_member(config) if is_member else config
        number = 1
        while await started_and_stopped_at(config, number):
            number += 1
        assert number > 1
        # Nothing is held: another broker starts on the same directory, and serves.
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            assert (await raw.create_topic("t")).error_code == 0
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_request_of_the_controller_is_carried_out_whole_although_its_connection_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated, it would tell nothing new, and followers would never learn where their leader is."""
    async with HandCluster(tmp_path, 2) as cluster:
        for index in range(8):
            await cluster.assign("t", index, leader=1)
        fetchers = cluster.brokers[2].services.replicas._fetchers
        cluster.addresses[1] = address = "localhost", int(cluster.brokers[1].address.rpartition(":")[2])

        def moved() -> list[bool]:
            return [fetchers.has(("t", cluster.controller.ids["t"], index), address) for index in range(8)]

        async def break_off(raw: Raw, *request: Any) -> UpdateMetadataResponse:
            raw.send(*request)
            await until(lambda: any(moved()))
            raw.close()
            return UpdateMetadataResponse()

        end_slices_after(1)
        with monkeypatch.context() as patch:
            patch.setattr(Raw, "ask", break_off)
            await cluster.update_metadata(to=[2])
        assert not all(moved())
        await cluster.update_metadata(to=[2])
        assert all(moved())


async def test_a_request_whose_client_has_gone_costs_no_term_of_a_controller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with modelled_zookeeper():
        async with Broker(lone_member(replace(CONFIG, log_dirs=(str(tmp_path),)))) as broker:
            controller = broker.services.cluster.controller
            controller._term, controller._is_standing = None, True
            asking = asyncio.create_task(controller.ask(lambda machine: iter(())))
            await asyncio.sleep(0)
            asking.cancel()
            await until(asking.done)
            await until(controller._events.empty)
    assert "gives up" not in caplog.text
