"""The tables of a query: a view for each topic that it names, with a column for each field of JSON values.

A topic is looked up when a query names it. The fields come from the user, or from the first values, if these are JSON
objects.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# duckdb and pyarrow have no complete types.

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from ..arrow.brokers import Brokers
from ..arrow.read_options import read_options
from ..errors import InvalidOption, UnknownTopic
from ..schemas.casts import with_leaves
from .fields import JsonFields, quoted, sampled_kinds
from .registered_values import RegisteredValues
from .topic_dataset import NotText, TopicDataset

if TYPE_CHECKING:
    from ..archive import Archive
    from ..archive.union import Cut
    from ..arrow.connection import ReadOptions
    from ..schemas.registered import RegisteredSerializer

# The columns of a table, in the order of `select *`.
_SHOWN = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
# Values from which the fields of JSON are taken.
SAMPLE_ROWS = 100
# Rows of a batch of the result.
RESULT_ROWS = 2048
# Columns that are made of them: a query with all of so many takes a second or two.
MAX_FIELDS = 1_000
# Types of DuckDB that reach Python as decimals.
_WHOLE = ("HUGEINT", "UHUGEINT", "DECIMAL(38,0)")
# Statements that change tables, as DuckDB names them.
_CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE", "DROP", "ALTER", "COPY")
# A name as DuckDB writes it, with its schema: words, and parts in quotes.
_TABLE = re.compile(r'(?:"(?:[^"]|"")*"|[^" ])+')
# A word of SQL, or one in quotes, or a text.
_WORD = re.compile(r"""[\w.]+|"(?:[^"]|"")*"|'(?:[^']|'')*'""")

# What a statement that keeps rows has them from.
_INNER = re.compile(r"\s*(?:copy\s*\((.*)\)\s*to\b.*|create\s.*?\sas\s(.*))", re.IGNORECASE | re.DOTALL)

log = logging.getLogger(__name__)


class TopicTables:
    """A DuckDB connection whose tables are topics. A context manager, which closes it."""

    def __init__(
        self,
        options: Mapping[str, str],
        *,
        fields: Mapping[str, str] | None = None,
        is_binary: bool = False,
        serializers: Mapping[str, RegisteredSerializer] | None = None,
        archive: Archive | str | None = None,
        archive_only: bool = False,
    ) -> None:
        """`options` are `kafka.` with a config of Kafka's clients, and `path`: fetch, direct or auto.

        `fields` are the types of the fields of JSON values. `serializers` read the columns `key` and `value` where a
        schema registry has their schemas. With an `archive`, topics that have a table there begin with its rows;
        `archive_only` reads these alone, without a broker. Raises InvalidOption.
        """
        if archive_only and archive is None:
            raise InvalidOption("archive_only needs an archive")
        self._archive = None if archive is None else _Archived(archive, archive_only)
        self._options = read_options(options, "SQL over topics")
        self._brokers = Brokers(self._options.client)
        # The columns of values, where the user has named them: none at all, perhaps.
        self._is_given = fields is not None
        self._given = JsonFields(fields) if fields else None
        self._is_binary = is_binary
        self._serializers = serializers or {}
        self._connection: Any = duckdb.connect()
        self._datasets: dict[str, TopicDataset] = {}
        # The rows of the last query, which the next one ends.
        self._reader: Any = None

    def __enter__(self) -> TopicTables:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def datasets(self) -> Mapping[str, TopicDataset]:
        """The topics that queries have named."""
        return self._datasets

    def run(self, sql: str) -> tuple[list[str], Iterator[list[tuple[Any, ...]]]]:
        """Return the names of the columns of the result, and its rows in portions, as they come.

        Raises InvalidOption for SQL that DuckDB does not take, UnknownTopic, KafkaError.
        """
        if self._reader is not None:
            self._reader.close()  # DuckDB has one open result
        self._guarded(lambda: self._begin(sql))
        result = self._guarded(lambda: self._connection.sql(sql))
        if result is None:  # of a statement that has no result
            return [], iter(())
        reader = self._reader = self._guarded(lambda: result.to_arrow_reader(RESULT_ROWS))
        whole = [str(each) in _WHOLE for each in result.types]
        return reader.schema.names, self._portions(reader, whole)

    def _portions(self, reader: Any, whole: list[bool]) -> Iterator[list[tuple[Any, ...]]]:
        def next_batch() -> Any:
            try:
                return reader.read_next_batch()
            except StopIteration:
                return None
            except pa.ArrowInvalid:
                if reader is not self._reader:
                    raise InvalidOption("a later query has ended this one: read its rows before") from None
                raise

        while (batch := self._guarded(next_batch)) is not None:
            columns = [_plain(column, is_whole) for column, is_whole in zip(batch.columns, whole, strict=True)]
            yield list(zip(*columns, strict=True))

    def _guarded(self, work: Callable[[], Any]) -> Any:
        """Return the result of `work`. What a scan has failed with is raised as it was."""
        try:
            return work()
        except Exception as error:
            failed = next((each.failure for each in self._datasets.values() if each.failure is not None), None)
            if failed is not None:
                raise failed from None
            if isinstance(error, duckdb.Error):
                raise InvalidOption(_first_lines(str(error))) from None
            raise

    # -- Tables

    def _begin(self, sql: str) -> None:
        """Begin a query: its topics are looked up as they are now, with the columns of their records."""
        for each in self._datasets.values():
            each.begin()
        named = self._named(sql)
        topics = self._topics() if named else []
        tables: dict[str, str] = {}
        for name in sorted(named):
            topic = _topic_of(name, sql, topics)
            if topic is not None:
                tables[name] = topic
            elif not (self._is_table(name) or Path(_unquoted(name)).exists()):
                raise UnknownTopic(f"no topic {_unquoted(name)!r}{_did_you_mean(_unquoted(name), topics)}")
        _check_cases(tables.values())
        for name, topic in tables.items():
            self._add(topic, name)

    def _topics(self) -> list[str]:
        if self._archive is not None and self._archive.is_only:
            return self._archive.topics()
        brokers = self._brokers
        return sorted(brokers.retry(lambda: brokers.view(None)).topics)

    def _named(self, sql: str) -> set[str]:
        """Return the tables that one statement names. Raises InvalidOption."""
        try:
            statements = self._connection.extract_statements(sql)
        except duckdb.Error as error:
            why = _first_lines(str(error))
            raise InvalidOption(f'{why}; quote "my-topic" and "offset", which are words of SQL') from None
        if len(statements) != 1:
            raise InvalidOption(f"give one statement of SQL, not {len(statements)}")
        if statements[0].type.name == "MULTI":
            # A PIVOT that looks for its values first. Of the names in such ones DuckDB tells nothing.
            topics = self._topics()
            return {word for word in _WORD.findall(sql) if _topic_of(word, sql, topics) is not None}
        # The statement's own tree tells the names without looking for the tables. It is there for queries alone.
        for text in (sql, *filter(None, found.groups() if (found := _INNER.fullmatch(sql)) else ())):
            ((tree,),) = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
            if (parsed := json.loads(tree)).get("statements"):
                return _tables_in(parsed["statements"], text)
        try:
            # DuckDB says `flights AS f`, and what a TABLESAMPLE takes.
            named = self._connection.get_table_names(sql, qualified=True)
        except duckdb.Error as error:
            hint = "; topics cannot be written by SQL" if statements[0].type.name in _CHANGES else ""
            raise InvalidOption(_first_lines(str(error)) + hint) from None
        return {found[0] for name in named if (found := _TABLE.match(name))}

    def _is_table(self, name: str) -> bool:
        """Tell whether a name is a table or a view that a query has made."""
        try:
            self._connection.table(name)
        except (duckdb.Error, RuntimeError):
            return False
        return _unquoted(name).lower() not in map(str.lower, self._datasets)

    def _add(self, topic: str, name: str) -> None:
        """Make the view of a topic. `name` is how the query writes it: `a.b` without quotes is b in the schema a."""
        decoders = {field: RegisteredValues(topic, field, each) for field, each in self._serializers.items()}
        look = None if self._archive is None else self._archive.look(topic, self._options)
        dataset = TopicDataset(topic, self._options, is_binary=self._is_binary, decoders=decoders, look=look)
        for other in [each for each in self._datasets if each.lower() == topic.lower()]:
            del self._datasets[other]
        self._datasets[topic] = dataset
        dataset.fields = self._fields_of(dataset, decoders.get("value"))
        self._connection.register(f"records of {topic}", dataset)
        if not name.startswith('"') and "." in name:
            if name.count(".") > 1:
                raise InvalidOption(f"a name with two dots needs quotes: {quoted(topic)}")
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name.split('.')[0])}")
        shown = [*_SHOWN, *(() if dataset.fields is None else dataset.fields.schema.names)]
        columns, records = ", ".join(map(quoted, shown)), quoted(f"records of {topic}")
        view = f"CREATE OR REPLACE VIEW {name} AS SELECT {columns} FROM {records}"
        self._guarded(lambda: self._connection.execute(view))

    def _fields_of(
        self, dataset: TopicDataset, registered: RegisteredValues | None
    ) -> JsonFields | RegisteredValues | None:
        """Return the columns of values: those given, the subject's, or those of the first values."""
        if self._is_given:
            return self._given
        if registered is not None and registered.is_typed:
            return registered
        return None if self._is_binary else _bounded(self._sampled(dataset), dataset)

    def _sampled(self, dataset: TopicDataset) -> dict[str, Any]:
        """Return the columns that the first values have together, none where they are no JSON objects."""
        texts: list[str] = []
        try:
            for batch in dataset.batches(["value"], None):
                texts += batch.column("value").drop_null()[: SAMPLE_ROWS - len(texts)].to_pylist()
                if len(texts) >= SAMPLE_ROWS:
                    break
            return sampled_kinds(texts)
        except NotText:
            # The query may not need the values.
            dataset.failure = None
        except InvalidOption as error:
            log.warning("the fields of JSON records are not columns unless --schema names them: %s", error.message)
        return {}


class _Archived:
    """Topics that begin with the rows of their tables in an archive."""

    def __init__(self, archive: Archive | str, is_only: bool) -> None:
        from ..archive import check_packages  # an optional extra, as all of the archive

        check_packages()
        self._archive, self.is_only = archive, is_only

    def topics(self) -> list[str]:
        """Return the topics that have tables. Raises ArchiveError."""
        from ..archive.union import archived_topics

        return sorted(archived_topics(self._archive))

    def look(self, topic: str, options: ReadOptions) -> Callable[[], Cut] | None:
        """Return what cuts a topic where its archive ends; None for a topic that has no table."""
        from ..archive.union import archived_topics, cut

        if topic not in archived_topics(self._archive):
            return None
        return lambda: cut(self._archive, topic, None if self.is_only else options)


def _bounded(kinds: dict[str, Any], dataset: TopicDataset) -> JsonFields | None:
    """Return the columns of JSON values, and say so where there are more fields than columns."""
    if len(kinds) > MAX_FIELDS:
        text = "%s: the first %d of %d fields of JSON records are columns; --schema names others"
        log.warning(text, dataset.topic, MAX_FIELDS, len(kinds))
    names = list(kinds)[:MAX_FIELDS]
    return JsonFields({name: kinds[name] for name in names}) if names else None


def _tables_in(statements: Any, sql: str) -> set[str]:
    """Return the tables that a tree of DuckDB names, as the text of the query has them: with quotes or without."""
    tables: list[dict[str, Any]] = []
    own, left, text = set[str](), [statements], sql.encode()
    while left:
        each = left.pop()
        if isinstance(each, dict):
            own |= {entry["key"].lower() for entry in (each.get("cte_map") or {}).get("map", ())}
            tables += [each] if each.get("type") == "BASE_TABLE" and each["table_name"] else []
        left += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    named = set[str]()
    for each in tables:
        path, first = each["qualified_name"]["path"], text[each["query_location"] :][:1]
        if first == b"'" or (len(path) == 1 and path[0].lower() in own):
            continue  # a file, or a part of the query itself
        named.add(".".join(path) if len(path) > 1 or first != b'"' else quoted(path[0]))
    return named


def _topic_of(name: str, sql: str, topics: Sequence[str]) -> str | None:
    """Return the topic that a name of SQL means: with quotes the very name, without them upper and lower case are one.

    Raises InvalidOption where it may mean several.
    """
    plain = _unquoted(name)
    alike = [each for each in topics if each.lower() == plain.lower()]
    # DuckDB leaves quotes out where a name needs none.
    if plain in topics and (name.startswith('"') or quoted(plain) in sql):
        return plain
    if len(alike) > 1:
        raise InvalidOption(f"{plain} may be {' or '.join(map(quoted, alike))}: quote the one that you mean")
    return alike[0] if alike else None


def _check_cases(topics: Iterable[str]) -> None:
    """Raise InvalidOption for topics of one query that DuckDB would take for one."""
    seen: dict[str, str] = {}
    for topic in topics:
        other = seen.setdefault(topic.lower(), topic)
        if other != topic:
            raise InvalidOption(
                f"{quoted(other)} and {quoted(topic)} differ by upper and lower case alone, which are one name in a "
                "query: ask for them in two queries"
            )


def _plain(column: Any, is_whole: bool) -> list[Any]:
    """Return a column as Python's values: large whole numbers as int, times that Python does not have as text."""
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):
        return column.cast(with_leaves(column.type, _without_times)).to_pylist()
    return [None if each is None else int(each) for each in values] if is_whole else values


def _without_times(kind: Any) -> Any:
    return pa.string() if pa.types.is_temporal(kind) else kind


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') and name.endswith('"') else name


def _did_you_mean(topic: str, topics: Sequence[str]) -> str:
    close = get_close_matches(topic, topics, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _first_lines(text: str) -> str:
    """Return what DuckDB says, in one line and without the picture of the place."""
    lines = [line.strip() for line in text.split("\n\n")[0].splitlines()]
    return " ".join(line for line in lines if line)
