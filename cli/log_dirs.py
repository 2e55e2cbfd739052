"""`odradek log dirs`: the data directories of running brokers, their partitions and their free space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .output import Rows, row_options
from .partition_option import partition_option, partitions_of
from .session import bootstrap_option, with_admin

if TYPE_CHECKING:
    from ..client import Admin
    from ..client.admin.brokers import LogDir

_PARTITIONS = ("broker", "log_dir", "error", "topic", "partition", "size_bytes", "offset_lag", "is_future")
_SUMMARY = ("broker", "log_dir", "error", "partitions", "size_bytes", "total_bytes", "usable_bytes")


@click.command(short_help="Print the data directories of running brokers.")
@partition_option("Only these partitions; repeatable.")
@click.option("--broker", "brokers", metavar="ID", type=click.IntRange(min=0), multiple=True, help="Only this broker.")
@click.option("--summary", is_flag=True, help="One line a directory, with the free space of its volume.")
@row_options
@bootstrap_option
def command(
    topics: tuple[str, ...], brokers: tuple[int, ...], summary: bool, as_json: bool, bootstrap_server: str
) -> None:
    """Print every partition with its data directory and its size on disk, or one line a directory.

    This command asks running brokers. A directory that is empty or offline has a line of its own.

    \b
    Examples:
      odradek log dirs
      odradek log dirs --summary
      odradek log dirs --topic flights --topic delays:0,1
    """

    async def work(admin: Admin) -> list[LogDir]:
        partitions = await partitions_of(admin, topics) if topics else None
        return await admin.describe_log_dirs(*brokers, partitions=partitions)

    with Rows(_SUMMARY if summary else _PARTITIONS, as_json) as rows:
        for each in with_admin(bootstrap_server, work):
            for row in [_summary(each)] if summary else _partitions(each):
                rows.add(row)


def _summary(each: LogDir) -> dict[str, Any]:
    counted = {"partitions": len(each.replicas), "size_bytes": each.size_bytes}
    return _directory(each) | counted | {"total_bytes": each.total_bytes, "usable_bytes": each.usable_bytes}


def _partitions(each: LogDir) -> list[dict[str, Any]]:
    rows = [
        _directory(each)
        | {
            "topic": replica.partition.topic,
            "partition": replica.partition.partition,
            "size_bytes": replica.size_bytes,
            "offset_lag": replica.offset_lag,
            "is_future": replica.is_future,
        }
        for replica in each.replicas
    ]
    return rows or [dict.fromkeys(_PARTITIONS) | _directory(each)]


def _directory(each: LogDir) -> dict[str, Any]:
    return {"broker": each.node_id, "log_dir": each.path, "error": each.error.name if each.error else None}
