"""The table of what a reader of Kafka topics in Spark does: the same for `format("kafka")` and `format("odradek")`.

    python -m odradek.tests.support.spark.spark_cases FORMAT ADDRESS FIRST_MS FOLDER [SPARK.NAME=VALUE...]

runs it in the PySpark of that Python, and prints a line of JSON for each case: its name, and null or what was wrong.
tests/client/spark runs it for our source; tests/conformance runs it for Spark's own connector.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from odradek.tests.support.spark.spark_topics import PARTITIONS, PER_PARTITION, STEP_MS, Topics, session

# Partition and offset.
Place = tuple[int, int]
LATER_MS = 10_000_000


@dataclass(frozen=True)
class Reader:
    """A session, a format and the topics, as a case needs them."""

    spark: Any
    format: str
    topics: Topics
    folder: Path
    progress: dict[str, Any] = field(default_factory=dict[str, Any])

    def load(self, options: dict[str, str], schema: str | None = None) -> Any:
        named = {"subscribe", "subscribePattern", "assign"} & options.keys()
        given = options if named else {"subscribe": "things"} | options
        reader = self.spark.read.format(self.format).option("kafka.bootstrap.servers", self.topics.address)
        return (reader if schema is None else reader.schema(schema)).options(**given).load()

    def stream(self, options: dict[str, str], once: bool = False) -> list[Place]:
        """Read what there is now with the checkpoint in `folder`. Returns the places of the rows, in order.

        `progress` gets the offsets that Spark reports of the last batch.
        """
        reader = self.spark.readStream.format(self.format).option("kafka.bootstrap.servers", self.topics.address)
        found: list[Place] = []

        def take(batch: Any, number: int) -> None:
            found.extend((row["partition"], row["offset"]) for row in batch.select("partition", "offset").collect())

        writer = reader.options(**options).load().writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(self.folder))
        query = writer.trigger(**({"once": True} if once else {"availableNow": True})).start()
        query.awaitTermination()
        (source,) = query.recentProgress[-1]["sources"]
        self.progress.update({name: json.loads(source[name]) for name in ("startOffset", "endOffset", "latestOffset")})
        return sorted(found)

    def offsets(self) -> dict[str, dict[str, int]]:
        """The offsets of the last batch in the checkpoint."""
        last = max((self.folder / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        return json.loads(last.read_text().splitlines()[-1])


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """The rows in an order of their own, headers as pairs. Spark gives timestamps without a zone, in the machine's."""
    found = [row.asDict() for row in frame.collect()]
    for row in found:
        if isinstance(row.get("timestamp"), datetime):
            row["timestamp"] = row["timestamp"].astimezone(UTC)
        if row.get("headers") is not None:
            row["headers"] = [(each["key"], each["value"] and bytes(each["value"])) for each in row["headers"]]
        for name in ("key", "value"):
            if isinstance(row.get(name), bytearray):
                row[name] = bytes(row[name])
    return sorted(found, key=lambda row: (row.get("topic", ""), row.get("partition", 0), row.get("offset", 0)))


@dataclass(frozen=True)
class Case:
    """One read, and what must come of it."""

    name: str
    check: Callable[[Reader], None]


Options = dict[str, str] | Callable[[Topics], dict[str, str]]


def _given(options: Options, topics: Topics) -> dict[str, str]:
    return options(topics) if callable(options) else options


def _reads(name: str, options: Options, expected: Callable[[Topics], list[dict[str, Any]]]) -> Case:
    def check(reader: Reader) -> None:
        assert rows_of(reader.load(_given(options, reader.topics))) == expected(reader.topics)

    return Case(name, check)


def _places(name: str, options: Options, expected: Sequence[Place], least_tasks: int = 0) -> Case:
    def check(reader: Reader) -> None:
        frame = reader.load(_given(options, reader.topics))
        found = sorted((row[0], row[1]) for row in frame.select("partition", "offset").collect())
        assert found == list(expected), found
        assert frame.rdd.getNumPartitions() >= least_tasks

    return Case(name, check)


def _topics(name: str, options: Options, expected: set[str]) -> Case:
    def check(reader: Reader) -> None:
        found = {row["topic"] for row in reader.load(_given(options, reader.topics)).select("topic").collect()}
        assert found == expected, found

    return Case(name, check)


def _fails(name: str, options: Options, said: str) -> Case:
    """The read fails, at `load` or later, with a text that `said` matches."""

    def check(reader: Reader) -> None:
        try:
            reader.load(_given(options, reader.topics)).collect()
        except Exception as error:  # noqa: BLE001 - any of Spark's classes; the text says what it is
            assert re.search(said, str(error), re.IGNORECASE), f"it says {str(error)[:500]}"
        else:
            raise AssertionError("it does not fail")

    return Case(name, check)


def _offsets(least: int, end: int, partitions: Sequence[int] = range(PARTITIONS)) -> list[Place]:
    return [(partition, offset) for partition in partitions for offset in range(least, end)]


ALL = _offsets(0, PER_PARTITION)
STARTING = json.dumps({"things": {"0": 5, "1": -2, "2": 39}})
ENDING = json.dumps({"things": {"0": 12, "1": 3, "2": -1}})


def _times(offset: int) -> Callable[[Topics], str]:
    return lambda topics: json.dumps(
        {"things": {str(number): topics.first_ms + STEP_MS * number + offset for number in range(PARTITIONS)}}
    )


# -- Streams


def _restarts(reader: Reader) -> None:
    topic = f"stream-{reader.format}"
    reader.topics.create(topic, 2)
    reader.topics.write(topic, 0, 5)
    reader.topics.write(topic, 1, 3)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert reader.stream(options | {"maxOffsetsPerTrigger": "4"}) == [*_offsets(0, 5, [0]), *_offsets(0, 3, [1])]
    assert reader.offsets() == {topic: {"0": 5, "1": 3}}
    assert reader.progress["endOffset"] == reader.progress["latestOffset"] == {topic: {"0": 5, "1": 3}}
    # It took more than one batch; how the connector shares out 4 offsets is its own affair.
    assert 0 < sum(reader.progress["startOffset"][topic].values()) < 8
    reader.topics.write(topic, 1, 2)
    assert reader.stream(options, once=True) == [(1, 3), (1, 4)]
    assert reader.offsets() == {topic: {"0": 5, "1": 5}}


def _fails_as_stream(name: str, options: dict[str, str], said: str) -> Case:
    """The stream fails, at `load` or later, with a text that `said` matches."""

    def check(reader: Reader) -> None:
        try:
            reader.stream({"subscribe": "things"} | options)
        except Exception as error:  # noqa: BLE001 - any of Spark's classes; the text says what it is
            assert re.search(said, str(error)), f"it says {str(error)[:500]}"
        else:
            raise AssertionError("it does not fail")

    return Case(name, check)


CASES = (
    _reads("all rows", {}, lambda topics: topics.everything()),
    _reads("all rows with headers", {"includeHeaders": "true"}, lambda topics: topics.everything(include_headers=True)),
    _places(
        "offsets by JSON", {"startingOffsets": STARTING, "endingOffsets": ENDING},
        [*_offsets(5, 12, [0]), *_offsets(0, 3, [1]), (2, 39)],
    ),
    _topics("several topics", {"subscribe": "things, other"}, {"things", "other"}),
    _topics("a pattern matches the whole name", {"subscribePattern": "o.*"}, {"other"}),
    _topics("a pattern that no topic has", {"subscribePattern": "nothing-.*"}, set()),
    _topics("partitions by JSON", {"assign": '{"things": [1], "other": [0], "empty": [0]}'}, {"things", "other"}),
    _topics("an empty topic", {"subscribe": "empty"}, set()),
    _places("many tasks", {"minPartitions": "8"}, ALL, least_tasks=8),
    _places(
        "a starting time for all", lambda topics: {"startingTimestamp": str(topics.first_ms + 20)},
        [*_offsets(20, PER_PARTITION, [0]), *_offsets(0, PER_PARTITION, [1, 2])],
    ),
    _places(
        "starting times by partition", lambda topics: {"startingOffsetsByTimestamp": _times(30)(topics)},
        _offsets(30, PER_PARTITION),
    ),
    _places(
        "ending times by partition", lambda topics: {"endingOffsetsByTimestamp": _times(10)(topics)}, _offsets(0, 10)
    ),
    _places(
        "a time takes precedence over offsets",
        lambda topics: {"startingTimestamp": str(topics.first_ms + 20), "startingOffsets": STARTING},
        [*_offsets(20, PER_PARTITION, [0]), *_offsets(0, PER_PARTITION, [1, 2])],
    ),
    _fails(
        "a time after the last record", lambda topics: {"startingTimestamp": str(topics.first_ms + LATER_MS)},
        "no (offset matched|record of things-0 has a timestamp)",
    ),
    _places(
        "a time after the last record, with the strategy latest",
        lambda topics: {
            "startingTimestamp": str(topics.first_ms + LATER_MS), "startingOffsetsByTimestampStrategy": "latest",
        },
        [],
    ),
    _places("settings of clients", {"kafka.session.timeout.ms": "10000", "kafka.max.poll.records": "100"}, ALL),
    _fails("starting at the latest", {"startingOffsets": "latest"}, "starting offset can't be latest for batch"),
    _fails("ending at the earliest", {"endingOffsets": "earliest"}, "ending offset can't be earliest"),
    _fails(
        "no such topic", {"subscribe": "no-such-topic", "kafka.request.timeout.ms": "4000"},
        "does not exist|UnknownTopic|not (present|exist)",
    ),
    _fails(
        "offsets for some partitions", {"startingOffsets": '{"things": {"0": 1}}'},
        "missing: things-1|match what are assigned",
    ),
    _fails("two ways to name topics", {"subscribe": "things", "assign": '{"things": [0]}'}, "only one of"),
    _fails("a rejected setting", {"kafka.auto.offset.reset": "earliest"}, "auto.offset.reset.*is not supported"),
    Case("a stream over restarts", _restarts),
    _fails_as_stream(
        "a stream with ending offsets", {"endingOffsets": "latest"}, "ending offset not valid in streaming queries"
    ),
    _fails_as_stream(
        "a stream that waits for more offsets than a batch may have",
        {"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"},
        r"11.* (is higher than|is more than) .*10",
    ),
)  # fmt: skip


@dataclass
class Main:
    """The run of a table in another PySpark, which prints a line of JSON for each case."""

    reader: Reader

    def run(self, cases: Sequence[Case] = CASES) -> None:
        for number, case in enumerate(cases):
            folder = self.reader.folder / str(number)
            try:
                case.check(Reader(self.reader.spark, self.reader.format, self.reader.topics, folder))
                said = None
            except Exception:  # noqa: BLE001 - reported, case by case
                said = traceback.format_exc()[-2000:]
            print(json.dumps({"case": case.name, "wrong": said}), flush=True)


def main(arguments: list[str]) -> None:
    name, address, first_ms, folder, *settings = arguments
    spark = session(folder, **dict(each.split("=", 1) for each in settings))
    try:
        Main(Reader(spark, name, Topics(address, int(first_ms)), Path(folder))).run()
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
