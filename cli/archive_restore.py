"""`odradek archive restore`: topics from their tables, into a data directory that no broker uses.

The batches go to folders of partitions beside the data directory, which are imported as those of another broker are:
all topics exist afterwards, or none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from .errors import CliError, as_cli_error

if TYPE_CHECKING:
    from ..client.archive.restore import Batch

COLUMNS = ("topic", "partition", "records", "first", "end")
_SEGMENT_BYTES = 1 << 30
# Offsets are of 32 bits within a segment.
_MAX_DELTA = 2**31 - 1
_LOST = (
    "not restored, because archives do not have it: batches as they were, producers, transaction markers, aborted "
    "records, leader epochs and configs; retention.ms of the restored topics is -1, so that old records stay"
)


def restore(tables: list[tuple[str, Any]], data_dir: Path) -> list[tuple[Any, ...]]:
    """Restore topics of these names from these tables, and return a row a partition. Raises ArchiveError, CliError."""
    from ..broker.clock import Clock
    from ..broker.log_dirs.data_dir import StartError
    from ..broker.topics.topic_import import Importer, plan
    from ..client.archive.state import state_of
    from ..protocol.errors import KafkaError

    rows: list[tuple[Any, ...]] = []
    with as_cli_error(StartError, KafkaError):
        data_dir.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=data_dir.absolute().parent) as place:
            partitions = {topic: len(state_of(table).offsets) for topic, table in tables}
            folders = [folder for topic, table in tables for folder in _written(Path(place), topic, table, rows)]
            plans = plan(folders)
            for each in plans:
                each.configs, each.least_partitions = {"retention.ms": "-1"}, partitions[each.name]
            with Importer(data_dir) as importer:
                importer.run(plans, Clock().now_ms(), lambda _: None, lambda _: None)
    click.echo(f"odradek: {_LOST}", err=True)
    return rows


def _written(place: Path, topic: str, table: Any, rows: list[tuple[Any, ...]]) -> Iterator[Path]:
    """Write the folders of a topic's partitions, and yield each."""
    from ..client.archive.data_files import files_of
    from ..client.archive.restore import batches_of
    from ..client.archive.state import state_of, topic_of
    from ..storage.checkpoints import write_partition_metadata

    files, held = files_of(table), topic_of(table.metadata)
    if held.name != topic:
        raise CliError(f"the table of {topic} holds the topic {held.name!r}: restore that one, with --table")
    offsets = state_of(table).offsets
    if not any(offsets.values()):
        raise CliError(f"the table of {topic} has nothing yet")
    for partition, end in offsets.items():
        if end == 0:
            continue
        folder = place / f"{topic}-{partition}"
        folder.mkdir()
        if held.id:
            write_partition_metadata(folder, bytes.fromhex(held.id))
        first, records = _write(folder, batches_of(table, files, partition, end))
        rows.append((topic, partition, records, first, end))
        yield folder


def _write(folder: Path, batches: Iterator[Batch]) -> tuple[int, int]:
    """Write batches to segments. Return the first offset, and the number of records."""
    segment: BinaryIO | None = None
    base = size = records = 0
    first = -1
    with ExitStack() as opened:
        for each in batches:
            if segment is None or size > _SEGMENT_BYTES or each.last - base > _MAX_DELTA:
                opened.close()
                base, size = each.first, 0
                segment = opened.enter_context((folder / f"{base:020}.log").open("wb"))
            segment.write(each.data)
            size += len(each.data)
            records += each.records
            first = each.first if first < 0 else first
    return first, records
