"""`odradek produce`: send each line of standard input, or a whole file, as a record.

Promise: status 0 means that the broker acknowledged every record. An error names the line that it is about, and says
which lines were sent. Memory is bounded: input that was read waits until the input before it is acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .connection_options import connection_options
from .errors import CliError
from .names import TOPIC
from .notices import connection_notice, login_notice
from .output import print_rows
from .record_input import MAX_LINE_BYTES, BadLine, Headers, InputRecord, LineCutter, LineForm, chunks
from .schema_options import SchemaFormats, schema_options
from .session import client_options, run, with_advice
from .values import OneOf, WholeNumber, parse_pair, parse_time_ms, unescape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..client import Producer, RecordMetadata
    from ..client.errors import KafkaError

# Room for the longest line in a request, and for a second one while the first is on its way.
_MAX_REQUEST_BYTES = MAX_LINE_BYTES + (1 << 20)
_BATCH_BYTES = 128 << 10
_BUFFER_BYTES = 2 * _MAX_REQUEST_BYTES


@dataclass(frozen=True, slots=True)
class _Sending:
    """What to send where. `file` is sent as one value instead of standard input."""

    topic: str
    form: LineForm
    partition: int | None
    keeps_partitions: bool
    headers: Headers
    timestamp_ms: int | None
    file: Path | None
    compression: str
    acks: str
    # Whether to print where each record is.
    is_verbose: bool
    formats: SchemaFormats

    @property
    def has_only_values(self) -> bool:
        """Whether records have no key, no headers and no schema, and nobody asks where they are."""
        return self.form.is_plain and not self.headers and not self.is_verbose

    @property
    def has_only_pairs(self) -> bool:
        """Whether records have a key and a value, nothing of their own besides, and nobody asks where they are."""
        return not (self.form.is_json or self.headers or self.timestamp_ms is not None or self.is_verbose)


@click.command(short_help="Send lines from standard input as records.")
@click.argument("topic", type=TOPIC)
@click.option("-K", "--key-separator", metavar="TEXT", help=r"Each line is KEY TEXT VALUE; \t is a tab.")
@click.option("-k", "--key", metavar="TEXT", help="The key of every record.")
@click.option("--key-column", metavar="N", type=WholeNumber(min=1), help="The key is the line's column N, from 1.")
@click.option(
    "--column-separator", metavar="TEXT", default=r"\t", show_default=True, help="What is between the columns."
)
@click.option("--tombstones", is_flag=True, help="Each line is a key, and its value is null.")
@click.option("--null", metavar="TEXT", help="A key or value that is TEXT is null; a null value is a tombstone.")
@click.option(
    "--json", "as_json", is_flag=True, help="Each line is a JSON object, as `odradek consume --json` prints it."
)
@click.option("--keep-partitions", is_flag=True, help="With --json: to the partition that the line names.")
@click.option(
    "--file", metavar="PATH", type=click.Path(path_type=Path),
    help="Send the whole file as one value, instead of standard input.",
)  # fmt: skip
@click.option("-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header of every record.")
@click.option("--timestamp", metavar="TIME", help="Of records without one: ISO 8601 or milliseconds.  [default: now]")
@click.option(
    "-p",
    "--partition",
    metavar="N",
    type=WholeNumber(min=0),
    help="Send all records to this partition; otherwise by key, or evenly.",
)
@click.option(
    "-z",
    "--compression",
    type=OneOf(("none", "gzip", "snappy", "lz4", "zstd")),
    default="none",
    show_default=True,
    help="The codec of batches.",
)
@click.option(
    "--acks",
    type=OneOf(("all", "1", "0")),
    default="all",
    show_default=True,
    help="Which replicas must have a record: all in sync, the leader, or none.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print partition and offset of each record.")
@connection_options("producer")
@schema_options(writes=True)
def command(
    topic: str,
    key_separator: str | None,
    key: str | None,
    key_column: int | None,
    column_separator: str,
    tombstones: bool,
    null: str | None,
    as_json: bool,
    keep_partitions: bool,
    file: Path | None,
    headers: tuple[str, ...],
    timestamp: str | None,
    partition: int | None,
    compression: str,
    acks: str,
    verbose: bool,
    bootstrap_server: str,
    formats: SchemaFormats,
) -> None:
    """Send each line of standard input as a record to TOPIC. It ends when all are acknowledged.

    \b
    Examples:
      seq 1000 | odradek produce numbers
      seq 3 | odradek produce numbers -v
      odradek produce users --key-separator : < users.txt
      printf 'ann\\tNONE\\n' | odradek produce ages --key-separator '\\t' --null NONE
      echo ann | odradek produce users --tombstones
      odradek produce prices --key-column 2 --column-separator , < prices.csv
      odradek consume flights --until-end --json | odradek produce copies --json
      odradek produce pictures --file map.png --key map -H type=image/png
      odradek produce t --value-format avro --registry http://sr:8081 < t.json
      tail -f app.log | odradek produce logs --compression zstd
    """
    chosen = [key_separator is not None, key_column is not None, tombstones, as_json, file is not None]
    if sum(chosen) > 1 or (key is not None and any(chosen[:-1])):
        raise click.UsageError(
            "only one of --key, --key-separator, --key-column, --tombstones and --json; --file takes --key only"
        )
    if keep_partitions and (not as_json or partition is not None):
        raise click.UsageError("--keep-partitions is for --json without --partition")
    form = LineForm(
        separator=_separator(key_separator, "--key-separator"),
        null=None if null is None else unescape(null, "--null"),
        key=None if key is None else unescape(key, "--key"),
        key_column=key_column,
        column_separator=_separator(column_separator, "--column-separator") or b"\t",
        tombstones=tombstones,
        is_json=as_json,
        has_key_schema=formats.key is not None,
        has_value_schema=formats.value is not None,
    )
    sending = _Sending(
        topic, form, partition, keep_partitions, _headers(headers), _timestamp_ms(timestamp), file, compression, acks,
        verbose, formats,
    )  # fmt: skip
    run(_produce(sending, bootstrap_server))


def _separator(text: str | None, option: str) -> bytes | None:
    if text == "":
        raise click.UsageError(f"{option} must not be empty")
    return None if text is None else unescape(text, option)


def _headers(texts: tuple[str, ...]) -> Headers:
    pairs = [parse_pair(text, "--header") for text in texts]
    return tuple((name, value.encode("utf-8", "surrogateescape")) for name, value in pairs)


def _timestamp_ms(text: str | None) -> int | None:
    if text is None:
        return None
    found = parse_time_ms(text)
    if found is None or found < 0:
        raise click.UsageError(
            f"--timestamp is a time like 2026-11-21T08:00:00+01:00 or milliseconds since 1970, not {text!r}"
        )
    return found


async def _produce(sending: _Sending, bootstrap_server: str) -> None:
    from ..client import Producer

    options = client_options(
        "producer",
        acks=sending.acks,
        compression_type=sending.compression,
        enable_idempotence=sending.acks == "all",
        batch_size=_BATCH_BYTES,
        max_request_size=_MAX_REQUEST_BYTES,
        buffer_memory=_BUFFER_BYTES,
    )
    producer = Producer(bootstrap_server, **options)
    async with producer, login_notice(), connection_notice(producer, bootstrap_server):
        if sending.file is not None:
            await _send_file(producer, sending, sending.file)
        else:
            await _send_lines(producer, sending)


async def _send_file(producer: Producer, sending: _Sending, file: Path) -> None:
    try:
        value = await asyncio.to_thread(_content, file)
        key, value, *_ = await sending.formats.encoded(InputRecord(sending.form.key, value), sending.topic)
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}") from error
    except BadLine as error:
        raise CliError(f"{file} {error}") from error
    metadata = await producer.send_and_wait(
        sending.topic, value, key, sending.partition, sending.timestamp_ms, sending.headers
    )
    if sending.is_verbose:
        _show([metadata])


def _show(sent: Iterable[RecordMetadata]) -> None:
    print_rows(("partition", "offset"), ((each.partition, each.offset) for each in sent))


def _content(file: Path) -> bytes:
    if file.stat().st_size > MAX_LINE_BYTES:
        raise CliError(f"{file} has more than {MAX_LINE_BYTES >> 20} MiB: no record is that large")
    return file.read_bytes()


async def _send_lines(producer: Producer, sending: _Sending) -> None:
    shown = sys.stderr.isatty() and not sys.stdin.isatty()
    sender = _Sender(producer, sending)
    async for chunk in chunks(sys.stdin.fileno()):
        await sender.send(sender.lines.feed(chunk))
        if shown:
            click.echo(f"\r{sender.lines.count:,} records", nl=False, err=True)
    await sender.send(sender.lines.end())
    if shown:
        click.echo(f"\r{sender.lines.count:,} records to {sending.topic}", err=True)


class _Sender:
    """Sends lines. A CliError says which lines are in the topic."""

    def __init__(self, producer: Producer, sending: _Sending) -> None:
        self.lines = LineCutter()
        self._producer = producer
        self._sending = sending
        self._parse = sending.form.parser()

    async def send(self, cut: list[bytes]) -> None:
        """Send lines and wait until they are acknowledged."""
        from ..client.errors import KafkaError

        if not cut:
            return
        try:
            records, bad = (None, None) if self._sending.has_only_values else await self._records(cut)
            await (self._send_values(cut) if records is None else self._send_records(records))
        except KafkaError as error:
            raise CliError(self._failure(error, cut)) from error
        self.lines.count += len(cut) if records is None else len(records)
        if bad is not None:
            raise CliError(f"line {self.lines.count + 1} {bad}; {self.lines.sent_text()}")

    async def _records(self, cut: list[bytes]) -> tuple[list[InputRecord], BadLine | None]:
        """Return the records of lines up to the first that is none, and what is wrong with that one."""
        records: list[InputRecord] = []
        for line in cut:
            try:
                record = self._parse(line)
                if self._sending.formats:
                    record = await self._sending.formats.encoded(record, self._sending.topic)
                records.append(record)
            except BadLine as error:
                return records, error
        return records, None

    async def _send_values(self, values: list[bytes]) -> None:
        sending = self._sending
        await self._producer.send_values(
            sending.topic, values, partition=sending.partition, timestamp_ms=sending.timestamp_ms
        )

    async def _send_records(self, records: list[InputRecord]) -> None:
        sending, producer = self._sending, self._producer
        if sending.has_only_pairs:
            pairs = ((record.key, record.value) for record in records)
            await producer.send_many(sending.topic, pairs, partition=sending.partition)
            return
        sent = [
            await producer.send(
                sending.topic,
                record.value,
                record.key,
                record.partition if sending.keeps_partitions else sending.partition,
                sending.timestamp_ms if record.timestamp_ms is None else record.timestamp_ms,
                record.headers + sending.headers,
            )
            for record in records
        ]
        acknowledged = await asyncio.gather(*sent)
        if sending.is_verbose:
            _show(acknowledged)

    def _failure(self, error: KafkaError, cut: list[bytes]) -> str:
        from ..client.errors import ErrorCode

        before = self.lines.count
        longest = max(range(len(cut)), key=lambda index: len(cut[index]))
        # A batch of several lines ends at batch_size, so a larger one is a single line.
        if error.code is ErrorCode.MESSAGE_TOO_LARGE and len(cut[longest]) > _BATCH_BYTES:
            advice = "the topic's max.message.bytes allows no batch of that size"
            why = f"line {before + longest + 1} is too large ({len(cut[longest]):,} bytes): {advice}"
        else:
            why = with_advice(error)
        return f"{why}; lines 1 to {before} were sent, later ones possibly not" if before else why
