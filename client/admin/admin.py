"""The admin client: `Admin`.

    async with Admin("127.0.0.1:9092") as admin:
        await admin.create_topics([NewTopic("flights", num_partitions=6)])
        print(await admin.describe_topics("flights"))

Every call is retried while its error is retriable, for `default_api_timeout_ms` in all. Then it raises KafkaError with
the broker's message. A call about several things raises ItemsFailed if some of them fail: its `results` say what
became of each.

The calls are functions of a cluster in the modules beside this one. `Admin` derives its methods from them.
"""

from __future__ import annotations

# Derived methods are functions outside of the class whose protected members they use.
# pyright: reportPrivateUsage=false
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast

from ..core.cluster import Cluster
from ..core.lifetime import Lifetime, StartedClient
from ..core.options import ClusterOptions, part_of, security_options
from ..core.security import SecurityArguments
from ..errors import ClientStopped, KafkaError
from . import acls, brokers, configs, group_states, groups, health, topics, transactions, users

P = ParamSpec("P")
R = TypeVar("R")


def _call(
    function: Callable[Concatenate[Cluster, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Derive a method that calls a function with the client's cluster. The function checks its arguments first."""

    @wraps(function)
    async def method(self: Admin, *args: P.args, **options: P.kwargs) -> R:
        return await function(self._running_or_told(), *args, **options)

    return method


class _NotRunning:
    """Takes the place of the cluster of a client that is not started, or is stopped."""

    def __getattr__(self, name: str) -> Any:
        raise ClientStopped("the admin is not running: use `with` or `async with`, or call start() first")

    async def retry(self, attempt: Callable[[], Awaitable[R]]) -> R:
        return await attempt()  # which checks its arguments first, too


class Admin(StartedClient):
    """Administration of a cluster. Use `async with`, or `start()` and `stop()`."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        *,
        client_id: str = "odradek-admin",
        request_timeout_ms: float = 30_000,
        default_api_timeout_ms: float = 60_000,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1_000,
        metadata_max_age_ms: float = 300_000,
        **security: Unpack[SecurityArguments],
    ) -> None:
        self._options = part_of(
            locals(), ClusterOptions, allow_auto_create_topics=False, security=security_options("Admin", security)
        )
        self._cluster: Cluster | None = None
        self._lifetime = Lifetime("admin client")

    async def _start(self) -> None:
        self._cluster = await Cluster.open(self._options)

    async def _close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await cluster.close()

    def _running_or_told(self) -> Cluster:
        """Return the cluster. Before the start, return one that says so when it is used."""
        self._lifetime.check_loop()
        return cast("Cluster", _NotRunning()) if self._cluster is None else self._cluster

    create_topics = _call(topics.create_topics)
    delete_topics = _call(topics.delete_topics)
    list_topics = _call(topics.list_topics)
    describe_topics = _call(topics.describe_topics)
    create_partitions = _call(topics.create_partitions)
    elect_leaders = _call(topics.elect_leaders)
    alter_partition_reassignments = _call(topics.alter_partition_reassignments)
    list_partition_reassignments = _call(topics.list_partition_reassignments)
    delete_records = _call(topics.delete_records)
    list_offsets = _call(topics.list_offsets)

    describe_configs = _call(configs.describe_configs)
    alter_configs = _call(configs.alter_configs)

    describe_cluster = _call(brokers.describe_cluster)
    describe_log_dirs = _call(brokers.describe_log_dirs)
    alter_replica_log_dirs = _call(brokers.alter_replica_log_dirs)
    begin_backup = _call(brokers.begin_backup)
    renew_backup = _call(brokers.renew_backup)
    describe_features = _call(brokers.describe_features)

    check_health = _call(health.check_health)
    placed_partitions = _call(health.placed_partitions)
    update_features = _call(brokers.update_features)

    describe_user_scram_credentials = _call(users.describe_user_scram_credentials)
    alter_user_scram_credentials = _call(users.alter_user_scram_credentials)
    describe_client_quotas = _call(users.describe_client_quotas)
    alter_client_quotas = _call(users.alter_client_quotas)

    describe_acls = _call(acls.describe_acls)
    create_acls = _call(acls.create_acls)
    delete_acls = _call(acls.delete_acls)

    list_groups = _call(groups.list_groups)
    describe_groups = _call(groups.describe_groups)
    list_group_offsets = _call(groups.list_group_offsets)
    alter_group_offsets = _call(groups.alter_group_offsets)
    delete_group_offsets = _call(groups.delete_group_offsets)
    delete_groups = _call(groups.delete_groups)
    remove_group_members = _call(groups.remove_group_members)
    explain_group = _call(groups.explain_group)
    list_share_group_offsets = _call(group_states.list_share_group_offsets)
    alter_share_group_offsets = _call(group_states.alter_share_group_offsets)
    delete_share_group_offsets = _call(group_states.delete_share_group_offsets)
    describe_share_queue = _call(group_states.describe_share_queue)

    list_transactions = _call(transactions.list_transactions)
    describe_transactions = _call(transactions.describe_transactions)
    list_queries = _call(transactions.list_queries)
    describe_producers = _call(transactions.describe_producers)
    fence_producers = _call(transactions.fence_producers)
    abort_transaction = _call(transactions.abort_transaction)


def retried_errors(admin: Admin) -> list[KafkaError]:
    """Return why calls that are under way are tried again, the oldest first; nothing while all goes well."""
    return admin._running_or_told().retries.errors()
