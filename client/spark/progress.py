"""The progress of a stream, where lag tools look for it: committed offsets of a group named after the query.

A task knows the query's id, and the driver's side of a Python source does not. A batch begins where the batch before it
ended, and Spark plans it only when that one is complete. So each task commits the beginning of its partition's range.
Lag is therefore one batch late. The commit runs in a thread while the task reads. It is given up, with a warning, soon
after the last row: a late commit would overwrite that of the next batch. A restart goes by Spark's checkpoint, and the
next batch commits again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from ...protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ..arrow.brokers import Brokers
from ..arrow.connection import ClientOptions
from ..arrow.fetch import OffsetRange
from ..core.coordinator import GROUP, coordinator_in, coordinator_request
from ..core.option_values import Address
from ..errors import KafkaError, only, raise_error
from .options import SourceOptions

# The names of the query's id and of the batch's number among the local properties of a task.
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
# How long the thread waits for a connection, for a response, and for a commit with all that is tried again.
WITHIN_MS = 5_000
# How long a task waits at its end for a commit that is under way: the rows of a small batch come sooner than it.
AT_END_MS = 500
_BOUNDED = ("socket.connection.setup.timeout.ms", "request.timeout.ms", "default.api.timeout.ms")

log = logging.getLogger(__name__)


@contextmanager
def start_committed(wanted: OffsetRange, options: SourceOptions) -> Generator[None, None, None]:
    """Commit that everything before a range was processed, beside the rows of its task."""
    group = group_of(options, _query_id())
    if group is None or not wanted.is_first:
        yield
        return
    given_up = threading.Event()
    work = partial(_commit_start, wanted, options, group, given_up)
    committing = threading.Thread(target=work, name=f"progress of {group}", daemon=True)
    committing.start()
    try:
        yield
    finally:
        committing.join(AT_END_MS / 1000)
        given_up.set()
        if committing.is_alive():
            log.warning("the progress of %s was not committed to group %s while its task ran", wanted, group)


def _commit_start(wanted: OffsetRange, options: SourceOptions, group: str, given_up: threading.Event) -> None:
    try:
        with Brokers(
            _hurried(options.client), first=wanted.partition, keeps_connections=True, was_reached=True
        ) as brokers:
            brokers.retry(lambda: commit(brokers, group, wanted, given_up))
    except KafkaError as error:
        log.warning("the progress of %s was not committed to group %s: %s", wanted, group, error.message)


def _hurried(client: ClientOptions) -> ClientOptions:
    """Return the options of connections on which nothing is waited for longer than WITHIN_MS."""
    bounded = {each: min(client.numbers[each], WITHIN_MS) for each in _BOUNDED}
    return replace(client, numbers={**client.numbers, **bounded})


def group_of(options: SourceOptions, query_id: str | None) -> str | None:
    """Return the group that a query's progress is committed to; None where there is none."""
    if not options.stream.commit_offsets:
        return None
    if options.client.group_id is not None:
        return options.client.group_id
    return None if query_id is None else f"{options.stream.group_id_prefix}-{query_id}"


def _query_id() -> str | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(QUERY_ID)


def commit(brokers: Brokers, group: str, wanted: OffsetRange, given_up: threading.Event) -> None:
    """Commit the start of a range, unless that is given up before the request is sent. Raises KafkaError."""
    partition = OffsetCommitRequestPartition(wanted.partition, wanted.start, committed_leader_epoch=-1)
    topic = OffsetCommitRequestTopic(wanted.topic, topic_id=wanted.topic_id, partitions=[partition])
    request = OffsetCommitRequest(group, generation_id_or_member_epoch=-1, member_id="", topics=[topic])
    with brokers.to(_coordinator(brokers, group)) as connection:
        if given_up.is_set():
            return
        response = connection.request(request, OffsetCommitResponse)
    result = only(only(response.topics, wanted).partitions, wanted)
    raise_error(result.error_code, None, f"commit of {wanted}")


def _coordinator(brokers: Brokers, group: str) -> Address:
    with brokers.connect() as connection:
        request = coordinator_request(group, GROUP, connection.version_for(FindCoordinatorRequest))
        found = coordinator_in(connection.request(request, FindCoordinatorResponse), group)
    return found.host, found.port
