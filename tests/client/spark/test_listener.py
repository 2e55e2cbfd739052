"""The lag that a listener reports: from Spark's report of a batch, and from what the brokers say."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")

from odradek.client.arrow.brokers import Brokers
from odradek.client.core.metadata import ClusterView, Node, PartitionInfo, TopicInfo
from odradek.client.record import EARLIEST, TopicPartition
from odradek.client.spark import listener
from odradek.client.spark.columns import OptionError
from odradek.client.spark.listener import Lag, LagListener
from odradek.protocol.errors import ErrorCode, KafkaError

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

BASE = {"kafka.bootstrap.servers": "h:1"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_S = 1000.0


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers with 100 offsets of 10 bytes in each partition, a record a second, the last one a second ago."""

    def offsets(
        self: Brokers, partitions: Collection[TopicPartition], timestamp: int, _: object = None
    ) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 0 if timestamp == EARLIEST else 100)

    def sizes(self: Brokers, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 1000)

    def timestamps(_: Brokers, wanted: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {each: round(NOW_S - (100 - offset)) * 1000 for each, offset in wanted.items()}

    def view(self: Brokers, topics: Collection[str]) -> ClusterView:
        """Partition 9 of each topic has no leader."""
        known = tuple(PartitionInfo(number, -1 if number == 9 else 1) for number in range(10))
        named = {each: TopicInfo(each, bytes(16), known) for each in topics}
        return ClusterView(nodes={1: Node(1, "h", 1)}, topics=named)

    for each in (offsets, sizes, view):
        monkeypatch.setattr(Brokers, each.__name__, each)
    monkeypatch.setattr(listener, "timestamps", timestamps)


def event(*ends: object) -> Any:
    texts = [None if end is None else end if isinstance(end, str) else json.dumps(end) for end in ends]
    sources = [SimpleNamespace(endOffset=text) for text in texts]
    return SimpleNamespace(progress=SimpleNamespace(id="q", name=None, batchId=3, numInputRows=7, sources=sources))


def reported(*ends: object) -> list[Lag]:
    found: list[Lag] = []
    LagListener(BASE, found.append, lambda: NOW_S).onQueryProgress(event(*ends))
    return found


@pytest.mark.usefixtures("brokers")
def test_a_batch_is_so_many_offsets_bytes_and_seconds_behind() -> None:
    (lag,) = reported({"start:t": {"0": 1}, "t": {"0": 90, "1": 100}})
    assert (lag.query_id, lag.batch_id, lag.rows) == ("q", 3, 7)
    assert lag.offsets == {T0: 90, T1: 100}
    assert lag.behind == {T0: 10, T1: 0}
    assert (lag.offsets_behind, lag.bytes_behind, lag.seconds_behind) == (10, 100, 10.0)
    assert str(lag) == "batch 3: 7 rows; 10 offsets, 100 bytes, 10.0 s behind"
    (lag,) = reported({"t": {"0": 100}})
    assert (lag.offsets_behind, lag.bytes_behind, lag.seconds_behind) == (0, 0, 0.0)
    (lag,) = reported({"t": {"0": 90, "9": 5}})
    assert lag.behind == {T0: 10}, "a partition without a leader hides no other one"
    assert (lag.offsets_behind, lag.bytes_behind, lag.seconds_behind) == (10, 100, 10.0)


@pytest.mark.usefixtures("brokers")
@pytest.mark.parametrize("end", [None, "5", "no json", {"logOffset": 3}, {}])
def test_sources_of_other_kinds_are_passed_over(end: object) -> None:
    assert reported(end) == []


@pytest.mark.usefixtures("brokers")
@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ("view", "? offsets, ? bytes, ? s"),
        ("offsets", "? offsets, ? bytes, ? s"),
        ("sizes", "10 offsets, ? bytes, 10.0 s"),
    ],
)
def test_what_a_broker_does_not_say_fails_no_query_and_hides_nothing(
    monkeypatch: pytest.MonkeyPatch, failing: str, said: str
) -> None:
    def fail(*_: object) -> None:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "down")

    monkeypatch.setattr(Brokers, failing, fail)
    (lag,) = reported({"t": {"0": 90}})
    assert str(lag) == f"batch 3: 7 rows; {said} behind"


def test_options_are_checked_when_the_listener_is_made() -> None:
    with pytest.raises(OptionError, match="must be given"):
        LagListener({})
