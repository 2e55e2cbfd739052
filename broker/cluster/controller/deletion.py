"""Deletion of topics: every replica is deleted first, then the topic's znodes.

`/admin/delete_topics/T` asks for it and stays until it is done, so a new controller goes on where the last one stopped.
A topic waits while one of its replicas is dead or moves: a broker that came back later would bring the topic back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ....zookeeper.operations import Delete, Steps, children, write_all
from ..znodes import (
    DELETE_TOPICS,
    TopicPartition,
    config_path,
    delete_topic_path,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)
from .cluster_state import ClusterState
from .outbox import Outbox

_log = logging.getLogger(__name__)


class Deletion:
    """The topics that are being deleted, and the replicas whose brokers have not deleted them yet."""

    def __init__(self, cluster: ClusterState, outbox: Outbox) -> None:
        self._cluster = cluster
        self._outbox = outbox
        # Topic -> broker and partition of each replica that is still there. Invariant: the topics are in deletion.
        self._left: dict[str, set[tuple[int, TopicPartition]]] = {}

    def take_up(self) -> Steps[None]:
        """Read which topics are to be deleted and begin with those that can be."""
        asked = yield from children(DELETE_TOPICS, watch=True)
        unknown = [each for each in asked if each not in self._cluster.topic_ids]
        yield from write_all((Delete(delete_topic_path(each)),) for each in unknown)
        self._cluster.deletions |= set(asked) - set(unknown)
        yield from self.resume()

    def resume(self) -> Steps[None]:
        """Begin, or begin again, with every topic that nothing stands in the way of."""
        for topic in sorted(self._cluster.deletions):
            places = self._cluster.partitions_of(topic)
            why = self._obstacle(places)
            if why:
                _log.info("the deletion of topic %s waits: %s", topic, why)
                continue
            self._stop_replicas(topic, places)
            yield from self._finish(topic)

    def _obstacle(self, places: Iterable[TopicPartition]) -> str:
        for place in places:
            replicas = self._cluster.replicas[place]
            if replicas.is_moving:
                return f"{place} is being reassigned"
            dead = [each for each in replicas.replicas if not self._cluster.is_alive(each, place)]
            if dead:
                return f"the replica of {place} on broker {dead[0]} cannot be reached"
        return ""

    def _stop_replicas(self, topic: str, places: list[TopicPartition]) -> None:
        cluster = self._cluster
        cluster.deleting.add(topic)
        left = self._left.setdefault(
            topic, {(broker, place) for place in places for broker in cluster.replicas[place].replicas}
        )
        self._outbox.tell_everybody(places)
        self._ask(left)

    def ask_again(self, broker: int) -> None:
        """Ask a broker again for what it has not deleted yet."""
        self._ask(each for left in self._left.values() for each in left if each[0] == broker)

    def waits_for(self, broker: int, place: TopicPartition) -> bool:
        """Return whether a broker still has to delete its replica of a partition."""
        return (broker, place) in self._left.get(place.topic, ())

    def _ask(self, left: Iterable[tuple[int, TopicPartition]]) -> None:
        for broker, place in sorted(left):
            # -2 says that the topic is deleted, so it is not compared with the replica's own leader epoch.
            self._outbox.stop(broker, place, -2 if place in self._cluster.states else -1, delete=True)

    def note_stopped(self, broker: int, deleted: Iterable[TopicPartition]) -> Steps[None]:
        """Take note that a broker has deleted replicas. The last one of a topic ends its deletion."""
        topics: set[str] = set()
        for place in deleted:
            left = self._left.get(place.topic)
            if left is not None:
                left.discard((broker, place))
                topics.add(place.topic)
        for topic in sorted(topics):
            yield from self._finish(topic)

    def note_failed(self, broker: int) -> None:
        """Take note that a broker cannot delete its replicas now. `resume` asks again when it can."""
        for topic in [topic for topic, left in self._left.items() if any(each == broker for each, _ in left)]:
            del self._left[topic]
            self._cluster.deleting.discard(topic)

    def _finish(self, topic: str) -> Steps[None]:
        if self._left.get(topic, True):
            return
        del self._left[topic]
        places = self._cluster.partitions_of(topic)
        yield from delete_topic_znodes(topic, places)
        self._cluster.forget_topic(topic)
        _log.info("topic %s is deleted", topic)


def delete_topic_znodes(topic: str, places: Iterable[TopicPartition]) -> Steps[None]:
    """Delete the znodes of a topic. The znode that asked for it goes last, so that a new controller can go on."""
    indexes = yield from children(partitions_path(topic))
    every = sorted({TopicPartition(topic, int(each)) for each in indexes if each.isdecimal()} | set(places))
    for paths in (
        [state_path(each) for each in every],
        [partition_path(each) for each in every],
        [partitions_path(topic)],
        [topic_path(topic)],
        [config_path("topics", topic)],
        [delete_topic_path(topic)],
    ):
        yield from write_all((Delete(path),) for path in paths)
