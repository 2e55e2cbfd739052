"""Access to configs, and to what concerns the cluster as a whole."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....protocol.apis import ApiKey
from ....protocol.errors import ErrorCode, KafkaError
from ...security.acls import CLUSTER_NAME, Operation, ResourceType
from ...topics.config_resources import ResourceType as ConfigResourceType
from ..large_messages import Portions
from .access import Access, Result, all_denied, amended, cluster, denied, with_field
from .caller import Caller, Proceed

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
# The first versions with an error for the whole response.
_FIRST_LOG_DIRS_WITH_ERROR = 3
_FIRST_ELECTION_WITH_ERROR = 1


def configs(portions: Portions, operation: Operation) -> Access:
    """Return the access of an API on config resources: topics, groups, and all others as parts of the cluster."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        rest: list[Any] = []
        results: list[Any] = []
        for item in getattr(request, portions.items):
            error = _config_error(caller, operation, item)
            if error is None:
                rest.append(item)
            else:
                results += denied(caller, portions, [item], error, error.text)
        if not results:
            return proceed(request)
        allowed = with_field(request, portions.items, rest)
        return amended(proceed(allowed), lambda response: getattr(response, portions.results).extend(results))

    return Access(f"{operation.name} on each TOPIC and GROUP, and on the cluster for brokers", check)


def _config_error(caller: Caller, operation: Operation, item: Any) -> ErrorCode | None:
    kind, name = item.resource_type, item.resource_name
    if kind == ConfigResourceType.TOPIC:
        return None if caller.may(operation, ResourceType.TOPIC, name) else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if kind == ConfigResourceType.GROUP:
        return None if caller.may(operation, ResourceType.GROUP, name) else ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None if caller.may(operation, ResourceType.CLUSTER, CLUSTER_NAME) else _DENIED


def alter_replicas(portions: Portions) -> Access:
    """Return the access of ElectLeaders and AlterPartitionReassignments. Each partition has the error, too."""

    def deny(caller: Caller, request: Any) -> Any:
        response = all_denied(caller, request, portions, _DENIED, _DENIED.text)
        if _has_error(caller):
            response.error_code = int(_DENIED)
        if hasattr(response, "error_message"):
            response.error_message = _DENIED.text
        return response

    return cluster(Operation.ALTER, deny)


def _has_error(caller: Caller) -> bool:
    return caller.api_key != ApiKey.ELECT_LEADERS or caller.api_version >= _FIRST_ELECTION_WITH_ERROR


def list_reassignments(portions: Portions) -> Access:
    """Return the access of ListPartitionReassignments. A denial names the partitions, without their replicas."""

    def deny(caller: Caller, request: Any) -> Any:
        response = all_denied(caller, request, portions, _DENIED)
        response.error_code, response.error_message = int(_DENIED), _DENIED.text
        return response

    return cluster(Operation.DESCRIBE, deny)


@partial(cluster, Operation.DESCRIBE)
def log_dirs(caller: Caller, request: Any) -> Any:
    """Access to DescribeLogDirs."""
    if caller.api_version >= _FIRST_LOG_DIRS_WITH_ERROR:
        raise KafkaError(_DENIED)
    from ....protocol.messages.describe_log_dirs import DescribeLogDirsResponse

    return DescribeLogDirsResponse()


@partial(cluster, Operation.DESCRIBE)
def describe_credentials(caller: Caller, request: Any) -> Any:
    """Access to DescribeUserScramCredentials. A denial has a result of no user, as in Kafka."""
    from ....protocol.messages import describe_user_scram_credentials as messages

    nobody = messages.DescribeUserScramCredentialsResult("", int(_DENIED), None)
    return messages.DescribeUserScramCredentialsResponse(error_code=int(_DENIED), error_message=None, results=[nobody])


@partial(cluster, Operation.ALTER)
def alter_credentials(caller: Caller, request: Any) -> Any:
    """Access to AlterUserScramCredentials. A denial is an error of each user, by name."""
    from ....protocol.messages import alter_user_scram_credentials as messages

    users = sorted({each.name for each in (*request.deletions, *request.upsertions)})
    results = [messages.AlterUserScramCredentialsResult(name, int(_DENIED), _DENIED.text) for name in users]
    return messages.AlterUserScramCredentialsResponse(results=results)


@partial(cluster, Operation.ALTER_CONFIGS)
def alter_quotas(caller: Caller, request: Any) -> Any:
    """Access to AlterClientQuotas. A denial is an error of each entity."""
    from ....protocol.messages import alter_client_quotas as messages

    results = [messages.EntryResult(int(_DENIED), _DENIED.text, each.entity) for each in request.entries]
    return messages.AlterClientQuotasResponse(entries=results)
