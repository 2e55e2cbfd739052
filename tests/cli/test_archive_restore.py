"""`odradek archive restore`: a broker is wiped, and its records are back with their offsets."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.client import Producer
from odradek.client.archive.check import _records
from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.fetch import whole_topic
from odradek.client.core.leaders import READ_COMMITTED
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.storage.integrity import verify
from odradek.tests.support.clients.archive_world import World
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.documents.command import run, threaded_broker

BAD = b"\xff\xfe".decode("utf-8", "surrogateescape")


async def write_hard_records(address: str) -> None:
    """Partition 0 ends with an aborted record and its marker; 1 has what few tables can hold; 2 nothing but an
    abort, 3 nothing."""
    async with await Raw.connect(address) as raw:
        await raw.create_topic("hard", 4, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
        await raw.create_topic("stamped", 1, **{"message.timestamp.type": "LogAppendTime"})
        records = [
            Record(-1, 2**62, None, b"", (("b", b"1"), ("a", None), ("b", b"\xff"), (BAD, b"2"))),
            Record(-1, -1, b"", None),
            *(Record(-1, day * 86_400_000, b"k", b"%d" % day) for day in (3, 1, 2, 3)),
            Record(-1, 5, b"large", b"." * 900_000),
        ]
        produced = await raw.produce("hard", encode_batch(records), partition=1)
        assert produced.error_code == 0
        for number in range(3):
            await raw.produce("stamped", encode_batch([Record(-1, number, b"k", b"v")] * 2))
    async with Producer(address, transactional_id="t") as producer:
        async with producer.transaction():
            await producer.send("hard", b"committed", partition=0)
        for partition in (0, 2):
            await producer.begin_transaction()
            await producer.send("hard", b"aborted", partition=partition)
            await producer.flush()
            await producer.abort_transaction()


def read(address: str, topic: str) -> tuple[list[Any], list[tuple[int, int]]]:
    """The committed records of a topic, and the ends of its partitions."""
    reading = World(address).reading
    reading = replace(reading, client=replace(reading.client, isolation_level=READ_COMMITTED))
    brokers = Brokers(reading.client)
    ranges = whole_topic(topic, brokers)
    rows = [row for each in ranges for batch in _records(each, reading, brokers) for row in batch.to_pylist()]
    return rows, [(each.partition, each.end) for each in ranges]


def test_records_come_back_with_all_that_an_archive_has(tmp_path: Path) -> None:
    place, new = ("--to", str(tmp_path / "archive")), tmp_path / "new"
    with threaded_broker(tmp_path / "old") as broker:
        asyncio.run(write_hard_records(broker.address))
        before = {topic: read(broker.address, topic) for topic in ("hard", "stamped")}
        ran = run("archive", "run", "hard", "stamped", *place, "--once", "-b", broker.address)
        assert ran.exit_code == 0, ran.output
    shutil.rmtree(tmp_path / "old")
    restored = run("archive", "restore", "hard", "stamped", *place, "--data-dir", str(new))
    assert restored.exit_code == 0, restored.output
    assert "not restored, because archives do not have it" in restored.stderr
    for folder in new.glob("*-[0-9]"):
        # A segment of an empty batch alone has no time for its index.
        assert not [each for each in verify(folder, 1 << 40) if each.path.suffix != ".timeindex"], folder
    assert not list(tmp_path.glob(".restore*"))
    with threaded_broker(new) as broker:
        for topic, (rows, ends) in before.items():
            assert read(broker.address, topic) == (rows, ends), topic
        assert dict(before["hard"][1]) == {0: 4, 1: 7, 2: 2, 3: 0}
        World(broker.address).fill("hard", 4, partitions=4, new=False)
        assert read(broker.address, "hard")[1] == [(0, 5), (1, 8), (2, 3), (3, 1)]
        configs = run("config", "describe", "--topic", "hard", "-b", broker.address)
        assert "retention.ms" in configs.output, configs.output
    again = run("archive", "restore", "hard", *place, "--data-dir", str(new))
    assert again.exit_code == 1 and "is there already" in again.output


def test_an_empty_table_and_the_table_of_another_topic_are_not_restored(tmp_path: Path) -> None:
    place = ("--to", str(tmp_path / "archive"))
    with threaded_broker(tmp_path / "data") as broker:
        World(broker.address).fill("a", 1)
        World(broker.address).fill("empty", 0)
        assert run("archive", "run", "a", "empty", *place, "--once", "-b", broker.address).exit_code == 0
    other = run("archive", "restore", "b", *place, "--table", "odradek.a", "--data-dir", str(tmp_path / "new"))
    assert other.exit_code == 1 and "holds the topic 'a'" in other.output
    empty = run("archive", "restore", "empty", *place, "--data-dir", str(tmp_path / "new"))
    assert empty.exit_code == 1 and "has nothing yet" in empty.output
