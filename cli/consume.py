"""`odradek consume`: print records of topics on standard output, one a line.

Without a group it reads all partitions. With `--group` it shares them with the other members of the group, and commits
the offsets of records whose lines its reader got. Ctrl-C, SIGTERM and a reader that closes its pipe end it as `--max`
does: it commits, leaves the group and ends with status 0.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from ..protocol.errors import ErrorCode, KafkaError
from .connection_options import chosen_configs, connection_options
from .errors import CliError
from .names import GROUP, TOPIC
from .notices import connection_notice
from .offset_range import FORMS, Bounds, OffsetRange, bounds_of, parse
from .record_format import INTERNAL_TOPICS, LineFormat, line_format
from .record_output import RecordOutput, RecordPrinter
from .schema_options import SchemaFormats, schema_options
from .session import client_options, open_admin, run
from .values import OneOf, WholeNumber

if TYPE_CHECKING:
    from ..client import Admin, Consumer, TopicPartition
    from ..client.consumer.known_ends import KnownEnds

# How long a signal, or the end of the topic, may go unnoticed while no records arrive.
_POLL_MS = 250
_RECORDS_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class _Reading:
    """What to read, and when to end."""

    topics: tuple[str, ...]
    # With --regex: what the names of topics match.
    patterns: tuple[re.Pattern[str], ...]
    partitions: tuple[int, ...]
    group: str | None
    offsets: OffsetRange
    isolation: str
    limit: int | None
    until_end: bool
    wait: bool
    decoders: dict[str, Any]


@click.command(short_help="Print the records of topics.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TOPIC)
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    type=GROUP,
    help="Share the partitions with this group, and commit the offsets of printed records.",
)
@click.option(
    "-o", "--offset", "--from", "offset", metavar=FORMS,
    help="Where to begin; N is an offset in every partition, -N the last N of each, N-M a range with both ends. A "
    "group begins at the start or the end, and only without a committed offset.  [default: start]",
)  # fmt: skip
@click.option("--tail", metavar="N", type=WholeNumber(min=0), help="Begin with the last N records of each partition.")
@click.option("-n", "-c", "--max", "limit", metavar="N", type=WholeNumber(min=0), help="End after N records.")
@click.option("-e", "--until-end", is_flag=True, help="End after the last record that existed at the start.")
@click.option("--follow", is_flag=True, help="Wait for new records, as without --until-end: this is the default.")
@click.option("--wait", is_flag=True, help="Wait for an --offset that does not exist yet.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    metavar="N",
    type=WholeNumber(min=0),
    multiple=True,
    help="Only this partition; repeatable.",
)
@click.option("-r", "--regex", is_flag=True, help="TOPIC is a regular expression that must match the whole name.")
@click.option(
    "--isolation", type=OneOf(("read_committed", "read_uncommitted")), default="read_committed",
    show_default=True, help="read_uncommitted also prints records of open and aborted transactions.",
)  # fmt: skip
@click.option("-K", "--key-separator", metavar="TEXT", help="Print KEY TEXT VALUE.")
@click.option(
    "-f", "--format", "layout", metavar="TEXT",
    help="Print each record so: %t topic, %p partition, %o offset, %T timestamp in ms, %k key, %v value, %h headers; "
    "%k{hex}, %v{base64}, %v{json}; \\n, \\t, \\xHH.",
)  # fmt: skip
@click.option("--raw", is_flag=True, help="Print records of internal topics as bytes; otherwise in words, as JSON.")
@click.option("--null", metavar="TEXT", default="", help="What to print for a missing key or value.")
@click.option("-J", "--json", "as_json", is_flag=True, help="One JSON object a line, which `produce --json` takes.")
@connection_options("admin", "consumer", "member")
@schema_options(writes=False)
def command(
    topics: tuple[str, ...],
    group: str | None,
    offset: str | None,
    tail: int | None,
    limit: int | None,
    until_end: bool,
    follow: bool,
    wait: bool,
    partitions: tuple[int, ...],
    regex: bool,
    isolation: str,
    key_separator: str | None,
    layout: str | None,
    raw: bool,
    null: str,
    as_json: bool,
    bootstrap_server: str,
    formats: SchemaFormats,
) -> None:
    """Print the records of each TOPIC, one value a line, as they come.

    \b
    Examples:
      odradek consume flights --max 10
      odradek consume flights --tail 5 --follow
      odradek consume flights --group delays --key-separator :
      odradek consume flights --offset 1000 --partition 0 --until-end --json
      odradek consume flights --offset @2026-11-21T08:00 --format '%p %o %k %v\\n'
      odradek consume 'flights-.*' --regex
      odradek consume flights --value-format avro --registry http://127.0.0.1:8081
      odradek consume __consumer_offsets --key-separator ' ' --until-end
    """
    if group == "":
        raise click.UsageError("--group takes the id of a group, not '': leave it out for no group")
    if tail is not None and offset is not None:
        raise click.UsageError("only one of --offset and --tail")
    if follow and until_end:
        raise click.UsageError("only one of --follow and --until-end")
    offsets = OffsetRange("tail", tail) if tail is not None else parse(offset or "start")
    if group and (partitions or offsets.kind not in ("start", "end")):
        raise click.UsageError(
            "a group shares all partitions and continues at its committed offsets: no --partition, no --offset but "
            "start and end"
        )
    if sum((as_json, layout is not None, key_separator is not None)) > 1:
        raise click.UsageError("only one of --json, --format and --key-separator")
    if group is None:
        _check_without_group()
    line = line_format(
        as_json, key_separator, layout, null, raw, internal=regex or not INTERNAL_TOPICS.isdisjoint(topics)
    )
    if formats:
        # Whole batches are printed as bytes.
        line = replace(line, null_value=None)
    decoders = formats.decoders(as_objects=as_json)
    patterns = _compiled(topics) if regex else ()
    reading = _Reading(topics, patterns, partitions, group, offsets, isolation, limit, until_end, wait, decoders)
    run(_consume(reading, line, bootstrap_server))


def _check_without_group() -> None:
    _, given = chosen_configs(click.get_current_context())
    if given:
        from .client_configs import check_without_group

        check_without_group(given, "-X")


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def _consume(reading: _Reading, line: LineFormat, bootstrap_server: str) -> None:
    """Print records until the end that was asked for, or until a signal: status 0."""
    here = asyncio.current_task()
    assert here is not None
    # Before the first record there is nothing to finish, and a silent broker would be waited for.
    _on_signals(here.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await _read(reading, line, bootstrap_server)
    finally:
        # A loop that has ended swallows the signals that it still handles.
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)


def _on_signals(act: Callable[[], object]) -> None:
    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, act)


async def _read(reading: _Reading, line: LineFormat, bootstrap_server: str) -> None:
    from ..client import Consumer
    from ..client.consumer.known_ends import KnownEnds

    async with open_admin(bootstrap_server) as admin:
        topics, partitions = await _partitions(admin, reading)
        protocol = await _protocol(admin, reading.group)
        bounds: dict[TopicPartition, Bounds] = {}
        if not reading.group:
            bounds = await bounds_of(admin, partitions, reading.offsets, reading.isolation, reading.wait)
    options = client_options(
        "consumer",
        bootstrap_servers=bootstrap_server,
        group_id=reading.group,
        group_protocol=protocol,
        auto_offset_reset="latest" if reading.offsets.kind == "end" else "earliest",
        isolation_level=reading.isolation,
    )
    consumer = Consumer(*(topics if reading.group else ()), **options, **reading.decoders)
    async with consumer, connection_notice(consumer, bootstrap_server):
        if not reading.group:
            partitions = list(bounds)
            consumer.assign(partitions)
            for each, bound in bounds.items():
                consumer.seek(each, bound.fetch_from)
        ends = {each: bound.end for each, bound in bounds.items() if bound.end is not None}
        if reading.until_end:
            log_ends = await consumer.end_offsets(partitions)
            ends = {each: min(ends.get(each, end), end) for each, end in log_ends.items()}
        stop = asyncio.Event()
        _on_signals(stop.set)
        printer = RecordPrinter(line, bounds, RecordOutput(sys.stdout.fileno(), stop), tracks=reading.group is not None)
        # With --wait, records beyond the end may come, also to a topic that is made again.
        known = KnownEnds(consumer, {} if reading.wait else ends, patient=True)
        await _print(consumer, reading.limit, printer, ends, known, stop)
        for each, offset in printer.first_not_delivered().items():
            if each in consumer.assignment():
                consumer.seek(each, offset)


async def _protocol(admin: Admin, group: str | None) -> str:
    """Return the protocol by which to join: reading along must not make a consumer group of a classic one.

    Otherwise it is the newer one where the broker has it, which does not wait for other members first.
    """
    try:
        described = None if group is None else (await admin.describe_groups(group))[group]
    except KafkaError as error:
        return "auto" if error.code is ErrorCode.GROUP_ID_NOT_FOUND else "classic"
    return "auto" if described is None or described.type != "classic" or not described.members else "classic"


async def _print(
    consumer: Consumer,
    limit: int | None,
    printer: RecordPrinter,
    ends: dict[TopicPartition, int],
    known: KnownEnds,
    stop: asyncio.Event,
) -> None:
    """Print records until a signal, the limit or the ends. Raises UnknownTopic where these will never come."""
    while not stop.is_set() and (limit is None or printer.count < limit):
        if ends and await _at_end(consumer, ends):
            return
        left = _RECORDS_AT_ONCE if limit is None else min(limit - printer.count, _RECORDS_AT_ONCE)
        if limit is None and printer.takes_batches:
            found = await consumer.getbatches(timeout_ms=_POLL_MS)
            known.check(() if found else known.ends)
            for partition, batches in found.items():
                await printer.print_batches(partition, batches)
        else:
            polled = await consumer.getmany(timeout_ms=_POLL_MS, max_records=left)
            known.check(() if polled else known.ends)
            for partition, records in polled.items():
                await printer.print(partition, records)


async def _partitions(admin: Admin, reading: _Reading) -> tuple[list[str], list[TopicPartition]]:
    """Return the topics, and the partitions to read. UnknownTopic at once; a consumer would wait for the topic."""
    from ..client import TopicPartition
    from ..client.errors import UnknownTopic

    if reading.patterns:
        names = await _matching(admin, reading.patterns)
    else:
        names = list(dict.fromkeys(reading.topics))
    described = await admin.describe_topics(*names)
    partitions: list[TopicPartition] = []
    for name in names:
        count = len(described[name].partitions)
        for wanted in reading.partitions:
            if wanted >= count:
                raise UnknownTopic(f"topic {name!r} has partitions 0 to {count - 1}, not {wanted}")
        partitions += [TopicPartition(name, number) for number in reading.partitions or range(count)]
    return names, list(dict.fromkeys(partitions))


def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    try:
        return tuple(map(re.compile, patterns))
    except re.error as error:
        raise click.UsageError(f"--regex: {error.pattern!r}: {error.msg}") from None


async def _matching(admin: Admin, patterns: tuple[re.Pattern[str], ...]) -> list[str]:
    names = [topic.name for topic in (await admin.describe_topics()).values() if not topic.is_internal]
    found = [name for name in names if any(each.fullmatch(name) for each in patterns)]
    if not found:
        raise CliError(f"no topic matches {' or '.join(repr(each.pattern) for each in patterns)}")
    return sorted(found)


async def _at_end(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    """Return whether this consumer has read its partitions up to their ends."""
    assigned = consumer.assignment()
    return bool(assigned) and all([each in ends and await consumer.position(each) >= ends[each] for each in assigned])
