"""The sink `odradek-archive`: a pipeline's own rows into a table of Iceberg, each batch of a stream once.

    task      `write` makes data files: no catalog, no pyiceberg
    driver    `commit` names them in the table, in one commit with the query's id and the batch's number

Files of tasks that Spark repeats, or runs twice, are named by no commit. A batch that the table has is not committed
again, so a driver may play it again after a crash at any point. A write without a stream is one commit, too; Spark does
not say which write it is, so one that is repeated is there twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

from ..archive import Archive, ArchiveError, check_packages, errors_of_place, opened
from ..errors import InvalidOption
from .columns import OptionError
from .option_texts import check_names, values_of
from .options import reject_mode
from .progress import BATCH_ID, QUERY_ID

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ..archive.day_files import TablePlace
    from ..archive.row_files import Batch
    from .sink import ArrowBatch

log = logging.getLogger(__name__)


class TableSink(DataSource):
    """Rows of any columns, appended to a table."""

    @classmethod
    def name(cls) -> str:
        return "odradek-archive"

    def schema(self) -> str:
        """Raise OptionError: tables are read by other ways."""
        why = "odradek-archive is for writes alone; odradek.client.spark.table, or spark.read.parquet, reads tables"
        raise OptionError("format", why)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of one batch. Raises OptionError, ArchiveError."""
        reject_mode(overwrite, is_stream=False)
        return TableWriter(parse_table_options(self.options), schema, is_stream=False)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of one stream. Raises OptionError, ArchiveError."""
        reject_mode(overwrite, is_stream=True)
        return TableWriter(parse_table_options(self.options), schema, is_stream=True)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """All options of a write to a table."""

    place: Archive
    table: tuple[str, ...]
    # By whose days a new table is partitioned.
    day_column: str | None
    # What the user should know, a sentence each.
    warnings: tuple[str, ...] = ()


def parse_table_options(given: Mapping[str, str]) -> TableOptions:
    """Return the options, checked, from their texts by name. Raises OptionError, which names the option."""
    check_packages()
    from ..archive.row_tables import day_column

    texts = {name.lower(): text for name, text in given.items()}
    warnings = check_names(texts, ("tables",), "sink", _reason_without_effect)
    values = values_of(texts, "tables")
    for name in ("to", "table"):
        if not values[name]:
            raise OptionError(name, "must be given")
    table = tuple(values["table"].split("."))
    if len(table) < 2 or not all(table):
        raise OptionError("table", f"'{values['table']}' is no table with its namespace, as in air.delays")
    try:
        day = None if values["partitionBy"] is None else day_column(values["partitionBy"])
    except InvalidOption as error:
        raise OptionError("partitionBy", error.message) from None
    return TableOptions(Archive(values["to"], values["catalogDb"]), table, day, tuple(warnings))


def _reason_without_effect(name: str) -> str | None:
    if name == "path":
        raise OptionError("path", "save() and start() take no path: name the place with 'to', and the table")
    return "no broker is asked" if name.startswith("kafka.") else None


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    paths: list[str]
    rows: int
    batch: Batch | None


class TableWriter(DataSourceArrowWriter, DataSourceStreamArrowWriter):
    """The writer of a batch or of a stream: made on the driver, pickled to every task, which uses the place alone.

    For a stream, Spark makes another one for each batch, and for each commit.
    """

    def __init__(self, options: TableOptions, schema: StructType, *, is_stream: bool) -> None:
        for each in options.warnings:
            log.warning("%s", each)
        self._options, self._is_stream = options, is_stream
        from ..archive.layout import place_of
        from ..archive.row_tables import open_rows, rows_schema

        with opened(options.place, create=True) as (catalog, _):
            table, self._day_column = open_rows(catalog, options.table, _arrow(schema), options.day_column)
            self._place: TablePlace = place_of(table)._replace(schema=rows_schema(table))

    def write(self, iterator: Iterator[ArrowBatch]) -> Written:
        """Write the files of a task. Raises ArchiveError."""
        from ..archive.row_files import RowFiles

        batch = _batch() if self._is_stream else None
        files = RowFiles(self._place, batch, self._day_column)
        try:
            for each in iterator:
                files.add(each)
            return Written(files.finish(), files.rows, batch)
        except BaseException:
            files.abandon()
            raise

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int | None = None) -> None:
        """Commit the files of all tasks, unless their batch was committed before. Raises ArchiveError."""
        from ..archive.row_tables import commit_rows
        from ..archive.upkeep import expire, is_due

        written = [each for each in messages if isinstance(each, Written)]
        paths, batch = [path for each in written for path in each.paths], next((each.batch for each in written), None)
        if not paths:
            return
        name = ".".join(self._options.table)
        with opened(self._options.place) as (catalog, _):
            number = commit_rows(catalog, self._options.table, paths, batch)
            if number is None:
                log.info("%s has batch %s; nothing is committed again", name, batch)
                return
            log.info("%d rows are in %s", sum(each.rows for each in written), name)
            if is_due(number):
                try:
                    with errors_of_place():
                        expire(catalog, self._options.table)
                except ArchiveError as error:
                    log.warning("the rows are in %s, but its old snapshots stay: %s", name, error.message)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int | None = None) -> None:
        """Leave the files, which no commit names: one that failed may have been applied.

        The next batch of a query has them removed once it is upkeep's turn.
        """
        what = "the write" if batchId is None else f"batch {batchId}"
        log.error("%s failed; files that no commit names stay below %s", what, self._place.location)


def _batch() -> Batch:
    """Return the batch of a stream that this task writes for. Raises ArchiveError."""
    from ..archive.row_files import Batch

    context = TaskContext.get()
    query_id, number = (None, None) if context is None else map(context.getLocalProperty, (QUERY_ID, BATCH_ID))
    if query_id is None or number is None:
        raise ArchiveError("Spark does not say which query and batch this is, so it cannot be written once")
    return Batch(query_id, int(number))


def _arrow(schema: StructType) -> Any:
    """Return the columns of rows as Arrow. All may be null: later rows may lack them. Raises ArchiveError."""
    from pyspark.errors import PySparkException

    types = import_module("pyspark.sql.pandas.types")
    try:
        return types.to_arrow_schema(schema.toNullable(), timezone="UTC")
    except (PySparkException, ValueError) as error:
        raise ArchiveError(f"a column has a type that tables do not have: {error}") from error
