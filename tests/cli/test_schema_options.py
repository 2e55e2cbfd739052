"""`odradek produce` and `odradek consume` with values of a schema registry."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.testing import LocalKafka, LocalSchemaRegistry
from odradek.tests.support.documents.command import completed, run

FLIGHT = json.dumps(
    {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "number", "type": "int"},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        ],
    }
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka() as kafka:
        yield kafka


@pytest.fixture(scope="module")
def registry(kafka: LocalKafka) -> Iterator[LocalSchemaRegistry]:
    with LocalSchemaRegistry(kafka) as registry:
        yield registry


def odradek(
    kafka: LocalKafka, command: str, topic: str, *options: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[str]:
    return completed(command, topic, "-b", kafka.address, *options, stdin=stdin)


def test_avro_is_json_on_the_command_line(kafka: LocalKafka, registry: LocalSchemaRegistry, tmp_path: Path) -> None:
    schema = tmp_path / "flight.avsc"
    schema.write_text(FLIGHT)
    avro = ("--value-format", "avro", "--registry", registry.url)
    lines = b'{"number":1}\n{"number":2,"at":"2026-11-24T10:00:00+00:00"}\n'
    assert odradek(kafka, "produce", "avro", *avro, "--value-schema", str(schema), stdin=lines).returncode == 0
    assert odradek(kafka, "produce", "avro", *avro, stdin=b'{"number":3}\n').returncode == 0
    shown = odradek(kafka, "consume", "avro", "--until-end", *avro).stdout
    assert [json.loads(line) for line in shown.splitlines()] == [
        {"number": 1, "at": None},
        {"number": 2, "at": "2026-11-24T10:00:00+00:00"},
        {"number": 3, "at": None},
    ]
    as_json = odradek(kafka, "consume", "avro", "--until-end", "--json", *avro).stdout
    assert json.loads(as_json.splitlines()[1])["value"]["number"] == 2
    copied = odradek(kafka, "produce", "copy", "--json", *avro, "--value-schema", str(schema), stdin=as_json.encode())
    assert copied.returncode == 0, copied.stderr
    assert odradek(kafka, "consume", "copy", "--until-end", *avro).stdout == shown


def test_keys_and_json_schema(kafka: LocalKafka, registry: LocalSchemaRegistry) -> None:
    registry.register("json-key", '{"type":"string"}', "JSON")
    registry.register("json-value", '{"type":"object","required":["a"]}', "JSON")
    options = ("--key-format", "json-schema", "--value-format", "json-schema", "--registry", registry.url)
    sent = odradek(kafka, "produce", "json", "-K", "\t", *options, stdin=b'"k"\t{"a":1}\n')
    assert sent.returncode == 0, sent.stderr
    assert odradek(kafka, "consume", "json", "--until-end", "-K", "\t", *options).stdout == '"k"\t{"a": 1}\n'


def test_a_line_that_the_schema_does_not_allow_is_named(kafka: LocalKafka, registry: LocalSchemaRegistry) -> None:
    registry.register("bad-value", FLIGHT)
    avro = ("--value-format", "avro", "--registry", registry.url)
    sent = odradek(kafka, "produce", "bad", *avro, stdin=b'{"number":1}\n{"number":"x"}\n{"number":3}\n')
    assert sent.returncode == 1
    assert "line 2 has a value that its schema does not allow: value.number is of type int, not 'x'" in sent.stderr
    assert len(kafka.records("bad")) == 1
    kafka.put("bad", ["no Avro"])
    read = odradek(kafka, "consume", "bad", "--until-end", *avro)
    assert read.returncode == 1
    assert "bad-0 at offset 1: the value cannot be deserialized" in read.stderr
    assert read.stdout == '{"number": 1, "at": null}\n'


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--value-format", "avro"), "need --registry"),
        (("--registry", "http://127.0.0.1:1"), "is for --key-format"),
        (("--value-schema", "x"), "--value-schema needs --value-format"),
        (("--value-format", "avro", "--registry", "127.0.0.1"), "a registry is http://HOST:PORT"),
        (("--value-format", "avro", "--registry", "http://x", "--value-schema", "missing"), "missing: No such file"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: tuple[str, ...], why: str) -> None:
    refused = completed("produce", "t", *options)
    assert refused.returncode in (1, 2) and why in refused.stderr


def test_sql_has_the_columns_of_the_subject(kafka: LocalKafka, registry: LocalSchemaRegistry) -> None:
    pytest.importorskip("duckdb", reason="pip install 'odradek[sql]'")
    registry.register("sql-value", FLIGHT)
    avro = ("--value-format", "avro", "--registry", registry.url)
    lines = b'{"number":1}\n{"number":2,"at":"2026-11-24T10:00:00+00:00"}\n'
    assert odradek(kafka, "produce", "sql", *avro, stdin=lines).returncode == 0
    kafka.put("sql", [b"bad", None])
    query = 'select number, "at", _corrupt_record from sql order by "offset"'
    asked = completed("sql", query, "-b", kafka.address, "--json", *avro)
    assert [json.loads(line) for line in asked.stdout.splitlines()] == [
        {"number": 1, "at": None, "_corrupt_record": None},
        {"number": 2, "at": "2026-11-24T10:00:00+00:00", "_corrupt_record": None},
        {"number": None, "at": None, "_corrupt_record": "YmFk"},
        {"number": None, "at": None, "_corrupt_record": None},
    ], asked.stderr
    wider = json.loads(FLIGHT)
    wider["fields"].append({"name": "carrier", "type": "string", "default": "?"})
    registry.register("sql-value", json.dumps(wider))
    asked = completed("sql", "select carrier, typeof(number) from sql limit 1", "-b", kafka.address, *avro)
    assert asked.stdout == "?\tINTEGER\n"
    registry.register("json2-value", '{"type":"object"}', "JSON")
    form = ("--value-format", "json-schema", "--registry", registry.url)
    assert odradek(kafka, "produce", "json2", *form, stdin=b'{"a":5}\n').returncode == 0
    assert completed("sql", "select a from json2", "-b", kafka.address, *form).stdout == "5\n"


def test_sql_has_the_columns_of_a_json_schema(kafka: LocalKafka, registry: LocalSchemaRegistry) -> None:
    """Also those that no record has, with the schema's types, whatever the first records look like."""
    pytest.importorskip("duckdb", reason="pip install 'odradek[sql]'")
    properties: dict[str, Any] = {"number": {"type": "integer"}, "share": {"type": "number"}, "any": {}}
    registry.register("json3-value", json.dumps({"type": "object", "properties": properties}), "JSON")
    form = ("--value-format", "json-schema", "--registry", registry.url)
    assert odradek(kafka, "produce", "json3", *form, stdin=b'{"share":1,"more":1}\n{"any":{"a":1}}\n').returncode == 0
    kafka.put("json3", ['{"number":1}'])
    query = 'select number, share, "any", typeof(number), typeof(share), _corrupt_record from json3 order by "offset"'
    asked = completed("sql", query, "-b", kafka.address, "--json", *form)
    bad = base64.b64encode(b'{"number":1}').decode()
    assert [list(json.loads(line).values()) for line in asked.stdout.splitlines()] == [
        [None, 1.0, None, "BIGINT", "DOUBLE", None],
        [None, None, '{"a":1}', "BIGINT", "DOUBLE", None],
        [None, None, None, "BIGINT", "DOUBLE", bad],
    ], asked.stderr


@pytest.mark.parametrize(
    "command", [("consume", "t", "--value-format", "avro"), ("sql", "from t", "--key-format", "avro"), ("console",)]
)
def test_a_registry_without_a_scheme_is_wrong_usage(command: tuple[str, ...], tmp_path: Path) -> None:
    given = ("--registry", "127.0.0.1:1")
    ended = run(*command, *given)
    assert ended.exit_code == 2
    assert ended.stderr.endswith("Error: --registry: a registry is http://HOST:PORT or https://HOST:PORT\n")
    login = tmp_path / "login"
    login.write_text("alice")
    ended = run(*command, "--registry", "http://127.0.0.1:1", "--registry-login-file", str(login))
    assert ended.exit_code == 1
    assert ended.stderr == f"odradek: --registry-login-file {login}: one line NAME:PASSWORD is expected\n"


def test_times_beyond_the_year_9999_are_numbers_there_and_back(
    kafka: LocalKafka, registry: LocalSchemaRegistry
) -> None:
    registry.register("far-value", FLIGHT)
    avro = ("--value-format", "avro", "--registry", registry.url)
    line = '{"number": 1, "at": 300000000000000}\n'
    assert odradek(kafka, "produce", "far", *avro, stdin=line.encode()).returncode == 0
    shown = odradek(kafka, "consume", "far", "--until-end", *avro)
    assert (shown.returncode, shown.stdout) == (0, line), shown.stderr
