"""Access to topics: what is written, read, created, deleted and described.

A denial comes before the question whether the topic exists. Only an id that no topic has is told as unknown.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import compress
from operator import not_
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.primitives import ZERO_UUID
from ....protocol.shapes.portions import with_field
from ....protocol.shapes.shape import Items
from ...security.acls import Operation, ResourceType
from ...topics.topic_names import check_name
from ..connection import CloseConnection
from .access import Access, Result, amended, answered, as_access, by_item, each, list_of, refuse, sees
from .caller import Caller, Proceed

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
# Python 3.11 takes a tenth of a microsecond to look up a member of an enum: a percent of a small request.
_TOPIC, _WRITE = ResourceType.TOPIC, Operation.WRITE
# Where a batch says its format, and whether it is transactional.
_MAGIC_AT, _ATTRIBUTES_AT = 16, 22
_TRANSACTIONAL = 0x10


def each_topic(operation: Operation) -> Access:
    """Return the access of an API that needs one operation on each topic of its list."""
    return each(operation, _TOPIC, _DENIED)


# -- Produce


@as_access(
    "WRITE on each TOPIC; WRITE on the TRANSACTIONAL_ID for transactional batches",
    denials=(_DENIED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
)
def produce(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to Produce. Transactional batches need a transactional id, too."""
    # Without a transactional id a partition rejects transactional batches itself.
    transactional_id = request.transactional_id
    if transactional_id is not None and _is_transactional(request) and not _may_use(caller, transactional_id):
        if request.acks == 0:
            raise CloseConnection("acks=0 without WRITE on the transactional id")
        return refuse(caller, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    # Without `split`, whose calls would be one in forty of a small request.
    are_allowed = [
        caller.may(_WRITE, _TOPIC, data.name) if data.name else _may_write_by_id(caller, data)
        for data in request.topic_data
    ]
    if all(are_allowed):
        return proceed(request)
    rest: list[Any] = list(compress(request.topic_data, are_allowed))
    if request.acks == 0:
        # The batches of the other topics are appended.
        proceed(with_field(request, "topic_data", rest))
        raise CloseConnection("acks=0 without WRITE on a topic")
    items, reject = list_of(caller)
    results = [reject(data, int(_DENIED), None) for data in compress(request.topic_data, map(not_, are_allowed))]
    return answered(caller, request, items, rest, results, proceed)


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
    topic = caller.services.topics.by_id(data.topic_id)
    return topic is None or caller.may(_WRITE, _TOPIC, topic.name)


# -- Creation and deletion


@as_access(
    "CREATE on the cluster, or on each TOPIC; DESCRIBE_CONFIGS on a TOPIC to see its configs",
    denials=(_DENIED,),
)
def create(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to CreateTopics: the cluster, or each topic."""
    may_all = caller.may_cluster(Operation.CREATE, audited=False)
    times: Counter[str] = Counter()

    items, reject = list_of(caller)

    def count(topic: Any) -> None:
        times[topic.name] += 1

    def deny(topic: Any) -> Any:
        # The handler rejects a name that comes twice.
        is_allowed = may_all or times[topic.name] > 1 or caller.may(Operation.CREATE, _TOPIC, topic.name)
        return None if is_allowed else reject(topic, int(_DENIED), "Authorization failed.")

    def amend(response: Any) -> None:
        for result in response.topics:
            _hide_configs(caller, result)

    def ask(counted: Any) -> Result:
        return by_item(caller, counted, items, deny, lambda allowed: amended(proceed(allowed), amend))

    return by_item(caller, request, items, count, ask)


def _hide_configs(caller: Caller, result: Any) -> None:
    """Hide what a topic was created with from a client that may not see configs."""
    if result.error_code or caller.may(Operation.DESCRIBE_CONFIGS, _TOPIC, result.name, audited=False):
        return
    result.topic_config_error_code = int(_DENIED)
    result.num_partitions = result.replication_factor = -1
    result.configs = []


@as_access("DELETE on the cluster, or on each TOPIC, by its name with DESCRIBE", denials=(_DENIED,))
def delete(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to DeleteTopics: the cluster, or DESCRIBE and DELETE on each topic."""
    if caller.may_cluster(Operation.DELETE, audited=False):
        return proceed(request)
    items, reject = list_of(caller)

    def deny(item: Any) -> Any:
        name, topic_id = (item.name, item.topic_id) if items.items == "topics" else (item, ZERO_UUID)
        shown = _shown_if_denied(caller, name, topic_id)
        if shown is None:
            return None
        result = reject(item, int(_DENIED), _DENIED.text)
        result.name = shown[0]
        return result

    return by_item(caller, request, items, deny, proceed)


def _shown_if_denied(caller: Caller, name: str | None, topic_id: bytes) -> tuple[str | None] | None:
    """Return the name that a client sees of a topic that it may not delete; None where the handler goes on."""
    if (name is None) == (topic_id == ZERO_UUID):
        return None
    if name is None:
        topic = caller.services.topics.by_id(topic_id)
        if topic is None or caller.may(Operation.DELETE, _TOPIC, topic.name):
            return None
        return (topic.name if sees(caller, _TOPIC, topic.name) else None,)
    # By its name a topic that is not there is told only to those who may describe it.
    may_describe = caller.may(Operation.DESCRIBE, _TOPIC, name)
    if may_describe and (caller.services.topics.get(name) is None or caller.may(Operation.DELETE, _TOPIC, name)):
        return None
    return (name,)


# -- Descriptions


_each_described = each_topic(Operation.DESCRIBE)


@as_access(f"CLUSTER_ACTION on the cluster, or {_each_described.needs}", denials=(_DENIED,))
def leader_epochs(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to OffsetForLeaderEpoch: a broker's, or DESCRIBE on each topic."""
    if caller.may_cluster(Operation.CLUSTER_ACTION, audited=False):
        return proceed(request)
    assert _each_described.check is not None
    return _each_described.check(caller, request, proceed)


def _named_well(caller: Caller, items: Items, item: Any) -> str | None:
    try:
        check_name(item.name)
    except KafkaError:
        return None
    return item.name


# Access to DescribeProducers, which rejects invalid names first.
producers = each(Operation.READ, _TOPIC, _DENIED, _named_well, _DENIED.text)


@as_access("READ on the TOPIC", denials=(_DENIED,))
def lease(caller: Caller, request: Any, proceed: Proceed) -> Result | asyncio.Future[Any]:
    """Access to a lease of segments: what a Fetch needs."""
    topic = caller.services.topics.by_id(request.topic_id)
    name = request.topic if request.topic_id == ZERO_UUID else topic and topic.name
    if name is not None and not caller.may(Operation.READ, _TOPIC, name):
        return refuse(caller, request, _DENIED, _DENIED.text)
    return proceed(request)


@as_access(
    "READ on the TOPIC of the lease, of a backup ALTER on the cluster",
    denials=(_DENIED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
)
def renew_lease(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to a lease that is renewed. A reader that may not read the topic any more loses it; so does a backup."""
    if request.is_end:
        return proceed(request)
    leases = caller.services.segment_leases
    topic = leases.topic_of(request.lease_id)
    if topic is None:
        may, code = caller.may_cluster(Operation.ALTER), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        may, code = caller.may(Operation.READ, _TOPIC, topic), _DENIED
    if may:
        return proceed(request)
    leases.end(request.lease_id)
    return refuse(caller, request, code)


@as_access("READ on each TOPIC; CLUSTER_ACTION on the cluster for followers", denials=(_DENIED,))
def fetch(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to Fetch. Its handler asks about each partition: of a session, whose partitions no request names.

    It asks in the walk that reads them, because a question at the door would cost each small Fetch a percent.
    """
    return proceed(request)
