"""Access to what is told of topics and of the cluster: Metadata, DescribeTopicPartitions and DescribeCluster.

Where all topics are asked for, the handler leaves out those that the client may not describe: it asks its context for
each, so that none of the others is described.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.primitives import ZERO_UUID
from ....protocol.shapes.answers import rejecter
from ....protocol.shapes.portions import with_field
from ....protocol.shapes.table import lists_in
from ...security.acls import Operation, ResourceType
from ...topics.topic_names import INTERNAL_TOPICS
from .access import Result, amended, as_access, by_item, list_of
from .caller import Caller, Proceed

_DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
# Python 3.11 takes a tenth of a microsecond to look up a member of an enum.
_DESCRIBE, _TOPIC = Operation.DESCRIBE, ResourceType.TOPIC


@as_access(
    "DESCRIBE on each TOPIC, others are left out where all are asked for; CREATE on the cluster or the TOPIC to create "
    "one; DESCRIBE on the cluster to see its authorized operations",
    denials=(ErrorCode.TOPIC_AUTHORIZATION_FAILED,),
)
def metadata(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to Metadata. A client that may not see a topic does not learn whether it exists, nor its name by an id."""
    (items,) = lists_in(caller.api_key, caller.api_version)
    services = caller.services

    def deny(item: Any) -> Any:
        requested: str | None = item.name
        is_by_id = requested is None or item.topic_id != ZERO_UUID
        found = services.topics.by_id(item.topic_id) if is_by_id else services.topics.get(requested or "")
        topic = services.known(found)
        if topic is None and is_by_id:
            return None
        name = topic.name if topic is not None else requested or ""
        may_see = caller.may(_DESCRIBE, _TOPIC, name)
        if may_see and (topic is not None or _may_create(caller, request, name)):
            return None
        result = rejecter(caller.api_key, items, caller.api_version)(item, _DENIED, None)
        result.name = None if is_by_id else name
        result.is_internal = may_see and name in INTERNAL_TOPICS
        return result

    if caller.api_version == 0 and request.topics:
        proceed = partial(_named_alone, proceed)
    response = by_item(caller, request, items, deny, proceed, needs_handler=True)
    if request.include_cluster_authorized_operations:
        response = amended(response, partial(_hide_operations, caller))
    return response


def _named_alone(proceed: Proceed, allowed: Any) -> Any:
    """Take topics that were named on to the handler of version 0, for which no topic means all of them."""
    response = proceed(allowed)
    return response if allowed.topics else amended(response, lambda whole: whole.topics.clear())


def _may_create(caller: Caller, request: Any, name: str) -> bool:
    """Return whether a missing topic is created, if it is, by a client that may."""
    if not (request.allow_auto_topic_creation and caller.services.config.auto_create_topics_enable):
        return True
    return caller.may_cluster(Operation.CREATE, audited=False) or caller.may(Operation.CREATE, _TOPIC, name)


def _hide_operations(caller: Caller, response: Any) -> None:
    if not caller.may_cluster(Operation.DESCRIBE):
        response.cluster_authorized_operations = 0


@as_access(
    "DESCRIBE on each TOPIC, others are left out where all are asked for",
    denials=(ErrorCode.TOPIC_AUTHORIZATION_FAILED,),
)
def topic_partitions(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to DescribeTopicPartitions: the topics from the cursor on, whose own may be denied, too."""
    start = request.cursor
    names = {each.name: each for each in request.topics}
    if not names or (start is not None and (start.partition_index < 0 or start.topic_name not in names)):
        return proceed(request)
    items, reject = list_of(caller)
    asked = [names[name] for name in sorted(names) if start is None or name >= start.topic_name]

    def deny(topic: Any) -> Any:
        may = caller.may(_DESCRIBE, _TOPIC, topic.name)
        return None if may else reject(topic, _DENIED, None)

    def go_on(allowed: Any) -> Any:
        if start is not None and allowed.topics[0].name != start.topic_name:
            allowed = with_field(allowed, "cursor", None)
        return proceed(allowed)

    return by_item(caller, with_field(request, "topics", asked), items, deny, go_on)


@as_access("nothing; DESCRIBE on the cluster to see its authorized operations")
def cluster(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to DescribeCluster."""
    response = proceed(request)
    if request.include_cluster_authorized_operations:
        response = amended(response, partial(_hide_operations, caller))
    return response
