"""The session of one member with one leader: ShareFetch (key 78) and ShareAcknowledge (79), without the wire.

    closed --fetch with epoch 0--> open --fetch, acknowledge: the epoch grows--> open --epoch -1--> closed

An open session knows its partitions: a fetch names only those that come, those that have acknowledgements, and those
that go. Requests of a session go one after another. After one without an answer nobody knows its epoch, so the session
is given up, and with it what was acquired in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...protocol.messages import share_acknowledge as ack
from ...protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from ..record import TopicPartition, by_topic
from .deliveries import Acknowledgement, Settled, Source, runs

_CLOSE_EPOCH = -1
_LAST_EPOCH = 2**31 - 1

# A partition of an assignment: topic id and number.
Place = tuple[bytes, int]
# What became of the offsets of a partition.
Outcomes = Mapping[Place, Mapping[int, Acknowledgement]]


@dataclass(frozen=True, slots=True)
class ShareFetchOptions:
    """Kafka's options of the same names."""

    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_poll_records: int
    check_crcs: bool
    # 0 batch_optimized, 1 record_limit.
    acquire_mode: int


class ShareSession:
    """One session at a time with one leader."""

    def __init__(self, group_id: str, member_id: str, options: ShareFetchOptions) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._options = options
        self._epoch = 0
        self._places: frozenset[Place] = frozenset()
        # Grows with each session that is begun.
        self.number = 0

    @property
    def is_open(self) -> bool:
        """Whether the leader knows this session."""
        return self._epoch != 0

    def has(self, places: Iterable[Place]) -> bool:
        """Whether these partitions are in the session."""
        return self._places.issuperset(places)

    # -- Requests

    def fetch(self, wanted: frozenset[Place], outcomes: Outcomes) -> ShareFetchRequest:
        """Return a request for records of `wanted`, which must have all partitions of `outcomes`."""
        named = wanted if not self.is_open else wanted - self._places | outcomes.keys()
        topics: dict[bytes, FetchTopic] = {}
        for topic_id, number in sorted(named):
            batches = [AcknowledgementBatch(*run) for run in runs(outcomes.get((topic_id, number), {}))]
            partition = FetchPartition(partition_index=number, acknowledgement_batches=batches)
            topics.setdefault(topic_id, FetchTopic(topic_id)).partitions.append(partition)
        forgotten = [ForgottenTopic(*each) for each in by_topic(sorted(self._places - wanted)).items()]
        return ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=self._options.fetch_max_wait_ms,
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=self._options.fetch_max_bytes,
            max_records=self._options.max_poll_records,
            batch_size=self._options.max_poll_records,
            share_acquire_mode=self._options.acquire_mode,
            topics=list(topics.values()),
            forgotten_topics_data=forgotten,
        )

    def acknowledge(self, outcomes: Outcomes, *, close: bool = False) -> ack.ShareAcknowledgeRequest:
        """Return a request that says what became of records; with `close` the leader takes the others back."""
        topics: dict[bytes, ack.AcknowledgeTopic] = {}
        for topic_id, number in sorted(outcomes):
            batches = [ack.AcknowledgementBatch(*run) for run in runs(outcomes[topic_id, number])]
            partition = ack.AcknowledgePartition(number, batches)
            topics.setdefault(topic_id, ack.AcknowledgeTopic(topic_id)).partitions.append(partition)
        kinds = {kind for found in outcomes.values() for kind in found.values()}
        return ack.ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=_CLOSE_EPOCH if close else self._epoch,
            is_renew_ack=Acknowledgement.RENEW in kinds,
            topics=list(topics.values()),
        )

    # -- Answers

    def fetched(self, places: frozenset[Place]) -> None:
        """Note that a fetch of these partitions was answered."""
        if not self.is_open:
            self.number += 1
        self._places = places
        self.advance()

    def advance(self) -> None:
        """Note that a request was answered."""
        self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """Give the session up, or note that it is closed."""
        self._epoch, self._places = 0, frozenset()


def outcomes_of(taken: Mapping[Source, Settled], number: int) -> dict[Place, dict[int, Acknowledgement]]:
    """Return what a leader has to be told in its session of this number."""
    found: dict[Place, dict[int, Acknowledgement]] = {}
    for source, settled in taken.items():
        if source.session == number:
            for partition, offsets in settled.items():
                found.setdefault((source.topic_id, partition.partition), {}).update(offsets)
    return found


def places_of(taken: Mapping[Source, Settled], number: int, *, current: bool) -> dict[Place, TopicPartition]:
    """Return the partitions with records that were settled in the session of this number, or in earlier ones."""
    return {
        (source.topic_id, partition.partition): partition
        for source, settled in taken.items()
        if (source.session == number) is current
        for partition in settled
    }
