"""DescribeCluster, DescribeQuorum, DescribeLogDirs, OdradekDescribeBroker: what clusters and brokers are made of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from ...protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ...protocol.messages.describe_quorum import (
    DescribedPartition,
    DescribedTopic,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    TopicData,
)
from ...protocol.messages.odradek_describe_broker import (
    MAX_NAMED,
    DamagedPartition,
    OdradekDescribeBrokerRequest,
    OdradekDescribeBrokerResponse,
)
from ...protocol.primitives import ZERO_UUID
from ...storage.errors import StorageError
from ..log_dirs.log_dirs import LogDir
from ..network.request import RequestContext
from ..security.acls import CLUSTER_NAME, ResourceType
from ..services import Services
from ..threads import Work
from ..topics.partition import Partition
from ..topics.topic_names import CLUSTER_METADATA_TOPIC
from ..turns import LargeResponse, fill, keeper
from .reachable_brokers import controller_id, live_brokers

if TYPE_CHECKING:
    from ..share_partitions.led_partitions import InFlight

FIRST_WITH_NODES = 2
BROKERS = 1
CONTROLLERS = 2


def describe_cluster(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """DescribeCluster, API key 60: the live brokers with their addresses, the controller and the id of the cluster.

    Version 1 can request the controllers' endpoint, which a broker rejects, as Kafka's does. Version 2 can request
    fenced brokers: there are none.
    """
    if request.endpoint_type != BROKERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        if request.endpoint_type != CONTROLLERS:
            code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return DescribeClusterResponse(error_code=int(code), error_message=code.text)
    response = DescribeClusterResponse(
        cluster_id=services.metadata.cluster_id,
        controller_id=controller_id(services),
        brokers=[DescribeClusterBroker(*each) for each in live_brokers(services, context)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = context.operations(ResourceType.CLUSTER, CLUSTER_NAME)
    return response


def describe_quorum(
    services: Services, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse | LargeResponse[DescribeQuorumResponse]:
    """DescribeQuorum, API key 55: the quorum of controllers, which is this broker, as the only voter and the leader.

    Its log is the metadata journal. Version 1 adds times, 2 the addresses of the nodes, and errors in words. In
    Kafka, too, a request that names more than that log gets an error for everything.
    """
    named = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    if named != [(CLUSTER_METADATA_TOPIC, 0)]:
        refused = DescribeQuorumResponse(error_message="")
        steps = (refused.topics.append(_not_here(topic)) for topic in request.topics)
        return fill(refused, steps, len(named) + len(request.topics))
    node_id, epoch, now_ms = services.config.node_id, services.metadata.leader_epoch, services.clock.now_ms()
    end = services.metadata.end_offset
    voter = ReplicaState(node_id, ZERO_UUID, end, now_ms, now_ms)
    quorum = DescribedPartition(0, 0, "", node_id, epoch, end, [voter])
    response = DescribeQuorumResponse(error_message="", topics=[DescribedTopic(CLUSTER_METADATA_TOPIC, [quorum])])
    if context.api_version >= FIRST_WITH_NODES:
        response.nodes = [Node(node_id, [Listener(context.listener_name, *context.advertised_address)])]
    return response


def _not_here(topic: TopicData) -> DescribedTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [DescribedPartition(each.partition_index, int(code), code.text) for each in topic.partitions]
    return DescribedTopic(topic.topic_name, partitions)


def odradek_describe_broker(
    services: Services, context: RequestContext, request: OdradekDescribeBrokerRequest
) -> OdradekDescribeBrokerResponse | LargeResponse[OdradekDescribeBrokerResponse]:
    """OdradekDescribeBroker, API key 30013, ours: the clock of this broker, and the damage found in its logs.

    Version 1 may ask for a share group: its records in flight here, and its dead letters since the start.
    """
    response = OdradekDescribeBrokerResponse(time_ms=services.clock.now_ms())
    share_group = () if request.share_group is None else _add_share_group(services, request.share_group, response)

    def add(partition: Partition) -> None:
        if partition.is_online and (places := partition.log.damaged_places):
            response.damaged_places += places
            if len(response.damaged) < MAX_NAMED:
                response.damaged.append(DamagedPartition(partition.topic, partition.index, places))

    partitions = services.topics.partitions()
    return fill(response, chain(share_group, map(add, partitions)), 0)


def _add_share_group(
    services: Services, group_id: str, response: OdradekDescribeBrokerResponse
) -> Iterator[InFlight | None]:
    for each in services.coordinators.share_records(group_id):
        response.held += each.held
        response.archiving += each.archiving
        yield each
    counts = services.coordinators.dead_letter_counts().get(group_id)
    if counts is not None:
        response.rejected, response.delivered_too_often = counts.rejected, counts.delivered_too_often
        response.lost = counts.lost
    yield None


async def describe_log_dirs(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | LargeResponse[DescribeLogDirsResponse]:
    """DescribeLogDirs, API key 35: the data directories, their partitions, and how much room there is.

    Version 2 has tagged fields, 3 adds an error for the whole request, 4 the size of the volume and its free space, 5
    whether the directory is cordoned (none is). An offline directory is KAFKA_STORAGE_ERROR without partitions. The
    response leaves out partitions that do not exist, as in Kafka; null requests all of them. A disk that hangs holds up
    its response alone.
    """
    described = await asyncio.gather(*(_describe(services, each) for each in services.log_dirs.all))
    results = {each.path: result for each, result in zip(services.log_dirs.all, described, strict=True)}
    # By data directory and topic: the partitions of a topic may lie in several.
    topics: dict[tuple[Path, str], DescribeLogDirsTopic] = {}

    def add(partition: Partition) -> None:
        if not partition.is_online:
            return  # since an earlier turn
        path = partition.log.directory.parent
        if results[path].error_code:
            return
        topic = topics.get((path, partition.topic))
        if topic is None:
            topic = topics[path, partition.topic] = DescribeLogDirsTopic(partition.topic)
            results[path].topics.append(topic)
        # The offset lag is how far a replica's log ends before the high watermark that it knows itself. No log does: so
        # a follower, too, answers 0, as in Kafka.
        topic.partitions.append(DescribeLogDirsPartition(partition.index, partition.log.size_bytes, 0, False))

    partitions = services.topics.partitions()
    if request.topics is not None:
        asked: dict[str, set[int]] = {}
        for topic in request.topics:
            asked.setdefault(topic.topic, set()).update(topic.partitions)
            await keeper().pause()
        partitions = [each for each in partitions if each.index in asked.get(each.topic, ())]
    return fill(DescribeLogDirsResponse(results=list(results.values())), map(add, partitions), len(partitions))


async def _describe(services: Services, log_dir: LogDir) -> DescribeLogDirsResult:
    """Return the result of a data directory, without its partitions."""
    try:
        if not log_dir.is_online:
            raise StorageError(f"{log_dir.path} is offline")
        space = partial(services.disk.space, log_dir.path)
        total_bytes, usable_bytes = await services.threads.run(Work.LOOK_UP, log_dir.path, space)
    except StorageError as error:
        return DescribeLogDirsResult(int(error.code), str(log_dir.path))
    return DescribeLogDirsResult(0, str(log_dir.path), [], total_bytes, usable_bytes)
