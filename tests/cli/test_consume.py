"""`odradek consume` as scripts use it: which records it prints, in which form, and when it ends."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import termios
from array import array
from typing import Any

import pytest
from confluent_kafka import Producer
from odradek.client.blocking import Admin
from odradek.testing import kafka
from odradek.tests.support.brokers.lines import first_line
from odradek.tests.support.documents.command import command_line, odradek, printed, rejected


def test_prints_committed_records_only_unless_told_otherwise(broker: str) -> None:
    odradek(broker, "topics", "create", "sums")
    for number, end in enumerate(("commit", "abort", "open")):
        producer = Producer({"bootstrap.servers": broker, "transactional.id": f"t{number}"})
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("sums", end.encode())
        assert producer.flush(10) == 0
        if end == "commit":
            producer.commit_transaction(10)
        elif end == "abort":
            producer.abort_transaction(10)
    assert printed(broker, "consume", "sums", "--until-end") == ["commit"]
    uncommitted = printed(broker, "consume", "sums", "--until-end", "--isolation", "read_uncommitted")
    assert uncommitted == ["commit", "abort", "open"]
    producer.abort_transaction(10)
    assert printed(broker, "consume", "sums", "--until-end") == ["commit"]
    assert printed(broker, "consume", "sums", "--tail", "1", "--until-end") == []


def test_an_offset_beyond_the_end_is_an_error_unless_it_may_wait(broker: str, numbers: str) -> None:
    assert "offset 99999 does not exist yet: numbers-0 ends at 100" in rejected(
        broker, "consume", numbers, "--from", "99999"
    )
    odradek(broker, "topics", "create", "later")
    args = ("consume", "later", "--offset", "2", "--wait", "--max", "1")
    with subprocess.Popen(command_line(broker, *args), stdout=subprocess.PIPE) as running:
        try:
            producer = Producer({"bootstrap.servers": broker})
            for value in (b"0", b"1", b"2"):
                producer.produce("later", value)
            assert producer.flush(10) == 0
            assert running.communicate(timeout=20)[0] == b"2\n"
        finally:
            running.kill()


@pytest.mark.parametrize(
    ("offset", "wanted"),
    [
        ("97", ["97", "98", "99"]),
        ("-2", ["98", "99"]),
        ("3-5", ["3", "4", "5"]),
        ("end", []),
        ("@1767225698000", ["98", "99"]),
        ("@2026-01-01T00:01:38.001+00:00", ["99"]),
        ("@2027-01-01T00:00:00Z", []),
    ],
)
def test_offsets(broker: str, numbers: str, offset: str, wanted: list[str]) -> None:
    assert printed(broker, "consume", numbers, "-p", "1", "--offset", offset, "--until-end") == wanted


def test_a_range_ends_by_itself(broker: str, numbers: str) -> None:
    assert printed(broker, "consume", numbers, "-p", "0", "-o", "98-99") == ["98", "99"]


def test_a_format_of_ones_own(broker: str, numbers: str) -> None:
    layout = r"%t %p %o %T %k{hex} %v{json} %v{base64} %h\t100%%\x21\n"
    (line,) = printed(broker, "consume", numbers, "-p", "1", "-o", "7-7", "--format", layout)
    assert line == 'numbers 1 7 1767225607000 6b "7" Nw== h=x\t100%!'
    for wrong in ("%z", "%", "%k%"):
        assert odradek(broker, "consume", numbers, "--format", wrong).returncode == 2
    assert odradek(broker, "consume", numbers, "--group", "").returncode == 2
    assert odradek(broker, "consume", numbers, "--format", "%p{hex}").returncode == 2


def test_a_key_separator_knows_escapes_and_null_has_a_mark(broker: str, numbers: str) -> None:
    assert printed(broker, "consume", numbers, "-n", "1", "--key-separator", r"\t") == ["k\t0"]
    producer = Producer({"bootstrap.servers": broker})
    producer.produce("tombs", None, b"gone")
    producer.flush(10)
    assert printed(broker, "consume", "tombs", "-n", "1", "--key-separator", "=", "--null", "NULL") == ["gone=NULL"]


def test_several_topics_and_expressions(broker: str, numbers: str) -> None:
    producer = Producer({"bootstrap.servers": broker})
    for topic in ("many-a", "many-b"):
        producer.produce(topic, topic.encode())
    assert producer.flush(10) == 0
    assert sorted(printed(broker, "consume", "many-a", "many-b", "--until-end")) == ["many-a", "many-b"]
    assert sorted(printed(broker, "consume", "many-.", "--regex", "--until-end")) == ["many-a", "many-b"]
    assert "no topic matches" in rejected(broker, "consume", "many", "--regex", "--until-end")


@pytest.fixture(scope="module")
def idle(broker: str) -> str:
    """A topic of one partition with 5,000 records, 1 KB each, and nobody who writes more."""
    odradek(broker, "topics", "create", "idle")
    producer = Producer({"bootstrap.servers": broker})
    for number in range(5000):
        producer.produce("idle", b"%04d" % number + b"." * 1000)
    assert producer.flush(20) == 0
    return "idle"


def committed(broker: str, group: str) -> int:
    """What a group has committed in a topic of one partition."""
    return int(printed(broker, "groups", "describe", group)[0].split("\t")[3])


def test_ends_when_its_reader_goes_away_from_an_idle_topic(broker: str, numbers: str) -> None:
    with subprocess.Popen(command_line(broker, "consume", numbers), stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None
            assert first_line(running) == b"0\n"
            running.stdout.close()
            assert running.wait(20) == 0
        finally:
            running.kill()


def test_a_group_behind_head_commits_what_head_printed(broker: str, idle: str) -> None:
    """Programs read ahead: 5,000 short lines would fit in what `head` takes at once."""
    shorter = ("consume", idle, "--format", r"%o\n", "--group")
    for lines, wanted in ((1, 1), (2, 2), (3, 4)):
        group = f"head-{lines}"
        with subprocess.Popen(command_line(broker, *shorter, group), stdout=subprocess.PIPE) as running:
            try:
                head = subprocess.run(["head", f"-{lines}"], stdin=running.stdout, stdout=subprocess.PIPE, check=True)
                assert running.stdout is not None
                running.stdout.close()
                assert running.wait(20) == 0
            finally:
                running.kill()
        assert head.stdout.count(b"\n") == lines
        assert committed(broker, group) == wanted


@pytest.mark.parametrize("goes_on", [True, False], ids=["takes what is left", "goes away"])
def test_a_group_that_is_stopped_while_its_reader_rests_commits_what_the_reader_gets(
    broker: str, idle: str, goes_on: bool
) -> None:
    group = f"stopped-{goes_on}"
    shown = command_line(broker, "consume", idle, "--group", group)
    with subprocess.Popen(shown, stdout=subprocess.PIPE, bufsize=0) as it:
        try:
            assert it.stdout is not None
            got = b""
            while got.count(b"\n") < 2000:
                got += it.stdout.read(8192)
            while unread(it.stdout.fileno()) < 60_000:
                assert it.poll() is None
            if goes_on:
                it.send_signal(signal.SIGTERM)
                while more := it.stdout.read(8192):
                    got += more
                assert got.endswith(b"\n"), "it ends with a whole line"
            else:
                it.stdout.close()
            assert it.wait(20) == 0
        finally:
            it.kill()
    lines = [b"%04d" % number + b"." * 1000 + b"\n" for number in range(5000)]
    assert b"".join(lines).startswith(got)
    assert committed(broker, group) == got.count(b"\n")


def unread(pipe: int) -> int:
    found = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]


@pytest.mark.parametrize(
    "args",
    [("--tail", "1", "--offset", "2"), ("--follow", "--until-end"), ("-o", "5-3"), ("--json", "--format", "%v")],
)
def test_options_that_contradict_are_wrong_usage(broker: str, args: tuple[str, ...]) -> None:
    assert odradek(broker, "consume", "t", *args).returncode == 2


def test_values_of_any_batch_are_printed_whole(broker: str) -> None:
    """With null values, keys, headers, long values, a codec, and a start within a batch."""
    odradek(broker, "topics", "create", "mixed")
    producer = Producer({"bootstrap.servers": broker, "compression.type": "zstd", "linger.ms": 50})
    wanted: list[str] = []
    for number in range(300):
        value = None if number % 50 == 7 else b"%d" % number + b"x" * (number if number % 3 else 0)
        producer.produce("mixed", value, b"k" if number % 2 else None, headers=[("h", b"")] if number % 5 else None)
        wanted.append("NULL" if value is None else value.decode())
    assert producer.flush(10) == 0
    assert printed(broker, "consume", "mixed", "--until-end", "--null", "NULL") == wanted
    assert printed(broker, "consume", "mixed", "-o", "100-199", "--null", "NULL") == wanted[100:200]


# A member of the classic protocol.
_CLASSIC = ("consume", "-X", "group.protocol=classic")


def test_records_of_internal_topics_are_printed_in_words(broker: str, numbers: str) -> None:
    assert len(printed(broker, *_CLASSIC, numbers, "--group", "words", "--max", "3")) == 3
    producer = Producer({"bootstrap.servers": broker, "transactional.id": "paying"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("bills", b"1")
    producer.commit_transaction(10)
    rows = [json.loads(line) for line in printed(broker, "consume", "__consumer_offsets", "--until-end", "--json")]
    of_group = [row for row in rows if row["key"]["type"] == "offset_commit" and row["key"]["group"] == "words"]
    assert {row["key"]["topic"] for row in of_group} == {numbers}
    committed = {row["key"]["partition"]: row["value"]["offset"] for row in of_group}
    assert sum(committed.values()) == 3
    generations = [row["value"] for row in rows if row["key"] == {"type": "group_metadata", "group": "words"}]
    joined = [row["members"][0] for row in generations if row["members"]]
    assert joined[0]["client_id"] == "odradek-cli" and joined[0]["assignment"] == ["numbers-0", "numbers-1"]
    args = ("consume", "__transaction_state", "--until-end")
    pairs = [line.split(" => ") for line in printed(broker, *args, "--format", r"%k => %v\n")]
    states = [json.loads(value)["state"] for key, value in pairs if json.loads(key)["transactional_id"] == "paying"]
    assert states[0] == "Empty" and states[-1] == "CompleteCommit"
    raw = printed(broker, *args, "--format", r"%k{hex}\n", "--raw")
    assert b"\0\0\0\6paying".hex() in raw


@pytest.mark.parametrize("args", [(), ("--group", "g")])
def test_a_topic_that_is_deleted_meanwhile_has_no_end_to_wait_for(args: tuple[str, ...]) -> None:
    with kafka() as k, Admin(k.address) as admin:
        k.put("t", ["v"])

        @k.on("Fetch")
        def delete(request: Any, proceed: Any) -> None:
            if "t" in k.topics():
                admin.delete_topics(["t"])

        assert delete is not None
        done = odradek(k.address, "consume", "t", "--until-end", "-X", "default.api.timeout.ms=500", *args)
    assert done.returncode == 1 and "'t' is not there any more" in done.stderr
