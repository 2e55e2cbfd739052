"""`odradek consume`: print a topic's records on standard output, one a line.

Without a group it reads all partitions. With `--group` it shares them with the other members of the group, and commits
the offsets of printed records. Ctrl-C and SIGTERM end it as `--max` does: it commits, leaves the group and ends with
status 0.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from .output import as_json, json_option
from .session import CLIENT_ID, PATIENCE_MS, bootstrap_option, open_admin, run

if TYPE_CHECKING:
    from ..client import Consumer, ConsumerRecord, TopicPartition

# How long a signal, or the end of the topic, may go unnoticed while no records arrive.
_POLL_MS = 250
_RECORDS_AT_ONCE = 2000


@click.command(short_help="Print a topic's records.")
@click.argument("topic")
@click.option(
    "--group", metavar="G", help="Share the partitions with this group, and commit the offsets of printed records."
)
@click.option(
    "--from", "start", metavar="earliest|latest|N", default="earliest", show_default=True,
    help="Where to begin; N is an offset in every partition. A group begins there only without a committed offset.",
)  # fmt: skip
@click.option("--max", "limit", metavar="N", type=click.IntRange(min=0), help="End after N records.")
@click.option("--until-end", is_flag=True, help="End after the last record that existed at the start.")
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--key-separator", metavar="TEXT", help="Print KEY TEXT VALUE.")
@json_option
@bootstrap_option
def command(
    topic: str,
    group: str | None,
    start: str,
    limit: int | None,
    until_end: bool,
    partition: int | None,
    key_separator: str | None,
    as_json: bool,
    bootstrap_server: str,
) -> None:
    """Print the records of TOPIC, one value a line, as they come.

    \b
    Examples:
      odradek consume flights --max 10
      odradek consume flights --group delays --key-separator :
      odradek consume flights --from 1000 --partition 0 --until-end --json
    """
    if start not in ("earliest", "latest") and not (start.isascii() and start.isdigit()):
        raise click.UsageError(f"--from is earliest, latest or an offset, not {start!r}")
    if group and (start.isdigit() or partition is not None):
        raise click.UsageError(
            "a group shares all partitions and continues at its committed offsets: no --partition or --from N"
        )
    printer = _Printer(as_json, key_separator)
    run(_consume(topic, group, start, limit, until_end, partition, bootstrap_server, printer))


async def _consume(
    topic: str,
    group: str | None,
    start: str,
    limit: int | None,
    until_end: bool,
    partition: int | None,
    bootstrap_server: str,
    printer: _Printer,
) -> None:
    from ..client import Consumer

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    partitions = await _partitions(topic, partition, bootstrap_server)
    consumer = Consumer(
        *([topic] if group else []),
        bootstrap_servers=bootstrap_server,
        client_id=CLIENT_ID,
        group_id=group,
        auto_offset_reset="latest" if start == "latest" else "earliest",
        allow_auto_create_topics=False,
        default_api_timeout_ms=PATIENCE_MS,
    )
    async with consumer:
        if not group:
            consumer.assign(partitions)
            if start.isdigit():
                for each in partitions:
                    consumer.seek(each, int(start))
        ends = await consumer.end_offsets(partitions) if until_end else {}
        while not stop.is_set() and (limit is None or printer.count < limit):
            left = _RECORDS_AT_ONCE if limit is None else min(limit - printer.count, _RECORDS_AT_ONCE)
            for records in (await consumer.getmany(timeout_ms=_POLL_MS, max_records=left)).values():
                printer.print(records)
            if until_end and await _at_end(consumer, ends):
                return


async def _partitions(topic: str, partition: int | None, bootstrap_server: str) -> list[TopicPartition]:
    """Return the partitions to read. UnknownTopic at once; a consumer would wait for the topic."""
    from ..client import TopicPartition
    from ..client.errors import UnknownTopic

    async with open_admin(bootstrap_server) as admin:
        count = len((await admin.describe_topics(topic))[topic].partitions)
    if partition is not None and partition >= count:
        raise UnknownTopic(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
    return [TopicPartition(topic, number) for number in (range(count) if partition is None else [partition])]


async def _at_end(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    """Return whether this consumer has read its partitions up to their ends at the start."""
    assigned = consumer.assignment()
    return bool(assigned) and all([await consumer.position(each) >= ends[each] for each in assigned])


class _Printer:
    """Writes records to standard output, many with one write."""

    def __init__(self, as_json: bool, key_separator: str | None) -> None:
        self.count = 0
        self._as_json = as_json
        self._separator = key_separator.encode() if key_separator is not None else None

    def print(self, records: Iterable[ConsumerRecord]) -> None:
        lines = [self._line(record) for record in records]
        self.count += len(lines)
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()

    def _line(self, record: ConsumerRecord) -> bytes:
        if self._as_json:
            return _json(record)
        value = record.value or b""
        if self._separator is None:
            return value + b"\n"
        return (record.key or b"") + self._separator + value + b"\n"


def _json(record: ConsumerRecord) -> bytes:
    row = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
        if record.timestamp_ms >= 0
        else None,
        "key": record.key,
        "value": record.value,
        "headers": [[name, value] for name, value in record.headers],
    }
    return as_json(row).encode("utf-8", "surrogatepass") + b"\n"
