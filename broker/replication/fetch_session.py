"""The follower's side of a fetch session (KIP-227): what to put into the next Fetch request to one leader.

The first request names every partition. The ones after it name only those whose position has changed since, and those
to forget. Where the leader has forgotten the session, or lost a request, the next request is a first one again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from ..configs.broker_config import BrokerConfig

# Topic name, topic id, partition index.
Key = tuple[str, bytes, int]


class Position(NamedTuple):
    """What a follower says of one partition."""

    offset: int
    leader_epoch: int
    # The epoch of its last record, -1 where it has none.
    last_epoch: int
    log_start_offset: int


class FollowerSession:
    """The session of one fetcher. `next_request` and the response to it take turns."""

    def __init__(self, config: BrokerConfig, node_id: int) -> None:
        self._config = config
        self._node_id = node_id
        self._id = 0
        self._epoch = 0
        # What the leader knows of each partition.
        self._known: dict[Key, Position] = {}

    def next_request(self, positions: Mapping[Key, Position], broker_epoch: int) -> FetchRequest:
        """Return the request for these partitions."""
        config = self._config
        changed = {key: each for key, each in positions.items() if self._known.get(key) != each}
        forgotten = [key for key in self._known if key not in positions]
        self._known = dict(positions)
        return FetchRequest(
            replica_state=ReplicaState(self._node_id, broker_epoch),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_topics(changed, config.replica_fetch_max_bytes),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def accept(self, session_id: int) -> None:
        """Go on with the session of a response; 0: the leader keeps none."""
        self._id = session_id
        if not session_id:
            self.reset()
        else:
            self._epoch = self._epoch + 1 if self._epoch < 2**31 - 1 else 1

    def reset(self) -> None:
        """Begin a new session with the next request. It replaces the one that the leader may still have."""
        self._epoch = 0
        self._known = {}


def _topics(changed: Mapping[Key, Position], max_bytes: int) -> list[FetchTopic]:
    topics: dict[bytes, FetchTopic] = {}
    for (_, topic_id, index), each in changed.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.offset,
                last_fetched_epoch=each.last_epoch,
                log_start_offset=each.log_start_offset,
                partition_max_bytes=max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(keys: list[Key]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for _, topic_id, index in keys:
        topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return list(topics.values())
