"""Waiting for a group, and what a test puts in as JSON."""

from __future__ import annotations

import json
import threading

import pytest
from odradek.client.blocking import Consumer
from odradek.testing import LocalKafka, Record
from odradek.testing.errors import Unavailable


def read(kafka: LocalKafka, count: int) -> None:
    """Read and commit so many records, one by one."""
    options = {"group_id": "readers", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer("orders", bootstrap_servers=kafka.address, **options) as consumer:
        for _ in range(count):
            consumer.getone()
            consumer.commit()


def test_a_wait_for_lag_ends_when_the_group_has_read_all_partitions(kafka: LocalKafka) -> None:
    kafka.create_topic("orders", partitions=3)
    kafka.put("orders", [Record("v", partition=number % 3) for number in range(6)])
    with pytest.raises(AssertionError, match="there is no group 'readers'; there are"):
        kafka.wait_for(lag=0, group="readers", within=0)
    thread = threading.Thread(target=read, args=(kafka, 6))
    thread.start()
    assert kafka.wait_for(lag=0, group="readers", within=60) == {("orders", number): 0 for number in range(3)}
    thread.join()
    kafka.put("orders", ["more", "and more"])
    with pytest.raises(AssertionError, match="group 'readers' has a lag of 2, not 1, by partition"):
        kafka.wait_for(lag=1, group="readers", within=0)
    assert sum(kafka.wait_for(lag=2, group="readers", topic="orders").values()) == 2
    with pytest.raises(AssertionError, match="no group 'reader' \\(did you mean readers"):
        kafka.wait_for(lag=0, group="reader", within=0)


def test_a_partition_that_was_never_committed_counts(kafka: LocalKafka) -> None:
    kafka.create_topic("orders", partitions=2)
    kafka.put("orders", [Record("v", partition=0)])
    read(kafka, 1)
    kafka.put("orders", [Record("v", partition=1)])
    with pytest.raises(AssertionError, match="has a lag of 1, not 0"):
        kafka.wait_for(lag=0, group="readers", within=0)


def test_a_wait_for_two_things_is_refused(kafka: LocalKafka) -> None:
    for wrong in ({"records": 1}, {"lag": 0}, {"records": 1, "topic": "t", "lag": 0, "group": "g"}):
        with pytest.raises(Unavailable, match="wait_for takes records= and topic=, or lag= and group="):
            kafka.wait_for(**wrong)


def test_mappings_are_put_as_json(kafka: LocalKafka) -> None:
    order = {"number": 1, "items": ["ä", None]}
    kafka.put("orders", [order, ({"k": 1}, order), Record(order, key="k"), ("k", None)])
    found = kafka.records("orders")
    assert [json.loads(each.value) for each in found[:3]] == [order] * 3
    assert [each.key for each in found] == [None, b'{"k": 1}', b"k", b"k"]
    assert found[3].value is None
    with pytest.raises(TypeError, match="put takes a list of records"):
        kafka.put("orders", order)
    with pytest.raises(ValueError):
        kafka.put("orders", [{"x": float("nan")}])
