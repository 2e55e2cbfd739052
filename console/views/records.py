"""Records of a topic: a page of them, one alone, its bytes, and all of them as JSON lines."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...client import EARLIEST, LATEST, Admin, ConsumerRecord, KafkaError, TopicPartition
from ...client.core.metadata import TopicInfo
from ...client.core.record_json import json_line
from ...client.producer.partitioner import murmur2
from ...web.exchange import HttpError, Response
from ..reading.decoding import FORMS, Decoded, SchemaDecoder, decode
from ..reading.filters import Candidate, InvalidFilter, Predicate, read_filter
from ..reading.places import chosen_places, offsets, time_ms
from ..reading.search import SEARCHER, Page, Prepare, Search, Wanted, find, in_turns, stream
from ..rendering import link
from ..visit import Visit
from .topics import topic_named

_log = logging.getLogger(__name__)

MAX_RECORDS = 500
# Of a value in a list; its own page shows more.
SHOWN_CHARS, SHOWN_CHARS_ALONE = 2_000, 500_000
FROMS = ("newest", "oldest", "offset", "time")
ISOLATIONS = ("read_uncommitted", "read_committed")
# A link with the places of more partitions is longer than a request may be.
_MAX_PLACES = 500
_POSITIVE = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Asked:
    """What a visit wants to see: which records, and in which form."""

    topic: TopicInfo
    places: Sequence[TopicPartition]
    predicate: Predicate | None
    key: str
    key_form: str
    value_form: str
    isolation: str
    by_schema: Any

    @property
    def wanted(self) -> Wanted | None:
        """What a search asks of each record, None for all."""
        key = self.key.encode("utf-8", "surrogatepass") if self.key else None
        predicate = self.predicate
        if key is None and predicate is None:
            return None

        def is_wanted(record: ConsumerRecord) -> bool:
            if key is not None and record.key != key:
                return False
            return predicate is None or predicate(Candidate(record, self.key_form, self.value_form, self.by_schema))

        return is_wanted


async def asked(visit: Visit) -> Asked:
    """Return what a visit wants. Raises HttpError, InvalidFilter."""
    topic = await topic_named(visit, visit.names[0])
    return Asked(
        topic,
        chosen_places(topic, visit.text("partition")),
        read_filter(visit.text("filter")),
        visit.text("key"),
        visit.choice("keyas", FORMS),
        visit.choice("as", FORMS),
        visit.choice("isolation", ISOLATIONS),
        decoder_of(visit),
    )


def decoder_of(visit: Visit) -> SchemaDecoder | None:
    return None if visit.house.schemas is None else visit.house.schemas.decode


def prepare_of(visit: Visit) -> Prepare | None:
    return None if visit.house.schemas is None else visit.house.schemas.prepare


@dataclass(frozen=True, slots=True)
class Row:
    """A record as a page shows it."""

    record: ConsumerRecord
    key: Decoded
    value: Decoded
    is_cut: bool
    size: int
    url: str


def row_of(record: ConsumerRecord, key_form: str, value_form: str, by_schema: Any, chars: int = SHOWN_CHARS) -> Row:
    """Return a record with its key and value decoded, and cut where they are long."""
    key, value = decode(record.key, key_form, by_schema), decode(record.value, value_form, by_schema)
    is_cut = len(value.text) > chars or len(key.text) > chars
    size = len(record.key or b"") + len(record.value or b"")
    return Row(record, _cut(key, chars), _cut(value, chars), is_cut, size, record_url(record, key_form, value_form))


def record_url(record: ConsumerRecord, key_form: str = "auto", value_form: str = "auto") -> str:
    """Return the lasting address of a record."""
    forms = {"keyas": None if key_form == "auto" else key_form, "as_": None if value_form == "auto" else value_form}
    return link(f"/topics/{record.topic}/records/{record.partition}/{record.offset}", **forms)


def _cut(decoded: Decoded, chars: int) -> Decoded:
    return decoded if len(decoded.text) <= chars else decoded._replace(text=decoded.text[:chars] + "…", value=None)


async def rows_of(records: Iterable[ConsumerRecord], wanted: Asked) -> list[Row]:
    """Return records as `row_of` does, and let others have their turns meanwhile: large ones take long."""
    forms = wanted.key_form, wanted.value_form, wanted.by_schema
    return [row_of(each, *forms) async for each in in_turns(records)]


async def found(visit: Visit) -> Response:
    """Show the records that the query asks for, and where to go on."""
    count = visit.number("n", 50, low=1, high=MAX_RECORDS) or 50
    beginning = visit.choice("from", FROMS)
    try:
        wanted = await asked(visit)
    except InvalidFilter as error:
        topic = await topic_named(visit, visit.names[0])
        return _page(visit, topic, Page(), [], count, error.message, error.status)
    search = await _search(visit, await visit.admin(), wanted, beginning, count)
    async with visit.cluster.reader(isolation_level=wanted.isolation, **SEARCHER) as consumer:
        page = await find(consumer, search)
    shown = reversed(page.records) if search.backward else page.records
    rows = await rows_of(shown, wanted)
    return _page(visit, wanted.topic, page, rows, count)


def _page(
    visit: Visit, topic: TopicInfo, page: Page, rows: list[Row], count: int, problem: str = "", status: int = 200
) -> Response:
    following = None
    if page.next is not None and len(page.next) <= _MAX_PLACES:
        at = ",".join(f"{each.partition}:{offset}" for each, offset in sorted(page.next.items()))
        following = link(visit.request.path, **{**visit.query, "at": at})
    key = visit.text("key")
    return visit.page(
        "records.html", f"Records of {topic.name}", status, topic=topic, name=topic.name, rows=rows, found=page,
        count=count, following=following, problem=problem, forms=FORMS, froms=FROMS, isolations=ISOLATIONS,
        home_of_key=_home_of(key, topic) if key else None,
    )  # fmt: skip


def _home_of(key: str, topic: TopicInfo) -> int:
    """Return the partition to which Kafka's clients send a key by default."""
    return (murmur2(key.encode("utf-8", "surrogatepass")) & _POSITIVE) % max(len(topic.partitions), 1)


async def _search(visit: Visit, admin: Admin, wanted: Asked, beginning: str, count: int) -> Search:
    begins = await offsets(admin, dict.fromkeys(wanted.places, EARLIEST))
    ends = await offsets(admin, dict.fromkeys(wanted.places, LATEST), wanted.isolation)
    places = [each for each in wanted.places if each in begins and each in ends]
    low = {each: begins[each] for each in places}
    high = {each: ends[each] for each in places}
    backward = beginning == "newest"
    going_on = _at(visit.text("at"))
    if beginning == "offset":
        offset = visit.number("offset", 0) or 0
        low = {each: max(at, offset) for each, at in low.items()}
    elif beginning == "time":
        at_ms = time_ms(visit.text("time"))
        found = await offsets(admin, dict.fromkeys(places, at_ms))
        low = {each: found[each] if found.get(each, -1) >= 0 else high[each] for each in places}
    for each in places:
        at = going_on.get(each.partition)
        if at is not None and backward:
            high[each] = max(min(high[each], at), low[each])
        elif at is not None:
            low[each] = max(low[each], at)
    is_gone = visit.request.is_gone
    return Search(low, high, count, wanted.wanted, backward, prepare_of(visit), is_gone=is_gone)


def _at(text: str) -> dict[int, int]:
    """Return where a page goes on, by partition: `0:123,1:456`. Raises HttpError."""
    try:
        pairs = [each.split(":") for each in text.split(",") if each]
        return {int(number): int(offset) for number, offset in pairs}
    except ValueError:
        raise HttpError(400, "at is PARTITION:OFFSET, or several with commas") from None


# -- One record


async def one_record(visit: Visit) -> Response:
    """Show one record with its headers."""
    record = await _record(visit)
    row = row_of(record, visit.choice("keyas", FORMS), visit.choice("as", FORMS), decoder_of(visit), SHOWN_CHARS_ALONE)
    headers = [(name, decode(value, "auto")) for name, value in record.headers[:1000]]
    return visit.page(
        "record.html", f"{record.topic}, partition {record.partition}, offset {record.offset}", name=record.topic,
        row=row, headers=headers, forms=FORMS, is_structured=isinstance(row.value.value, dict | list),
    )  # fmt: skip


async def raw(visit: Visit) -> Response:
    """Send the bytes of a key or of a value, as a file to keep: no browser shows them."""
    part = visit.names[3]
    if part not in ("key", "value"):
        raise HttpError(404, "A record has a key and a value.")
    record = await _record(visit)
    data = record.key if part == "key" else record.value
    name = f"{record.topic}-{record.partition}-{record.offset}.{part}"
    headers = [("content-disposition", f'attachment; filename="{name}"')]
    return Response(200, bytes(data or b""), "application/octet-stream", headers)


async def _record(visit: Visit) -> ConsumerRecord:
    name, partition, offset = visit.names[:3]
    topic = await topic_named(visit, name)
    numbers = (partition, offset)
    # No longer number is an offset, and Python refuses some thousand digits.
    if not all(each.isdecimal() and len(each) < 20 for each in numbers) or int(partition) >= len(topic.partitions):
        raise HttpError(404, "There is no such record.")
    place, begin = TopicPartition(name, int(partition)), int(offset)
    search = Search({place: begin}, {place: begin + 1}, 1, prepare=prepare_of(visit), max_seconds=5.0)
    ends = await offsets(await visit.admin(), {place: LATEST})
    if begin < ends.get(place, 0):
        async with visit.cluster.reader(**SEARCHER) as consumer:
            for record in (await find(consumer, search)).records:
                return record
    raise HttpError(404, "There is no such record: it is not there yet, or not any more.")


# -- Export


async def export(visit: Visit) -> Response:
    """Send all wanted records as JSON lines: `odradek consume --json` prints the same, `produce --json` takes them."""
    wanted = await asked(visit)
    beginning = visit.choice("from", FROMS)
    search = await _search(visit, await visit.admin(), wanted, "oldest" if beginning == "newest" else beginning, 1)
    headers = [("content-disposition", f'attachment; filename="{wanted.topic.name}.jsonl"')]
    body = _lines(visit, wanted, search)
    return Response(200, body, "application/x-ndjson", headers)


async def _lines(visit: Visit, wanted: Asked, search: Search) -> AsyncGenerator[bytes]:
    try:
        async with visit.cluster.reader(isolation_level=wanted.isolation, **SEARCHER) as consumer:
            async for records in stream(consumer, search):
                yield b"".join([json_line(each) async for each in in_turns(records)])
    except (KafkaError, HttpError) as error:
        # The status is sent: a connection that breaks is how a browser learns that the file is not whole.
        _log.warning("an export of %s ended before its end: %s", wanted.topic.name, error.message)
        raise ConnectionAbortedError("the export has failed") from error
