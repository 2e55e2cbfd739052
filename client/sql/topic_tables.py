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
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arrow.brokers import Brokers
from ..arrow.connection import ReadOptions, ReadPath, client_options
from ..arrow.fetch import whole_topic
from ..core.option_table import CONFIGS, SPARK_OPTIONS
from ..core.option_values import bootstrap_addresses, read_text
from ..core.security import SECURITY_CONFIGS, SecurityOptions, security_arguments
from ..errors import InvalidOption, UnknownTopic
from . import check_packages
from .fields import as_read, checked, columns_of, quoted
from .topic_dataset import NotText, TopicDataset

if TYPE_CHECKING:
    from ..schemas.registered import RegisteredSerializer

# The columns of a table, in the order of `select *`.
_SHOWN = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
# Values from which the fields of JSON are taken.
SAMPLE_ROWS = 100
# Rows of a batch of the result.
RESULT_ROWS = 2048
# Statements that change tables, as DuckDB names them.
_CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE", "DROP", "ALTER", "COPY")
_WORD = re.compile(r"\w+")
# A name as DuckDB writes it, with its schema: words, and parts in quotes.
_TABLE = re.compile(r'(?:"(?:[^"]|"")*"|[^" ])+')

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
    ) -> None:
        """`options` are `kafka.` with a config of Kafka's clients, and `path`: fetch, direct or auto.

        `fields` are the types of the fields of JSON values. `serializers` read the columns `key` and `value` where a
        schema registry has their schemas. Raises InvalidOption.
        """
        check_packages()
        import duckdb

        self._options = _read_options(options)
        self._brokers = Brokers(self._options.client)
        self._fields = fields
        self._is_binary = is_binary
        self._serializers = serializers or {}
        self._connection: Any = duckdb.connect()
        self._error: type[Exception] = duckdb.Error
        self._datasets: dict[str, TopicDataset] = {}

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
        self._add_tables(sql)
        reader = self._guarded(lambda: self._connection.sql(sql).to_arrow_reader(RESULT_ROWS))
        return reader.schema.names, self._portions(reader)

    def _portions(self, reader: Any) -> Iterator[list[tuple[Any, ...]]]:
        def next_batch() -> Any:
            try:
                return reader.read_next_batch()
            except StopIteration:
                return None

        while (batch := self._guarded(next_batch)) is not None:
            yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def _guarded(self, work: Any) -> Any:
        """Return the result of `work`. What a scan has failed with is raised as it was."""
        try:
            return work()
        except Exception as error:
            failed = next((each.failure for each in self._datasets.values() if each.failure is not None), None)
            if failed is not None:
                raise failed from None
            if isinstance(error, self._error):
                raise InvalidOption(_first_lines(str(error))) from None
            raise

    # -- Tables

    def _add_tables(self, sql: str) -> None:
        # DuckDB says `flights AS f`, and what a TABLESAMPLE takes.
        named = {found[0] for name in self._named(sql) if (found := _TABLE.match(name))}
        named = {name for name in named if _unquoted(name) not in self._datasets}
        own = self._own_views(sql) - {*named, *self._datasets}
        brokers = self._brokers
        topics = sorted(brokers.retry(lambda: brokers.view(None)).topics) if named or own else []
        for topic in sorted(own.intersection(topics)):
            self._add(topic, quoted(topic))
        for name in sorted(named):
            topic = _unquoted(name)
            if topic in topics:
                self._add(topic, name)
            elif not Path(topic).exists():
                raise UnknownTopic(f"no topic {topic!r}{_did_you_mean(topic, topics)}")

    def _named(self, sql: str) -> set[str]:
        """Return the tables of one statement that DuckDB does not know. Raises InvalidOption."""
        try:
            statements = self._connection.extract_statements(sql)
        except self._error as error:
            why = _first_lines(str(error))
            raise InvalidOption(f'{why}; quote "my-topic" and "offset", which are words of SQL') from None
        if len(statements) != 1:
            raise InvalidOption(f"give one statement of SQL, not {len(statements)}")
        try:
            return self._connection.get_table_names(sql, qualified=True)
        except self._error as error:
            hint = "; topics cannot be written by SQL" if statements[0].type.name in _CHANGES else ""
            raise InvalidOption(_first_lines(str(error)) + hint) from None

    def _own_views(self, sql: str) -> set[str]:
        """Return the words of `sql` that are views of DuckDB: a topic of that name takes the place of one."""
        asked = "SELECT view_name FROM duckdb_views() WHERE internal AND schema_name <> 'information_schema'"
        return {name for (name,) in self._connection.execute(asked).fetchall()}.intersection(_WORD.findall(sql))

    def _add(self, topic: str, name: str) -> None:
        """Make the view of a topic. `name` is how the query writes it: `a.b` without quotes is b in the schema a."""
        ranges = [each for each in whole_topic(topic, self._brokers) if each.size]
        dataset = self._datasets[topic] = TopicDataset(
            ranges, self._options, is_binary=self._is_binary, decoders=self._decoders(topic)
        )
        raw = quoted(f"records of {topic}")
        self._connection.register(f"records of {topic}", dataset)
        shown = ", ".join(map(quoted, _SHOWN))
        structure = self._structure(topic, dataset)
        if not name.startswith('"') and "." in name:
            if name.count(".") > 1:
                raise InvalidOption(f"a name with two dots needs quotes: {quoted(topic)}")
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name.split('.')[0])}").fetchall()
        source = raw
        if structure:
            # `value ->> 'offset'` reaches fields that are left out, because a column has their name.
            shown += "".join(
                f", {checked(kind, f'fields.{quoted(name)}')} AS {quoted(name)}" for name, kind in structure.items()
            )
            text = json.dumps(as_read(structure)).replace("'", "''")
            parsed = f"CASE WHEN json_valid(value) THEN from_json(value, '{text}') END AS fields"
            source = f"(SELECT {', '.join(map(quoted, _SHOWN))}, {parsed} FROM {raw})"
        view = f"CREATE VIEW {name} AS SELECT {shown} FROM {source}"
        self._guarded(lambda: self._connection.execute(view).fetchall())

    def _decoders(self, topic: str) -> dict[str, Callable[[bytes], str]]:
        if not self._serializers:
            return {}
        from .fields import decoder_of

        return {field: decoder_of(topic, field, each) for field, each in self._serializers.items()}

    def _structure(self, topic: str, dataset: TopicDataset) -> dict[str, Any]:
        """Return the fields of values with their types: those given, the subject's, or those of the first values."""
        if self._fields is not None:
            return {name: self._type(kind) for name, kind in self._fields.items()}
        if self._is_binary:
            return {}
        if "value" in self._serializers:
            from .fields import fields_of

            registered = fields_of(topic, self._serializers["value"])
            if registered is not None:
                return columns_of(registered)
        return columns_of(self._sampled(dataset))

    def _type(self, kind: str) -> str:
        """Return DuckDB's own name of a type, such as INTEGER for int. Raises InvalidOption."""
        asked = f"SELECT typeof(CAST(NULL AS {kind}))"
        ((name,),) = self._guarded(lambda: self._connection.execute(asked).fetchall())
        return name

    def _sampled(self, dataset: TopicDataset) -> Any:
        """Return the structure that the first JSON values have together, None where they have none.

        One value of more than 128 levels makes DuckDB give up a whole database: this one is not needed again.
        """
        import duckdb

        first = f"SELECT value FROM records WHERE value IS NOT NULL LIMIT {SAMPLE_ROWS}"
        asked = f"SELECT json_group_structure(value::JSON) FROM ({first}) WHERE json_valid(value)"
        with duckdb.connect() as sampling:
            sampling.register("records", dataset)
            try:
                ((text,),) = self._guarded(lambda: sampling.execute(asked).fetchall())
            except NotText:
                # The query may not need the values.
                dataset.failure = None
                return None
            except InvalidOption as error:
                log.warning("the fields of JSON records are not columns unless --schema names them: %s", error.message)
                return None
        return json.loads(text) if text else None


def _read_options(texts: Mapping[str, str]) -> ReadOptions:
    """Return the options that texts give. Raises InvalidOption, also for a name that has no meaning here."""
    given: dict[str, Any] = {}
    security: dict[str, str] = {}
    for name, text in texts.items():
        config = name.removeprefix("kafka.")
        row = SPARK_OPTIONS["path"] if name == "path" else CONFIGS.get(config) if config != name else None
        if config in SECURITY_CONFIGS:
            security[config] = text.strip().upper() if config == "security.protocol" else text
            continue
        if row is None or not row.is_of("source"):
            raise InvalidOption(f"{name} is no option of SQL over topics")
        try:
            given[config] = read_text(row.values, text)
        except ValueError:
            raise InvalidOption(f"{name}: {text!r} is {row.values.rejection()}") from None
    path = ReadPath(given.pop("path", "fetch"))
    servers = given.pop("bootstrap.servers", "")
    options = SecurityOptions(**security_arguments(security))
    return ReadOptions(client_options(bootstrap_addresses(servers), options, given), path=path)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') and name.endswith('"') else name


def _did_you_mean(topic: str, topics: Sequence[str]) -> str:
    close = get_close_matches(topic, topics, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _first_lines(text: str) -> str:
    """Return what DuckDB says, in one line and without the picture of the place."""
    lines = [line.strip() for line in text.split("\n\n")[0].splitlines()]
    return " ".join(line for line in lines if line)
