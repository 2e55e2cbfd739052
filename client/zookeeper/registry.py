"""What members of a group in ZooKeeper see of each other, and the part that each of them should own.

    /consumers/GROUP/ids/CONSUMER              ephemeral: what the consumer subscribes to
    /consumers/GROUP/owners/TOPIC/PARTITION    ephemeral: CONSUMER-STREAM, which alone reads the partition
    /consumers/GROUP/offsets/TOPIC/PARTITION   persistent: the committed offset as text
    /brokers/ids/BROKER                        ephemeral: where a broker listens
    /brokers/topics/TOPIC                      persistent: the replicas of each partition

Contents are the JSON of Kafka's own consumer, from 0.8 to 0.11. `encode_…` writes it, `decode_…` reads it and returns
None where it is not what a consumer or a broker would write.

`share` is steps 1 to 7 of the rebalance of Kafka 0.8, as pure functions. Every consumer computes its own part, from
what it sees in ZooKeeper. Consumers that see the same come to parts that fit together; consumers that see different
brokers, topics or consumers do not, and the owner registry stops them.

Ci is this consumer, PT the partitions of a topic, CG the streams of all consumers that subscribe to it, each named
CONSUMER-STREAM. A consumer with several streams counts several times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..record import TopicPartition

CONSUMERS = "/consumers"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
# Groups by filter leave them out.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

# How a subscription names topics.
STATIC = "static"
WHITE_LIST = "white_list"
BLACK_LIST = "black_list"

# What ZooKeeper takes as the name of a znode.
_NAME = re.compile(r"[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+")


def is_node_name(text: str) -> bool:
    """Whether a group can have a znode of this name."""
    return text not in (".", "..") and _NAME.fullmatch(text) is not None


# -- Paths


def group_path(group: str) -> str:
    return f"{CONSUMERS}/{group}"


def ids_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def id_path(group: str, consumer: str) -> str:
    return f"{CONSUMERS}/{group}/ids/{consumer}"


def owners_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/owners"


def owner_path(group: str, place: TopicPartition) -> str:
    return f"{CONSUMERS}/{group}/owners/{place.topic}/{place.partition}"


def offsets_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/offsets"


def offset_path(group: str, place: TopicPartition) -> str:
    return f"{CONSUMERS}/{group}/offsets/{place.topic}/{place.partition}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


# -- Subscriptions


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a consumer subscribes to: streams by topic (STATIC), or by the one pattern of a filter."""

    streams: Mapping[str, int]
    pattern: str = STATIC

    def topics_of(self, known: Iterable[str]) -> dict[str, int]:
        """Return the subscribed topics among those that exist, with the number of streams of each."""
        if self.pattern == STATIC:
            return {topic: self.streams[topic] for topic in known if topic in self.streams}
        ((text, count),) = self.streams.items()
        matches = re.compile(filter_pattern(text)).fullmatch
        wanted = self.pattern == WHITE_LIST
        return {
            topic: count for topic in known if (matches(topic) is not None) == wanted and topic not in INTERNAL_TOPICS
        }

    @property
    def has_filter(self) -> bool:
        """Whether topics that are made later may belong to it."""
        return self.pattern != STATIC


def filter_pattern(text: str) -> str:
    """Return the regular expression of a filter, which may be a list with commas, as Kafka 0.8 took it."""
    return text.strip().strip("\"'").replace(",", "|").replace(" ", "")


def encode_subscription(subscription: Subscription, timestamp_ms: int) -> bytes:
    """Return the content of a consumer's znode, version 1."""
    fields = {
        "version": 1,
        "subscription": dict(subscription.streams),
        "pattern": subscription.pattern,
        "timestamp": str(timestamp_ms),
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode_subscription(data: bytes) -> Subscription | None:
    """Return what a consumer subscribes to. The first consumers wrote no pattern."""
    fields = _decode(data)
    streams, pattern = _counts(fields.get("subscription")), fields.get("pattern", STATIC)
    if streams is None or pattern not in (STATIC, WHITE_LIST, BLACK_LIST):
        return None
    found = Subscription(streams, pattern)
    if found.has_filter:
        try:
            found.topics_of(("topic",))
        except (ValueError, re.error):
            return None
    return found


def _counts(value: Any) -> dict[str, int] | None:
    if not isinstance(value, dict):
        return None
    counts = cast("dict[str, Any]", value)
    return counts if all(isinstance(each, int) and each > 0 for each in counts.values()) else None


# -- Brokers and topics


def decode_address(data: bytes, protocol: str = "PLAINTEXT") -> str | None:
    """Return HOST:PORT of a broker's listener that speaks a security protocol; None where it has none."""
    fields = _decode(data)
    protocols = fields.get("listener_security_protocol_map")
    names: dict[Any, Any] = cast("dict[Any, Any]", protocols) if isinstance(protocols, dict) else {}
    endpoints = fields.get("endpoints")
    for each in cast("list[Any]", endpoints) if isinstance(endpoints, list) else []:
        listener, _, address = str(each).partition("://")
        # Before Kafka 0.10.2 a listener was named as its protocol.
        if names.get(listener, listener) == protocol and address:
            return address
    host, port = fields.get("host"), fields.get("port")
    is_plain = protocol == "PLAINTEXT" and isinstance(host, str) and isinstance(port, int) and port >= 0
    return f"{host}:{port}" if is_plain else None


def decode_replicas(data: bytes) -> dict[int, tuple[int, ...]]:
    """Return the replicas of each partition of a topic; none where they cannot be read."""
    partitions = _decode(data).get("partitions")
    if not isinstance(partitions, dict):
        return {}
    entries = cast("dict[Any, Any]", partitions)
    try:
        return {int(index): tuple(int(each) for each in replicas) for index, replicas in entries.items()}
    except (TypeError, ValueError):
        return {}


def _decode(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}  # pyright: ignore[reportUnknownVariableType]


# -- The parts of consumers


@dataclass(frozen=True, slots=True)
class View:
    """What one consumer has seen of ZooKeeper."""

    # Consumer id -> subscription.
    consumers: Mapping[str, Subscription]
    brokers: frozenset[int]
    # Topic -> partition -> replicas.
    topics: Mapping[str, Mapping[int, tuple[int, ...]]]


def share(view: View, consumer: str) -> dict[TopicPartition, int]:
    """Return the partitions that a consumer should own, each with the number of the stream that reads it."""
    shared: dict[TopicPartition, int] = {}
    # Step 1: for each topic T that Ci subscribes to
    for topic, streams in view.consumers[consumer].topics_of(sorted(view.topics)).items():
        partitions = list(view.topics[topic])  # step 2: let PT be all partitions of topic T
        group = streams_of(view, topic)  # step 3
        sort_partitions(partitions, view, topic)  # step 4
        group.sort()  # step 5: sort CG
        # Step 6: let N be size(PT)/size(CG). The rest goes to the first streams, one each.
        n, extra = divmod(len(partitions), len(group))
        for number in range(streams):
            i = group.index(stream_name(consumer, number))
            begin = i * n + min(i, extra)
            # Step 7: assign partitions i*N to (i+1)*N - 1 to stream i
            for partition in partitions[begin : begin + n + (i < extra)]:
                shared[TopicPartition(topic, partition)] = number
    return shared


def stream_name(consumer: str, number: int) -> str:
    """Return the name by which a stream owns partitions."""
    return f"{consumer}-{number}"


def streams_of(view: View, topic: str) -> list[str]:
    """Step 3: let CG be all consumers of the group that consume topic T, each once for each of its streams."""
    found: list[str] = []
    for consumer, subscription in view.consumers.items():
        count = subscription.topics_of((topic,)).get(topic, 0)
        found += [stream_name(consumer, number) for number in range(count)]
    return found


def sort_partitions(partitions: list[int], view: View, topic: str) -> None:
    """Step 4: sort PT, so that partitions of the same broker are beside each other and a part has few brokers."""
    replicas = view.topics[topic]
    partitions.sort(key=lambda partition: (home(replicas[partition], view.brokers), partition))


def home(replicas: Iterable[int], brokers: Collection[int]) -> int:
    """Return the broker that a partition counts for: its first replica that is registered.

    The preferred replica leads most of the time. The present leader would change with each election, and consumers that
    read it before and after would not agree.
    """
    every = list(replicas)
    return next((each for each in every if each in brokers), every[0] if every else -1)
