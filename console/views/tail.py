"""The live tail of a topic: its page, and the stream of server-sent events that fills it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ...client import LATEST, Consumer
from ...client.errors import KafkaError
from ...web.exchange import HttpError, Response
from ..reading.decoding import FORMS
from ..reading.filters import InvalidFilter
from ..reading.places import offsets
from ..reading.tail import MAX_WAITING, Tick, ticks
from ..rendering import link, visible
from ..visit import Visit
from .records import ISOLATIONS, Asked, asked, prepare_of, rows_of
from .topics import topic_named

# A comment says that the stream lives, after so many ticks without a record.
_QUIET_TICKS = 20
_TOO_MANY = "Too many tails are open: close one, and try again."


async def page(visit: Visit) -> Response:
    """Show the page of the tail, with the form for what to show."""
    topic = await topic_named(visit, visit.names[0])
    problem = ""
    try:
        await asked(visit)
    except InvalidFilter as error:
        problem = error.message
    events = None if problem else link(f"/topics/{topic.name}/tail/events", **visit.query)
    return visit.page(
        "tail.html", f"Tail of {topic.name}", 400 if problem else 200, topic=topic, name=topic.name, events=events,
        problem=problem, forms=FORMS, isolations=ISOLATIONS, max_waiting=MAX_WAITING,
    )  # fmt: skip


async def events(visit: Visit) -> Response:
    """Send the records as they come. Raises HttpError where too many tails are open."""
    wanted = await asked(visit)
    if visit.house.tails.locked():
        raise HttpError(503, _TOO_MANY)
    return Response(200, _stream(visit, wanted), "text/event-stream", [("x-accel-buffering", "no")])


async def _stream(visit: Visit, wanted: Asked) -> AsyncGenerator[bytes]:
    try:
        if visit.house.tails.locked():
            # Others have come between the look and the stream.
            raise HttpError(503, _TOO_MANY)
        async with visit.house.tails, visit.cluster.reader(isolation_level=wanted.isolation) as consumer:
            async with aclosing(_records(visit, wanted, consumer)) as pieces:
                async for piece in pieces:
                    yield piece
    except (KafkaError, HttpError) as error:
        yield _event("failed", visible(error.message))


async def _records(visit: Visit, wanted: Asked, consumer: Consumer) -> AsyncGenerator[bytes]:
    begins = await offsets(await visit.admin(), dict.fromkeys(wanted.places, LATEST))
    consumer.assign(begins)
    for place, offset in begins.items():
        consumer.seek(place, offset)
    yield b"event: begun\ndata: begun\n\n"
    quiet = 0
    async for tick in ticks(consumer, wanted.wanted, prepare_of(visit)):
        quiet = 0 if tick.came else quiet + 1
        # An empty piece is not sent: it only finds out whether the browser is still there.
        yield b": quiet\n\n" if quiet % _QUIET_TICKS == _QUIET_TICKS - 1 else await _events(visit, wanted, tick)


async def _events(visit: Visit, wanted: Asked, tick: Tick) -> bytes:
    found = b""
    if tick.records:
        rows = await rows_of(tick.records, wanted)
        found += _event("records", str(visit.house.templates.macro("parts.html", "record_rows", rows)))
    if tick.left_out:
        found += _event("left-out", str(tick.left_out))
    return found


def _event(name: str, data: str) -> bytes:
    """Return an event, whose data are lines."""
    lines = "".join(f"data: {line}\n" for line in data.split("\n"))
    return f"event: {name}\n{lines}\n".encode("utf-8", "backslashreplace")
