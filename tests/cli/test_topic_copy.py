"""`odradek topics copy` between two brokers: every record once, as it was, with the offsets of groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st
from odradek.cli.topic_copy import CopyState, OffsetRuns
from odradek.tests.support.documents.command import rows, run, threaded_broker


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    configs: dict[str, object] = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
    with (
        threaded_broker(tmp_path_factory.mktemp("here"), **configs) as here,
        threaded_broker(tmp_path_factory.mktemp("there"), **configs) as there,
    ):
        yield here.address, there.address


def write(address: str, topic: str, numbers: range, **configs: Any) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, **configs})
    for number in numbers:
        producer.produce(topic, b"%d" % number, b"k%d" % (number % 5), 0, timestamp=number + 1, headers=[("h", b"x")])
    assert producer.flush(10) == 0


def values(address: str, topic: str, count: int) -> list[Any]:
    """All records of partition 0, which are to be `count`."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        messages = consumer.consume(count, timeout=15)
        assert (end, len(messages)) == (count, count)
        return messages
    finally:
        consumer.close()


def committed(address: str, group: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": address})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
    (found,) = admin.list_consumer_group_offsets(asked)[group].result(10).topic_partitions
    return found.offset


def commit(address: str, group: str, topic: str, offset: int) -> None:
    reset = ("groups", "reset-offsets", group, "--topic", f"{topic}:0", "--to-offset", str(offset), "--execute")
    assert run(*reset, "-b", address).exit_code == 0


def test_records_configs_and_offsets_come_over_and_a_second_copy_brings_what_is_new(
    clusters: tuple[str, str],
) -> None:
    here, there = clusters
    create = ("topics", "create", "flights", "--config", "retention.ms=-1", "-b", here)
    assert run(*create).exit_code == 0
    write(here, "flights", range(100), **{"compression.type": "zstd"})
    commit(here, "delays", "flights", 40)
    copy = ("topics", "copy", "fli*", "--to", there, "--group", "delays", "-b", here)
    first = run(*copy)
    assert first.exit_code == 0, first.output
    found = values(there, "flights", 100)
    assert [each.value() for each in found] == [b"%d" % number for number in range(100)]
    assert all(each.timestamp()[1] == number + 1 for number, each in enumerate(found))
    assert {each.key() for each in found} == {b"k%d" % n for n in range(5)} and found[7].headers() == [("h", b"x")]
    configs = {row[1]: row[2:4] for row in rows("topics", "describe", "flights", "--configs", "-b", there)}
    assert configs["retention.ms"] == ["-1", "yes"]
    assert committed(there, "delays", "flights") == 40
    write(here, "flights", range(100, 130))
    commit(here, "delays", "flights", 120)
    assert run(*copy).exit_code == 0 and run(*copy).exit_code == 0
    assert [each.value() for each in values(there, "flights", 130)][-1] == b"129"
    assert committed(there, "delays", "flights") == 120


def test_an_interrupted_copy_goes_on_after_what_it_had_sent(clusters: tuple[str, str]) -> None:
    here, there = clusters
    assert run("topics", "create", "stops", "--config", "retention.ms=-1", "-b", here).exit_code == 0
    copy = ("topics", "copy", "stops", "--to", there, "-b", here)
    assert run(*copy).exit_code == 0
    write(here, "stops", range(50))
    write(there, "stops", range(7))  # what a copy sends before it is killed
    assert run(*copy).exit_code == 0
    assert [each.value() for each in values(there, "stops", 50)] == [b"%d" % number for number in range(50)]


def test_gaps_of_transactions_close_and_offsets_follow(clusters: tuple[str, str]) -> None:
    here, there = clusters
    assert run("topics", "create", "bills", "--config", "retention.ms=-1", "-b", here).exit_code == 0
    producer = Producer({"bootstrap.servers": here, "transactional.id": "paying"})
    producer.init_transactions(10)
    for number in range(4):
        producer.begin_transaction()
        for each in range(10):
            producer.produce("bills", b"%d" % (10 * number + each), partition=0)
        assert producer.flush(10) == 0
        if number % 2:
            producer.abort_transaction(10)
        else:
            producer.commit_transaction(10)
    commit(here, "clerk", "bills", 25)  # the third record of the third transaction: offsets 0-9, 11-20, 22-31, 33-42
    ended = run("topics", "copy", "bills", "--to", there, "--group", "clerk", "-b", here)
    assert ended.exit_code == 0, ended.output
    wanted = [b"%d" % number for number in (*range(10), *range(20, 30))]
    assert [each.value() for each in values(there, "bills", 20)] == wanted
    assert committed(there, "clerk", "bills") == 13
    commit(here, "clerk", "bills", 5)
    write(here, "bills", range(40, 42))
    ended = run("topics", "copy", "bills", "--to", there, "--group", "clerk", "-b", here)
    assert ended.exit_code == 1 and "lies in what an earlier copy made" in ended.stderr
    assert len(values(there, "bills", 22)) == 22


def test_configs_reach_the_clients_of_both_clusters(clusters: tuple[str, str]) -> None:
    here, there = clusters
    write(here, "configured", range(100))
    copy = ("topics", "copy", "configured", "--to", there, "-b", here)
    ended = run(*copy, "-X", "max.request.size=100")
    assert ended.exit_code == 1 and "larger than max.request.size (100)" in ended.stderr, "of the target's producer"
    ended = run(*copy, "-X", "fetch.max.bytes=-1")
    assert ended.exit_code == 2 and "fetch.max.bytes=-1: needs a whole number" in ended.stderr
    assert run(*copy, "-X", "request.timeout.ms=20000", "-X", "linger.ms=0").exit_code == 0
    assert len(values(there, "configured", 100)) == 100


def test_what_a_copy_would_spoil_is_refused(clusters: tuple[str, str]) -> None:
    here, there = clusters
    assert run("topics", "create", "own", "-b", here).exit_code == 0
    assert run("topics", "create", "own", "-b", there).exit_code == 0
    assert "onto itself" in run("topics", "copy", "own", "--to", here, "-b", here).stderr
    write(there, "own", range(3))
    assert "no copy made them" in run("topics", "copy", "own", "--to", there, "-b", here).stderr
    assert run("topics", "create", "wide", "--partitions", "2", "-b", here).exit_code == 0
    assert run("topics", "create", "wide", "-b", there).exit_code == 0
    assert "has 1 partitions in the target, not 2" in run("topics", "copy", "wide", "--to", there, "-b", here).stderr


@given(st.lists(st.integers(1, 5), min_size=1, max_size=40), st.integers(0, 20), st.integers(0, 20))
def test_a_translated_offset_is_that_of_the_next_record(gaps: list[int], source0: int, target0: int) -> None:
    """Offsets of the source rise by `gaps`; those of the target by one."""
    offsets = [source0]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    runs = OffsetRuns(CopyState(source0, target0, source0, target0))
    for number, offset in enumerate(offsets):
        runs.add(offset, target0 + number, 1)
    for asked in range(source0, offsets[-1] + 2):
        before = sum(1 for offset in offsets if offset < asked)
        assert runs.translate(asked) == target0 + before


def test_with_very_many_gaps_offsets_are_never_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.cli.topic_copy._MAX_RUNS", 10)
    runs = OffsetRuns(CopyState(0, 0, 0, 0))
    for number in range(200):
        runs.add(2 * number, number, 1)
    assert len(runs.runs) <= 11
    for number in range(200):
        found = runs.translate(2 * number)
        assert found is not None and found <= number


def test_states_go_round_and_others_are_none() -> None:
    state = CopyState(90, 80, 10, 0)
    assert CopyState.parse(90, state.metadata) == state
    assert [CopyState.parse(1, text) for text in ("", "1 2", "a b c", "1 2 -3")] == [None] * 4
