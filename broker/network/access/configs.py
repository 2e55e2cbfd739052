"""Access to config resources: topics, groups, and all others as parts of the cluster."""

from __future__ import annotations

from typing import Any

from ....protocol.errors import ErrorCode
from ...security.acls import CLUSTER_NAME, Operation, ResourceType
from ...topics.config_resources import ResourceType as ConfigResourceType
from .access import Access, Result, by_item, list_of
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
        items, reject = list_of(caller)

        def deny(item: Any) -> Any:
            resource_type, code = _RESOURCES.get(item.resource_type, _CLUSTER)
            of_cluster = resource_type is ResourceType.CLUSTER
            if caller.may(operation, resource_type, CLUSTER_NAME if of_cluster else item.resource_name):
                return None
            # Kafka says nothing in words to those who may not alter a broker.
            return reject(item, int(code), None if of_cluster and operation is Operation.ALTER_CONFIGS else code.text)

        return by_item(caller, request, items, deny, proceed)

    return Access(
        f"{operation.name} on each TOPIC and GROUP, and on the cluster for brokers",
        check,
        (*(code for _, code in _RESOURCES.values()), _CLUSTER[1]),
    )
