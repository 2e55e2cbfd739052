"""What requests of the controller name: partitions that may exist, those to stop, and everything there is.

LeaderAndIsr and UpdateMetadata can be full: what such a request does not name is gone. One with more values than a
request may have comes in pieces, one behind the other. Where a piece is missing, the others say what is there and not
what is gone: the controller sends all again.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Generic, TypeVar

from ...protocol.errors import KafkaError
from ...protocol.messages.stop_replica import StopReplicaRequest
from ...protocol.messages.update_metadata import UpdateMetadataTopicState
from ..topics.topic_names import check_name, check_partition_index

ANY_EPOCH = -1

_log = logging.getLogger(__name__)
# Types of the pieces. Kafka has none: its brokers take a type that they do not know for a request that is not full.
BEGINS, GOES_ON, ENDS = 11, 12, 13
T = TypeVar("T")


def may_exist(states: UpdateMetadataTopicState) -> bool:
    """Return whether a topic may have its name and the indexes of its partitions; log it where it may not."""
    indexes = [each.partition_index for each in states.partition_states]
    error = why_impossible(states.topic_name, (min(indexes), max(indexes)) if indexes else ())
    if error is not None:
        _log.warning("topic %r is passed over: %s", states.topic_name, error.message)
    return error is None


def why_impossible(topic: str, indexes: Iterable[int]) -> KafkaError | None:
    """Return why no topic has this name, or no partition such an index; None where both may be.

    The name and the index become the name of a directory, and the highest index says how many partitions there are.
    """
    try:
        check_name(topic)
        for index in indexes:
            check_partition_index(index)
    except KafkaError as error:
        return error
    return None


def partitions_to_stop(request: StopReplicaRequest) -> list[tuple[str, int, int, bool]]:
    """Return (topic, index, leader epoch, whether to delete) of every partition, whatever the version."""
    delete = request.delete_partitions
    return [
        *((each.topic_name, each.partition_index, ANY_EPOCH, delete) for each in request.ungrouped_partitions),
        *((topic.name, index, ANY_EPOCH, delete) for topic in request.topics for index in topic.partition_indexes),
        *(
            (topic.topic_name, each.partition_index, each.leader_epoch, each.delete_partition)
            for topic in request.topic_states
            for each in topic.partition_states
        ),
    ]


class FullNames(Generic[T]):
    """Gathers the names of one kind of request that may be full."""

    def __init__(self, full: int) -> None:
        """`full` is the type of a request that is full by itself."""
        self._full = full
        # None: no first piece, or one behind it is missing.
        self._gathered: set[T] | None = None
        # Whether a full request has begun, and none has been carried out to its end since.
        self.is_partial = False

    def take(self, kind: int, names: set[T]) -> set[T] | None:
        """Note the names of a request of this type. Return all names where it completes a full one."""
        gathered, self._gathered = self._gathered, None
        whole: set[T] | None = None
        if kind == self._full:
            whole = names
        elif kind == BEGINS:
            self._gathered = names
        elif gathered is not None and kind == GOES_ON:
            self._gathered = gathered | names
        elif gathered is not None and kind == ENDS:
            whole = gathered | names
        self.is_partial = whole is None and (self.is_partial or kind in (BEGINS, GOES_ON, ENDS))
        return whole

    @contextmanager
    def losing(self) -> Generator[None]:
        """Forget the pieces where a request is not carried out, because of an error."""
        was_partial = self.is_partial
        try:
            yield
        except BaseException:
            self._gathered = None
            self.is_partial |= was_partial
            raise
