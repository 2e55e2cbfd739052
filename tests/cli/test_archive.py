"""`odradek archive`: rows for commits, status and check, and an end by SIGTERM that loses nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.tests.support.clients.archive_world import World
from odradek.tests.support.documents.command import ended, run, start, threaded_broker


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with threaded_broker(tmp_path_factory.mktemp("data")) as broker:
        yield World(broker.address)


def test_a_topic_is_archived_once_and_looked_at(world: World, tmp_path: Path) -> None:
    place = ("--to", str(tmp_path / "archive"))
    world.fill("flights", 6, partitions=2)
    typed = ("--value-format", "json", "--fields", "delay int")
    archived = run("archive", "run", "flights", *place, *typed, "--once", "-b", world.address, "--json")
    assert archived.exit_code == 0, archived.output
    assert {**json.loads(archived.stdout), "size_bytes": 0} == {
        "topic": "flights", "rows": 6, "files": 2, "size_bytes": 0, "lag": 0,
    }  # fmt: skip
    again = run("archive", "run", "flights", *place, "--once", "-b", world.address)
    assert (again.exit_code, again.output) == (0, ""), "nothing is new"
    world.fill("flights", 2, partitions=2, new=False)
    found = run("archive", "status", "flights", *place, "-b", world.address, "--json")
    assert found.exit_code == 0, found.output
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(each["archived"], each["end"], each["lag"]) for each in rows] == [(3, 4, 1)] * 2
    assert all(0 <= each["oldest_ms"] < 600_000 for each in rows)
    assert run("archive", "check", "flights", *place).exit_code == 0
    deep = run("archive", "check", "flights", *place, "--deep", "-b", world.address)
    assert (deep.exit_code, deep.output) == (0, "")
    for name in ("compact", "expire"):
        assert run("archive", name, "flights", *place).exit_code == 0


def test_records_that_retention_will_soon_remove_are_status_1(world: World, tmp_path: Path) -> None:
    place = ("--to", str(tmp_path / "archive"))
    world.fill("soon", 2)
    assert run("archive", "run", "soon", *place, "--once", "-b", world.address).exit_code == 0
    world.fill("soon", 1, new=False)
    run("config", "set", "retention.ms=1", "--topic", "soon", "-b", world.address)
    found = run("archive", "status", "soon", *place, "-b", world.address)
    assert (
        found.exit_code == 1
        and "half of the retention has passed, and records are not archived: soon-0" in found.output
    )


def test_wrong_usage_and_what_is_not_there(world: World, tmp_path: Path) -> None:
    place = ("--to", str(tmp_path / "archive"))
    many = run("archive", "run", "a", "b", *place, "--table", "x.y", "-b", world.address)
    assert many.exit_code == 2 and "--table names the table of one topic" in many.output
    assert run("archive", "run", "a", *place, "--every", "soon", "-b", world.address).exit_code == 2
    assert run("archive", "run", "a", *place, "--from", "noon", "-b", world.address).exit_code == 2
    timed = run("archive", "run", "a", *place, "--from", "2026-11-21T08:00", "--once", "-b", world.address)
    assert timed.exit_code == 1 and "'a' does not exist" in timed.output
    for wrong, why in (
        (("--value-format", "json"), "json need fields"), (("--fields", "a int"), "need a format of values"),
        (("--value-format", "avro"), "avro need a registry"), (("--bad", "skip"), "need a format of values"),
        (("--value-format", "json", "--fields", "a blob"), "is no new name and type"),
    ):  # fmt: skip
        found = run("archive", "run", "a", *place, *wrong, "-b", world.address)
        assert found.exit_code == 2 and why in found.output
    missing = run("archive", "check", "a", "--to", str(tmp_path / "nothing"))
    assert missing.exit_code == 1 and "there is no archive" in missing.output
    bucket = run("archive", "check", "a", "--to", "s3://bucket/place")
    assert bucket.exit_code == 1 and "needs a file for its catalog" in bucket.output
    unknown = run("archive", "check", "a", "--to", "iceberg://nowhere")
    assert unknown.exit_code == 1 and "cannot be used" in unknown.output


def test_a_topic_that_fails_keeps_no_other_one_out_of_the_archive(world: World, tmp_path: Path) -> None:
    world.fill("beside", 2)
    place = ("--to", str(tmp_path / "archive"), "-b", world.address)
    found = run("archive", "run", "none", "beside", *place, "--once")
    assert found.exit_code == 1 and "'none' does not exist" in found.output
    assert run("archive", "check", "beside", *place[:2]).exit_code == 0
    both = run("archive", "run", "none", "neither", *place, "--once")
    assert both.exit_code == 1 and "'none' does not exist; topic 'neither' does not exist" in both.output


def test_sigterm_ends_a_running_archiver_whole(world: World, tmp_path: Path) -> None:
    world.fill("running", 4)
    files = [tmp_path / name for name in ("stdin", "stdout", "stderr")]
    files[0].write_bytes(b"")
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics = f"127.0.0.1:{free.getsockname()[1]}"
    words = ["archive", "run", "running", "--to", str(tmp_path / "archive"), "--every", "100ms", "-b", world.address]
    words += ["--metrics", metrics]
    process = start(words, files)
    deadline = time.monotonic() + 60
    while not files[1].exists() or not files[1].read_text():
        assert time.monotonic() < deadline, files[2].read_text()
        time.sleep(0.05)
    with urlopen(f"http://{metrics}/metrics") as answer:
        assert 'kafka_archive_commits_total{topic="running"} 1.0' in answer.read().decode()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    assert ended(process, files[2]) == 0, files[2].read_text()
    assert files[1].read_text().split("\t")[:2] == ["running", "4"]
    assert files[2].read_text() == "", "pipes stay clean"


def test_many_offsets_that_wait_are_committed_before_it_is_time(world: World, tmp_path: Path) -> None:
    world.fill("waiting", 2)
    files = [tmp_path / name for name in ("stdin", "stdout", "stderr")]
    files[0].write_bytes(b"")
    words = ["archive", "run", "waiting", "--to", str(tmp_path / "archive"), "--every", "1h", "--max-lag", "3"]
    process = start([*words, "--target-bytes", "1KiB", "-b", world.address], files)

    def commits(number: int) -> list[str]:
        deadline = time.monotonic() + 60
        while not files[1].exists() or len(files[1].read_text().splitlines()) < number:
            assert time.monotonic() < deadline, files[2].read_text()
            time.sleep(0.05)
        return [line.split("\t")[1] for line in files[1].read_text().splitlines()]

    commits(1)
    world.fill("waiting", 2, new=False)
    world.fill("waiting", 1, new=False)
    assert commits(2)[0] == "2" and sum(map(int, commits(2))) >= 5
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    assert ended(process, files[2]) == 0, files[2].read_text()
    wrong = run("archive", "run", "waiting", "--to", str(tmp_path / "archive"), "--target-bytes", "0")
    assert wrong.exit_code == 2 and "--target-bytes needs a number" in wrong.output


@pytest.mark.skipif(sys.platform == "win32", reason="a directory that may not be written to")
def test_a_place_that_cannot_be_used_is_said_in_one_line(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    world.fill("nowhere", 1)
    found = run("archive", "run", "nowhere", "--to", str(tmp_path / "file"), "--once", "-b", world.address)
    assert found.exit_code == 1 and len(found.output.splitlines()) == 1 and "cannot be used" in found.output
