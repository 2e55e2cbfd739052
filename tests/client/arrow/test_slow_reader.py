"""A task whose rows are taken slowly: however long that takes, what happens to brokers meanwhile does not fail it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("pyarrow", reason="the source needs pyarrow (extra `spark`)")

from odradek.client.arrow.batches import first_offset, next_offset
from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.fetch import OffsetRange, RangeFetch
from odradek.client.spark.options import parse_options
from odradek.protocol.apis import ApiKey
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.fakes.fake_cluster import FakeCluster

TEN_MINUTES_S = 600.0
BATCHES, PER_BATCH = 8, 5
# Two batches do not fit into a fetch.
ONE_BATCH = {"kafka.max.partition.fetch.bytes": "400"}


def a_batch() -> bytes:
    return encode_batch([Record(value=b"x" * 50)] * PER_BATCH)


def read(fetch: RangeFetch, downstream: Callable[[int], None]) -> list[int]:
    """The offsets of a range. `downstream` gets the number of each section, and takes its time."""

    def offsets() -> Iterator[int]:
        for number, section in enumerate(fetch.sections()):
            yield from range(first_offset(section.table), next_offset(section.table))
            downstream(number)

    return list(offsets())


async def test_ten_minutes_between_rows_with_restarts_dropped_connections_and_leaders_that_move() -> None:
    cluster = FakeCluster({"t": 1}, nodes=2)
    log = cluster.log("t")
    for _ in range(BATCHES):
        log.write(a_batch())
    now = [0.0]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    async with cluster:
        loop = asyncio.get_running_loop()

        async def drop() -> None:
            for node in cluster.nodes.values():
                for writer in list(node.writers):
                    writer.transport.abort()

        async def move() -> None:
            log.leader = 3 - log.leader

        async def move_and_drop() -> None:
            await move()
            await drop()

        async def restart() -> None:
            for node in cluster.nodes.values():
                await node.stop()
                await node.start()

        troubles = (drop, move, move_and_drop, restart)

        def downstream(number: int) -> None:
            now[0] += TEN_MINUTES_S
            asyncio.run_coroutine_threadsafe(troubles[number % len(troubles)](), loop).result()

        options = parse_options({"kafka.bootstrap.servers": cluster.address, "subscribe": "t"} | ONE_BATCH)
        brokers = Brokers(options.client, lambda: now[0], sleep)
        wanted = OffsetRange("t", cluster.topic_id("t"), 0, 0, BATCHES * PER_BATCH)
        found = await asyncio.to_thread(read, RangeFetch(wanted, options, brokers), downstream)
        assert found == list(range(BATCHES * PER_BATCH))
        assert {call.node.node_id for call in cluster.calls(ApiKey.FETCH)} == {1, 2}
    assert now[0] > BATCHES * TEN_MINUTES_S
    assert pauses
