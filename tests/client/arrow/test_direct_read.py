"""Direct read against a broker: the rows of a fetch, whatever happens to the log meanwhile, or a reason and a fetch."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the source needs pyarrow (extra `spark`)")

from odradek.broker import Broker, BrokerConfig
from odradek.client.arrow import direct_read
from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.connection import BlockingConnection
from odradek.client.arrow.decoder import ArrowDecoder, schema_of
from odradek.client.arrow.direct_read import DirectRead, range_reader
from odradek.client.arrow.fetch import OffsetRange, RangeFetch
from odradek.client.core.option_values import Address
from odradek.client.errors import DirectReadNotPossible
from odradek.client.spark.columns import DataLoss
from odradek.client.spark.options import parse_options
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.odradek_lease_segments import OdradekLeaseSegmentsResponse
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.errors import CorruptCrc
from odradek.protocol.records.legacy import encode_message_set
from odradek.protocol.records.record import Record
from odradek.storage.segments.segment import Segment
from odradek.tests.storage.cleaning import clean
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.histories.transactional import Transactional
from odradek.tests.support.waiting import until

COLUMNS = schema_of(("key", "value", "offset", "timestamp", "timestampType", "headers"))
SEGMENTS = {"segment_index_bytes": "32", "index_interval_bytes": "0", "file_delete_delay_ms": "0"}
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
Rows = list[dict[str, Any]]


@pytest.fixture
def config(config: BrokerConfig) -> BrokerConfig:
    return replace(config, log_cleaner_enable=False)


class Read:
    """One read of [start, end) of t-0. `between` runs after each section."""

    def __init__(
        self,
        address: str,
        path: str,
        start: int,
        end: int,
        between: Callable[[], None] = lambda: None,
        planned: Address | None = None,
        **texts: str,
    ) -> None:
        given = {"kafka.bootstrap.servers": address, "subscribe": "t", "path": path}
        self._options = parse_options(given | {name.replace("__", "."): text for name, text in texts.items()})
        self._offsets = start, end
        self._decoder = ArrowDecoder(COLUMNS, "t", 0, start, end, max_rows=1000)
        self._between = between
        self._planned = planned

    @cached_property
    def reader(self) -> RangeFetch:
        """For a thread only: it asks for the topic's id."""
        brokers = Brokers(self._options.client)
        wanted = OffsetRange("t", brokers.view(["t"]).topic_id("t"), 0, *self._offsets, self._planned)
        return range_reader(wanted, self._options, brokers)

    def rows(self) -> Rows:
        batches: list[Any] = []
        for section in self.reader.sections():
            batches += self._decoder.feed(*section)
            self._between()
        rest = self._decoder.rest()
        return [row for each in [*batches, *([] if rest is None else [rest])] for row in each.to_pylist()]

    @property
    def is_direct(self) -> bool:
        return isinstance(self.reader, DirectRead) and self.reader.is_direct


def on_this_loop(doing: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """What a thread calls to have something done here, and to wait for it."""
    loop = asyncio.get_running_loop()
    return lambda: asyncio.run_coroutine_threadsafe(_done(doing), loop).result(30)


async def _done(doing: Callable[[], Awaitable[None]]) -> None:
    await doing()


async def read(broker: Broker, path: str, start: int, end: int, **rest: Any) -> Rows:
    return await asyncio.to_thread(Read(broker.address, path, start, end, **rest).rows)


def records(chance: random.Random) -> list[Record]:
    """Records with nulls, headers and few keys, so that compaction removes some."""
    return [
        Record(
            -1,
            1_700_000_000_000 + chance.randrange(1000),
            b"k%d" % chance.randrange(4),
            None if chance.random() < 0.1 else b"v" * chance.randrange(60),
            (("h", b"1"), ("n", None)) if chance.random() < 0.2 else (),
        )
        for _ in range(chance.randrange(1, 6))
    ]


async def fill(raw: Raw, chance: random.Random) -> None:
    """Produce every kind of batch: each codec, both old formats, transactions that end or stay open."""
    producers = [Transactional(raw, f"tx-{number}") for number in range(2)]
    for each in producers:
        await each.begin()
    for _ in range(chance.randrange(10, 40)):
        kind = chance.random()
        if kind < 0.5:
            codec = chance.choice(list(Compression))
            assert (await raw.produce("t", encode_batch(records(chance), compression=codec))).error_code == 0
        elif kind < 0.7:
            magic = chance.choice([0, 1])
            old = [replace_headers(each) for each in records(chance)]
            data = encode_message_set(old, magic)
            assert (await raw.produce("t", data, version=2 if magic else 1)).error_code == 0
        elif kind < 0.9:
            producer = chance.choice(producers)
            # In a cluster the markers of its last transaction may be under way.
            while (code := (await producer.send("t", b"in a transaction", b"again")).error_code) == CONCURRENT:
                await asyncio.sleep(0.01)
            assert code == 0
        else:
            await chance.choice(producers).end(commit=chance.random() < 0.5)


def replace_headers(record: Record) -> Record:
    return Record(-1, record.timestamp_ms, record.key, record.value)


async def delete_records(broker: Broker) -> None:
    partition = broker.services.topics.get("t").partitions[0]
    broker.services.background.record_deletion.delete_records(partition, partition.high_watermark)


async def delete_topic(broker: Broker) -> None:
    broker.services.delete_topic(broker.services.topics.get("t"))


async def compact(broker: Broker) -> None:
    partition = broker.services.topics.get("t").partitions[0]
    # A cleaning here flushes the log, too: two at a time would write one checkpoint of its epochs.
    await broker.services.flusher.idle(partition)
    clean(partition.log, now_ms=2_000_000_000_000)
    broker.services.background.file_removal.remove_segments(partition)


async def append(broker: Broker) -> None:
    partition = broker.services.topics.get("t").partitions[0]
    for _ in range(5):
        partition.append(memoryview(bytearray(encode_batch([Record(value=b"more")]))), 9)


DISTURBANCES = [append, delete_records, compact]


@pytest.mark.parametrize("seed", range(6))
async def test_direct_and_fetch_give_the_same_rows(
    raw: Raw, broker: Broker, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    level = "read_uncommitted" if seed % 3 == 0 else "read_committed"
    await raw.create_topic("t", **SEGMENTS)
    await fill(raw, chance)
    if seed % 2:
        await compact(broker)
    partition = broker.services.topics.get("t").partitions[0]
    last = partition.last_stable_offset if level == "read_committed" else partition.high_watermark
    # A read ends at the last offset that a reader of its isolation level sees, or would wait for more.
    start = chance.choice([0, chance.randrange(last + 1)])
    end = chance.choice([last, chance.randrange(start, last + 1)])
    expected = await read(broker, "fetch", start, end, kafka__isolation__level=level)
    # Smaller than many batches, so that each scan has many sections.
    monkeypatch.setattr(direct_read, "CHUNK_BYTES", 200)
    disturbances = [*chance.sample(DISTURBANCES, 3), delete_topic]

    async def disturb() -> None:
        if disturbances:
            await disturbances.pop(0)(broker)

    each = Read(broker.address, "direct", start, end, on_this_loop(disturb), kafka__isolation__level=level)
    assert await asyncio.to_thread(each.rows) == expected
    assert each.is_direct


@pytest.fixture
async def filled(raw: Raw) -> None:
    """A topic `t` of 20 records in several segments."""
    await fill_twenty(raw)


async def fill_twenty(raw: Raw) -> None:
    await raw.create_topic("t", **SEGMENTS)
    for number in range(20):
        await raw.produce("t", encode_batch([Record(-1, 0, None, b"%d" % number)]))


def values(rows: Rows) -> list[bytes]:
    return [row["value"] for row in rows]


EVERYTHING = [b"%d" % number for number in range(20)]


@pytest.mark.usefixtures("filled")
async def test_a_lease_that_the_broker_forgets_is_asked_for_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_read, "CHUNK_BYTES", 100)
    granted: list[int] = []

    async def forget() -> None:
        leases = broker.services.segment_leases
        granted.append(len(leases))
        for number in list(leases._leases):
            leases.end(number)
        await until(lambda: not any(".lease" in name for name in os.listdir(broker.config.log_dirs[0])))

    each = Read(broker.address, "direct", 0, 20, on_this_loop(forget))
    assert values(await asyncio.to_thread(each.rows)) == EVERYTHING
    assert granted.count(1) > 2


@pytest.mark.usefixtures("filled")
async def test_a_lease_is_given_back_at_the_end_also_by_a_reader_that_stops(broker: Broker) -> None:
    assert values(await read(broker, "direct", 0, 20)) == EVERYTHING
    assert len(broker.services.segment_leases) == 0

    def stop() -> None:
        sections = Read(broker.address, "direct", 0, 20).reader.sections()
        next(sections)
        assert len(broker.services.segment_leases) == 1
        sections.close()

    await asyncio.to_thread(stop)
    assert len(broker.services.segment_leases) == 0


async def test_a_reader_renews_its_lease_while_it_is_held_up(config: BrokerConfig, tmp_path: Path) -> None:
    config = replace(config, direct_read_lease_ms=300, log_dirs=(str(tmp_path / "short"),))
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await fill_twenty(raw)
        renewals: list[int] = []
        leases, renewed = broker.services.segment_leases, asyncio.Event()
        renew = leases.renew

        def counting(number: int) -> int:
            renewals.append(number)
            if len(renewals) == 3:
                renewed.set()
            return renew(number)

        leases.renew = counting  # type: ignore[method-assign]

        async def hold_up() -> None:
            await renewed.wait()

        each = Read(broker.address, "direct", 0, 20, on_this_loop(hold_up))
        assert values(await asyncio.to_thread(each.rows)) == EVERYTHING
        assert len(set(renewals)) == 1


def another_broker(directory: Path) -> None:
    path = directory / "meta.properties"
    path.write_text(path.read_text().replace("cluster.id=", "cluster.id=x"))


def another_machine(directory: Path) -> None:
    (directory / "meta.properties").unlink()


def named(name: str) -> Callable[[OdradekLeaseSegmentsResponse], None]:
    def change(granted: OdradekLeaseSegmentsResponse) -> None:
        granted.files[0].name = name.replace("NAME", granted.files[0].name)

    return change


def without_files(granted: OdradekLeaseSegmentsResponse) -> None:
    granted.files = []


def without_batches(granted: OdradekLeaseSegmentsResponse) -> None:
    for each in granted.files:
        each.position, each.next_offset = each.end, 0


@pytest.mark.parametrize(
    "change", [named("../../NAME"), named("/etc/passwd"), named(".."), without_files, without_batches]
)
@pytest.mark.usefixtures("filled")
async def test_a_broker_that_names_other_files_or_none_is_fetched_from(
    broker: Broker,
    change: Callable[[OdradekLeaseSegmentsResponse], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask, asked = direct_read.lease_segments, []

    def changed(*arguments: Any) -> OdradekLeaseSegmentsResponse:
        asked.append(arguments)
        assert len(asked) < 10, "it asks for ever"
        granted = ask(*arguments)
        change(granted)
        return granted

    monkeypatch.setattr(direct_read, "lease_segments", changed)
    said = r"direct read not possible: t-0.*(is no file of its lease|nothing)"
    with pytest.raises(DirectReadNotPossible, match=said):
        await read(broker, "direct", 0, 20)
    asked.clear()
    assert values(await read(broker, "auto", 0, 20)) == EVERYTHING
    assert "direct read not possible: t-0" in caplog.text
    assert len(broker.services.segment_leases) == 0


async def test_the_broker_sends_as_little_for_large_files_as_for_small_ones(
    broker: Broker, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processor has nothing to do with the bytes."""
    await raw.create_topic("t")
    received: list[int] = []
    fill = BlockingConnection._fill

    def counting(connection: BlockingConnection, size: int, until_s: float) -> memoryview:
        received.append(size)
        return fill(connection, size, until_s)

    monkeypatch.setattr(BlockingConnection, "_fill", counting)
    answers: list[tuple[int, int]] = []
    for count in (1, 8):
        for _ in range(count):
            await raw.produce("t", encode_batch([Record(-1, 0, None, os.urandom(500_000))]))
        received.clear()
        assert len(await read(broker, "direct", 0, broker.services.topics.get("t").partitions[0].high_watermark)) > 0
        answers.append((len(received), sum(received)))
    small, large = answers
    # The same number of frames, and a byte more here and there for larger numbers.
    assert large[0] == small[0]
    assert large[1] < small[1] + 50 < 5_000


@pytest.mark.parametrize(
    ("change", "why"), [(another_broker, "is another broker's"), (another_machine, "are not on this machine")]
)
@pytest.mark.usefixtures("filled")
async def test_files_that_are_not_the_brokers_are_not_read(
    broker: Broker, change: Callable[[Path], None], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    change(Path(broker.config.log_dirs[0]))
    with pytest.raises(DirectReadNotPossible, match=f"direct read not possible: t-0.*{why}"):
        await read(broker, "direct", 0, 20)
    with caplog.at_level(logging.WARNING):
        assert values(await read(broker, "auto", 0, 20)) == EVERYTHING
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    lines = [each.message for each in warnings if each.name.startswith("odradek.client")]
    assert len(lines) == 1
    assert lines[0].startswith("direct read not possible:")
    assert why in lines[0]
    assert len(broker.services.segment_leases) == 0


@pytest.mark.usefixtures("filled")
async def test_a_file_that_was_cut_is_fetched_from_there(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_read, "CHUNK_BYTES", 100)
    real, calls = os.preadv, []

    def cut(descriptor: int, buffers: Any, position: int) -> int:
        calls.append(position)
        return real(descriptor, buffers, position) if len(calls) < 6 else 0

    each = Read(broker.address, "auto", 0, 20)
    system = SimpleNamespace(preadv=cut, close=os.close, open=os.open, O_RDONLY=os.O_RDONLY, O_CLOEXEC=os.O_CLOEXEC)
    monkeypatch.setattr(direct_read, "os", system)
    assert values(await asyncio.to_thread(each.rows)) == EVERYTHING
    assert not each.is_direct


async def test_another_kafka_is_fetched_from(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster({"t": 1}) as fake:
        fake.log("t").write(encode_batch([Record(value=b"x")]))
        each = Read(fake.address, "auto", 0, 1)
        assert values(await asyncio.to_thread(each.rows)) == [b"x"]
        assert "is no Odradek broker" in caplog.text
        with pytest.raises(DirectReadNotPossible):
            await asyncio.to_thread(Read(fake.address, "direct", 0, 1).rows)


@pytest.mark.usefixtures("filled")
async def test_a_wrong_crc_is_an_error(broker: Broker) -> None:
    partition = broker.services.topics.get("t").partitions[0]
    segment: Segment = partition.log.segments[0]
    with segment.path(".log").open("r+b") as file:
        file.seek(segment.size - 1)
        last = file.read(1)[0]
        file.seek(segment.size - 1)
        file.write(bytes([last ^ 1]))
    with pytest.raises(CorruptCrc):
        await read(broker, "direct", 0, 20)


@pytest.mark.usefixtures("filled")
async def test_offsets_that_are_gone_are_data_loss_as_in_a_fetch(broker: Broker) -> None:
    for path in ("direct", "fetch"):
        with pytest.raises(DataLoss, match="the log ends at 20;"):
            await read(broker, path, 15, 30, kafkaConsumer__pollTimeoutMs="1")
    await delete_records(broker)
    for path in ("direct", "fetch"):
        with pytest.raises(DataLoss):
            await read(broker, path, 0, 20)
        assert await read(broker, path, 0, 20, failOnDataLoss="false") == []


# -- A cluster: the leader leases, and may move while a task reads


@pytest.mark.parametrize("seed", range(3))
async def test_rows_are_those_of_a_fetch_when_the_leader_moves_during_a_scan(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    segments = {"log_index_size_max_bytes": 32, "log_index_interval_bytes": 0, "replica_fetch_wait_max_ms": 50}
    async with HandCluster(tmp_path, log_cleaner_enable=False, **segments) as cluster:
        await cluster.assign("t", leader=1)
        for index in range(2):
            await cluster.assign("__transaction_state", index, leader=1)
        async with await cluster.connect(1) as raw:
            await fill(raw, chance)
        end = cluster.partition(1).last_stable_offset
        options = {"kafka__isolation__level": "read_committed"}
        expected = await read(cluster.brokers[1], "fetch", 0, end, **options)
        monkeypatch.setattr(direct_read, "CHUNK_BYTES", 200)
        leaders = chance.sample([2, 3, 1], 3)

        async def move() -> None:
            if leaders:
                await cluster.assign("t", leader=leaders.pop())

        each = Read(cluster.brokers[1].address, "direct", 0, end, on_this_loop(move), **options)
        assert await asyncio.to_thread(each.rows) == expected
        assert each.is_direct


async def test_a_follower_leases_what_it_knows_to_be_committed_and_the_leader_the_rest(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, 2, replica_fetch_wait_max_ms=50) as cluster:
        await cluster.assign("t", leader=1)

        async def produce(numbers: range) -> None:
            async with await cluster.connect(1) as raw:
                for number in numbers:
                    assert (await raw.produce("t", encode_batch([Record(-1, 0, None, b"%d" % number)]))).error_code == 0

        await produce(range(7))
        await until(lambda: cluster.partition(2).high_watermark == 7)
        # The follower is not told of the leader's next epoch, so it gets no more.
        await cluster.assign("t", leader=1, isr=(1,), to=(1,))
        await produce(range(7, 20))
        leader, follower = (cluster.brokers[node].address for node in (1, 2))
        host, _, port = follower.rpartition(":")
        # The plan of the task is from a time when the follower led.
        each = Read(leader, "direct", 0, 20, planned=(host, int(port)))
        assert values(await asyncio.to_thread(each.rows)) == EVERYTHING
        assert each.is_direct
        assert cluster.partition(2).high_watermark == 7
