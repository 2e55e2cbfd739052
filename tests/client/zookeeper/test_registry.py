"""The contents of the registry are Kafka's own, and parts follow the rule of the rebalance."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client import TopicPartition, zookeeper
from odradek.client.zookeeper import registry
from odradek.client.zookeeper.registry import BLACK_LIST, WHITE_LIST, Subscription, View, home, share, sort_partitions


def test_a_subscription_is_written_as_kafka_wrote_it() -> None:
    plain = registry.encode_subscription(Subscription({"flights": 2, "w": 1}), 1402353486000)
    assert plain == b'{"version":1,"subscription":{"flights":2,"w":1},"pattern":"static","timestamp":"1402353486000"}'
    by_filter = registry.encode_subscription(Subscription({"fl.*": 1}, WHITE_LIST), 1402353486000)
    assert by_filter == b'{"version":1,"subscription":{"fl.*":1},"pattern":"white_list","timestamp":"1402353486000"}'
    for each in (plain, by_filter):
        found = registry.decode_subscription(each)
        assert found is not None and registry.encode_subscription(found, 1402353486000) == each


def test_what_the_first_consumers_wrote_has_no_pattern() -> None:
    assert registry.decode_subscription(b'{"version":1,"subscription":{"t":1}}') == Subscription({"t": 1})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"subscription":{"t":0},"pattern":"static"}',
        b'{"subscription":{"t":"1"},"pattern":"static"}',
        b'{"subscription":{"t":1},"pattern":"grey_list"}',
        b'{"subscription":{"(":1},"pattern":"white_list"}',
        b'{"subscription":{"a":1,"b":1},"pattern":"black_list"}',
    ],
)
def test_what_no_consumer_writes_is_no_subscription(data: bytes) -> None:
    assert registry.decode_subscription(data) is None


def test_a_filter_names_topics_by_whole_names_and_leaves_internal_ones_out() -> None:
    known = ["flights", "flights-2", "weather", "__consumer_offsets"]
    assert Subscription({"flights": 3}, WHITE_LIST).topics_of(known) == {"flights": 3}
    assert Subscription({" 'flights.*, weather' ": 1}, WHITE_LIST).topics_of(known) == dict.fromkeys(known[:3], 1)
    assert Subscription({"flights.*": 1}, BLACK_LIST).topics_of(known) == {"weather": 1}
    assert Subscription({".*": 1}, WHITE_LIST).topics_of(known) == dict.fromkeys(known[:3], 1)


def test_addresses_of_brokers_of_every_age() -> None:
    assert registry.decode_address(b'{"version":1,"host":"h","port":9092}') == "h:9092"
    endpoints = b'{"version":5,"host":null,"port":-1,"endpoints":["SSL://h:9093","X://h:9094"]}'
    assert registry.decode_address(endpoints, "SSL") == "h:9093"
    assert registry.decode_address(endpoints) is None
    named = b'{"host":"h","port":9092,"endpoints":["IN://h:9092","OUT://h:1"],"listener_security_protocol_map":'
    named += b'{"IN":"PLAINTEXT","OUT":"SASL_SSL"}}'
    found = [registry.decode_address(named, each) for each in ("PLAINTEXT", "SASL_SSL", "SSL")]
    assert found == ["h:9092", "h:1", None]
    assert registry.decode_address(b'{"host":null}') is None
    assert registry.decode_replicas(b'{"version":1,"partitions":{"1":[2,3],"0":[1]}}') == {1: (2, 3), 0: (1,)}
    assert registry.decode_replicas(b'{"partitions":{"x":[1]}}') == {}


def test_partitions_are_sorted_by_broker_so_that_a_part_has_few() -> None:
    replicas = {0: (1, 2), 1: (2, 3), 2: (3, 1), 3: (1, 2), 4: (2, 3), 5: (3, 1)}
    view = View({"h:a": Subscription({"t": 1}), "h:b": Subscription({"t": 2})}, frozenset({1, 2, 3}), {"t": replicas})
    order = list(replicas)
    sort_partitions(order, view, "t")
    assert order == [0, 3, 1, 4, 2, 5]
    assert share(view, "h:a") == {TopicPartition("t", 0): 0, TopicPartition("t", 3): 0}
    assert share(view, "h:b") == {TopicPartition("t", n): stream for n, stream in ((1, 0), (4, 0), (2, 1), (5, 1))}
    assert home((2, 3), {3}) == 3 and home((2, 3), set()) == 2 and home((), {1}) == -1


@given(
    st.dictionaries(st.sampled_from([f"h:{n}" for n in range(12)]), st.integers(1, 4), min_size=1),
    st.integers(0, 40),
    st.frozensets(st.integers(1, 3)),
)
def test_members_of_one_view_share_every_partition_once(
    streams: dict[str, int], partitions: int, brokers: frozenset[int]
) -> None:
    consumers = {name: Subscription({"t": count}) for name, count in streams.items()}
    view = View(consumers, brokers, {"t": {n: (n % 3 + 1, (n + 1) % 3 + 1) for n in range(partitions)}})
    parts = [share(view, name) for name in consumers]
    owned = [place for part in parts for place in part]
    assert sorted(owned) == [TopicPartition("t", n) for n in range(partitions)]
    counts = [
        sum(number == each for each in part.values())
        for part, count in zip(parts, streams.values(), strict=True)
        for number in range(count)
    ]
    assert max(counts) - min(counts) <= 1


def test_without_kazoo_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ("odradek.client.zookeeper.connector", "odradek.zookeeper.session", "odradek.zookeeper.requests", "kazoo")
    for name in [each for each in sys.modules if each.startswith(kept)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    monkeypatch.setitem(sys.modules, "kazoo", None)
    with pytest.raises(ImportError, match=r"pip install 'odradek\[cluster\]'"):
        _ = zookeeper.ConsumerConnector
