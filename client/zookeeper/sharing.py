"""Which partitions a consumer of a group should own: steps 1 to 7 of the rebalance of Kafka 0.8, as pure functions.

Every consumer computes its own part, from what it sees in ZooKeeper. Consumers that see the same come to parts that fit
together; consumers that see different brokers, topics or consumers do not, and the owner registry stops them.

Ci is this consumer, PT the partitions of a topic, CG the streams of all consumers that subscribe to it, each named
CONSUMER-STREAM. A consumer with several streams counts several times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..record import TopicPartition
from .registry import Subscription


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
        partitions = partitions_of(view, topic)  # step 2
        group = streams_of(view, topic)  # step 3
        sort_partitions(partitions, view, topic)  # step 4
        sort_streams(group)  # step 5
        for number in range(streams):
            i = group.index(stream_name(consumer, number))
            n, extra = parts(partitions, group)  # step 6
            for partition in part(partitions, i, n, extra):  # step 7
                shared[TopicPartition(topic, partition)] = number
    return shared


def stream_name(consumer: str, number: int) -> str:
    """Return the name by which a stream owns partitions."""
    return f"{consumer}-{number}"


def partitions_of(view: View, topic: str) -> list[int]:
    """Step 2: let PT be all partitions of topic T."""
    return list(view.topics[topic])


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


def sort_streams(group: list[str]) -> None:
    """Step 5: sort CG."""
    group.sort()


def parts(partitions: Collection[int], group: Collection[str]) -> tuple[int, int]:
    """Step 6: let N be size(PT)/size(CG), and return it with the rest: so many get one partition more."""
    return divmod(len(partitions), len(group))


def part(partitions: list[int], i: int, n: int, extra: int) -> list[int]:
    """Step 7: assign partitions i*N to (i+1)*N - 1 to stream i. The first `extra` streams have one more."""
    begin = i * n + min(i, extra)
    return partitions[begin : begin + n + (i < extra)]
