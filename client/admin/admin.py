"""Looking after a cluster: `Admin`.

    async with Admin("127.0.0.1:9092") as admin:
        await admin.create_topics([NewTopic("flights", num_partitions=6)])
        print(await admin.describe_topics("flights"))

Every call is tried again while its error may pass, for `default_api_timeout_ms` in all, and raises KafkaError with the
broker's own words where it does not. A call about several things raises for the first that fails; the others may have
been done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ...protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ...protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ..descriptions import (
    ActiveProducer,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    GroupDescription,
    GroupListing,
    GroupRebalance,
    NewTopic,
    TransactionDescription,
    TransactionListing,
    group_description,
)
from ..errors import ClientStopped, InvalidOption, UnknownTopic, refuse
from ..metadata import Node, TopicInfo
from ..network.cluster import Cluster, ClusterOptions
from ..network.coordinator import Coordinator
from ..network.log_offsets import ISOLATION_LEVELS, list_offsets
from ..record import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from . import configs as config_changes
from . import groups as group_changes
from . import log_dirs
from . import topics as topic_changes
from . import transactions as transaction_changes

_FIRST_STATES_FILTER = 4  # ListGroups 4 filters by state, 5 by type
_FIRST_TYPES_FILTER = 5
_FIRST_TOPIC_STATES = 6  # DeleteTopics 6 takes names or ids


class Admin:
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
    ) -> None:
        self._options = ClusterOptions(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            default_api_timeout_ms=default_api_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            allow_auto_create_topics=False,
        )
        self._cluster: Cluster | None = None

    async def start(self) -> None:
        """Reach the cluster. Raises NoBrokerReachable where no bootstrap server answers."""
        if self._cluster is not None:
            return
        cluster = Cluster(self._options)
        try:
            await cluster.start()
        except BaseException:
            await cluster.close()
            raise
        self._cluster = cluster

    async def stop(self) -> None:
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

    # -- topics ------------------------------------------------------------------------------------

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Make topics, or see whether they could be made. Raises KafkaError, TOPIC_ALREADY_EXISTS for one that is
        there."""
        cluster = self._running()
        question = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._limit_ms(timeout_ms),
            validate_only=validate_only,
        )

        async def ask() -> None:
            answer = await cluster.ask(await cluster.controller(), question, CreateTopicsResponse)
            for topic in answer.topics:
                refuse(topic.error_code, topic.error_message, f"topic {topic.name!r} was not created")

        await cluster.until_done(ask)

    async def delete_topics(self, *names: str, timeout_ms: int | None = None) -> None:
        """Delete topics with all their records. Raises KafkaError, UNKNOWN_TOPIC_OR_PARTITION for one that is not
        there."""
        cluster = self._running()

        async def ask() -> None:
            connection = await cluster.connection(await cluster.controller())
            question = DeleteTopicsRequest(topic_names=list(names), timeout_ms=self._limit_ms(timeout_ms))
            if connection.version_for(DeleteTopicsRequest) >= _FIRST_TOPIC_STATES:
                question.topics = [DeleteTopicState(name=name) for name in names]
            answer = await connection.request(question, DeleteTopicsResponse)
            for topic in answer.responses:
                if ErrorCode.of(topic.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise UnknownTopic(f"topic {topic.name!r} does not exist")
                refuse(topic.error_code, topic.error_message, f"topic {topic.name!r} was not deleted")

        await cluster.until_done(ask)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, in order; Kafka's own only if asked for."""
        cluster = self._running()
        view = await cluster.until_done(cluster.all_topics)
        return sorted(name for name, topic in view.topics.items() if internal or not topic.is_internal)

    async def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Partitions, leaders and replicas of topics, of all if none is named. Raises UnknownTopic."""
        cluster = self._running()
        view = await cluster.until_done(cluster.all_topics)
        for name in names:
            if name not in view.topics:
                code = view.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                raise UnknownTopic(f"topic {name!r} cannot be described: {code.text}")
        return {name: view.topics[name] for name in names or sorted(view.topics)}

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Collection[str] | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The configs of topics, brokers or groups by name: all of them, or those in `names`."""
        return await config_changes.describe(self._running(), resources, names)

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Change some configs of topics or brokers; the others stay. Of each resource all are changed, or none.

        Raises KafkaError, INVALID_CONFIG or INVALID_REQUEST for one that cannot be.
        """
        await config_changes.alter(self._running(), changes, validate_only)

    async def create_partitions(self, totals: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raise topics' numbers of partitions to these. Raises KafkaError, INVALID_PARTITIONS for one that is not
        higher."""
        await topic_changes.create_partitions(self._running(), totals, validate_only, self._limit_ms(None))

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what partitions hold below an offset, or all of it (-1): where each begins now. Raises KafkaError,
        OFFSET_OUT_OF_RANGE for an offset past the end."""
        return await topic_changes.delete_records(self._running(), before, self._limit_ms(None))

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """For each partition the first offset at or after a time (ms), or at an end: LATEST (-1), EARLIEST (-2)."""
        if isolation_level not in ISOLATION_LEVELS:
            raise InvalidOption(
                f"isolation_level must be one of {', '.join(ISOLATION_LEVELS)}, not {isolation_level!r}"
            )
        return await list_offsets(self._running(), wanted, ISOLATION_LEVELS[isolation_level])

    # -- the cluster -------------------------------------------------------------------------------

    async def describe_cluster(self) -> ClusterDescription:
        """Its id, its controller and its brokers."""
        cluster = self._running()

        async def ask() -> ClusterDescription:
            answer = await cluster.ask_any(DescribeClusterRequest(), DescribeClusterResponse)
            refuse(answer.error_code, answer.error_message, "the cluster cannot be described")
            nodes = tuple(Node(each.broker_id, each.host, each.port, each.rack) for each in answer.brokers)
            return ClusterDescription(answer.cluster_id, answer.controller_id, nodes)

        return await cluster.until_done(ask)

    async def describe_log_dirs(
        self, *node_ids: int, partitions: Collection[TopicPartition] | None = None
    ) -> list[log_dirs.LogDir]:
        """The data directories of these brokers, or of all, with what lies in them: all, or these partitions."""
        cluster = self._running()
        return await cluster.until_done(lambda: log_dirs.describe(cluster, node_ids, partitions))

    # -- groups ------------------------------------------------------------------------------------

    async def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """The groups of all brokers by id, only those in `states` (Stable, Empty, ...) and of `types` (classic, ...) if
        given.

        Raises UnsupportedVersion's code where a broker is too old to filter.
        """
        cluster = self._running()

        async def ask() -> list[GroupListing]:
            await cluster.refresh()
            found: dict[str, GroupListing] = {}
            for node_id in cluster.view.nodes:
                connection = await cluster.connection(node_id)
                version = connection.version_for(ListGroupsRequest)
                if (states and version < _FIRST_STATES_FILTER) or (types and version < _FIRST_TYPES_FILTER):
                    raise KafkaError(
                        ErrorCode.UNSUPPORTED_VERSION, f"{connection.address} cannot filter groups like that"
                    )
                question = ListGroupsRequest(states_filter=sorted(states), types_filter=sorted(types))
                answer = await connection.request(question, ListGroupsResponse, version=version)
                refuse(answer.error_code, None, f"{connection.address} cannot list its groups")
                for each in answer.groups:
                    found[each.group_id] = GroupListing(
                        each.group_id, each.protocol_type, each.group_state, each.group_type
                    )
            return [found[group_id] for group_id in sorted(found)]

        return await cluster.until_done(ask)

    async def describe_groups(self, *group_ids: str) -> dict[str, GroupDescription]:
        """State, strategy and members of groups. A group that does not exist raises GROUP_ID_NOT_FOUND, or is Dead on
        an old broker."""
        cluster = self._running()
        described: dict[str, GroupDescription] = {}
        for group_id in group_ids:
            coordinator = Coordinator(cluster, group_id)

            async def ask(coordinator: Coordinator = coordinator) -> GroupDescription:
                question = DescribeGroupsRequest(groups=[coordinator.group_id])
                answer = await coordinator.ask(question, DescribeGroupsResponse)
                coordinator.refuse(answer.groups[0].error_code, "the description")
                return group_description(answer.groups[0], coordinator.node)

            described[group_id] = await cluster.until_done(ask)
        return described

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Every offset that a group has committed."""
        return await Coordinator(self._running(), group_id).all_committed()

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Set offsets of a group that has no members; it is made if it does not exist. Raises KafkaError,
        NON_EMPTY_GROUP where it has members."""
        await group_changes.set_offsets(Coordinator(self._running(), group_id), offsets)

    async def delete_group_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """Forget offsets of a group. Raises KafkaError, GROUP_SUBSCRIBED_TO_TOPIC where a member reads the topic."""
        cluster = self._running()
        coordinator = Coordinator(cluster, group_id)
        await cluster.until_done(lambda: group_changes.delete_offsets(coordinator, partitions))

    async def delete_groups(self, *group_ids: str) -> None:
        """Delete groups without members, with their offsets. Raises KafkaError, NON_EMPTY_GROUP for one that has
        members."""
        cluster = self._running()
        for group_id in group_ids:
            coordinator = Coordinator(cluster, group_id)
            await cluster.until_done(lambda coordinator=coordinator: group_changes.delete_group(coordinator))

    async def explain_group(self, group_id: str) -> list[GroupRebalance]:
        """Why a group rebalanced, the oldest rebalance first, as far as its broker remembers. Raises KafkaError,
        UNSUPPORTED_VERSION where it keeps no history: Kafka's brokers do not."""
        cluster = self._running()
        coordinator = Coordinator(cluster, group_id)
        return await cluster.until_done(lambda: group_changes.explain_group(coordinator))

    # -- transactions ------------------------------------------------------------------------------

    async def list_transactions(
        self, *, states: Collection[str] = (), producer_ids: Collection[int] = (), longer_than_ms: int = -1
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers, in order; only those in `states` (Ongoing, ...), of `producer_ids`, or
        whose transaction has been open for longer."""
        cluster = self._running()
        return await cluster.until_done(
            lambda: transaction_changes.list_all(cluster, states, producer_ids, longer_than_ms)
        )

    async def describe_transactions(self, *transactional_ids: str) -> dict[str, TransactionDescription]:
        """State, producer and partitions of transactional ids. Raises KafkaError, TRANSACTIONAL_ID_NOT_FOUND."""
        return await transaction_changes.describe(self._running(), transactional_ids)

    async def describe_producers(self, *partitions: TopicPartition) -> dict[TopicPartition, list[ActiveProducer]]:
        """The producers that partitions remember, and where their open transactions begin."""
        return await transaction_changes.describe_producers(self._running(), partitions)

    async def abort_transaction(self, partition: TopicPartition, producer: ActiveProducer) -> None:
        """End a transaction that hangs in a partition, past its coordinator: as aborted. Raises KafkaError."""
        await transaction_changes.abort(self._running(), partition, producer)

    # -- parts -------------------------------------------------------------------------------------

    def _running(self) -> Cluster:
        if self._cluster is None:
            raise ClientStopped("the admin is not running: use `async with Admin(...)`, or await start() first")
        return self._cluster

    def _limit_ms(self, timeout_ms: int | None) -> int:
        return int(self._options.request_timeout_ms) if timeout_ms is None else timeout_ms


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )
