"""The micro-batches of a stream: where each begins and ends, whatever happens to topics and processes between them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.fetch import OffsetRange
from odradek.client.core.metadata import ClusterView
from odradek.client.record import EARLIEST, TopicPartition
from odradek.client.spark.columns import DataLoss, ForeignOffsets, TopicRecreated
from odradek.client.spark.options import parse_options
from odradek.client.spark.stream import FirstBatchLost, MicroBatches, begin_of, from_json, share, share_bytes, to_json
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

BASE = {"kafka.bootstrap.servers": "h:1"}


class Cluster(Brokers):
    """A cluster of logs, each with a first and a last offset."""

    def __init__(self, **texts: str) -> None:
        named = {} if "subscribePattern" in texts else {"subscribe": "t"}
        self.wanted = parse_options(BASE | named | texts, streaming=True)
        super().__init__(self.wanted.client)
        self.logs: dict[str, list[tuple[int, int]]] = {"t": [(0, 10), (0, 20)]}
        self.ids: dict[str, bytes] = {}
        self.now = 0.0
        # Of each offset.
        self.bytes_each = 100

    def stream(self, available_now: bool = False) -> MicroBatches:
        stream = MicroBatches(self.wanted, self, lambda: self.now)
        if available_now:
            stream.stop_at_present_ends()
        return stream

    def view(self, topics: Collection[str] | None) -> ClusterView:
        found = [
            MetadataResponseTopic(
                name=name,
                topic_id=self.ids.get(name, name.encode().ljust(16, b"-")),
                partitions=[MetadataResponsePartition(0, index, 1, 0, [1], [1], []) for index in range(len(logs))],
            )
            for name, logs in self.logs.items()
            if topics is None or name in topics
        ]
        response = MetadataResponse(brokers=[MetadataResponseBroker(1, "h", 1, None)], topics=found)
        return ClusterView().updated(response, whole=True)

    def sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        logs = {of: self.logs[of.topic][of.partition] for of in partitions}
        return {of: self.bytes_each * (end - start) for of, (start, end) in logs.items()}

    def offsets_at(
        self, times: Mapping[TopicPartition, int], view: ClusterView | None = None
    ) -> Mapping[TopicPartition, int]:
        return {of: self.logs[of.topic][of.partition][0 if at in (EARLIEST, 0) else 1] for of, at in times.items()}


def places(ranges: list[OffsetRange]) -> list[tuple[str, int, int, int]]:
    return [(each.topic, each.partition, each.start, each.end) for each in ranges]


def after_json(offsets: Any) -> Any:
    """What Spark gives back: it keeps the text."""
    return json.loads(json.dumps(offsets))


def test_the_first_batch_says_where_it_begins_and_the_next_offsets_are_the_connectors() -> None:
    cluster = Cluster(startingTimestamp="0")
    stream = cluster.stream()
    first = after_json(stream.next_end({}, limited=False))
    assert first == {"start:t": {"0": 0, "1": 0}, "t": {"0": 10, "1": 20}}
    assert places(stream.ranges({}, first)) == [("t", 0, 0, 10), ("t", 1, 0, 20)]
    assert stream.next_end(first, limited=False) == first
    cluster.logs["t"][0] = (0, 13)
    second = after_json(stream.next_end(first, limited=False))
    assert json.dumps(second) == '{"t": {"0": 13, "1": 20}}'
    assert places(stream.ranges(first, second)) == [("t", 0, 10, 13)]


def test_a_crash_in_the_first_batch_loses_nothing_of_a_stream_from_the_latest_offsets() -> None:
    cluster = Cluster()
    first = after_json(cluster.stream().next_end({}, limited=False))
    assert begin_of(first) == from_json(first) == {TopicPartition("t", 0): 10, TopicPartition("t", 1): 20}
    cluster.logs["t"][0] = (0, 50)
    again = cluster.stream()
    assert again.ranges({}, first) == []
    second = again.next_end(first, limited=False)
    assert places(again.ranges(first, second)) == [("t", 0, 10, 50)]


@pytest.mark.parametrize("starting", ["earliest", '{"t": {"0": 0, "1": -2}}'])
def test_offsets_are_the_connectors_at_once_where_the_options_say_where_the_stream_began(starting: str) -> None:
    cluster = Cluster(startingOffsets=starting)
    first = after_json(cluster.stream().next_end({}, limited=False))
    assert first == {"t": {"0": 10, "1": 20}}
    # A crash in the first batch, of either connector: it is read again.
    cluster.logs["t"][0] = (0, 50)
    again = cluster.stream()
    assert places(again.ranges({}, first)) == [("t", 0, 0, 10), ("t", 1, 0, 20)]


def test_a_checkpoint_of_the_connector_goes_on() -> None:
    cluster = Cluster()
    end = cluster.stream().next_end({"t": {"0": 4, "1": 20}}, limited=False)
    assert end == {"t": {"0": 10, "1": 20}}
    assert places(cluster.stream().ranges({"t": {"0": 4, "1": 20}}, end)) == [("t", 0, 4, 10)]


def test_a_first_batch_of_the_connector_cannot_be_repeated() -> None:
    with pytest.raises(FirstBatchLost, match="does not say where it began"):
        Cluster().stream().ranges({}, {"t": {"0": 10, "1": 20}})


@pytest.mark.parametrize(
    "offsets", [0, 5, "x", [1], {"logOffset": 0}, {"t": {"x": 1}}, {"t": {"0": "1"}}, {"t": {"0": None}}, {"t": 1}]
)
def test_a_checkpoint_of_another_source_is_rejected_with_its_offsets(offsets: Any) -> None:
    # The rate source has numbers, files have logOffset.
    for ask in (
        lambda: Cluster().stream().next_end(offsets, limited=False),
        lambda: Cluster().stream().ranges(offsets, {"t": {"0": 1}}),
        lambda: Cluster().stream().ranges({}, offsets),
    ):
        with pytest.raises(ForeignOffsets, match=f"not those of topics: {re.escape(str(offsets))}; another source"):
            ask()


def test_a_checkpoint_of_another_topic_is_lost_data() -> None:
    offsets = {"u": {"0": 5}}
    with pytest.raises(DataLoss, match="u-0 is gone"):
        Cluster(startingOffsets="earliest").stream().next_end(offsets, limited=False)
    end = Cluster(startingOffsets="earliest", failOnDataLoss="false").stream().next_end(offsets, limited=False)
    assert end == {"t": {"0": 10, "1": 20}}


def test_new_partitions_and_topics_are_read_from_their_beginning() -> None:
    cluster = Cluster(subscribePattern="t")
    stream = cluster.stream()
    first = stream.next_end({}, limited=False)
    cluster.logs["t"].append((0, 7))
    cluster.logs["t2"] = [(3, 5)]
    second = stream.next_end(first, limited=False)
    assert second == {"t": {"0": 10, "1": 20, "2": 7}, "t2": {"0": 5}}
    assert places(stream.ranges(first, second)) == [("t", 2, 0, 7), ("t2", 0, 3, 5)]


def test_a_topic_that_comes_after_a_stream_without_topics_is_read_from_its_beginning() -> None:
    cluster = Cluster(subscribePattern="n.*", startingOffsets="latest")
    stream = cluster.stream()
    assert stream.next_end({}, limited=False) == {}
    cluster.logs["new"] = [(3, 7)]
    first = after_json(stream.next_end({}, limited=False))
    assert places(stream.ranges({}, first)) == [("new", 0, 3, 7)]
    # After a crash in that batch, too.
    cluster.logs["new"] = [(3, 9)]
    assert places(cluster.stream().ranges({}, first)) == [("new", 0, 3, 7)]


@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_a_new_partition_whose_log_does_not_begin_at_0_is_read_within_the_limit(limit: str) -> None:
    cluster = Cluster(**{limit: "10"})
    cluster.bytes_each = 1
    start: Any = {"t": {"0": 10, "1": 20}}
    cluster.logs["t"].append((1000, 1015))
    stream = cluster.stream()
    read: list[tuple[str, int, int, int]] = []
    while (end := after_json(stream.next_end(start, limited=True))) != start:
        read += places(stream.ranges(start, end))
        start = end
    assert read == [("t", 2, 1000, 1010), ("t", 2, 1010, 1015)]


def test_a_topic_that_is_made_again_is_noticed_also_before_its_batch_is_divided() -> None:
    """The batch would have had the offsets of the old topic and the records of the new one."""
    cluster = Cluster(startingOffsets="earliest")
    stream = cluster.stream()
    first = stream.next_end({}, limited=False)
    cluster.ids["t"] = b"another-another-"
    for ask in (lambda: stream.next_end(first, limited=False), lambda: stream.ranges({}, first)):
        with pytest.raises(TopicRecreated, match="topic 't' was deleted and created again"):
            ask()


def test_records_that_retention_removed_between_batches_are_lost_data() -> None:
    cluster = Cluster()
    cluster.logs["t"] = [(7, 10), (0, 20)]
    with pytest.raises(DataLoss, match="t-0 was to be read from 4, but its log begins at 7"):
        cluster.stream().ranges({"t": {"0": 4, "1": 20}}, {"t": {"0": 10, "1": 20}})


def batch_sizes(stream: MicroBatches) -> list[int]:
    """The offsets in each batch of a stream, until it has read everything."""
    sizes: list[int] = []
    start: dict[str, Any] = {}
    while (end := stream.next_end(start, limited=True)) != start:
        sizes.append(sum(each.size for each in stream.ranges(start, end)))
        start = end
    return sizes


def test_a_batch_has_no_more_offsets_than_its_limit() -> None:
    cluster = Cluster(startingOffsets="earliest", maxOffsetsPerTrigger="9")
    sizes = batch_sizes(cluster.stream())
    assert sum(sizes) == 30
    assert max(sizes) <= 9
    assert cluster.stream().next_end({"t": {"0": 0, "1": 0}}, limited=False) == {"t": {"0": 10, "1": 20}}


@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_a_partition_with_few_records_does_not_wait_until_others_have_caught_up(limit: str) -> None:
    cluster = Cluster(**{"startingOffsets": "earliest", limit: "100"})
    cluster.logs["t"] = [(0, 1_000_000), (0, 1_000_000), (0, 1_000_000), (0, 2)]
    end = cluster.stream().next_end({}, limited=True)
    assert end["t"]["3"] == 1


def test_a_batch_has_about_as_many_bytes_as_its_limit() -> None:
    cluster = Cluster(startingOffsets="earliest", maxBytesPerTrigger="1000")
    sizes = batch_sizes(cluster.stream())
    assert sum(sizes) == 30
    assert max(sizes) <= 10
    assert len(sizes) <= 5
    # Offsets that are larger than the limit go one by one.
    cluster.bytes_each = 5000
    assert cluster.stream().next_end({"t": {"0": 0, "1": 0}}, limited=True) == {"t": {"0": 1, "1": 1}}
    # Trigger.Once has no limits, as in Spark's own connector.
    assert cluster.stream().next_end({"t": {"0": 0, "1": 0}}, limited=False) == {"t": {"0": 10, "1": 20}}


def test_the_limits_of_bytes_and_offsets_hold_together() -> None:
    cluster = Cluster(startingOffsets="earliest", maxBytesPerTrigger="1000", maxOffsetsPerTrigger="4")
    stream = cluster.stream()
    assert sum(each.size for each in stream.ranges({}, stream.next_end({}, limited=True))) == 4


@pytest.mark.parametrize("available_now", [False, True])
def test_a_topic_that_was_made_again_while_the_query_was_down_is_noticed(available_now: bool) -> None:
    cluster = Cluster()
    with pytest.raises(TopicRecreated, match="t-1 ends at 20, before 25, where the stream is"):
        cluster.stream(available_now).next_end({"t": {"0": 4, "1": 25}}, limited=False)
    patient = Cluster(failOnDataLoss="false")
    stream = patient.stream(available_now)
    end = stream.next_end({"t": {"0": 4, "1": 25}}, limited=False)
    assert end == {"t": {"0": 10, "1": 20}}
    assert places(stream.ranges({"t": {"0": 4, "1": 25}}, end)) == [("t", 0, 4, 10), ("t", 1, 0, 20)]


@pytest.mark.parametrize("most", [{}, {"maxOffsetsPerTrigger": "3"}])
@pytest.mark.parametrize("available_now", [False, True])
def test_a_topic_that_is_made_again_is_read_from_its_beginning_where_loss_is_allowed(
    available_now: bool, most: dict[str, str]
) -> None:
    cluster = Cluster(startingOffsets="earliest", failOnDataLoss="false", **most)
    stream = cluster.stream()
    start = stream.next_end({}, limited=False)
    cluster.ids["t"] = b"another-another-"
    # The new logs end below, at and behind the offsets at which the stream was, or are empty.
    cluster.logs["t"] = [(0, 4), (0, 20), (2, 30), (0, 0)]
    if available_now:
        stream.stop_at_present_ends()
    read: dict[int, list[int]] = {}
    while (end := stream.next_end(start, limited=True)) != start:
        # Another process may run the batch.
        assert cluster.stream().ranges(start, end) == stream.ranges(start, end)
        for each in stream.ranges(start, end):
            read.setdefault(each.partition, []).extend(range(each.start, each.end))
        start = end
    assert read == {0: list(range(4)), 1: list(range(20)), 2: list(range(2, 30))}


@pytest.mark.parametrize("available_now", [False, True])
def test_a_topic_of_a_pattern_that_is_deleted_is_lost_data(available_now: bool) -> None:
    for fails in ("true", "false"):
        cluster = Cluster(subscribePattern=".", failOnDataLoss=fails)
        cluster.logs["u"] = [(0, 5)]
        start = cluster.stream().next_end({}, limited=False)
        del cluster.logs["u"]
        stream = cluster.stream(available_now)
        if fails == "true":
            with pytest.raises(DataLoss, match="u-0 is gone"):
                stream.next_end(start, limited=False)
        else:
            assert stream.next_end(start, limited=False) == {"t": {"0": 10, "1": 20}}


def test_a_batch_waits_for_enough_records_but_not_for_ever() -> None:
    cluster = Cluster(startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="30s")
    stream = cluster.stream()
    first = stream.next_end({}, limited=False)
    cluster.logs["t"][0] = (0, 12)
    assert stream.next_end(first, limited=False) == first
    cluster.now = 31.0
    assert stream.next_end(first, limited=False) == {"t": {"0": 12, "1": 20}}


def test_what_comes_after_the_beginning_of_available_now_is_left_for_the_next_run() -> None:
    cluster = Cluster(startingOffsets="earliest")
    stream = cluster.stream()
    stream.stop_at_present_ends()
    cluster.logs["t"] = [(0, 100), (0, 20), (0, 5)]
    first = stream.next_end({}, limited=False)
    assert from_json(first) == {TopicPartition("t", 0): 10, TopicPartition("t", 1): 20}
    assert stream.next_end(first, limited=False) == first


@given(
    st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 50), st.integers(0, 200)), min_size=1),
    st.integers(1, 300),
)
def test_shares_are_bounded_and_go_on(sizes: dict[int, tuple[int, int]], most: int) -> None:
    begun = {TopicPartition("t", number): start for number, (start, _) in sizes.items()}
    ends = {TopicPartition("t", number): start + size for number, (start, size) in sizes.items()}
    found = share(begun, ends, most)
    assert all(begun[each] <= found[each] <= ends[each] for each in ends)
    taken = {each: found[each] - begun[each] for each in ends}
    behind = [each for each in ends if begun[each] < ends[each]]
    assert all(taken[each] for each in behind), "a partition waits for the others"
    assert sum(taken.values()) == min(max(most, len(behind)), sum(size for _, size in sizes.values()))


@given(
    st.dictionaries(
        st.integers(0, 9), st.tuples(st.integers(0, 50), st.integers(0, 200), st.integers(1, 99)), min_size=1
    ),
    st.integers(1, 30_000),
)
def test_shares_of_bytes_are_bounded_and_go_on(sizes: dict[int, tuple[int, int, int]], most: int) -> None:
    begun = {TopicPartition("t", number): start for number, (start, _, _) in sizes.items()}
    ends = {TopicPartition("t", number): start + size for number, (start, size, _) in sizes.items()}
    each_bytes = {TopicPartition("t", number): float(each) for number, (_, _, each) in sizes.items()}
    found = share_bytes(begun, ends, each_bytes, most)
    assert all(begun[each] <= found[each] <= ends[each] for each in ends)
    taken = {each: found[each] - begun[each] for each in ends}
    assert all(taken[each] for each in ends if begun[each] < ends[each]), "a partition waits for the others"
    assert sum((taken[each] - 1) * each_bytes[each] for each in ends if taken[each]) <= most


@given(st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), st.integers(0, 2**62)))
def test_offsets_survive_json_in_one_order(offsets: dict[tuple[str, int], int]) -> None:
    given_ends = {TopicPartition(*place): offset for place, offset in offsets.items()}
    text = json.dumps(to_json(given_ends))
    assert from_json(json.loads(text)) == given_ends
    assert json.dumps(to_json(dict(reversed(given_ends.items())))) == text
