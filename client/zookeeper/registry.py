"""The registry: the znodes by which consumers of Kafka 0.8 to 0.11 know each other, and their contents.

    /consumers/GROUP/ids/CONSUMER              ephemeral: what the consumer subscribes to
    /consumers/GROUP/owners/TOPIC/PARTITION    ephemeral: CONSUMER-STREAM, which alone reads the partition
    /consumers/GROUP/offsets/TOPIC/PARTITION   persistent: the committed offset as text
    /brokers/ids/BROKER                        ephemeral: where a broker listens
    /brokers/topics/TOPIC                      persistent: the replicas of each partition

Contents are the JSON of Kafka's own consumer. `encode_…` writes it, `decode_…` reads it and returns None where it is
not what a consumer or a broker would write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
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
    """Return the path of a group."""
    return f"{CONSUMERS}/{group}"


def ids_path(group: str) -> str:
    """Return the path under which a group's consumers are."""
    return f"{CONSUMERS}/{group}/ids"


def id_path(group: str, consumer: str) -> str:
    """Return the path of a consumer."""
    return f"{CONSUMERS}/{group}/ids/{consumer}"


def owners_path(group: str) -> str:
    """Return the path under which the owners of partitions are."""
    return f"{CONSUMERS}/{group}/owners"


def owner_path(group: str, place: TopicPartition) -> str:
    """Return the path of a partition's owner."""
    return f"{CONSUMERS}/{group}/owners/{place.topic}/{place.partition}"


def offsets_path(group: str) -> str:
    """Return the path under which a group's offsets are."""
    return f"{CONSUMERS}/{group}/offsets"


def offset_path(group: str, place: TopicPartition) -> str:
    """Return the path of a partition's committed offset."""
    return f"{CONSUMERS}/{group}/offsets/{place.topic}/{place.partition}"


def broker_path(broker: int) -> str:
    """Return the path of a broker."""
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    """Return the path of a topic."""
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
