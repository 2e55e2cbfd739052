"""One partition without a leader hides nothing of the others: commands print what the other leaders say."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from odradek.client import EARLIEST, LATEST, OffsetAndMetadata, TopicPartition
from odradek.client.blocking import Admin, Producer
from odradek.client.errors import KafkaError
from odradek.console import Console, ConsoleConfig
from odradek.console.cluster import ClusterOptions
from odradek.testing import kafka, kafka_cluster
from odradek.tests.console.conftest import Browser
from odradek.tests.support.documents.command import completed

PLACES = [TopicPartition("orders", number) for number in range(3)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster in which nobody leads orders-0, and in which groups have read a record of some partitions."""
    with kafka_cluster() as cluster:
        cluster.create_topic("orders", partitions=3, replication_factor=1)
        with Producer(cluster.address) as producer, Admin(cluster.address) as admin:
            for number in range(3):
                producer.send_many("orders", [(None, b"%d" % each) for each in range(5)], partition=number)
            admin.alter_group_offsets("g", dict.fromkeys(PLACES, OffsetAndMetadata(1)))
            admin.alter_group_offsets("h", {PLACES[1]: OffsetAndMetadata(5)})
        cluster.kill(cluster.leader("orders", 0))
        yield cluster.address


def rows(*words: str, status: int = 0) -> tuple[list[dict[str, object]], str]:
    done = completed(*words, "--json")
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_groups_describe(address: str) -> None:
    found, _ = rows("groups", "describe", "g", "-b", address)
    known = [(each["partition"], each["committed"], each["lag"]) for each in found]
    assert known == [(0, 1, None), (1, 1, 4), (2, 1, 4)]


def test_groups_list_with_lag(address: str) -> None:
    found, said = rows("groups", "list", "--lag", "-b", address)
    assert {each["group"]: each["lag"] for each in found} == {"g": 8, "h": 0}
    assert "the lag of group g leaves out orders-0, of which no leader answers now" in said


def test_a_group_that_cannot_be_described_leaves_the_rows_of_the_others(address: str) -> None:
    found, said = rows("groups", "describe", "h", "nobody", "-b", address, status=1)
    assert [each["group"] for each in found] == ["h"]
    assert "odradek: group nobody: " in said


def test_topics_describe(address: str) -> None:
    found, _ = rows("topics", "describe", "orders", "-b", address)
    assert [each["records"] for each in found] == [None, 5, 5]


def test_consume_by_offsets(address: str) -> None:
    done = completed("consume", "orders", "--offset", "0-1", "-b", address)
    assert (done.returncode, sorted(done.stdout.split())) == (0, ["0", "0", "1", "1"])
    assert "not read, because it has no leader now, or its leader does not answer: orders-0" in done.stderr


def test_groups_reset_offsets(address: str) -> None:
    for target in (("--to-latest",), ("--to-datetime", "2020-01-01T00:00"), ("--shift-by", "1")):
        found, said = rows("groups", "reset-offsets", "g", *target, "-b", address)
        assert [each["partition"] for each in found] == [1, 2]
        assert "not reset, because it has no leader now, or its leader does not answer: orders-0" in said
    found, _ = rows("groups", "reset-offsets", "h", "--to-offset", "5", "--execute", "-b", address)
    assert [(each["partition"], each["new_offset"]) for each in found] == [(1, 5)]


def test_topics_delete_records(address: str) -> None:
    found, said = rows("topics", "delete-records", "orders", "--dry-run", "-b", address)
    assert [(each["partition"], each["start_offset"]) for each in found] == [(1, 5), (2, 5)]
    assert "not deleted, because it has no leader now" in said


def test_perf_consume(address: str) -> None:
    done = completed("perf", "consume", "orders", "--json", "-b", address)
    assert (done.returncode, json.loads(done.stdout)["records"]) == (0, 10), done.stderr
    assert "not read, because it has no leader now" in done.stderr


async def test_pages_of_groups_in_the_console(address: str) -> None:
    async with Console(ConsoleConfig(ClusterOptions(address), port=0)) as console:
        browser = Browser(console.url)
        await console.history.sample()
        pages = [await browser.get(path) for path in ("/groups", "/group?id=g", "/topics/orders")]
        moved = await browser.send("/change/reset-offsets", group="g", to="latest")
    assert [page.status for page in pages] == [200] * 3
    assert " 8 " in pages[0].visible and "orders" in pages[1].visible
    assert "orders, partition 2" in moved.visible and "orders, partition 0" not in moved.visible


def test_topics_copy(address: str) -> None:
    with kafka() as target:
        done = completed("topics", "copy", "orders", "-b", address, "--to", target.address)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == "odradek: not copied, run it again: orders-0"
        assert sorted(record.value or b"" for record in target.records("orders")) == [
            value for number in range(5) for value in [b"%d" % number] * 2
        ]


def test_offsets_of_partitions_that_have_a_leader(address: str) -> None:
    with Admin(address, default_api_timeout_ms=1_000) as admin:
        found = admin.list_offsets(dict.fromkeys(PLACES, LATEST), partial=True)
        assert {place: at.offset for place, at in found.items()} == {PLACES[1]: 5, PLACES[2]: 5}
        assert admin.list_offsets({PLACES[0]: EARLIEST}, partial=True) == {}
        # Of all, also an answer that is not asked to be partial has what the others said.
        with pytest.raises(KafkaError) as failed:
            admin.list_offsets(dict.fromkeys(PLACES, LATEST))
        assert {place for place, each in failed.value.results.items() if not isinstance(each, KafkaError)} == {
            *PLACES[1:]
        }


def test_a_range_ends_where_a_shorter_partition_ends() -> None:
    with kafka() as one:
        one.create_topic("t", partitions=2)
        with Producer(one.address) as producer:
            producer.send_many("t", [(None, b"a"), (None, b"b"), (None, b"c")], partition=0)
            producer.send_many("t", [(None, b"d")], partition=1)
        done = completed("consume", "t", "--offset", "0-1", "-b", one.address)
        assert (done.returncode, sorted(done.stdout.split())) == (0, ["a", "b", "d"])
