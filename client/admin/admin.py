"""The admin client: `Admin`.

    async with Admin("127.0.0.1:9092") as admin:
        await admin.create_topics([NewTopic("flights", num_partitions=6)])
        print(await admin.describe_topics("flights"))

Every call is retried while its error is retriable, for `default_api_timeout_ms` in all. Then it raises KafkaError with
the broker's message. A call about several things raises ItemsFailed if some of them fail: its `results` say what
became of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Unpack

from ...protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ..core.arguments import KnowsOtherNames, check_apart, check_list, check_mapping
from ..core.clock import api_result
from ..core.cluster import Cluster
from ..core.committed_offsets import CommittedOffsets
from ..core.coordinator import Coordinator
from ..core.descriptions import (
    ActiveProducer,
    ClusterDescription,
    ConfigChanges,
    ConfigEntry,
    ConfigResource,
    GroupDescription,
    GroupListing,
    GroupRebalance,
    NewTopic,
    QueryDescription,
    Reassignment,
    TransactionDescription,
    TransactionListing,
)
from ..core.lifetime import Lifetime
from ..core.log_offsets import ISOLATION_LEVELS, list_offsets, list_replica_offsets
from ..core.metadata import Node, TopicInfo
from ..core.options import ClusterOptions, check_choice, check_switches, part_of, security_options
from ..core.security import SecurityArguments
from ..errors import ClientStopped, raise_error
from ..record import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from . import acls, configs, features, groups, log_dirs, quotas, reassignments, scram_users, transactions
from . import topics as topics_admin


class Admin(KnowsOtherNames):
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

    # -- Start and stop

    async def start(self) -> None:
        """Reach the cluster. Raises NoBrokerReachable if no bootstrap server responds."""
        await self._lifetime.start(self._start)

    async def _start(self) -> None:
        self._cluster = await Cluster.open(self._options)

    async def stop(self) -> None:
        """Close the connections; may be called again."""
        await self._lifetime.stop(self._close)

    async def _close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await cluster.close()

    async def __aenter__(self) -> Admin:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _running(self) -> Cluster:
        self._lifetime.check_loop()
        if self._cluster is None:
            raise ClientStopped("the admin is not running: use `async with Admin(...)`, or await start() first")
        return self._cluster

    def _timeout_ms(self, timeout_ms: int | None = None) -> int:
        """Return how long a broker may take for a request."""
        return int(self._options.request_timeout_ms) if timeout_ms is None else timeout_ms

    # -- Topics

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Create topics, or check whether they could be created. Raises KafkaError: TOPIC_ALREADY_EXISTS, ..."""
        check_switches(validate_only=validate_only)
        check_list("create_topics", topics)
        await topics_admin.create(self._running(), topics, validate_only, self._timeout_ms(timeout_ms))

    async def delete_topics(self, *names: str, timeout_ms: int | None = None) -> None:
        """Delete topics with all their records. Raises UnknownTopic, KafkaError."""
        check_apart("delete_topics", names)
        await topics_admin.delete(self._running(), names, self._timeout_ms(timeout_ms))

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, in order; internal topics only if `internal`."""
        check_switches(internal=internal)
        return await topics_admin.names(self._running(), internal)

    async def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Return partitions, leaders and replicas of topics, of all if none is named. Raises UnknownTopic."""
        check_apart("describe_topics", names)
        return await topics_admin.describe(self._running(), names)

    async def create_partitions(self, totals: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raise the partition counts of topics. Raises INVALID_PARTITIONS for a count that is not higher."""
        check_switches(validate_only=validate_only)
        check_mapping("create_partitions", totals, "topic and number of partitions")
        await topics_admin.create_partitions(self._running(), totals, validate_only, self._timeout_ms())

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> list[TopicPartition]:
        """Make preferred replicas leaders again, of these partitions or all. Return those that have a new leader.

        `unclean` elects any living replica of partitions whose in-sync replicas are all dead, which loses records.
        """
        check_switches(unclean=unclean)
        if partitions is not None:
            check_list("elect_leaders", partitions)
        return await reassignments.elect_leaders(self._running(), partitions, unclean, self._timeout_ms())

    async def alter_partition_reassignments(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begin to give partitions other replicas, the preferred leader first; None cancels what is under way."""
        await reassignments.reassign(self._running(), replicas, self._timeout_ms())

    async def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """Return the partitions that are moving to other replicas."""
        return await reassignments.reassignments(self._running(), self._timeout_ms())

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset of each partition (-1: all). Return the log start offsets.

        Raises KafkaError, OFFSET_OUT_OF_RANGE for an offset past the end.
        """
        return await topics_admin.delete_records(self._running(), before, self._timeout_ms())

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        isolation_level: str = "read_uncommitted",
        node_id: int | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return for each partition the first offset at or after a time (ms), or an end: LATEST (-1), EARLIEST (-2).

        Leaders are asked. With `node_id` that broker is asked, once, for its own replicas: LATEST is where its log
        ends, whatever is committed.
        """
        check_choice("isolation_level", isolation_level, ISOLATION_LEVELS)
        check_mapping("list_offsets", wanted, "TopicPartition and time")
        if node_id is not None:
            cluster = self._running()
            limit_ms = cluster.options.default_api_timeout_ms
            return await api_result(list_replica_offsets(cluster, node_id, wanted), limit_ms)
        return await list_offsets(self._running(), wanted, ISOLATION_LEVELS[isolation_level])

    # -- Configs

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Collection[str] | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return the configs of topics, brokers or groups by name: all of them, or those in `names`."""
        check_list("describe_configs", resources)
        return await configs.describe(self._running(), resources, names)

    async def alter_configs(
        self, changes: Mapping[ConfigResource, ConfigChanges], *, validate_only: bool = False
    ) -> None:
        """Change some configs of topics or brokers; the others stay. Of each resource all are changed, or none.

        The changes are ConfigChange objects, or a dict of names and values, of which None resets a config.
        Raises KafkaError, INVALID_CONFIG or INVALID_REQUEST for an invalid change.
        """
        check_switches(validate_only=validate_only)
        await configs.alter(self._running(), changes, validate_only)

    # -- The cluster

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id, its controller and its brokers."""
        cluster = self._running()

        async def attempt() -> ClusterDescription:
            response = await cluster.request_any(DescribeClusterRequest(), DescribeClusterResponse)
            raise_error(response.error_code, response.error_message, "the cluster cannot be described")
            nodes = tuple(Node(each.broker_id, each.host, each.port, each.rack) for each in response.brokers)
            return ClusterDescription(response.cluster_id, response.controller_id, nodes)

        return await cluster.retry(attempt)

    async def describe_log_dirs(
        self, *node_ids: int, partitions: Collection[TopicPartition] | None = None
    ) -> list[log_dirs.LogDir]:
        """Return the log directories of these brokers, or of all, with their replicas: all, or of these partitions."""
        check_apart("describe_log_dirs", node_ids)
        return await log_dirs.describe(self._running(), node_ids, partitions)

    async def alter_replica_log_dirs(self, moves: Mapping[tuple[int, TopicPartition], str]) -> None:
        """Begin to move replicas, by node id and partition, to other log directories of their brokers.

        Raises KafkaError, LOG_DIR_NOT_FOUND; `describe_log_dirs` shows when they are there.
        """
        await log_dirs.move(self._running(), moves)

    async def describe_features(self) -> dict[str, features.Feature]:
        """Return the features of the cluster by name, with their levels (KIP-584)."""
        return await features.describe(self._running())

    async def update_features(
        self, levels: Mapping[str, int], *, change: str = "upgrade", validate_only: bool = False
    ) -> None:
        """Set the levels of features. `change` is "upgrade", "safe_downgrade", or "unsafe_downgrade" (may lose data).

        Raises KafkaError, INVALID_UPDATE_VERSION or FEATURE_UPDATE_FAILED.
        """
        check_switches(validate_only=validate_only)
        await features.update(self._running(), levels, change, validate_only, self._timeout_ms())

    # -- Users, quotas and access control lists

    async def describe_user_scram_credentials(self, *users: str) -> dict[str, dict[str, int]]:
        """Return the SCRAM mechanisms of users, or of all, with the iterations of their passwords.

        Raises KafkaError, RESOURCE_NOT_FOUND for a user without a password.
        """
        check_apart("describe_user_scram_credentials", users)
        return await scram_users.describe(self._running(), users)

    async def alter_user_scram_credentials(self, *passwords: scram_users.ScramPassword) -> None:
        """Store passwords of users, or delete them. Only their salted hashes are sent."""
        check_apart("alter_user_scram_credentials", passwords)
        await scram_users.alter(self._running(), passwords)

    async def describe_client_quotas(
        self, *, user: str | None = None, client_id: str | None = None, ip: str | None = None, strict: bool = False
    ) -> dict[quotas.QuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that match a name, DEFAULT_ENTITY or ANY_ENTITY; of all without a name.

        `strict` leaves out entities with more parts than are named: of a user, those that also name a client id.
        """
        check_switches(strict=strict)
        return await quotas.describe(self._running(), quotas.QuotaEntity(user, client_id, ip), strict)

    async def alter_client_quotas(
        self, changes: Mapping[quotas.QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Set quotas, such as {"producer_byte_rate": 1e6}, of users, client ids or addresses; None removes one."""
        check_switches(validate_only=validate_only)
        await quotas.alter(self._running(), changes, validate_only)

    async def describe_acls(self, wanted: acls.AclFilter | None = None) -> list[acls.Acl]:
        """Return all ACLs, or those that a filter matches. Raises SECURITY_DISABLED without an authorizer."""
        return await acls.describe(self._running(), wanted or acls.AclFilter())

    async def create_acls(self, *wanted: acls.Acl) -> None:
        """Create ACLs; one that is there already is no error. Raises KafkaError, SECURITY_DISABLED."""
        check_apart("create_acls", wanted)
        await acls.create(self._running(), wanted)

    async def delete_acls(self, *filters: acls.AclFilter) -> dict[acls.AclFilter, list[acls.Acl]]:
        """Delete the ACLs that filters match. Return those of each filter. Raises KafkaError, SECURITY_DISABLED."""
        check_apart("delete_acls", filters)
        return await acls.delete(self._running(), filters)

    # -- Groups

    async def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Return the groups of all brokers by id, only those in `states` (Stable, ...) and of `types` (classic, ...).

        Raises KafkaError, UNSUPPORTED_VERSION if a broker is too old to filter.
        """
        return await groups.list_all(self._running(), states, types)

    async def describe_groups(self, *group_ids: str) -> dict[str, GroupDescription]:
        """Return state, assignor and members of groups.

        Raises KafkaError, GROUP_ID_NOT_FOUND for a group that does not exist; old brokers call it Dead.
        """
        check_apart("describe_groups", group_ids)
        return await groups.describe(self._running(), group_ids)

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return every offset that a group has committed."""
        return await CommittedOffsets(self._group(group_id)).fetch_all()

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Set offsets of a group without members; it is created if it does not exist.

        Raises KafkaError, NON_EMPTY_GROUP if it has members; ItemsFailed if some of several offsets are not taken.
        """
        await groups.set_offsets(self._group(group_id), offsets)

    async def delete_group_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """Delete offsets of a group. Raises KafkaError, GROUP_SUBSCRIBED_TO_TOPIC if a member reads the topic."""
        check_list("delete_group_offsets", partitions)
        await groups.delete_offsets(self._group(group_id), partitions)

    async def delete_groups(self, *group_ids: str) -> None:
        """Delete groups without members, and their offsets. Raises KafkaError, NON_EMPTY_GROUP."""
        check_apart("delete_groups", group_ids)
        await groups.delete_all(self._running(), group_ids)

    async def remove_group_members(
        self,
        group_id: str,
        *member_ids: str,
        instance_ids: Collection[str] = (),
        reason: str = "removed by an administrator",
    ) -> None:
        """Remove members of a group, by member id or by `group_instance_id`; their partitions go to the others.

        A member that still runs joins again. Raises KafkaError, UNKNOWN_MEMBER_ID for one that the group does not have.
        """
        check_apart("remove_group_members", member_ids)
        await groups.remove_members(self._group(group_id), member_ids, instance_ids, reason)

    async def explain_group(self, group_id: str) -> list[GroupRebalance]:
        """Return why a group rebalanced, the oldest rebalance first, as far as its broker remembers.

        Raises KafkaError, UNSUPPORTED_VERSION if the broker keeps no history: Kafka's brokers do not.
        """
        return await groups.explain(self._group(group_id))

    def _group(self, group_id: str) -> Coordinator:
        return Coordinator(self._running(), group_id)

    # -- Transactions

    async def list_transactions(
        self, *, states: Collection[str] = (), producer_ids: Collection[int] = (), longer_than_ms: int = -1
    ) -> list[TransactionListing]:
        """Return the transactional ids of all brokers, in order.

        Only those in `states` (Ongoing, ...), of `producer_ids`, and whose transaction has been open for longer.
        """
        return await transactions.list_all(self._running(), states, producer_ids, longer_than_ms)

    async def describe_transactions(self, *transactional_ids: str) -> dict[str, TransactionDescription]:
        """Return state, producer and partitions of transactional ids. Raises TRANSACTIONAL_ID_NOT_FOUND."""
        check_apart("describe_transactions", transactional_ids)
        return await transactions.describe(self._running(), transactional_ids)

    async def list_queries(self) -> list[QueryDescription]:
        """Return the queries whose tasks commit together, in order: those of Spark's sink.

        Raises UnsupportedVersion for brokers that are not Odradek.
        """
        return await transactions.list_queries(self._running())

    async def describe_producers(self, *partitions: TopicPartition) -> dict[TopicPartition, list[ActiveProducer]]:
        """Return the producers that partitions remember, with the start of their open transactions."""
        check_apart("describe_producers", partitions)
        return await transactions.describe_producers(self._running(), partitions)

    async def fence_producers(self, *transactional_ids: str) -> None:
        """Fence the producers of transactional ids: open transactions are aborted, and their next call fails.

        Raises KafkaError, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
        """
        check_apart("fence_producers", transactional_ids)
        await transactions.fence(self._running(), transactional_ids, self._timeout_ms())

    async def abort_transaction(self, partition: TopicPartition, producer: ActiveProducer) -> None:
        """Abort a transaction that hangs in a partition, without its coordinator. Raises KafkaError."""
        await transactions.abort(self._running(), partition, producer)
