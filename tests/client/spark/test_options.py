"""What users write as options: taken by the connector's names, refused by name where it cannot be honoured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from odradek.client.core.leaders import READ_UNCOMMITTED
from odradek.client.core.option_table import CONFIGS
from odradek.client.core.option_values import Number
from odradek.client.errors import InvalidOption
from odradek.client.record import EARLIEST, LATEST, TopicPartition
from odradek.client.spark.columns import OptionError
from odradek.client.spark.option_texts import NAMES, REJECTED
from odradek.client.spark.options import SourceOptions, parse_options, parse_sink_options

BOOTSTRAP = {"kafka.bootstrap.servers": "localhost:9092"}
MINIMAL = BOOTSTRAP | {"subscribe": "t"}


def parse(**texts: str) -> SourceOptions:
    """Dots in names are written as two underscores."""
    return parse_options(MINIMAL | {name.replace("__", "."): text for name, text in texts.items()})


def rejection(texts: dict[str, str]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        parse_options(texts)
    assert isinstance(caught.value, InvalidOption), "the client's own kind of error"
    return caught.value


def test_defaults_are_those_of_the_connector() -> None:
    options = parse()
    assert options.starting.everywhere == EARLIEST
    assert options.ending.everywhere == LATEST
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.client.bootstrap == (("localhost", 9092),)
    assert options.client.isolation_level == READ_UNCOMMITTED
    assert options.client.check_crcs


def test_names_are_taken_in_any_case() -> None:
    options = parse_options({"KAFKA.bootstrap.SERVERS": "a:1", "Subscribe": "t", "INCLUDEHEADERS": "TRUE"})
    assert options.include_headers
    assert options.client.bootstrap == (("a", 1),)


def test_topics_are_split_and_each_is_read_once() -> None:
    assert parse(subscribe=" b , a,,b ").subscription.topics == ("a", "b")


def test_a_pattern_is_a_regular_expression() -> None:
    texts = BOOTSTRAP | {"subscribePattern": "events-.*"}
    pattern = parse_options(texts).subscription.pattern
    assert pattern is not None and pattern.search("my-events-1")
    assert "regular expression" in str(rejection(BOOTSTRAP | {"subscribePattern": "("}))


def test_assign_names_partitions() -> None:
    options = parse_options(BOOTSTRAP | {"assign": '{"b": [1, 0], "a": [2, 2]}'})
    assert options.subscription.partitions == (("a", 2), ("b", 0), ("b", 1))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"a": 1}', '{"a": ["x"]}', '{"a": [-1]}', '{"a": [true]}', "a"])
def test_an_assign_that_names_no_partitions_is_refused(text: str) -> None:
    assert rejection(BOOTSTRAP | {"assign": text}).option == "assign"


def test_offsets_are_given_as_json_with_sentinels() -> None:
    limit = parse(startingOffsets='{"t": {"0": 23, "1": -2}}').starting
    assert [limit.of(TopicPartition("t", number)) for number in (0, 1)] == [23, EARLIEST]
    assert parse(endingOffsets='{"t": {"0": -1}}').ending.of(TopicPartition("t", 0)) == LATEST


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "{",
        "3",
        "9" * 5000,
        "[" * 100_000,
        '{"t": 3}',
        '{"t": {"x": 3}}',
        '{"t": {"0_1": 3}}',
        '{"t": {" 1": 3}}',
        '{"t": {"9999999999": 3}}',
        '{"t": {"0": "3"}}',
        '{"t": {"0": -3}}',
        '{"t": {"-1": 3}}',
    ],
    ids=lambda text: text[:20],
)
@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_offsets_that_are_none_are_refused(option: str, text: str) -> None:
    assert rejection(MINIMAL | {option: text}).option == option


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "t-0 can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "t-0 can't be earliest for batch queries on Kafka"),
        ({"subscribePattern": "t.*"}, "only one of the options"),
        ({"assign": '{"a": [0]}'}, "only one of the options"),
        ({"failOnDataLoss": "maybe"}, "'maybe' is neither true nor false"),
        ({"minPartitions": "0"}, "'0' is not a whole number from 1"),
        ({"maxRecordsPerPartition": "x"}, "'x' is not a whole number from 1"),
        ({"kafka.isolation.level": "serializable"}, "neither read_uncommitted nor read_committed"),
        ({"kafka.security.protocol": "SASL_SSL"}, "sasl_mechanism must be one of"),
        ({"kafka.bootstrap.servers": "a:b"}, "'a:b' is not HOST:PORT"),
        ({"kafka.bootstrap.servers": ""}, "names no server"),
        ({"subscribe": " , "}, "names no topic"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(texts: dict[str, str], said: str) -> None:
    assert said in str(rejection(MINIMAL | texts))


def test_a_stream_cannot_wait_for_more_offsets_than_a_batch_may_have() -> None:
    limits = {"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"}
    with pytest.raises(OptionError, match="11 is more than the 10 of maxOffsetsPerTrigger"):
        parse_options(MINIMAL | limits, streaming=True)
    # They mean nothing to a batch read.
    assert len(parse_options(MINIMAL | limits).warnings) == 2


def test_servers_and_a_choice_of_topics_are_needed() -> None:
    assert rejection({"subscribe": "t"}).option == "kafka.bootstrap.servers"
    assert "one of the options 'subscribe', 'subscribePattern', 'assign' must be specified" in str(rejection(BOOTSTRAP))


@pytest.mark.parametrize("name", [f"kafka.{each}" for each in REJECTED])
def test_known_options_that_are_not_supported_are_refused_by_name(name: str) -> None:
    error = rejection(MINIMAL | {name.lower(): "1"})
    assert error.option == name
    assert REJECTED[name.removeprefix("kafka.")] in str(error)


def test_a_mistyped_option_is_warned_of_with_a_guess_and_refused_where_that_is_wanted() -> None:
    strict = MINIMAL | {"strictOptions": "true"}
    for name, guess in (("startingOfsets", "startingOffsets"), ("kafka.fetch.min.byte", "kafka.fetch.min.bytes")):
        (said,) = parse_options(MINIMAL | {name: "1"}).warnings
        assert f"unknown and has no effect; did you mean '{guess}'?" in said
        assert f"did you mean '{guess}'?" in str(rejection(strict | {name: "1"}))
    assert "docs/spark.md lists" in parse_options(MINIMAL | {"zzz": "1"}).warnings[0]


@pytest.mark.parametrize(
    "name",
    ["session.timeout.ms", "metadata.max.age.ms", "client.dns.lookup", "max.poll.records", "ssl.protocol", "acks"],
)
def test_settings_of_kafkas_clients_are_taken_with_the_reason_where_they_change_nothing(name: str) -> None:
    (said,) = parse_options(MINIMAL | {"strictOptions": "true", f"kafka.{name}": "1"}).warnings
    assert said.startswith(f"option 'kafka.{name}' has no effect: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("max.poll.records", "many"), ("max.poll.records", "0"), ("max.poll.records", "1.5"),
        ("session.timeout.ms", "10s"), ("allow.auto.create.topics", "maybe"), ("retries", "-"),
    ],
)  # fmt: skip
def test_a_setting_without_effect_is_rejected_where_kafkas_clients_reject_its_value(name: str, text: str) -> None:
    for parse, topic in ((parse_options, "subscribe"), (parse_sink_options, "topic")):
        if parse is parse_sink_options and name == "retries":
            continue  # the sink acts on it
        with pytest.raises(OptionError, match=f"kafka.{name}.*'{text}'"):
            parse(BOOTSTRAP | {topic: "t", f"kafka.{name}": text})


def test_every_setting_of_kafkas_own_clients_is_known() -> None:
    path = Path(__file__).parents[2] / "golden" / "kafka-4.4.0" / "client-configs.txt"
    names = path.read_text(encoding="utf-8").split()
    assert len(names) > 100
    for kind, parse, topic in (("source", parse_options, "subscribe"), ("sink", parse_sink_options, "topic")):
        for name in names:
            try:
                parse(BOOTSTRAP | {topic: "t", "strictOptions": "true", f"kafka.{name}": "1"})
            except OptionError as error:
                assert f"is not an option of this {kind}" not in error.message, name


def test_options_of_the_other_kind_of_read_are_taken_as_the_connector_takes_them() -> None:
    assert "belongs to streaming reads" in parse_options(MINIMAL | {"maxOffsetsPerTrigger": "1"}).warnings[0]
    with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
        parse_options(MINIMAL | {"endingOffsets": "latest"}, streaming=True)
    assert parse_options(MINIMAL, streaming=True).starting.everywhere == LATEST


def test_a_time_for_all_partitions_is_stronger_than_times_by_partition_and_these_than_offsets() -> None:
    by_partition = {"startingOffsetsByTimestamp": '{"t": {"0": 5}}', "startingOffsets": "earliest"}
    options = parse_options(MINIMAL | by_partition)
    assert (options.starting.is_time, options.starting.specific) == (True, {TopicPartition("t", 0): 5})
    assert parse_options(MINIMAL | by_partition | {"startingTimestamp": "7"}).starting.everywhere == 7
    assert parse_options(MINIMAL | {"endingTimestamp": "7"}).ending.without_record == LATEST


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1970-01-01", 0),
        ("1700000000000", 1700000000000),
        ("2023-11-14T22:13:20Z", 1700000000000),
        ("2023-11-14 22:13:20", 1700000000000),
    ],
)
def test_times_of_a_slice_are_milliseconds_or_iso(text: str, milliseconds: int) -> None:
    assert parse(minTimestamp=text).slice.min_timestamp_ms == milliseconds


@pytest.mark.parametrize(
    "text", ["tomorrow", "-1", "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+01:00", str(2**63), "9" * 5000]
)
def test_a_time_that_no_record_has_is_rejected(text: str) -> None:
    # -1 and -2 would be the ends of the log.
    assert rejection(MINIMAL | {"maxTimestamp": text}).option == "maxTimestamp"


NUMBERS = [name for name, row in CONFIGS.items() if row.is_of("source") and isinstance(row.values, Number)]


@pytest.mark.parametrize("name", NUMBERS)
def test_kafka_settings_are_honoured_within_their_range(name: str) -> None:
    values = CONFIGS[name].values
    assert isinstance(values, Number)
    assert parse_options(MINIMAL).client.numbers[name] == CONFIGS[name].default_of("source")
    for number in (values.lowest, values.highest):
        assert parse_options(MINIMAL | {f"kafka.{name}": str(number)}).client.numbers[name] == number
    for number in (values.lowest - 1, values.highest + 1, 1.5):
        assert rejection(MINIMAL | {f"kafka.{name}": str(number)}).option == f"kafka.{name}"


# -- What the page says


PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


def listed(part: str) -> set[str]:
    """The names in the first cells of the tables of a part of the page."""
    cells = [line.split("|")[1] for line in part.splitlines() if line.startswith("|")]
    return {name for cell in cells for name in re.findall(r"`([\w.]+)[^`]*`", cell)}


def test_the_page_lists_every_option_that_acts() -> None:
    reads, writes = PAGE.split("\n## Writes\n")
    security = ("kafka.security.", "kafka.ssl.", "kafka.sasl.")
    for part, takers in ((reads, ("source", "batch", "stream")), (writes, ("sink", "tables"))):
        acting = {name for name, row in NAMES.items() if row.is_of(*takers) and not name.startswith(security)}
        assert acting <= listed(part)
    assert "kafka.security.protocol" in PAGE
