"""Records by column: `batches`, and `read_topic` as a table, compiled and in pure Python."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.client import Consumer, Producer, RecordColumns, TopicPartition, read_topic
from odradek.client.arrow.tables import COLUMNS, ArrowColumns
from odradek.client.consumer.fetched_batch import CompletedFetch, FetchedBatch, joined
from odradek.client.errors import ClientStopped, DirectReadNotPossible, InvalidOption, OffsetOutOfRange, UnknownTopic
from odradek.protocol.apis import ApiKey
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.compiled_kernel import records_by
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import FakeLog
from odradek.tests.support.fakes.wire import Call
from odradek.tests.support.security.certificates import Certificates

pytest.importorskip("pyarrow", reason="pip install 'odradek[tables]'")
np = pytest.importorskip("numpy", reason="pip install 'odradek[tables]'")
T0 = TopicPartition("t", 0)
RECORDS = [
    Record(-1, 1_700_000_000_000 + number, b"k" if number % 3 else None, b"%d" % number if number % 5 else None,
           (("h", b"1"), ("i", None)) if number % 4 == 0 else ())
    for number in range(50)
]  # fmt: skip


def write(cluster: FakeCluster, partition: int = 0) -> None:
    for start in range(0, 50, 10):
        codec = Compression.ZSTD if start == 20 else Compression.NONE
        cluster.log("t", partition).write(encode_batch(RECORDS[start : start + 10], compression=codec))


@pytest.mark.parametrize(("start", "end"), [(0, None), (13, 41), (50, None)])
def test_the_kernel_and_pure_python_fill_the_same_table(start: int, end: int | None) -> None:
    cluster = FakeCluster({"t": 1})
    write(cluster)
    tables: list[Any] = []
    for way in ("kernel", "Python"):
        with records_by(way):
            filled = ArrowColumns(COLUMNS, T0, end)
            for batch in cluster.log("t").batches:
                filled.add(memoryview(batch), start)
            tables.append(filled.table())
    assert tables[0].equals(tables[1])
    assert tables[0]["offset"].to_pylist() == list(range(start, end or 50))


def test_a_table_that_becomes_large_is_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.client.arrow.tables._LARGE_TABLE_BYTES", 500)
    cluster = FakeCluster({"t": 1})
    write(cluster)
    tables: list[Any] = []
    for kept in (True, False):
        filled = ArrowColumns(COLUMNS, T0, None, kept=kept)
        for batch in cluster.log("t").batches:
            filled.add(memoryview(batch), 0)
        tables.append(filled.table())
    assert [len(each.to_batches()) for each in tables] == [2, 1], "larger columns begin a batch of their own"
    assert tables[0].equals(tables[1]) and tables[0].nbytes < 10_000


def fetched(start: int) -> list[FetchedBatch]:
    """The batches from an offset on, as a fetch brings them: parts of one piece of memory."""
    cluster = FakeCluster({"t": 1})
    write(cluster)
    data = memoryview(b"".join(cluster.log("t").batches))
    fetch = CompletedFetch(T0, data, start, [], check_crcs=True)
    return list(iter(fetch.take_batch, None))


@pytest.mark.parametrize("start", [0, 7, 13, 30])
def test_the_kernel_and_pure_python_return_the_same_columns(start: int) -> None:
    some, found = fetched(start), list[Any]()
    for way in ("kernel", "Python"):
        with records_by(way):
            columns = RecordColumns(T0, some)
            values = columns.values  # alone, before all columns are there
            found.append(
                (values, columns.offsets, columns.keys, columns.values, columns.timestamps_ms, columns.headers)
            )
    assert found[0] == found[1]
    assert found[0][1] == list(range(start, 50)) and found[0][0] == [each.value for each in RECORDS[start:]]
    assert RecordColumns(T0, []).values == []


def test_batches_that_lie_behind_each_other_are_read_in_one_piece() -> None:
    some = fetched(0)
    (whole,) = joined(some)
    assert bytes(whole) == b"".join(bytes(each.data) for each in some)
    apart = [some[0], some[2], some[3], fetched(0)[4]]
    assert [len(each) for each in joined(apart)] == [
        len(some[0].data),
        len(some[2].data) + len(some[3].data),
        len(some[4].data),
    ]
    alone = FetchedBatch(T0, some[0].header, some[0].data, 0)
    assert [bytes(each) for each in joined([alone, alone])] == [bytes(alone.data)] * 2
    assert list(joined([])) == []


def test_columns_that_there_are_not_are_rejected() -> None:
    with pytest.raises(InvalidOption, match="columns"):
        ArrowColumns(["key", "colour"], T0)


async def test_batches_come_by_column_and_are_decoded_on_demand(cluster: FakeCluster) -> None:
    write(cluster)
    consumer = Consumer("t", bootstrap_servers=cluster.address, auto_offset_reset="earliest")
    await consumer.start()
    found: list[RecordColumns] = []
    async with asyncio.timeout(20):
        async for columns in consumer.batches():
            found.append(columns)
            if sum(map(len, found)) == 50:
                asyncio.get_running_loop().create_task(consumer.stop())
    assert [value for each in found for value in each.values] == [record.value for record in RECORDS]
    assert [offset for each in found for offset in each.offsets] == list(range(50))
    assert [key for each in found for key in each.keys] == [record.key for record in RECORDS]
    assert [time for each in found for time in each.timestamps_ms] == [each.timestamp_ms for each in RECORDS]
    assert [headers for each in found for headers in each.headers] == [record.headers for record in RECORDS]
    assert [value for each in found for value in each.values] == [record.value for record in RECORDS]
    table = found[0].to_arrow(["offset", "value"])
    assert table["value"].to_pylist() == found[0].values
    with pytest.raises(ClientStopped):
        async for _ in Consumer("t").batches():
            pass


async def test_a_seek_into_a_batch_begins_with_its_offset() -> None:
    async with FakeCluster({"t": 1}) as cluster, Consumer(bootstrap_servers=cluster.address) as consumer:
        write(cluster)
        consumer.assign([T0])
        consumer.seek(T0, 13)
        async with asyncio.timeout(20):
            async for columns in consumer.batches():
                assert columns.offsets[0] == 13 and len(columns) == len(columns.values)
                assert columns.to_arrow()["offset"].to_pylist() == columns.offsets
                break


def truncate(cluster: FakeCluster) -> None:
    cluster.topics["t"] = [FakeLog(1)]


@pytest.mark.parametrize(
    ("happens", "error", "text"),
    [
        (lambda cluster: cluster.delete("t"), UnknownTopic, "not there any more"),
        (lambda cluster: cluster.make_again("t"), (UnknownTopic, OffsetOutOfRange), "created again|ends at 0"),
        (truncate, OffsetOutOfRange, "ends at 0 now, and went on to 50"),
    ],
    ids=["deleted", "made again", "truncated"],
)
async def test_a_table_does_not_wait_for_records_that_are_gone(
    happens: Any, error: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.client.topic_table._POLL_MS", 10)

    async def fetch(call: Call) -> Any:
        happens(cluster)
        return await cluster.defaults[ApiKey.FETCH](call)

    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(20):
        write(cluster)
        cluster.on(ApiKey.FETCH, fetch)
        with pytest.raises(error, match=text):
            await read_topic("t", bootstrap_servers=cluster.address, request_timeout_ms=300)


async def test_a_topic_is_a_table_by_offsets_times_and_partitions() -> None:
    async with FakeCluster({"t": 2}) as cluster:
        write(cluster, 0)
        write(cluster, 1)
        done: list[tuple[int, int]] = []
        options: dict[str, Any] = {"bootstrap_servers": cluster.address}
        table = await read_topic("t", progress=lambda so_far, total: done.append((so_far, total)), **options)
        assert table.num_rows == 100 and done[-1] == (100, 100)
        assert table["partition"].to_pylist() == [0] * 50 + [1] * 50
        part = await read_topic("t", start={0: 7, 1: "latest"}, end=20, columns=["offset"], **options)
        assert part["offset"].to_pylist() == list(range(7, 20))
        since = datetime.fromtimestamp(1_700_000_000.030, UTC)
        young = await read_topic("t", start=since, partitions=[1], columns=["offset"], **options)
        assert young["offset"].to_pylist() == list(range(30, 50))
        one = await read_topic("t", start=np.int64(3), end=np.int32(4), partitions=np.array([1]), **options)
        assert one["offset"].to_pylist() == [3]


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": {0: 1}}, {"start": "soon"}, {"end": 1.5}, {"start": datetime.min}, {"end": {0: None, 1: 2}},
        {"start": date(2026, 1, 1)}, {"format": "csv"}, {"partitions": []}, {"partitions": 0}, {"partitions": ["0"]},
        {"columns": "value"}, {"columns": []}, {"columns": ["valeu"]}, {"columns": ["value", "value"]},
        {"request_timeout_ms": "100"}, {"request_timeout_ms": None}, {"request_timeout_ms": 0},
    ],
    ids=str,
)  # fmt: skip
async def test_what_a_table_cannot_be_is_told(wrong: dict[str, Any]) -> None:
    async with FakeCluster({"t": 2}) as cluster:
        with pytest.raises(InvalidOption):
            await read_topic("t", bootstrap_servers=cluster.address, **wrong)


@pytest.mark.parametrize("format", ["arrow", "pandas", "polars"])
async def test_our_brokers_topic_comes_in_every_format(broker: Broker, format: str) -> None:
    if format != "arrow":
        pytest.importorskip(format, reason=f"pip install {format}")
    async with Producer(broker.address) as producer:
        for number in range(5):
            await producer.send_and_wait("t", b"%d" % number)
    table = await read_topic("t", bootstrap_servers=broker.address, format=format)
    assert len(table) == 5
    assert (
        [bytes(value) for value in table["value"].to_pylist()] == [b"0", b"1", b"2", b"3", b"4"]
        if (format == "arrow")
        else list(table["value"]) == [b"0", b"1", b"2", b"3", b"4"]
    )


async def produced(broker: Broker) -> str:
    """A topic `t` of two partitions at a broker, and the broker's address."""
    async with Producer(bootstrap_servers=broker.address) as producer:
        for number in range(200):
            await producer.send("t", b"%d" % number, key=b"k" if number % 3 else None, partition=number % 2,
                                headers=[("h", b"1")] if number % 5 == 0 else [])  # fmt: skip
    return broker.address


async def test_a_table_from_the_brokers_files_is_the_table_of_a_fetch(broker: Broker) -> None:
    async with await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
    address = await produced(broker)
    seen: list[tuple[int, int]] = []
    for bounds in ({}, {"start": 13, "end": 77}, {"partitions": [1]}):
        fetched = await read_topic("t", bootstrap_servers=address, columns=COLUMNS, **bounds)
        direct = await read_topic("t", bootstrap_servers=address, columns=COLUMNS, path="direct",
                                  progress=lambda done, total: seen.append((done, total)), **bounds)  # fmt: skip
        assert fetched.num_rows
        assert direct.equals(fetched)
    assert (200, 200) in seen
    assert len(broker.services.segment_leases) == 0


async def test_where_files_cannot_be_read_auto_fetches_and_direct_fails(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        write(cluster)
        table = await read_topic("t", bootstrap_servers=cluster.address, path="auto")
        assert table.num_rows == 50
        assert [each.message[:25] for each in caplog.records].count("direct read not possible:") == 1
        with pytest.raises(DirectReadNotPossible, match="no Odradek broker"):
            await read_topic("t", bootstrap_servers=cluster.address, path="direct")
        with pytest.raises(InvalidOption, match="path"):
            await read_topic("t", bootstrap_servers=cluster.address, path="quick")


async def test_a_direct_read_asks_over_the_consumers_kind_of_connection(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    cluster = FakeCluster({"t": 1})
    cluster.tls = certificates.server_context()
    async with cluster:
        write(cluster)
        # It comes as far as asking for the files, which a Kafka does not have.
        with pytest.raises(DirectReadNotPossible, match="no Odradek broker"):
            await read_topic("t", bootstrap_servers=cluster.address, path="direct", security_protocol="SSL",
                             ssl_cafile=str(certificates.authority), request_timeout_ms=5_000)  # fmt: skip
