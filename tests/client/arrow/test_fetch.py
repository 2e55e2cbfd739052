"""A task against a broker made of script: every record of its range once whatever happens, and never for ever."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the source needs pyarrow (extra `spark`)")

from odradek.client.arrow import connection
from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.connection import BlockingConnection
from odradek.client.arrow.decoder import ArrowDecoder, schema_of
from odradek.client.arrow.fetch import OffsetRange, RangeFetch
from odradek.client.errors import BadResponse, NoBrokerReachable, RecordTooLarge, RequestTimedOut
from odradek.client.spark.columns import DataLoss
from odradek.client.spark.options import SourceOptions, parse_options
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.errors import CorruptBatch, CorruptCrc, UnsupportedMagic
from odradek.protocol.records.record import Record
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Bytes, Call, Step, answer, do_it, drop, in_pieces

WAIT_S = 20
OFFSET = schema_of(("offset",))


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


def options_for(fake: FakeCluster, **texts: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": fake.address, "subscribe": "t"}
    return parse_options(given | {name.replace("__", "."): text for name, text in texts.items()})


def fetch_of(fake: FakeCluster, start: int, end: int, **texts: str) -> RangeFetch:
    options, time = options_for(fake, **texts), Time()
    return RangeFetch(
        OffsetRange("t", fake.topic_id("t"), 0, start, end), options, Brokers(options.client, time.clock, time.sleep)
    )


def offsets_of(fetch: RangeFetch, start: int, end: int) -> list[int]:
    decoder = ArrowDecoder(OFFSET, "t", 0, start, end, max_rows=1000)
    batches = [batch for section in fetch.sections() for batch in decoder.feed(*section)]
    rest = decoder.rest()
    return [row["offset"] for batch in [*batches, *([] if rest is None else [rest])] for row in batch.to_pylist()]


async def read(fake: FakeCluster, start: int, end: int, **texts: str) -> list[int]:
    """The offsets that a task reads of [start, end)."""
    return await asyncio.to_thread(lambda: offsets_of(fetch_of(fake, start, end, **texts), start, end))


def filled(batches: int = 6, size: int = 5) -> FakeCluster:
    """A topic of so many batches of so many records."""
    fake = FakeCluster({"t": 1})
    for _ in range(batches):
        fake.log("t").write(encode_batch([Record(value=b"x" * 50) for _ in range(size)]))
    return fake


SMALL = {"kafka__max__partition__fetch__bytes": "400"}  # a batch of `filled` has some 350 bytes


def error_answer(code: ErrorCode) -> Step:
    async def step(call: Call) -> Any:
        found = await call.default()
        found.responses[0].partitions[0] = PartitionData(0, code)
        return found

    return step


def answer_with(make: Callable[[PartitionData], None]) -> Step:
    """The default answer, changed."""

    async def step(call: Call) -> Any:
        found = await call.default()
        make(found.responses[0].partitions[0])
        return found

    return step


@pytest.mark.parametrize(("start", "end"), [(0, 30), (0, 1), (3, 27), (7, 8), (29, 30), (5, 10), (4, 4)])
@pytest.mark.parametrize("texts", [{}, SMALL], ids=["one fetch", "many fetches"])
async def test_exactly_the_range_is_read(start: int, end: int, texts: dict[str, str]) -> None:
    async with filled() as fake:
        assert await read(fake, start, end, **texts) == list(range(start, end))


async def test_gaps_that_compaction_left_are_passed_over() -> None:
    async with filled() as fake:
        log = fake.log("t")
        kept = [Record(offset, value=b"kept") for offset in (11, 13)]
        log.batches = [log.batches[0], encode_batch(kept, base_offset=10), log.batches[5]]
        assert await read(fake, 0, 30) == [0, 1, 2, 3, 4, 11, 13, 25, 26, 27, 28, 29]
        assert await read(fake, 14, 25) == []


async def test_control_batches_are_not_rows() -> None:
    async with filled(1) as fake:
        log = fake.log("t")
        log.write(encode_batch([Record(value=b"")], control=True, transactional=True, producer_id=1))
        log.write(encode_batch([Record(value=b"after")]))
        log.write(encode_batch([Record(value=b"")], control=True, transactional=True, producer_id=1))
        assert await read(fake, 0, log.end) == [0, 1, 2, 3, 4, 6]


@pytest.mark.parametrize(("level", "offsets"), [("read_uncommitted", [0, 1]), ("read_committed", [1])])
async def test_aborted_transactions_are_rows_only_for_read_uncommitted(level: str, offsets: list[int]) -> None:
    async with FakeCluster({"t": 1}) as fake:
        log = fake.log("t")
        log.write(encode_batch([Record(value=b"aborted")], transactional=True, producer_id=1))
        log.write(encode_batch([Record(value=b"committed")], transactional=True, producer_id=2))
        log.write(encode_batch([Record(value=b"")], control=True, transactional=True, producer_id=1))
        log.write(encode_batch([Record(value=b"")], control=True, transactional=True, producer_id=2))
        log.aborted = [(1, 0)]
        assert await read(fake, 0, 4, kafka__isolation__level=level) == offsets


@pytest.mark.parametrize(
    "step",
    [
        drop,
        in_pieces(7),
        error_answer(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        error_answer(ErrorCode.KAFKA_STORAGE_ERROR),
        error_answer(ErrorCode.UNKNOWN_TOPIC_ID),
    ],
    ids=["hang up", "dribble", "not leader", "disk trouble", "unknown id"],
)
@pytest.mark.parametrize("good", [0, 1, 3])
async def test_trouble_that_passes_costs_no_record_and_repeats_none(step: Step, good: int) -> None:
    async with filled() as fake:
        fake.on(ApiKey.FETCH, *[do_it] * good, step, step)
        assert await read(fake, 0, 30, **SMALL) == list(range(30))


async def test_a_task_logs_its_bytes_waits_and_retries(caplog: pytest.LogCaptureFixture) -> None:
    async with filled() as fake:
        fake.on(ApiKey.FETCH, error_answer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        with caplog.at_level("INFO", "odradek.client.arrow.fetch"):
            assert await read(fake, 0, 30) == list(range(30))
    (line,) = [each.message for each in caplog.records if "fetches" in each.message]
    assert "up to 30: " in line
    assert " bytes in 1 fetches, waited " in line
    assert line.endswith("1 retries")


async def test_a_new_leader_is_found() -> None:
    async with FakeCluster({"t": 1}, nodes=2) as fake:
        log = fake.log("t")
        log.write(encode_batch([Record(value=b"x")] * 1))

        async def move(call: Call) -> Any:
            log.leader = 2
            return await call.default()

        fake.on(ApiKey.FETCH, move)
        assert await read(fake, 0, 1) == [0]
        assert [call.node.node_id for call in fake.calls(ApiKey.FETCH)] == [1, 2]


async def test_the_next_fetch_is_under_way_while_a_section_is_decoded() -> None:
    asked = threading.Event()

    async def tell(call: Call) -> Any:
        asked.set()
        return await call.default()

    def first_section(fetch: RangeFetch) -> bool:
        sections = fetch.sections()
        next(sections)
        seen = asked.wait(WAIT_S)
        sections.close()
        return seen

    async with filled() as fake:
        fake.on(ApiKey.FETCH, do_it, tell)
        assert await asyncio.to_thread(first_section, fetch_of(fake, 0, 30, **SMALL))


async def test_a_finished_reader_asks_for_nothing_more() -> None:
    async with filled() as fake:
        assert await read(fake, 0, 30) == list(range(30))
        assert len(fake.calls(ApiKey.FETCH)) == 1


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION])
async def test_a_rejection_that_will_not_pass_ends_the_task(code: ErrorCode) -> None:
    async with filled() as fake:
        fake.on(ApiKey.FETCH, error_answer(code))
        with pytest.raises(KafkaError) as caught:
            await read(fake, 0, 30)
        assert caught.value.code is code
        assert "t-0 [0, 30)" in caught.value.message


async def test_a_broker_that_stays_away_ends_the_task() -> None:
    async with filled() as fake:
        fetch = fetch_of(fake, 0, 30)
    with pytest.raises(NoBrokerReachable):
        await asyncio.to_thread(lambda: list(fetch.sections()))


# -- offsets that are gone --


async def test_offsets_that_aged_out_fail_the_task_or_are_left_out() -> None:
    async with filled() as fake:
        log = fake.log("t")
        log.start, log.batches = 10, log.batches[2:]
        with pytest.raises(DataLoss, match="the log begins at 10 now, 0 is gone; set failOnDataLoss to false"):
            await read(fake, 0, 30)
        assert await read(fake, 0, 30, failOnDataLoss="false") == list(range(10, 30))
        assert await read(fake, 0, 7, failOnDataLoss="false") == []


async def test_a_log_that_was_cut_behind_the_start_fails_the_task_or_ends_it() -> None:
    async with filled() as fake:
        log = fake.log("t")
        log.end, log.batches = 10, log.batches[:2]
        with pytest.raises(DataLoss, match="the log ends before 20"):
            await read(fake, 20, 30)
        assert await read(fake, 20, 30, failOnDataLoss="false") == []


async def test_a_log_that_ends_early_fails_the_task_or_ends_it_but_is_not_waited_for_for_ever() -> None:
    async with filled() as fake:
        log = fake.log("t")
        log.end, log.batches = 10, log.batches[:2]
        quick = {"kafkaConsumer__pollTimeoutMs": "300", "kafka__fetch__max__wait__ms": "1"}
        with pytest.raises(DataLoss, match="the log ends at 10"):
            await read(fake, 0, 30, **quick)
        assert await read(fake, 0, 30, failOnDataLoss="false", **quick) == list(range(10))


async def test_a_log_that_gives_nothing_though_it_goes_on_is_an_error() -> None:
    def nothing(data: PartitionData) -> None:
        data.records = b""

    async with filled() as fake:
        fake.on(ApiKey.FETCH, *[answer_with(nothing)] * 100)
        with pytest.raises(RequestTimedOut, match="nothing came at 0, though the log goes on to 30"):
            await read(fake, 0, 30, kafkaConsumer__pollTimeoutMs="300", failOnDataLoss="false")


async def test_a_topic_that_was_deleted_and_created_again_is_another_one() -> None:
    async with filled() as fake:
        fake.on(ApiKey.FETCH, error_answer(ErrorCode.UNKNOWN_TOPIC_ID))
        fetch = fetch_of(fake, 0, 30)
        fake.topic_id = lambda name: b"another topic id"  # type: ignore[method-assign]
        with pytest.raises(DataLoss, match="'t' was deleted and created again"):
            await asyncio.to_thread(lambda: list(fetch.sections()))


async def test_a_topic_that_is_gone_ends_the_task_with_a_warning_where_that_is_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with filled() as fake:
        fake.topics = {}
        assert await read(fake, 0, 30, failOnDataLoss="false") == []
        assert "topic 't' does not exist" in caplog.text


# -- answers that cannot be --


async def test_a_batch_larger_than_the_fetch_is_asked_for_again_where_brokers_cut_it() -> None:
    """As brokers did before KIP-74."""
    async with filled(2) as fake:

        async def cut(call: Call) -> Any:
            found = await call.default()
            data = found.responses[0].partitions[0]
            data.records = bytes(data.records)[: call.request.topics[0].partitions[0].partition_max_bytes]
            return found

        fake.on(ApiKey.FETCH, *[cut] * 100)
        assert await read(fake, 0, 10, kafka__max__partition__fetch__bytes="10") == list(range(10))


async def test_a_batch_that_never_comes_whole_is_an_error() -> None:
    def cut(data: PartitionData) -> None:
        data.records = bytes(data.records or b"")[:100]

    async with filled() as fake:
        fake.on(ApiKey.FETCH, *[answer_with(cut)] * 100)
        with pytest.raises(RecordTooLarge, match="the batch at 0 has more than 100 bytes"):
            await read(fake, 0, 30)


async def test_batches_that_do_not_lead_on_are_an_error() -> None:
    async with filled() as fake:
        first = fake.log("t").batches[0]

        def again(data: PartitionData) -> None:
            data.records = first

        fake.on(ApiKey.FETCH, *[answer_with(again)] * 9)
        with pytest.raises(CorruptBatch, match="the batches at 5 end at 5"):
            await read(fake, 0, 30)


@pytest.mark.parametrize(("at", "error"), [(60, CorruptCrc), (16, UnsupportedMagic), (8, CorruptBatch)])
async def test_broken_bytes_are_an_error(at: int, error: type[Exception]) -> None:
    def spoil(data: PartitionData) -> None:
        spoilt = bytearray(data.records or b"")
        spoilt[at] = 0xFF
        data.records = bytes(spoilt)

    async with filled() as fake:
        fake.on(ApiKey.FETCH, answer_with(spoil))
        with pytest.raises(error):
            await read(fake, 0, 30)


async def test_crcs_are_left_alone_where_that_is_wanted() -> None:
    def spoil(data: PartitionData) -> None:
        spoilt = bytearray(data.records or b"")
        spoilt[17] ^= 0xFF  # the CRC itself
        data.records = bytes(spoilt)

    async with filled(1) as fake:
        fake.on(ApiKey.FETCH, answer_with(spoil))
        sections = await asyncio.to_thread(lambda: list(fetch_of(fake, 0, 5).sections()))
        assert list(ArrowDecoder(OFFSET, "t", 0, 0, 5, max_rows=9, check_crcs=False).feed(*sections[0])) == []


@pytest.mark.parametrize(
    "response",
    [
        Bytes(b"\xff\xff\xff\xff"),
        Bytes(b"HTTP/1.1 400 Bad Request\r\n"),
        Bytes(b"\0\0\0\x05\0\0\0\x63\0"),
        FetchResponse(responses=[]),
        FetchResponse(responses=[FetchableTopicResponse("t", bytes(16), [])]),
    ],
    ids=["negative length", "HTTP", "another correlation id", "no topic", "no partition"],
)
async def test_answers_to_something_else_are_not_believed(response: Any) -> None:
    async with filled() as fake:
        fake.on(ApiKey.FETCH, *[answer(response)] * 1000)
        with pytest.raises(BadResponse):
            await read(fake, 0, 30, kafkaConsumer__pollTimeoutMs="300")
        fake.steps.clear()
        assert await read(fake, 0, 30) == list(range(30))


async def test_a_length_that_is_announced_costs_no_memory_until_its_bytes_come() -> None:
    def resident_mb() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    async with filled() as fake:
        fake.on(ApiKey.METADATA, answer(Bytes((200 << 20).to_bytes(4, "big") + bytes(1000))))
        client = options_for(fake, kafka__request__timeout__ms="200").client

        def grown_mb() -> float:
            with BlockingConnection(client.bootstrap[0], client) as connection:
                connection.send(MetadataRequest(topics=[]), MetadataResponse)
                before_mb = resident_mb()
                with pytest.raises(RequestTimedOut):
                    connection.receive(MetadataResponse)
                return resident_mb() - before_mb

        assert await asyncio.to_thread(grown_mb) < 50


async def test_a_leader_that_is_being_chosen_is_waited_for() -> None:
    async with filled() as fake:
        fake.log("t").leader = -1
        waits: list[float] = []

        def elect(seconds: float) -> None:
            waits.append(seconds)
            fake.log("t").leader = 1

        options = options_for(fake)
        brokers = Brokers(options.client, Time().clock, elect)
        fetch = RangeFetch(OffsetRange("t", fake.topic_id("t"), 0, 0, 30), options, brokers)
        assert await asyncio.to_thread(offsets_of, fetch, 0, 30) == list(range(30))
        assert len(waits) == 1


async def test_the_time_limit_is_for_a_whole_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is 20 s later, as where a broker sends a byte now and then."""
    async with filled() as fake:
        options = options_for(fake).client
        clock = itertools.count(0, 20)
        monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        with pytest.raises(RequestTimedOut, match="did not answer within 30000 ms"):
            await asyncio.to_thread(BlockingConnection, options.bootstrap[0], options)
