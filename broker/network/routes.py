"""The table of what the broker serves: it *is* the ApiVersions response.

A route says which versions it serves. It names the coordinator's method that handles the requests, or leaves them to
`handle(services, context, request)` in `handlers/<api>.py`; APIs that share a subject have one module, with a function
for each. A coroutine is started as a task. Messages and handlers are imported when a client first needs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from importlib import import_module
from inspect import iscoroutinefunction
from operator import attrgetter
from sys import modules
from typing import Any, NamedTuple

from ...protocol.apis import FIRST_OWN_KEY, AnyKey, ApiKey, OwnApiKey
from ...protocol.messages.odradek_end_query_batch import MAX_PARTICIPANTS
from ...protocol.schema import span
from ...protocol.shapes.portions import Weights
from ...protocol.shapes.table import lists_in
from ..security.acls import Operation
from ..services import Services
from .access import configs, groups, metadata, security, topics, transactions
from .access.access import Access, cluster, open_to_all
from .large_messages import MAX_VALUES, Cut, Handled
from .receive_buffer import POOLED_BYTES
from .request import RequestContext

# Returns the response, or a future of it where the request waits; None where a client expects no response (acks=0).
Handler = Callable[[RequestContext, Any], Handled | asyncio.Future[Any]]

# The handler modules of APIs that share a subject: each has a function named as the API.
_SHARED = {
    "acls": "create_acls delete_acls describe_acls",
    "between_brokers": (
        "allocate_producer_ids alter_partition controlled_shutdown leader_and_isr stop_replica update_metadata"
    ),
    "client_quotas": "alter_client_quotas describe_client_quotas",
    "configs": "alter_configs describe_configs incremental_alter_configs list_config_resources",
    "delegation_tokens": (
        "create_delegation_token describe_delegation_token expire_delegation_token renew_delegation_token"
    ),
    "descriptions": "describe_cluster describe_log_dirs describe_quorum odradek_describe_broker",
    "group_offsets": "describe_share_group_offsets offset_commit offset_fetch txn_offset_commit",
    "late_login": "sasl_authenticate sasl_handshake",
    "producers": "describe_producers init_producer_id write_txn_markers",
    "replica_placement": (
        "alter_partition_reassignments alter_replica_log_dirs elect_leaders list_partition_reassignments"
    ),
    "scram_credentials": "alter_user_scram_credentials describe_user_scram_credentials",
    "share_states": (
        "delete_share_group_state initialize_share_group_state read_share_group_state read_share_group_state_summary "
        "write_share_group_state"
    ),
    "segment_leases": "odradek_begin_backup odradek_lease_segments odradek_renew_lease",
}
_MODULE_OF = {api: module for module, apis in _SHARED.items() for api in apis.split()}


class Route(NamedTuple):
    """One API that is served."""

    key: AnyKey
    # The versions that are served, as a message declares its own: ApiVersions names them, and imports no message.
    # A test compares the two.
    served: str
    # What it requires of the client, where there is an authorizer.
    access: Access
    # The path of the coordinator's method among the services; empty: `handle` of the module that is named as the API.
    method: str = ""
    # The most values (array elements) of a request that is handled in one turn of the event loop.
    max_values: int = 2_000
    # Whether a request with more is cut into portions, at the lists of its shape. Otherwise it is rejected: with
    # INVALID_REQUEST where its response has an error of its own, otherwise its connection is closed.
    is_cut: bool = False
    # By the name of a list in the request: how many values one of its items counts for, beside those inside it.
    weights: Weights | None = None
    # Whether a request with more is handled as a whole, by a handler that takes turns itself.
    is_whole: bool = False
    # A request of more bytes is cut into portions too, however few values it has. The frame of a Produce with so many
    # has a buffer of its own, so that its batches are not copied.
    large_bytes: int = POOLED_BYTES

    @property
    def decoded_at_once(self) -> int:
        """The most values of a request that is decoded on the event loop."""
        return min(self.max_values, _AT_ONCE)

    @property
    def most_values(self) -> int:
        """The most values that a request may have at all."""
        return MAX_VALUES if self.is_cut or self.is_whole else self.max_values

    @property
    def is_own(self) -> bool:
        """Whether Kafka has no such API."""
        return self.key >= FIRST_OWN_KEY

    @property
    def versions(self) -> range:
        """The versions that are served."""
        return span(self.served)

    @property
    def module(self) -> str:
        """The handler module that it shares with others; empty where it has one of its own, or none."""
        return _MODULE_OF.get(self.key.name.lower(), "")

    def cut(self, version: int) -> Cut:
        """Return how a request of a version is cut into portions."""
        return Cut(version, lists_in(self.key, version), self.max_values, self.weights or {})

    def handler(self, services: Services) -> Handler:
        """Return the function that handles the requests."""
        if self.method:
            handle = attrgetter(self.method)(services)
        else:
            name = self.key.name.lower()
            module = import_module(f"..handlers.{self.module or name}", __package__)
            handle = partial(getattr(module, name if self.module else "handle"), services)
        return _started(handle) if iscoroutinefunction(handle) else handle


def _started(handle: Callable[[RequestContext, Any], Coroutine[Any, Any, Handled]]) -> Handler:
    return lambda context, request: asyncio.ensure_future(handle(context, request))


def _batch_values(sent: Any) -> int:
    """Return how many values a batch counts for: a turn writes 4 MiB, which takes some milliseconds."""
    return 1 + len(sent.records or b"") // VALUE_BYTES


def _altered_values(resource: Any) -> int:
    """Return how many values of `_FEW` a resource counts for: the texts of its configs are read several times."""
    return 1 + sum(len(each.value or "") for each in resource.configs) // _CONFIG_CHARS


_BATCHES = {"partition_data": _batch_values}
# A batch costs about a twentieth of what its partition does.
_STATE_BATCHES: Weights = {"partitions": lambda partition: 1 + len(partition.state_batches) // 20}
_CONFIGS = {"resources": _altered_values}
# The bytes of a batch that count as one of the 2,000 values of a portion.
VALUE_BYTES = 2048
# A request is decoded in a thread where it has more values: decoding, handling and encoding them takes some 15
# microseconds each at most.
_AT_ONCE = 1_000
# As many values as one turn may have where nothing much is done with each: a consumer of thousands of partitions is
# served whole.
_MANY = 10_000
# And where each value costs about a millisecond.
_FEW = 20
# So much do these characters of a config, which are read several times.
_CONFIG_CHARS = 6_000
# A topic and one partition of it, whose state may have 10,000 batches: they take 5 ms until they are sent.
_ONE_STATE = 2
# And where each value is a record that is written, or a topic that is looked up.
_STATES = 50


_AMONG_BROKERS = cluster(Operation.CLUSTER_ACTION)
_ALTERING = partial(
    Route,
    access=configs.configs(Operation.ALTER_CONFIGS),
    max_values=_FEW,
    is_cut=True,
    weights=_CONFIGS,
    large_bytes=_FEW * _CONFIG_CHARS,
)
# Share groups (KIP-932).
SHARE_ROUTES = (
    Route(ApiKey.SHARE_GROUP_HEARTBEAT, "1", groups.consumer_member, "groups.share.heartbeat", max_values=_MANY),
    Route(ApiKey.SHARE_GROUP_DESCRIBE, "1", groups.describe_members, "groups.share.describe", is_cut=True),
    Route(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "0-1", groups.describe_share_offsets, max_values=500, is_cut=True),
    Route(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        "0",
        groups.alter_share_offsets,
        "groups.share.alter_offsets",
        max_values=500,
        is_cut=True,
    ),
    Route(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        "0",
        groups.delete_share_offsets,
        "groups.share.delete_offsets",
        max_values=500,
        is_cut=True,
    ),
    Route(ApiKey.SHARE_FETCH, "1-2", groups.share_member, max_values=_MANY, is_whole=True),
    Route(ApiKey.SHARE_ACKNOWLEDGE, "1-2", groups.share_member, max_values=_MANY, is_whole=True),
    Route(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "0", _AMONG_BROKERS, max_values=_STATES, is_cut=True),
    Route(ApiKey.READ_SHARE_GROUP_STATE, "0", _AMONG_BROKERS, max_values=_ONE_STATE, is_cut=True),
    Route(
        ApiKey.WRITE_SHARE_GROUP_STATE, "0-1", _AMONG_BROKERS, max_values=_STATES, is_cut=True, weights=_STATE_BATCHES
    ),
    Route(ApiKey.DELETE_SHARE_GROUP_STATE, "0", _AMONG_BROKERS, max_values=_STATES, is_cut=True),
    Route(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "0-1", _AMONG_BROKERS, max_values=_STATES, is_cut=True),
)

# Only an API in this table is served. tests/broker/network/test_dispatcher.py sends every version of every route.
ROUTES = (
    # Produce 0-2, Fetch 0-3 and ListOffsets 0 are older than what Kafka 4 serves: clients before 0.11 use them, with
    # message sets instead of record batches.
    Route(ApiKey.PRODUCE, "0-13", topics.produce, is_cut=True, weights=_BATCHES),
    Route(ApiKey.FETCH, "0-18", topics.fetch, max_values=_MANY),
    Route(ApiKey.LIST_OFFSETS, "0-11", topics.each_topic(Operation.DESCRIBE), is_cut=True),
    Route(ApiKey.METADATA, "0-13", metadata.metadata, is_cut=True),
    # The same clients use OffsetCommit 0 and 1 and OffsetFetch 0. In a cluster version 0 keeps offsets in ZooKeeper.
    Route(ApiKey.OFFSET_COMMIT, "0-10", groups.commit, max_values=1_000, is_cut=True),
    Route(ApiKey.OFFSET_FETCH, "0-10", groups.fetch_offsets, is_cut=True),
    Route(ApiKey.FIND_COORDINATOR, "0-6", groups.coordinators, is_cut=True),
    Route(ApiKey.JOIN_GROUP, "0-9", groups.member, "groups.join"),
    Route(ApiKey.HEARTBEAT, "0-4", groups.member, "groups.heartbeat"),
    Route(ApiKey.LEAVE_GROUP, "0-5", groups.member, "groups.leave", is_cut=True),
    Route(ApiKey.SYNC_GROUP, "0-5", groups.member, "groups.sync", max_values=_MANY),
    Route(ApiKey.DESCRIBE_GROUPS, "0-6", groups.describe, "groups.describe", is_cut=True),
    Route(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, "0-1", groups.consumer_member, "groups.consumer_heartbeat", max_values=_MANY
    ),
    Route(ApiKey.CONSUMER_GROUP_DESCRIBE, "0-1", groups.describe_members, "groups.describe_consumers", is_cut=True),
    Route(ApiKey.LIST_GROUPS, "0-5", groups.list_all, "groups.list"),
    Route(ApiKey.SASL_HANDSHAKE, "0-1", open_to_all("it is how a client says who it is")),
    Route(ApiKey.API_VERSIONS, "0-5", open_to_all("clients ask for it before they authenticate")),
    Route(ApiKey.CREATE_TOPICS, "2-7", topics.create, is_whole=True),
    Route(ApiKey.DELETE_TOPICS, "1-6", topics.delete, max_values=_FEW, is_cut=True),
    Route(ApiKey.DELETE_RECORDS, "0-2", topics.each_topic(Operation.DELETE), max_values=500, is_cut=True),
    # Kafka 4.4.0 declares version 6 and does not serve it yet.
    Route(ApiKey.INIT_PRODUCER_ID, "0-5", transactions.initialize),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, "2-4", topics.leader_epochs, is_cut=True),
    Route(ApiKey.WRITE_TXN_MARKERS, "1-2", transactions.write_markers, is_cut=True),
    Route(ApiKey.TXN_OFFSET_COMMIT, "0-6", transactions.commit_offsets, max_values=1_000, is_cut=True),
    Route(ApiKey.ADD_PARTITIONS_TO_TXN, "0-5", transactions.add_partitions, "transactions.add_partitions", is_cut=True),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, "0-4", transactions.add_offsets, "transactions.add_offsets"),
    Route(ApiKey.END_TXN, "0-5", transactions.end, "transactions.end"),
    # Without an authorizer these are rejected with SECURITY_DISABLED, as in Kafka. Clients and their tests expect that.
    Route(ApiKey.DESCRIBE_ACLS, "1-3", security.describe_acls),
    Route(ApiKey.CREATE_ACLS, "1-3", security.create_acls, max_values=_MANY, is_whole=True),
    Route(ApiKey.DELETE_ACLS, "1-3", security.delete_acls, max_values=_MANY, is_whole=True),
    Route(ApiKey.DESCRIBE_CONFIGS, "1-4", configs.configs(Operation.DESCRIBE_CONFIGS), max_values=_FEW, is_cut=True),
    _ALTERING(ApiKey.ALTER_CONFIGS, "0-2"),
    Route(ApiKey.SASL_AUTHENTICATE, "0-2", open_to_all("it is how a client says who it is")),
    Route(ApiKey.CREATE_PARTITIONS, "0-3", topics.each_topic(Operation.ALTER), max_values=_MANY, is_cut=True),
    _ALTERING(ApiKey.INCREMENTAL_ALTER_CONFIGS, "0-1"),
    Route(ApiKey.ELECT_LEADERS, "0-2", cluster(Operation.ALTER), max_values=_MANY),
    Route(ApiKey.ALTER_REPLICA_LOG_DIRS, "1-2", cluster(Operation.ALTER), max_values=_MANY),
    Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "0-1", cluster(Operation.ALTER), is_cut=True),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, "0", cluster(Operation.DESCRIBE), max_values=_MANY),
    Route(ApiKey.LIST_CONFIG_RESOURCES, "0-1", cluster(Operation.DESCRIBE_CONFIGS)),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "0", metadata.topic_partitions, max_values=_MANY),
    Route(ApiKey.DESCRIBE_LOG_DIRS, "1-5", cluster(Operation.DESCRIBE), max_values=_MANY, is_whole=True),
    # Answered as by a Kafka without delegation.token.secret.key.
    Route(ApiKey.CREATE_DELEGATION_TOKEN, "1-3", security.create_token),
    Route(ApiKey.RENEW_DELEGATION_TOKEN, "1-2", open_to_all("there are no tokens")),
    Route(ApiKey.EXPIRE_DELEGATION_TOKEN, "1-2", open_to_all("there are no tokens")),
    Route(ApiKey.DESCRIBE_DELEGATION_TOKEN, "1-3", open_to_all("there are no tokens")),
    Route(
        ApiKey.DELETE_GROUPS, "0-3", groups.each_group(Operation.DELETE), "groups.delete", max_values=_FEW, is_cut=True
    ),
    Route(ApiKey.OFFSET_DELETE, "0", groups.delete_offsets, "groups.delete_offsets", is_cut=True),
    Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, "0-1", cluster(Operation.DESCRIBE_CONFIGS, text=None)),
    Route(ApiKey.ALTER_CLIENT_QUOTAS, "0-1", cluster(Operation.ALTER_CONFIGS), is_cut=True),
    Route(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "0", security.describe_credentials),
    Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "0", cluster(Operation.ALTER)),
    Route(ApiKey.UPDATE_FEATURES, "0-2", cluster(Operation.ALTER)),
    Route(ApiKey.DESCRIBE_CLUSTER, "0-2", metadata.cluster),
    Route(ApiKey.DESCRIBE_PRODUCERS, "0", topics.producers, is_cut=True),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, "0", transactions.describe, "transactions.describe", is_cut=True),
    Route(ApiKey.LIST_TRANSACTIONS, "0-2", transactions.list_all, "transactions.list"),
    *SHARE_ROUTES,
)

# What a broker serves besides that is alone: the quorum of its controllers is itself. With ZooKeeper there is none, and
# Kafka 3.9 does not offer it there.
LONE_ROUTES = (Route(ApiKey.DESCRIBE_QUORUM, "0-2", cluster(Operation.DESCRIBE), max_values=_MANY),)

# What the brokers of a cluster serve besides.
CLUSTER_ROUTES = (
    Route(ApiKey.LEADER_AND_ISR, "0-7", _AMONG_BROKERS, max_values=MAX_VALUES),
    Route(ApiKey.STOP_REPLICA, "0-4", _AMONG_BROKERS, max_values=MAX_VALUES),
    Route(ApiKey.UPDATE_METADATA, "0-8", _AMONG_BROKERS, max_values=MAX_VALUES),
    Route(ApiKey.CONTROLLED_SHUTDOWN, "0-3", _AMONG_BROKERS),
    Route(ApiKey.ALTER_PARTITION, "0-3", _AMONG_BROKERS, max_values=MAX_VALUES),
    Route(ApiKey.ALLOCATE_PRODUCER_IDS, "0", _AMONG_BROKERS),
)

# What Odradek alone serves (decision 20). ApiVersions names these to clients of ours only.
OWN_ROUTES: tuple[Route, ...] = (
    Route(OwnApiKey.ODRADEK_JOIN_QUERY, "0", transactions.join_query, "transactions.queries.join"),
    Route(
        OwnApiKey.ODRADEK_END_QUERY_BATCH,
        "0",
        transactions.end_query_batch,
        "transactions.queries.end",
        max_values=MAX_PARTICIPANTS,
    ),
    Route(OwnApiKey.ODRADEK_DESCRIBE_QUERIES, "0", transactions.describe_queries, "transactions.queries.describe"),
    Route(OwnApiKey.ODRADEK_LEASE_SEGMENTS, "0", topics.lease),
    Route(OwnApiKey.ODRADEK_RENEW_LEASE, "0", topics.renew_lease),
    Route(OwnApiKey.ODRADEK_BEGIN_BACKUP, "0", cluster(Operation.ALTER)),
    Route(OwnApiKey.ODRADEK_DESCRIBE_BROKER, "0-1", cluster(Operation.DESCRIBE)),
)


# What a broker serves that is alone.
ALONE_ROUTES = (*ROUTES, *LONE_ROUTES, *OWN_ROUTES)


def routes_of(*, is_lone: bool) -> tuple[Route, ...]:
    """Return the routes that a broker serves."""
    return ALONE_ROUTES if is_lone else (*ROUTES, *CLUSTER_ROUTES, *OWN_ROUTES)


# What the first request of a group or a transaction needs. Each brings what the next ones need.
_COORDINATION = (
    "coordination.coordinator_log",
    "coordination.groups.records",
    "coordination.groups.events",
    "coordination.groups.history",
    "coordination.groups.group",
    "coordination.consumer.migration",
    "coordination.consumer.classic_members",
    "coordination.classic.machine",
    "coordination.modern.responses",
    "coordination.groups.coordinator",
    "coordination.transactions.events",
    "coordination.transactions.machine",
    "coordination.transactions.markers",
    "coordination.transactions.coordinator",
    "coordination.transactions.verification",
    "coordination.share_states.coordinator",
    "coordination.share_states.routed_persister",
)
# And the first one of a share group.
_SHARING = (*_COORDINATION, "coordination.share_groups.coordinator", "share_partitions.leader", "handlers.share_fetch")
# The handlers that ask a coordinator, whatever the request says.
_WITH_COORDINATOR = {"find_coordinator", "group_offsets", "share_acknowledge", "share_fetch", "share_states"}
_BROKER = (__package__ or "").rpartition(".")[0]
_PAUSE_S = 0.01


def unloaded(route: Route) -> list[str]:
    """Return the modules that a first request of this API needs, and that take too long to import for the loop."""
    name = route.key.name.lower()
    if not route.method and (route.module or name) not in _WITH_COORDINATOR:
        return []
    needed = _SHARING if "share" in name else _COORDINATION
    return [each for module in needed if not _is_loaded(each := f"{_BROKER}.{module}")]


def _is_loaded(name: str) -> bool:
    """Return whether a module can be used. One that a thread imports is there before: the loop would wait for it."""
    module = modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def load(names: Iterable[str]) -> None:
    """Import modules. Runs in a thread."""
    for each in names:
        import_module(each)


def load_coordinators(loop: asyncio.AbstractEventLoop) -> None:
    """Import the coordinators, one module at a time, with pauses for what clients ask at once."""
    rest = iter(_COORDINATION)

    def load_next() -> None:
        name = next(rest, None)
        if name is not None:
            import_module(f"{_BROKER}.{name}")
            loop.call_later(_PAUSE_S, load_next)

    loop.call_later(_PAUSE_S, load_next)
