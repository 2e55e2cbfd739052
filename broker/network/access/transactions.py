"""Access to transactional ids, and to the queries that write with several of them."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import partial
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ...security.acls import Operation, ResourceType
from .access import (
    Result,
    after,
    amending,
    as_access,
    both,
    each,
    for_all,
    keep_allowed,
    only_seen,
    refuse,
    sees,
    whole,
)
from .caller import Caller, Proceed
from .topics import each_topic

_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_ID = ResourceType.TRANSACTIONAL_ID
# AddPartitionsToTxn is a broker's own request from this version on.
_FIRST_AMONG_BROKERS = 4


@as_access(
    "WRITE on the TRANSACTIONAL_ID; without one WRITE on any TOPIC, or IDEMPOTENT_WRITE on the cluster",
    denials=(_DENIED, _CLUSTER_DENIED),
)
def initialize(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to InitProducerId: a transactional id, or for an idempotent producer any topic to write to."""
    if request.transactional_id is not None:
        if not caller.may(Operation.WRITE, _ID, request.transactional_id):
            return refuse(caller, request, _DENIED)
    elif not (
        caller.may_cluster(Operation.IDEMPOTENT_WRITE, audited=False)
        or caller.may_by_type(Operation.WRITE, ResourceType.TOPIC)
    ):
        return refuse(caller, request, _CLUSTER_DENIED)
    return proceed(request)


# Access to EndTxn.
end = whole(Operation.WRITE, _ID, "transactional_id", _DENIED)

_group = whole(Operation.READ, ResourceType.GROUP, "group_id", ErrorCode.GROUP_AUTHORIZATION_FAILED)
# Access to AddOffsetsToTxn.
add_offsets = both(end, _group)
# Access to TxnOffsetCommit.
commit_offsets = both(end, both(_group, each_topic(Operation.READ)))


@as_access(
    "WRITE on the TRANSACTIONAL_ID; WRITE on each TOPIC; among brokers CLUSTER_ACTION on the cluster",
    denials=(_DENIED, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _CLUSTER_DENIED),
)
def add_partitions(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to AddPartitionsToTxn. One topic that is denied keeps all others out of the transaction."""
    if caller.api_version >= _FIRST_AMONG_BROKERS:
        may = caller.may_cluster(Operation.CLUSTER_ACTION)
        return proceed(request) if may else refuse(caller, request, _CLUSTER_DENIED)
    if not caller.may(Operation.WRITE, _ID, request.v3_and_below_transactional_id):
        return refuse(caller, request, _DENIED)
    denied: set[str] = set()

    def ask() -> Iterator[None]:
        for topic in request.v3_and_below_topics:
            if not caller.may(Operation.WRITE, ResourceType.TOPIC, topic.name):
                denied.add(topic.name)
            yield

    return after(ask(), lambda: _none_added(caller, request, denied) if denied else proceed(request))


def _none_added(caller: Caller, request: Any, denied: Set[str]) -> AddPartitionsToTxnResponse:
    """Return the answer that adds nothing, because topics are denied."""
    # Not before it is asked: a start imports no coordinator.
    from ...coordination.transactions.requests import additions, none_added, rejected_partitions

    (addition,) = additions(request, caller.api_version)
    errors = rejected_partitions(addition, caller.services.topics, caller.api_version)
    errors |= {each: ErrorCode.TOPIC_AUTHORIZATION_FAILED for each in addition.partitions if each.topic in denied}
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=none_added(addition, errors).topic_results)


@as_access("ALTER or CLUSTER_ACTION on the cluster", denials=(_CLUSTER_DENIED,))
def write_markers(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to WriteTxnMarkers: an administrator's, or a broker's."""
    if caller.may_cluster(Operation.ALTER, audited=False) or caller.may_cluster(Operation.CLUSTER_ACTION):
        return proceed(request)
    return refuse(caller, request, _CLUSTER_DENIED)


def _hide_topics(caller: Caller, request: Any, response: Any) -> Iterator[int]:
    def may_see(topic: Any) -> bool:
        return sees(caller, ResourceType.TOPIC, topic.topic)

    for state in response.transaction_states:
        yield from keep_allowed(state.topics, may_see)


# Access to DescribeTransactions.
describe = amending(each(Operation.DESCRIBE, _ID, _DENIED), _hide_topics, "; TOPICs without DESCRIBE are left out")


# Access to ListTransactions: those that the client may describe.
list_all = only_seen("transaction_states", "transactional_id", _ID, "TRANSACTIONAL_IDs with DESCRIBE")


# -- Queries


# Access to a task that takes part in a query's batch: its query id is as a transactional id.
join_query = whole(Operation.WRITE, _ID, "query_id", _DENIED)


@as_access("WRITE on each participant's TRANSACTIONAL_ID", denials=(_DENIED,))
def _participants(caller: Caller, request: Any, proceed: Proceed) -> Result:
    names = (each.transactional_id for each in request.participants)
    denied = partial(refuse, caller, request, _DENIED, _DENIED.text)
    return for_all(caller, Operation.WRITE, _ID, names, partial(proceed, request), denied)


# Access to the end of a query's batch: the query id and each participant's transactional id.
end_query_batch = both(join_query, _participants)


# Access to the list of queries: those that the client may describe.
describe_queries = only_seen("queries", "query_id", _ID, "query ids with DESCRIBE as a TRANSACTIONAL_ID")
