"""Searches against a broker: nothing is left out or shown twice over the pages, whatever the filter and the bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from odradek.broker import Broker
from odradek.client import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition
from odradek.client.core.metadata import TopicInfo
from odradek.console.reading import search as module
from odradek.console.reading.search import SEARCHER, Page, Search, chosen, find, stream
from odradek.console.views.records import Asked, rows_of

COUNT = 300


@pytest.fixture
async def places(broker: Broker) -> list[TopicPartition]:
    """Three partitions with 300 records, the third with the most, and with gaps of a transaction's markers."""
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 3)])
    async with Producer(broker.address, transactional_id="x") as producer:
        for begin in range(0, COUNT, 50):
            async with producer.transaction():
                for number in range(begin, begin + 50):
                    partition = 0 if number % 10 == 0 else 1 if number % 3 == 0 else 2
                    await producer.send(
                        "t", b"%d" % number, partition=partition, timestamp_ms=1_700_000_000_000 + number
                    )
    return [TopicPartition("t", number) for number in range(3)]


@pytest.fixture
async def consumer(broker: Broker) -> AsyncIterator[Consumer]:
    async with Consumer(bootstrap_servers=broker.address, isolation_level="read_committed", **SEARCHER) as consumer:
        yield consumer


async def whole(broker: Broker, places: list[TopicPartition]) -> Search:
    async with Admin(broker.address) as admin:
        ends = await admin.list_offsets(dict.fromkeys(places, -1))
    return Search(dict.fromkeys(places, 0), {each: at.offset for each, at in ends.items()}, 50)


def numbers(page: Page) -> list[int]:
    return [int(record.value or b"") for record in page.records]


async def all_pages(consumer: Consumer, search: Search) -> list[list[int]]:
    found: list[list[int]] = []
    for _ in range(COUNT):
        page = await find(consumer, search)
        found.append(numbers(page))
        if page.next is None:
            return found
        search = replace(search, ends=page.next) if search.backward else replace(search, begins=page.next)
    raise AssertionError("it does not end")


def is_third(record: ConsumerRecord) -> bool:
    return int(record.value or b"") % 3 == 0


@pytest.mark.parametrize("backward", [False, True])
async def test_pages_have_every_record_once_in_the_order_of_time(
    broker: Broker, places: list[TopicPartition], consumer: Consumer, backward: bool
) -> None:
    search = replace(await whole(broker, places), backward=backward)
    pages = await all_pages(consumer, search)
    assert [len(each) for each in pages if each] == [50] * 6
    ordered = [number for page in (reversed(pages) if backward else pages) for number in page]
    assert ordered == list(range(COUNT))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("looked_at", [1, 40, 1_000_000])
async def test_a_filtered_search_finds_all_over_its_pages_however_early_it_stops(
    broker: Broker,
    places: list[TopicPartition],
    consumer: Consumer,
    monkeypatch: pytest.MonkeyPatch,
    backward: bool,
    looked_at: int,
) -> None:
    monkeypatch.setattr(module, "FIRST_WINDOW", 30)
    monkeypatch.setattr(module, "_AT_A_TIME", 10)
    search = replace(await whole(broker, places), wanted=is_third, backward=backward, count=20, max_looked_at=looked_at)
    pages = await all_pages(consumer, search)
    assert sorted(number for page in pages for number in page) == list(range(0, COUNT, 3))
    assert all(page == sorted(page) and len(page) <= 20 for page in pages)


@pytest.mark.parametrize("backward", [False, True])
async def test_large_records_end_a_page_early_and_none_is_left_out(
    broker: Broker,
    places: list[TopicPartition],
    consumer: Consumer,
    monkeypatch: pytest.MonkeyPatch,
    backward: bool,
) -> None:
    monkeypatch.setattr(module, "MAX_HELD_BYTES", 5_000)
    pages = await all_pages(consumer, replace(await whole(broker, places), backward=backward))
    assert sorted(number for page in pages for number in page) == list(range(COUNT))


async def test_a_stream_has_every_wanted_record(
    broker: Broker, places: list[TopicPartition], consumer: Consumer
) -> None:
    search = replace(await whole(broker, places), wanted=is_third)
    found = [record async for chunk in stream(consumer, search) for record in chunk]
    assert sorted(int(each.value or b"") for each in found) == list(range(0, COUNT, 3))


async def test_a_search_over_nothing_ends(broker: Broker, consumer: Consumer) -> None:
    page = await find(consumer, Search({}, {}, 10))
    assert (page.records, page.next, page.looked_at) == ([], None, 0)


async def test_others_have_their_turns_while_a_filter_looks_at_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TURN_S", -1.0)
    records = [ConsumerRecord("t", 0, offset, 0, 0, None, b"", ()) for offset in range(100)]
    seen: list[int] = []

    def wanted(record: ConsumerRecord) -> bool:
        seen.append(record.offset)
        return record.offset % 2 == 0

    looking = asyncio.create_task(chosen(records, wanted))
    turns = 0
    async with asyncio.timeout(60):
        while not looking.done():
            await asyncio.sleep(0)
            turns += 1
    assert turns >= 100 and seen == list(range(100))
    assert [each.offset for each in await looking] == list(range(0, 100, 2))


async def test_others_have_their_turns_while_a_page_is_made_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TURN_S", -1.0)
    asked = Asked(TopicInfo("t", bytes(16), ()), (), None, "", "auto", "auto", "", None)
    made = asyncio.create_task(rows_of([ConsumerRecord("t", 0, 0, 0, 0, None, b"", ())] * 100, asked))
    turns = 0
    async with asyncio.timeout(60):
        while not made.done():
            await asyncio.sleep(0)
            turns += 1
    assert turns >= 100 == len(await made)


@pytest.mark.parametrize("backward", [False, True])
async def test_a_search_ends_when_nobody_waits_for_it(
    broker: Broker, places: list[TopicPartition], consumer: Consumer, backward: bool
) -> None:
    looked: list[ConsumerRecord] = []
    search = replace(
        await whole(broker, places), backward=backward, wanted=looked.append, is_gone=lambda: len(looked) > 0
    )  # fmt: skip
    page = await find(consumer, search)
    assert 0 < page.looked_at == len(looked) < COUNT and page.ended_by == "the browser has gone" and page.next
    rest = search.ends if backward else search.begins
    later = replace(search, **{"ends" if backward else "begins": rest | page.next}, is_gone=lambda: False)
    assert (await find(consumer, later)).looked_at >= COUNT - page.looked_at
