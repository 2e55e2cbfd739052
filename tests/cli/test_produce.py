"""`odradek produce` against a broker: each line once, in order, and status 0 only when all were acknowledged."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from odradek.cli import main
from odradek.cli.record_input import LineCutter
from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.documents.command import completed

Pair = tuple[bytes | None, bytes | None]


def produce(address: str, topic: str, text: bytes, *args: str) -> subprocess.CompletedProcess[str]:
    return completed("produce", topic, "--bootstrap-server", address, *args, stdin=text)


def consumed(address: str, topic: str, count: int) -> list[Pair]:
    """The first `count` records of partition 0, as librdkafka reads them."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, timeout=15)
        assert all(message.error() is None for message in messages)
        return [(message.key(), message.value()) for message in messages]
    finally:
        consumer.close()


def test_each_line_is_a_record_in_order(broker: str) -> None:
    lines = [b"%d" % number for number in range(50_000)]
    ended = produce(broker, "lines", b"\n".join(lines) + b"\n", "--compression", "zstd")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert consumed(broker, "lines", len(lines)) == [(None, line) for line in lines]


def test_a_last_line_without_an_end_counts_and_an_empty_line_is_an_empty_value(broker: str) -> None:
    assert produce(broker, "ends", b"one\n\nlast").returncode == 0
    assert consumed(broker, "ends", 3) == [(None, b"one"), (None, b""), (None, b"last")]


def test_keys_end_at_the_first_separator(broker: str) -> None:
    assert produce(broker, "keys", b"a:1\nb:2:3\n:4\n", "--key-separator", ":", "--partition", "0").returncode == 0
    assert consumed(broker, "keys", 3) == [(b"a", b"1"), (b"b", b"2:3"), (b"", b"4")]


def test_a_line_without_the_separator_is_named(broker: str) -> None:
    ended = produce(broker, "missing", b"a:1\nb2\n", "--key-separator", ":")
    assert ended.returncode == 1
    assert ended.stderr == "odradek: line 2 has no ':': 'b2'; line 1 was sent\n"
    assert consumed(broker, "missing", 1) == [(b"a", b"1")]


def test_a_separator_knows_escapes_and_a_mark_makes_tombstones(broker: str) -> None:
    args = ("--key-separator", r"\t", "--null", "NULL")
    assert produce(broker, "tabs", b"a\tb\nc\tNULL\nNULL\td\n", *args).returncode == 0
    assert consumed(broker, "tabs", 3) == [(b"a", b"b"), (b"c", None), (None, b"d")]


def test_a_line_may_be_as_long_as_the_topic_allows_and_a_longer_one_is_named(broker: str) -> None:
    create = ["topics", "create", "long", "--config", "max.message.bytes=10000000", "--bootstrap-server", broker]
    assert CliRunner().invoke(main, create).exit_code == 0
    line = b"x" * 9_000_000
    assert produce(broker, "long", line + b"\n").returncode == 0
    ended = produce(broker, "long", b"short\n" + b"y" * 11_000_000 + b"\n")
    assert ended.returncode == 1
    assert "line 2 is too large (11,000,000 bytes)" in ended.stderr and ended.stderr.count("\n") == 1


def test_a_long_line_is_copied_once_however_many_reads_it_takes() -> None:
    lines = LineCutter()
    pieces = [b"x" * 1000 for _ in range(3000)]
    assert [lines.feed(piece) for piece in pieces] == [[]] * 3000
    assert len(lines._open) == 3000, "each piece waits as it came: joining them at each read is quadratic"
    assert lines.feed(b"y\nz\nq") == [b"".join(pieces) + b"y", b"z"]
    assert lines.end() == [b"q"]


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_ctrl_c_has_status_130_and_no_traceback(broker: str, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "odradek.broker", "produce", "prompt2", "--bootstrap-server", broker]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        try:
            assert running.stdin is not None and running.stderr is not None
            running.stdin.write(b"first\n")
            running.stdin.flush()
            assert consumed(broker, "prompt2", 1) == [(None, b"first")]
            running.send_signal(number)
            assert running.wait(15) == 130
            assert running.stderr.read() == b""
        finally:
            running.kill()


def test_no_input_is_no_record_and_no_error(broker: str) -> None:
    assert produce(broker, "empty", b"").returncode == 0


def test_a_line_is_sent_when_it_came_not_when_the_next_one_comes(broker: str) -> None:
    command = [sys.executable, "-m", "odradek.broker", "produce", "prompt", "--bootstrap-server", broker]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as running:
        try:
            assert running.stdin is not None
            running.stdin.write(b"first\n")
            running.stdin.flush()
            assert consumed(broker, "prompt", 1) == [(None, b"first")]
            running.stdin.close()
            assert running.wait(15) == 0
        finally:
            running.kill()


@pytest.mark.parametrize(
    ("args", "words"),
    [(("--partition", "9"), "partitions 0 to 0, not 9"), (("--acks", "2"), "--acks takes all, 1 or 0")],
)
def test_impossible_messages_are_rejected(broker: str, args: tuple[str, ...], words: str) -> None:
    ended = produce(broker, "refused", b"x\n", *args)
    assert ended.returncode != 0 and words in ended.stderr


def test_the_reason_for_a_rejected_record_is_said_once(broker: str) -> None:
    create = ["topics", "create", "compacted", "--config", "cleanup.policy=compact", "--bootstrap-server", broker]
    assert CliRunner().invoke(main, create).exit_code == 0
    ended = produce(broker, "compacted", b"x\n")
    assert ended.returncode == 1 and ended.stderr.count("without a key in a compacted topic") == 1, ended.stderr


def test_a_broker_that_is_not_there_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    for command in (["produce", "t"], ["consume", "t"], ["topics", "list"], ["groups", "list"]):
        result = CliRunner().invoke(main, [*command, "--bootstrap-server", address])
        assert result.exit_code == 1, result.output
        assert result.stderr.startswith("odradek: ") and result.stderr.count("\n") == 1
        assert address.split(":")[1] in result.stderr and "pass -b" in result.stderr


def records(address: str, topic: str, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer.consume(count, timeout=15)
    finally:
        consumer.close()


def test_keys_from_columns_one_key_for_all_and_tombstones(broker: str) -> None:
    args = ("--key-column", "2", "--column-separator", ",")
    assert produce(broker, "columns", b"1,ann,x\n2,bob\n", *args).returncode == 0
    assert consumed(broker, "columns", 2) == [(b"ann", b"1,ann,x"), (b"bob", b"2,bob")]
    ended = produce(broker, "columns", b"3,cat\n4\n", *args)
    assert ended.returncode == 1 and ended.stderr == "odradek: line 2 has 1 column, not 2: '4'; line 1 was sent\n"
    assert produce(broker, "fixed", b"a\nNULL\n", "--key", "k", "--null", "NULL").returncode == 0
    assert consumed(broker, "fixed", 2) == [(b"k", b"a"), (b"k", None)]
    assert produce(broker, "dead", b"ann\nbob\n", "--tombstones").returncode == 0
    assert consumed(broker, "dead", 2) == [(b"ann", None), (b"bob", None)]


def test_headers_and_a_timestamp_for_every_record_and_a_file_as_one_value(broker: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"one\ntwo\n")
    args = ("-H", "a=1", "-H", "b=", "--timestamp", "2026-11-21T08:00:00Z", "--acks", "1")
    assert produce(broker, "files", b"", "--file", str(file), "--key", "name", *args).returncode == 0
    assert produce(broker, "files", b"line\n", *args).returncode == 0
    first, second = records(broker, "files", 2)
    assert (first.key(), first.value(), second.value()) == (b"name", b"one\ntwo\n", b"line")
    for each in (first, second):
        assert each.headers() == [("a", b"1"), ("b", b"")] and each.timestamp()[1] == 1_795_248_000_000


def test_a_line_that_is_no_record_is_named_and_those_before_it_are_sent(broker: str) -> None:
    lines = b'{"value": "1", "partition": 0}\n{"value": 2}\n{"value": "3"}\n'
    ended = produce(broker, "badjson", lines, "--json", "--keep-partitions")
    assert ended.returncode == 1
    assert ended.stderr.startswith("odradek: line 2 has a value that is neither text nor null nor")
    assert ended.stderr.endswith("; line 1 was sent\n") and consumed(broker, "badjson", 1) == [(None, b"1")]


def test_what_consume_printed_as_json_is_produced_as_it_was(broker: str) -> None:
    text = (
        b'{"key": null, "value": {"base64": "/w=="}, "headers": [["h", null], ["h", "x"]], "timestamp": 5}\n'
        b'{"key": "k", "value": null, "timestamp": "2026-11-21T08:00:00.123+00:00", "offset": 7}\n'
    )
    assert produce(broker, "json1", text, "--json").returncode == 0
    args = ["consume", "json1", "--until-end", "--json", "--bootstrap-server", broker]
    out = subprocess.run([sys.executable, "-m", "odradek.broker", *args], capture_output=True, timeout=30, check=True)
    assert produce(broker, "json2", out.stdout, "--json", "--compression", "lz4").returncode == 0
    for topic in ("json1", "json2"):
        first, second = records(broker, topic, 2)
        assert (first.key(), first.value(), first.headers()) == (None, b"\xff", [("h", None), ("h", b"x")])
        assert (first.timestamp()[1], second.timestamp()[1]) == (5, 1_795_248_000_123)
        assert (second.key(), second.value(), second.headers()) == (b"k", None, None)


@pytest.mark.parametrize(
    "args",
    [("--key", "k", "--json"), ("--json", "--tombstones"), ("--keep-partitions",), ("--timestamp", "no"), ("-H", "x")],
)
def test_options_that_contradict_are_wrong_usage(args: tuple[str, ...]) -> None:
    assert CliRunner().invoke(main, ["produce", "refused", *args]).exit_code == 2
