"""The table of what the broker serves: it *is* the ApiVersions response.

A route serves the versions that its message declares. It names the coordinator's method that handles the requests, or
leaves them to `handle(services, context, request)` in `handlers/<api>.py`. Messages and handlers are imported when a
client first needs them, so that a start does not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...protocol.apis import FIRST_OWN_KEY, AnyKey, ApiKey, OwnApiKey, message
from ...protocol.messages.odradek_end_query_batch import MAX_PARTICIPANTS
from .large_messages import MAX_VALUES, Handled, Portions
from .request import RequestContext

if TYPE_CHECKING:
    from ..services import Services

# Returns the response, or a future of it where the request waits; None where a client expects no response (acks=0).
Handler = Callable[[RequestContext, Any], "Handled | asyncio.Future[Any]"]


@dataclass(frozen=True, slots=True)
class Route:
    """One API that is served."""

    key: AnyKey
    # The coordinator's method for these requests; None: `handle` of the handler module that is named as the API.
    method: Callable[[Services], Handler] | None = None
    # The highest version that is served, where messages/ declares more.
    max_version: int | None = None
    # The most values (array elements) of a request that is decoded and handled in one turn of the event loop.
    max_values: int = 2_000
    # How a request with more is cut, by the first list that it fills. Without any it is rejected: with INVALID_REQUEST
    # where its response has an error of its own, otherwise its connection is closed.
    portions: tuple[Portions, ...] = ()
    # Whether a request with more is handled as a whole, by a handler that takes turns itself.
    is_whole: bool = False

    @property
    def is_own(self) -> bool:
        """Whether Kafka has no such API."""
        return self.key >= FIRST_OWN_KEY

    @property
    def versions(self) -> range:
        """The versions that are served."""
        declared = message(self.key, "request").VERSIONS
        return declared if self.max_version is None else range(declared.start, self.max_version + 1)

    def handler(self, services: Services) -> Handler:
        """Return the function that handles the requests."""
        if self.method is not None:
            return self.method(services)
        module = import_module(f"..handlers.{self.key.name.lower()}", __package__)
        return partial(module.handle, services)


def _by_name_and_id(topic: Any) -> tuple[str, bytes]:
    return topic.name, topic.topic_id


def _by_resource(resource: Any) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _by_name(name: str) -> str:
    return name


def _batch_values(sent: Any) -> int:
    """Return how many values a batch counts for: a turn writes 4 MiB, which takes some milliseconds."""
    return 1 + len(sent.records or b"") // VALUE_BYTES


def _by_group(group: Any) -> str:
    return group.group_id


_TOPICS = (Portions("topics", "topics", Portions("partitions", "partitions")),)
_BATCHES = Portions("partition_data", "partition_responses", weight=_batch_values)
_INDEXES = Portions("topics", "topics", Portions("partition_indexes", "partitions"))
# The bytes of a batch that count as one of the 2,000 values of a turn.
VALUE_BYTES = 2048
# As many values as one turn may have where nothing much is done with each: a consumer of thousands of partitions is
# served whole.
_MANY = 10_000
# And where each value costs about a millisecond.
_FEW = 20


# Only an API in this table is served. tests/broker/network/test_dispatcher.py sends every version of every route.
ROUTES = (
    # Produce 0-2, Fetch 0-3 and ListOffsets 0 are older than what Kafka 4 serves: clients before 0.11 use them, with
    # message sets instead of record batches.
    Route(
        ApiKey.PRODUCE,
        portions=(Portions("topic_data", "responses", _BATCHES),),
    ),
    Route(ApiKey.FETCH, max_values=_MANY),
    Route(ApiKey.LIST_OFFSETS, portions=_TOPICS),
    Route(ApiKey.METADATA, portions=(Portions("topics", "topics", identity=_by_name_and_id),)),
    # The same clients use OffsetCommit 0 and 1 and OffsetFetch 0. In a cluster version 0 keeps offsets in ZooKeeper.
    Route(ApiKey.OFFSET_COMMIT, max_values=1_000, portions=_TOPICS),
    Route(
        ApiKey.OFFSET_FETCH,
        portions=(Portions("groups", "groups", _INDEXES, identity=_by_group), _INDEXES),
    ),
    Route(ApiKey.FIND_COORDINATOR, portions=(Portions("coordinator_keys", "coordinators", identity=_by_name),)),
    Route(ApiKey.JOIN_GROUP, lambda services: services.groups.join),
    Route(ApiKey.HEARTBEAT, lambda services: services.groups.heartbeat),
    Route(ApiKey.LEAVE_GROUP, lambda services: services.groups.leave, portions=(Portions("members", "members"),)),
    Route(ApiKey.SYNC_GROUP, lambda services: services.groups.sync, max_values=_MANY),
    Route(
        ApiKey.DESCRIBE_GROUPS,
        lambda services: services.groups.describe,
        portions=(Portions("groups", "groups", identity=_by_name),),
    ),
    Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda services: services.groups.consumer_heartbeat, max_values=_MANY),
    Route(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        lambda services: services.groups.describe_consumers,
        portions=(Portions("group_ids", "groups", identity=_by_name),),
    ),
    Route(ApiKey.LIST_GROUPS, lambda services: services.groups.list),
    Route(ApiKey.SASL_HANDSHAKE),
    Route(ApiKey.API_VERSIONS),
    Route(ApiKey.CREATE_TOPICS, max_values=_MANY, is_whole=True),
    Route(
        ApiKey.DELETE_TOPICS,
        max_values=_FEW,
        portions=(
            Portions("topics", "responses", identity=_by_name_and_id),
            Portions("topic_names", "responses", identity=_by_name),
        ),
    ),
    Route(ApiKey.DELETE_RECORDS, max_values=500, portions=_TOPICS),
    # Kafka 4.3.1 declares version 6 and does not serve it yet.
    Route(ApiKey.INIT_PRODUCER_ID, max_version=5),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, portions=_TOPICS),
    Route(
        ApiKey.WRITE_TXN_MARKERS,
        portions=(Portions("markers", "markers", _INDEXES),),
    ),
    Route(ApiKey.TXN_OFFSET_COMMIT, max_values=1_000, portions=_TOPICS),
    Route(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        lambda services: services.transactions.add_partitions,
        portions=(
            Portions(
                "transactions",
                "results_by_transaction",
                Portions("topics", "topic_results", Portions("partitions", "results_by_partition")),
            ),
            Portions(
                "v3_and_below_topics",
                "results_by_topic_v3_and_below",
                Portions("partitions", "results_by_partition"),
            ),
        ),
    ),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, lambda services: services.transactions.add_offsets),
    Route(ApiKey.END_TXN, lambda services: services.transactions.end),
    # Without an authorizer these are rejected with SECURITY_DISABLED, as in Kafka. Clients and their tests expect that.
    Route(ApiKey.DESCRIBE_ACLS),
    Route(ApiKey.CREATE_ACLS, portions=(Portions("creations", "results"),)),
    Route(ApiKey.DELETE_ACLS, portions=(Portions("filters", "filter_results"),)),
    Route(
        ApiKey.DESCRIBE_CONFIGS,
        max_values=_FEW,
        portions=(Portions("resources", "results", identity=_by_resource),),
    ),
    Route(ApiKey.ALTER_CONFIGS, max_values=_FEW, portions=(Portions("resources", "responses"),)),
    Route(ApiKey.SASL_AUTHENTICATE),
    Route(ApiKey.CREATE_PARTITIONS, max_values=_MANY, portions=(Portions("topics", "results"),)),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, max_values=_FEW, portions=(Portions("resources", "responses"),)),
    Route(ApiKey.ELECT_LEADERS, max_values=_MANY),
    Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, max_values=_MANY),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, max_values=_MANY),
    Route(ApiKey.LIST_CONFIG_RESOURCES),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, max_values=_MANY),
    Route(ApiKey.DESCRIBE_LOG_DIRS, max_values=_MANY),
    Route(
        ApiKey.DELETE_GROUPS,
        lambda services: services.groups.delete,
        max_values=500,
        portions=(Portions("groups_names", "results", identity=_by_name),),
    ),
    Route(ApiKey.OFFSET_DELETE, lambda services: services.groups.delete_offsets, portions=_TOPICS),
    Route(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS),
    Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS),
    Route(ApiKey.UPDATE_FEATURES),
    Route(ApiKey.DESCRIBE_CLUSTER),
    Route(ApiKey.DESCRIBE_PRODUCERS, portions=(_INDEXES,)),
    Route(
        ApiKey.DESCRIBE_TRANSACTIONS,
        lambda services: services.transactions.describe,
        portions=(Portions("transactional_ids", "transaction_states", identity=_by_name),),
    ),
    Route(ApiKey.LIST_TRANSACTIONS, lambda services: services.transactions.list),
)

# What the brokers of a cluster serve besides.
CLUSTER_ROUTES = (
    Route(ApiKey.LEADER_AND_ISR, max_values=MAX_VALUES),
    Route(ApiKey.STOP_REPLICA, max_values=MAX_VALUES),
    Route(ApiKey.UPDATE_METADATA, max_values=MAX_VALUES),
    Route(ApiKey.CONTROLLED_SHUTDOWN),
    Route(ApiKey.ALTER_PARTITION, max_values=MAX_VALUES),
    Route(ApiKey.ALLOCATE_PRODUCER_IDS),
)

# What Odradek alone serves (decision 20). ApiVersions names these to clients of ours only.
OWN_ROUTES: tuple[Route, ...] = (
    Route(OwnApiKey.ODRADEK_JOIN_QUERY, lambda services: services.transactions.queries.join),
    Route(
        OwnApiKey.ODRADEK_END_QUERY_BATCH,
        lambda services: services.transactions.queries.end,
        max_values=MAX_PARTICIPANTS,
    ),
    Route(OwnApiKey.ODRADEK_DESCRIBE_QUERIES, lambda services: services.transactions.queries.describe),
    Route(OwnApiKey.ODRADEK_LEASE_SEGMENTS),
    Route(OwnApiKey.ODRADEK_RENEW_LEASE),
)


# What a broker serves that is alone.
ALONE_ROUTES = (*ROUTES, *OWN_ROUTES)


def routes_of(services: Services) -> tuple[Route, ...]:
    """Return the routes that this broker serves."""
    kafkas = ROUTES if services.replicas is None else (*ROUTES, *CLUSTER_ROUTES)
    return (*kafkas, *OWN_ROUTES)


def load_messages(loop: asyncio.AbstractEventLoop, routes: Iterable[Route] = ALONE_ROUTES) -> None:
    """Import the messages of every route, one a turn of the loop.

    The first ApiVersions request of a process needs them all, and would take 26 ms to import them.
    """
    rest = iter(routes)

    def load_next() -> None:
        route = next(rest, None)
        if route is not None:
            _ = route.versions
            loop.call_soon(load_next)

    loop.call_soon(load_next)
