"""Access to transactional ids, and to the queries that write with several of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError
from ...security.acls import Operation, ResourceType
from ..large_messages import Portions
from .access import (
    Access,
    Result,
    all_denied,
    amending,
    both,
    denied,
    each,
    keep_allowed,
    only_seen,
    split,
    whole,
    with_field,
)
from .caller import Caller, Proceed
from .topics import each_topic

_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED
_ID = ResourceType.TRANSACTIONAL_ID
# AddPartitionsToTxn is a broker's own request from this version on.
_FIRST_AMONG_BROKERS = 4


@partial(Access, "WRITE on the TRANSACTIONAL_ID; without one WRITE on any TOPIC, or IDEMPOTENT_WRITE")
def initialize(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to InitProducerId: a transactional id, or for an idempotent producer any topic to write to."""
    if request.transactional_id is not None:
        if not caller.may(Operation.WRITE, _ID, request.transactional_id):
            return _no_producer(_DENIED)
    elif not (
        caller.may_cluster(Operation.IDEMPOTENT_WRITE, audited=False)
        or caller.may_by_type(Operation.WRITE, ResourceType.TOPIC)
    ):
        return _no_producer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return proceed(request)


def _no_producer(code: ErrorCode) -> Any:
    from ....protocol.messages.init_producer_id import InitProducerIdResponse

    return InitProducerIdResponse(error_code=int(code), producer_id=-1, producer_epoch=-1)


# Access to EndTxn.
end = whole(Operation.WRITE, _ID, "transactional_id", _DENIED)


# Access to AddOffsetsToTxn.
add_offsets = both(end, whole(Operation.READ, ResourceType.GROUP, "group_id", _GROUP_DENIED))


def commit_offsets(portions: Portions) -> Access:
    """Return the access of TxnOffsetCommit."""
    of_id = whole(Operation.WRITE, _ID, "transactional_id", _DENIED, portions)
    of_group = whole(Operation.READ, ResourceType.GROUP, "group_id", _GROUP_DENIED, portions)
    return both(of_id, both(of_group, each_topic(portions, Operation.READ)))


def add_partitions(portions: Portions) -> Access:
    """Return the access of AddPartitionsToTxn. One topic that is denied keeps all others out of the transaction."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        if caller.api_version >= _FIRST_AMONG_BROKERS:
            if not caller.may_cluster(Operation.CLUSTER_ACTION):
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return proceed(request)
        if not caller.may(Operation.WRITE, _ID, request.v3_and_below_transactional_id):
            return all_denied(caller, request, portions, _DENIED)
        rest, refused = split(
            request.v3_and_below_topics, lambda topic: caller.may(Operation.WRITE, ResourceType.TOPIC, topic.name)
        )
        if not refused:
            return proceed(request)
        response = all_denied(caller, with_field(request, portions.items, rest), portions, _NOT_ATTEMPTED)
        results = denied(caller, portions, refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        getattr(response, portions.results).extend(results)
        return response

    return Access("WRITE on the TRANSACTIONAL_ID; WRITE on each TOPIC; among brokers CLUSTER_ACTION", check)


def write_markers(portions: Portions) -> Access:
    """Return the access of WriteTxnMarkers: an administrator's, or a broker's."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        if caller.may_cluster(Operation.ALTER, audited=False) or caller.may_cluster(Operation.CLUSTER_ACTION):
            return proceed(request)
        return all_denied(caller, request, portions, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return Access("ALTER or CLUSTER_ACTION on the cluster", check)


def describe(portions: Portions) -> Access:
    """Return the access of DescribeTransactions."""
    by_id = each(portions, Operation.DESCRIBE, _ID, _DENIED, lambda caller, name: name)

    def amend(caller: Caller, request: Any, response: Any) -> Iterator[int]:
        def may_see(topic: Any) -> bool:
            return caller.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, audited=False)

        for state in response.transaction_states:
            yield from keep_allowed(state.topics, may_see)

    return amending(by_id, amend, "; TOPICs without DESCRIBE are left out")


# Access to ListTransactions: those that the client may describe.
list_all = only_seen("transaction_states", "transactional_id", _ID, "TRANSACTIONAL_IDs with DESCRIBE")


# -- Queries


# Access to a task that takes part in a query's batch: its query id is as a transactional id.
join_query = whole(Operation.WRITE, _ID, "query_id", _DENIED)


def end_query_batch() -> Access:
    """Return the access of the end of a query's batch: the query id and each participant's transactional id."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        if not all(caller.may(Operation.WRITE, _ID, each.transactional_id) for each in request.participants):
            raise KafkaError(_DENIED)
        return proceed(request)

    return both(join_query, Access("WRITE on each participant's TRANSACTIONAL_ID", check))


# Access to the list of queries: those that the client may describe.
describe_queries = only_seen("queries", "query_id", _ID, "query ids with DESCRIBE as a TRANSACTIONAL_ID")
