"""The brokers of a cluster, what they can do, and where they keep replicas: DescribeCluster (key 60), the features of
KIP-584 (ApiVersions 18, UpdateFeatures 57), DescribeLogDirs (35, sizes KIP-827), AlterReplicaLogDirs (34, KIP-113).

A backup of a running broker for a tool on its machine: OdradekBeginBackup (30012), OdradekRenewLease (30011).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ... import __version__
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ...protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ...protocol.messages.odradek_begin_backup import OdradekBeginBackupRequest, OdradekBeginBackupResponse
from ...protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest, OdradekRenewLeaseResponse
from ...protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from ..core.cluster import Cluster
from ..core.descriptions import ClusterDescription
from ..core.leaders import errors_in, for_items, retried, timeout_of
from ..core.metadata import Node
from ..core.options import check_choice, check_switches, items_of
from ..errors import error_of, raise_error
from ..record import TopicPartition, by_topic

_CHANGES = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}
_UNKNOWN_SIZE = -1


@retried
async def describe_cluster(cluster: Cluster) -> ClusterDescription:
    """Return the cluster's id, its controller and its brokers."""
    response = await cluster.request_any(DescribeClusterRequest(), DescribeClusterResponse)
    raise_error(response.error_code, response.error_message, "the cluster cannot be described")
    nodes = tuple(Node(each.broker_id, each.host, each.port, each.rack) for each in response.brokers)
    return ClusterDescription(response.cluster_id, response.controller_id, nodes)


# -- Features


@dataclass(frozen=True, slots=True)
class Feature:
    """The levels of a feature that the asked broker has, and the one that the cluster uses (0: none)."""

    lowest: int
    highest: int
    level: int


@retried
async def describe_features(cluster: Cluster) -> dict[str, Feature]:
    """Return the features of the cluster by name, with their levels (KIP-584)."""
    request = ApiVersionsRequest(client_software_name="odradek", client_software_version=__version__)
    response = await cluster.request_any(request, ApiVersionsResponse)
    raise_error(response.error_code, None, "the features cannot be described")
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    return {
        each.name: Feature(each.min_version, each.max_version, levels.get(each.name, 0))
        for each in response.supported_features
    }


async def update_features(
    cluster: Cluster, levels: Mapping[str, int], *, change: str = "upgrade", validate_only: bool = False
) -> None:
    """Set the levels of features. `change` is "upgrade", "safe_downgrade", or "unsafe_downgrade" (may lose data).

    All of them are changed, or none. Raises KafkaError, INVALID_UPDATE_VERSION or FEATURE_UPDATE_FAILED.
    """
    check_switches(validate_only=validate_only)
    check_choice("change", change, _CHANGES)

    async def attempt(names: list[str]) -> dict[str, KafkaError | None]:
        updates = [FeatureUpdateKey(name, levels[name], upgrade_type=_CHANGES[change]) for name in names]
        request = UpdateFeaturesRequest(timeout_of(cluster), updates, validate_only)
        response = await cluster.request_controller(request, UpdateFeaturesResponse)
        raise_error(response.error_code, response.error_message, "the features were not updated")
        # A broker may leave out what it has updated.
        return dict.fromkeys(names) | {
            each.feature: error_of(each.error_code, each.error_message, f"the level of {each.feature} was not updated")
            for each in response.results
        }

    await for_items(cluster, levels, attempt)


# -- Log directories


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition in a directory. `offset_lag` is its lag in offsets; `is_future` says that it is moving in."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker.

    `error` says why it cannot be used; sizes are those of its volume, None if the broker is too old for them.
    """

    node_id: int
    path: str
    error: ErrorCode | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: tuple[Replica, ...]

    @property
    def size_bytes(self) -> int:
        """The total size of `replicas`."""
        return sum(each.size_bytes for each in self.replicas)


async def describe_log_dirs(
    cluster: Cluster, *node_ids: int | Iterable[int], partitions: Collection[TopicPartition] | None = None
) -> list[LogDir]:
    """Return the log directories of these brokers, or of all, with their replicas: all, or of these partitions.

    Raises BROKER_NOT_AVAILABLE for an unknown broker.
    """
    asked = items_of("describe_log_dirs", int, node_ids) if node_ids else None
    return await cluster.retry(lambda: _describe_once(cluster, asked, partitions))


async def _describe_once(
    cluster: Cluster, node_ids: Collection[int] | None, partitions: Collection[TopicPartition] | None
) -> list[LogDir]:
    await cluster.refresh()
    unknown = sorted(set(node_ids or ()) - set(cluster.view.nodes))
    if unknown:
        there = ", ".join(map(str, sorted(cluster.view.nodes)))
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {unknown[0]}; there are {there}")
    topics = None if partitions is None else [DescribableLogDirTopic(*each) for each in by_topic(partitions).items()]
    found: list[LogDir] = []
    for node_id in sorted(cluster.view.nodes if node_ids is None else node_ids):
        connection = await cluster.connection(node_id)
        response = await connection.request(DescribeLogDirsRequest(topics), DescribeLogDirsResponse)
        raise_error(response.error_code, None, f"{connection.address} cannot describe its data directories")
        found += [_log_dir(node_id, each) for each in sorted(response.results, key=lambda each: each.log_dir)]
    return found


def _log_dir(node_id: int, result: DescribeLogDirsResult) -> LogDir:
    replicas = [
        Replica(
            TopicPartition(topic.name, each.partition_index), each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in result.topics
        for each in topic.partitions
    ]
    return LogDir(
        node_id,
        result.log_dir,
        ErrorCode.of(result.error_code) if result.error_code else None,
        None if result.total_bytes == _UNKNOWN_SIZE else result.total_bytes,
        None if result.usable_bytes == _UNKNOWN_SIZE else result.usable_bytes,
        tuple(sorted(replicas, key=lambda each: each.partition)),
    )


# A replica: the broker's node id, and the partition.
ReplicaKey = tuple[int, TopicPartition]


async def alter_replica_log_dirs(cluster: Cluster, moves: Mapping[tuple[int, TopicPartition], str]) -> None:
    """Begin to move replicas, by node id and partition, to other log directories of their brokers.

    Raises KafkaError, LOG_DIR_NOT_FOUND; `describe_log_dirs` shows when they are there.
    """

    async def attempt(keys: list[ReplicaKey]) -> dict[ReplicaKey, KafkaError | None]:
        found: dict[ReplicaKey, KafkaError | None] = {}
        for node_id in sorted({node_id for node_id, _ in keys}):
            wanted = [partition for node, partition in keys if node == node_id]
            found |= await _move_on(cluster, node_id, {partition: moves[node_id, partition] for partition in wanted})
        return found

    await for_items(cluster, moves, attempt)


async def _move_on(
    cluster: Cluster, node_id: int, wanted: Mapping[TopicPartition, str]
) -> dict[ReplicaKey, KafkaError | None]:
    dirs = [
        AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(*each) for each in by_topic(some).items()])
        for path, some in by_topic((path, partition) for partition, path in wanted.items()).items()
    ]
    request = AlterReplicaLogDirsRequest(dirs)
    try:
        response = await cluster.request(node_id, request, AlterReplicaLogDirsResponse)
    except KafkaError as error:
        return {(node_id, partition): error for partition in wanted}
    errors = errors_in(response, lambda each: f"{each} of broker {node_id} was not moved")
    return {(node_id, partition): error for partition, error in errors.items()}


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """What a broker holds for a backup: a directory in each of its data directories (storage/held_files.py).

    It holds them for `lease_ms` from the beginning and from each renewal.
    """

    directories: tuple[Path, ...]
    cluster_id: str
    lease_id: int
    lease_ms: int


async def begin_backup(cluster: Cluster) -> HeldFiles:
    """Have a broker that is alone hold its files as they are at one moment.

    Raises UnsupportedVersion for brokers that are not Odradek, INVALID_REQUEST for one of a cluster,
    THROTTLING_QUOTA_EXCEEDED while another backup is made, KAFKA_STORAGE_ERROR.
    """
    response = await cluster.request_any(OdradekBeginBackupRequest(), OdradekBeginBackupResponse)
    raise_error(response.error_code, response.error_message, "the broker cannot be backed up")
    directories = tuple(map(Path, response.directories))
    return HeldFiles(directories, response.cluster_id, response.lease_id, response.lease_ms)


async def renew_backup(cluster: Cluster, held: HeldFiles, *, is_end: bool = False) -> None:
    """Keep the files of a backup for longer; `is_end` gives them back. Raises RESOURCE_NOT_FOUND: they are gone."""
    request = OdradekRenewLeaseRequest(lease_id=held.lease_id, is_end=is_end)
    response = await cluster.request_any(request, OdradekRenewLeaseResponse)
    raise_error(response.error_code, None, "the broker holds the files of this backup no longer")
