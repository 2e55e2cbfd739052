"""What requests of the controller name: partitions that may exist, and those to stop, whatever the version."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...protocol.errors import KafkaError
from ...protocol.messages.stop_replica import StopReplicaRequest
from ...protocol.messages.update_metadata import UpdateMetadataTopicState
from ..topics.topic_names import check_name, check_partition_index

ANY_EPOCH = -1

_log = logging.getLogger(__name__)


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
