"""`odradek transactions`: list and describe transactions, abort one that hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..broker.coordination.transactions.query import query_of
from ..client.errors import UnsupportedVersion
from .confirmation import confirm, dry_run_option, show_places
from .errors import CliError
from .names import partition_option, partitions_of
from .output import print_rows, row_options, time_format, time_options
from .session import bootstrap_option, with_admin
from .values import WholeNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..client import Admin
    from ..client.core.descriptions import ActiveProducer, QueryDescription, TransactionDescription

# The query of Spark that a transactional id belongs to, and the batch that its open transaction is a part of.
_OF_QUERY = ("query_id", "batch")
_LISTED = ("transactional_id", "producer_id", "state", *_OF_QUERY)
_DESCRIBED = (
    *("transactional_id", "state", "producer_id", "producer_epoch", "timeout_ms", "began", "partitions"),
    *_OF_QUERY,
)
_Row = tuple[Any, ...]
_STATES = "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort"
_QUERIES = ("query_id", "run_id", "committed_batch", "current_batch", "open_transactions", "last_update")
_PRODUCERS = ("topic", "partition", "producer_id", "producer_epoch", "last_sequence", "last_timestamp", "began_at")


@click.group(short_help="Look at transactions, abort those that hang.")
def command() -> None:
    """Look at transactions, abort those that hang.

    \b
    Examples:
      odradek transactions list --state Ongoing --longer-than-ms 60000
      odradek transactions queries
      odradek transactions describe orders-1
      odradek transactions describe --topic flights:0
      odradek transactions abort --topic flights:0 --start-offset 1234 --dry-run
      odradek transactions abort --topic flights:0 --start-offset 1234
    """


@command.command("list", short_help="Print the transactional ids.")
@click.option("--state", "states", metavar="STATE", multiple=True, help=f"Only in this state ({_STATES}); repeatable.")
@click.option("--longer-than-ms", metavar="MS", type=WholeNumber(min=0), help="Only those open for longer than this.")
@row_options
@bootstrap_option
def list_(states: tuple[str, ...], longer_than_ms: int | None) -> None:
    """Print every transactional id with its producer id and state; an id of Spark's sink also with its query and batch.

    \b
    Examples:
      odradek transactions list
      odradek transactions list --state Ongoing --longer-than-ms 60000
    """

    async def work(admin: Admin) -> list[_Row]:
        found = await admin.list_transactions(
            states=states, longer_than_ms=-1 if longer_than_ms is None else longer_than_ms
        )
        batches = await _batches(admin, (each.transactional_id for each in found))
        return [
            (each.transactional_id, each.producer_id, each.state, *_of_query(each.transactional_id, batches))
            for each in found
        ]

    print_rows(_LISTED, with_admin(work))


async def _batches(admin: Admin, transactional_ids: Iterable[str]) -> dict[str, int | None]:
    """Return the batches of open transactions by transactional id. Asks only where one of these ids is of a query."""
    if not any(map(query_of, transactional_ids)):
        return {}
    try:
        queries = await admin.list_queries()
    except UnsupportedVersion:
        # A Kafka that reads the log of an Odradek knows the ids, not the queries.
        return {}
    return {each: query.current_batch for query in queries for each in query.transactional_ids}


def _of_query(transactional_id: str, batches: Mapping[str, int | None]) -> tuple[str | None, int | None]:
    return query_of(transactional_id), batches.get(transactional_id)


@command.command(short_help="Print the queries whose tasks commit together.")
@row_options
@time_options
@bootstrap_option
def queries() -> None:
    """Print the queries that write to this cluster exactly once, such as Spark's: the run that may write, the last
    batch that was committed, the batch that is being written, and how many transactions are open.

    \b
    Examples:
      odradek transactions queries
    """

    print_rows(_QUERIES, map(_query, with_admin(lambda admin: admin.list_queries())))


def _query(each: QueryDescription) -> _Row:
    updated = time_format()(each.updated_ms)
    return each.query_id, each.run_id, each.committed_batch, each.current_batch, len(each.transactional_ids), updated


@command.command(short_help="Print the state of transactional ids, or the producers of partitions.")
@click.argument("transactional_ids", metavar="[TRANSACTIONAL_ID]...", nargs=-1)
@partition_option("Print the producers of these partitions instead, and where their transactions begin.")
@row_options
@time_options
@bootstrap_option
def describe(transactional_ids: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Print state, producer, start and partitions of transactional ids, or the producers of partitions. For an id of
    Spark's sink also the query and its batch.

    \b
    Examples:
      odradek transactions describe orders-1
      odradek transactions describe --topic flights:0
    """
    if bool(transactional_ids) == bool(topics):
        raise click.UsageError("name transactional ids, or partitions by --topic")
    columns = _PRODUCERS if topics else _DESCRIBED

    async def work(admin: Admin) -> list[_Row]:
        if topics:
            return await _producers(admin, topics)
        batches = await _batches(admin, transactional_ids)
        found = await admin.describe_transactions(*transactional_ids)
        return [(*_row(each), *_of_query(each.transactional_id, batches)) for each in found.values()]

    print_rows(columns, with_admin(work))


def _row(each: TransactionDescription) -> _Row:
    began = None if each.began_ms is None else time_format()(each.began_ms)
    partitions = [f"{topic}-{number}" for topic, number in each.partitions]
    producer = each.producer_id, each.producer_epoch
    return each.transactional_id, each.state, *producer, each.timeout_ms, began, partitions


async def _producers(admin: Admin, topics: tuple[str, ...]) -> list[_Row]:
    found = await admin.describe_producers(*await partitions_of(admin, topics))
    return [_producer(*partition, each) for partition, active in sorted(found.items()) for each in active]


def _producer(topic: str, number: int, each: ActiveProducer) -> _Row:
    last = each.last_sequence, time_format()(each.last_timestamp_ms)
    return topic, number, each.producer_id, each.producer_epoch, *last, each.began_at


@command.command(short_help="Abort a transaction that hangs in a partition.")
@partition_option("The partition, such as flights:0.", required=True)
@click.option(
    "--start-offset", metavar="OFFSET", type=WholeNumber(min=0), required=True, help="Where the transaction begins."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@bootstrap_option
def abort(topics: tuple[str, ...], start_offset: int, yes: bool, dry_run: bool) -> None:
    """Abort a transaction that hangs: a partition waits for it, and no coordinator will ever end it. The leader of the
    partition gets an abort marker without the coordinator. `describe --topic` shows where transactions begin.

    \b
    Examples:
      odradek transactions abort --topic flights:0 --start-offset 1234 --dry-run
      odradek transactions abort --topic flights:0 --start-offset 1234
    """
    confirm(f"Abort the transaction in {', '.join(topics)}?", yes or dry_run, "nothing was aborted")

    async def work(admin: Admin) -> None:
        partitions = await partitions_of(admin, topics)
        if len(partitions) != 1:
            raise click.UsageError("name one partition, such as --topic flights:0")
        (active,) = (await admin.describe_producers(*partitions)).values()
        hanging = [each for each in active if each.began_at == start_offset]
        if not hanging:
            advice = f"`odradek transactions describe --topic {topics[0]}` shows where they begin"
            raise CliError(f"no open transaction of {topics[0]} begins at {start_offset}; {advice}")
        if dry_run:
            show_places({partitions[0]: hanging[0].producer_id}, "producer_id")
        else:
            await admin.abort_transaction(partitions[0], hanging[0])

    with_admin(work)
