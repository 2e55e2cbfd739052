"""Access to config resources and users: topics, groups, and all others as parts of the cluster."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.shapes.table import lists_in
from ...security.acls import CLUSTER_NAME, Operation, ResourceType
from ...topics.config_resources import ResourceType as ConfigResourceType
from .access import Access, Result, answered, refuse, refused
from .caller import Caller, Proceed

# The resource to which the rights on a config resource belong, and the error of a denial.
_RESOURCES = {
    int(ConfigResourceType.TOPIC): (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    int(ConfigResourceType.GROUP): (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
_CLUSTER = ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def configs(operation: Operation) -> Access:
    """Return the access of an API on config resources."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        items = lists_in(caller.api_key, caller.api_version)[0]
        rest: list[Any] = []
        results: list[Any] = []
        for item in getattr(request, items.items):
            resource_type, code = _RESOURCES.get(item.resource_type, _CLUSTER)
            name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else item.resource_name
            if caller.may(operation, resource_type, name):
                rest.append(item)
            else:
                results += refused(caller, items, [item], code, code.text)
        return answered(caller, request, items, rest, results, proceed)

    return Access(f"{operation.name} on each TOPIC and GROUP, and on the cluster for brokers", check)


@partial(Access, "DESCRIBE on the cluster")
def users(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to DescribeUserScramCredentials. A denial has a result for each user, without the name, as in Kafka."""
    if caller.may_cluster(Operation.DESCRIBE):
        return proceed(request)
    response = refuse(caller, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    for result in response.results:
        result.user = ""
    return response
