"""Access to topics: what is written, read, created, deleted and described.

A denial comes before the question whether the topic exists. Only an id that no topic has is told as unknown.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from itertools import compress
from operator import not_
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.primitives import ZERO_UUID
from ...security.acls import Operation, ResourceType
from ...topics.topic_names import check_name
from ..connection import CloseConnection
from ..large_messages import Portions
from .access import Access, Result, all_denied, amended, denied, each, split, with_field
from .caller import Caller, Proceed

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
# Python 3.11 takes a tenth of a microsecond to look up a member of an enum: a percent of a small request.
_TOPIC, _WRITE = ResourceType.TOPIC, Operation.WRITE
# Where a batch says its format, and whether it is transactional.
_MAGIC_AT, _ATTRIBUTES_AT = 16, 22
_TRANSACTIONAL = 0x10


def topic_of(caller: Caller, item: Any) -> str | None:
    """Return the name of a topic that a request names, also by its id; None for an id that no topic has."""
    topic_id: bytes = getattr(item, "topic_id", ZERO_UUID)
    if topic_id == ZERO_UUID:
        return item.name if hasattr(item, "name") else item.topic
    topic = caller.services.topics.by_id(topic_id)
    return None if topic is None else topic.name


def each_topic(portions: Portions, operation: Operation) -> Access:
    """Return the access of an API that needs one operation on each topic of its list."""
    return each(portions, operation, _TOPIC, _DENIED, topic_of)


# -- Produce


def produce(portions: Portions) -> Access:
    """Return the access of Produce. Transactional batches need a transactional id, too."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        # Without a transactional id a partition rejects transactional batches itself.
        transactional_id = request.transactional_id
        if transactional_id is not None and _is_transactional(request) and not _may_use(caller, transactional_id):
            if request.acks == 0:
                raise CloseConnection("acks=0 without WRITE on the transactional id")
            return all_denied(caller, request, portions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        # Without `split`, whose calls would be one in forty of a small request.
        are_allowed = [
            caller.may(_WRITE, _TOPIC, data.name) if data.name else _may_write_by_id(caller, data)
            for data in request.topic_data
        ]
        if all(are_allowed):
            return proceed(request)
        rest: list[Any] = list(compress(request.topic_data, are_allowed))
        refused: list[Any] = list(compress(request.topic_data, map(not_, are_allowed)))
        result = proceed(with_field(request, "topic_data", rest))
        if request.acks == 0:
            # The batches of the other topics are appended.
            raise CloseConnection("acks=0 without WRITE on a topic")
        results = denied(caller, portions, refused, _DENIED)
        return amended(result, lambda response: response.responses.extend(results))

    return Access("WRITE on each TOPIC; WRITE on the TRANSACTIONAL_ID for transactional batches", check)


def _is_transactional(request: Any) -> bool:
    """Return whether any batch of a Produce request belongs to a transaction."""
    for data in request.topic_data:
        for sent in data.partition_data:
            records = sent.records
            if records is None or len(records) <= _ATTRIBUTES_AT or records[_MAGIC_AT] != 2:
                continue
            if records[_ATTRIBUTES_AT] & _TRANSACTIONAL:
                return True
    return False


def _may_use(caller: Caller, transactional_id: str) -> bool:
    return caller.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _may_write_by_id(caller: Caller, data: Any) -> bool:
    name = topic_of(caller, data)
    return name is None or caller.may(_WRITE, _TOPIC, name)


# -- Creation and deletion


def create(portions: Portions) -> Access:
    """Return the access of CreateTopics: the cluster, or each topic."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        may_all = caller.may_cluster(Operation.CREATE, audited=False)
        times = Counter(topic.name for topic in request.topics)

        def is_allowed(topic: Any) -> bool:
            # The handler rejects a name that comes twice.
            return may_all or times[topic.name] > 1 or caller.may(Operation.CREATE, _TOPIC, topic.name)

        rest, refused = split(request.topics, is_allowed)
        results = denied(caller, portions, refused, _DENIED, "Authorization failed.")

        def amend(response: Any) -> None:
            for result in response.topics:
                _hide_configs(caller, result)
            response.topics.extend(results)

        return amended(proceed(with_field(request, "topics", rest)), amend)

    return Access("CREATE on the cluster, or on each TOPIC; DESCRIBE_CONFIGS on a TOPIC to see its configs", check)


def _hide_configs(caller: Caller, result: Any) -> None:
    """Hide what a topic was created with from a client that may not see configs."""
    if result.error_code or caller.may(Operation.DESCRIBE_CONFIGS, _TOPIC, result.name, audited=False):
        return
    result.topic_config_error_code = int(_DENIED)
    result.num_partitions = result.replication_factor = -1
    result.configs = []


@partial(Access, "DELETE on the cluster, or DESCRIBE and DELETE on each TOPIC")
def delete(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to DeleteTopics: the cluster, or DESCRIBE and DELETE on each topic."""
    if caller.may_cluster(Operation.DELETE, audited=False):
        return proceed(request)
    by_state = caller.api_version >= 6
    field = "topics" if by_state else "topic_names"
    rest: list[Any] = []
    refused: list[tuple[str | None, bytes]] = []
    for item in getattr(request, field):
        name, topic_id = (item.name, item.topic_id) if by_state else (item, ZERO_UUID)
        shown = _shown_if_denied(caller, name, topic_id)
        rest.append(item) if shown is None else refused.append(shown)
    results = _deletion_results(refused)
    return amended(proceed(with_field(request, field, rest)), lambda response: response.responses.extend(results))


def _shown_if_denied(caller: Caller, name: str | None, topic_id: bytes) -> tuple[str | None, bytes] | None:
    """Return the name and id that a client sees of a topic that it may not delete; None where the handler goes on."""
    if (name is None) == (topic_id == ZERO_UUID):
        return None
    topic = caller.services.topics.by_id(topic_id) if name is None else caller.services.topics.get(name)
    if name is None and topic is None:
        return None
    found = topic.name if topic is not None else name or ""
    may_describe = caller.may(Operation.DESCRIBE, _TOPIC, found, audited=name is not None)
    if not may_describe:
        return name, topic_id
    if topic is None or caller.may(Operation.DELETE, _TOPIC, found):
        return None
    return found, topic_id


def _deletion_results(refused: list[tuple[str | None, bytes]]) -> list[Any]:
    from ....protocol.messages.delete_topics import DeletableTopicResult

    return [DeletableTopicResult(name, topic_id, int(_DENIED), _DENIED.text) for name, topic_id in refused]


# -- Descriptions


def leader_epochs(portions: Portions) -> Access:
    """Return the access of OffsetForLeaderEpoch: a broker's, or DESCRIBE on each topic."""
    by_topic = each_topic(portions, Operation.DESCRIBE)
    check_topics = by_topic.check
    assert check_topics is not None

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        if caller.may_cluster(Operation.CLUSTER_ACTION, audited=False):
            return proceed(request)
        return check_topics(caller, request, proceed)

    return Access(f"CLUSTER_ACTION on the cluster, or {by_topic.needs}", check)


def _named_well(caller: Caller, item: Any) -> str | None:
    try:
        check_name(item.name)
    except KafkaError:
        return None
    return item.name


def producers(portions: Portions) -> Access:
    """Return the access of DescribeProducers, which rejects invalid names first."""
    return each(portions, Operation.READ, _TOPIC, _DENIED, _named_well, _DENIED.text)


@partial(Access, "READ on the TOPIC")
def lease(caller: Caller, request: Any, proceed: Proceed) -> Result | asyncio.Future[Any]:
    """Access to a lease of segments: what a Fetch needs."""
    name = topic_of(caller, request)
    if name is not None and not caller.may(Operation.READ, _TOPIC, name):
        raise KafkaError(_DENIED)
    return proceed(request)
