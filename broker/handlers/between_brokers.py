"""What the brokers of a cluster ask one another: the controller gives orders, and does what others may not do alone.

Only a broker in a cluster serves these requests. An error of the whole request (NOT_CONTROLLER, STALE_BROKER_EPOCH) is
raised, and becomes the response.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ...protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from ...protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from ...protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ...protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ...protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ..cluster.isr_changes import AlteredState, WantedState, alter_isrs
from ..cluster.member import Member
from ..network.request import RequestContext
from ..replication.replicas import Replicas
from ..services import Services

# The first versions that name topics by their ids. A controller older than Kafka 2.8 does not, and without ids nobody
# could tell a topic from a deleted one of its name.
LEADER_AND_ISR_WITH_IDS = 5
UPDATE_METADATA_WITH_IDS = 7
ALTER_PARTITION_WITH_IDS = 2
ALTER_PARTITION_WITH_REPLICA_EPOCHS = 3


def _replicas(services: Services) -> Replicas:
    assert services.replicas is not None, "the routes are served in a cluster only"
    return services.replicas


def _member(services: Services) -> Member:
    assert services.cluster is not None, "the routes are served in a cluster only"
    return services.cluster


async def leader_and_isr(
    services: Services, context: RequestContext, request: LeaderAndIsrRequest
) -> LeaderAndIsrResponse:
    """LeaderAndIsr, API key 4: which partitions this broker leads and follows.

    It is carried out after the orders of the controller that came before it. UNSUPPORTED_VERSION without ids.
    """
    if context.api_version < LEADER_AND_ISR_WITH_IDS:
        return LeaderAndIsrResponse(int(ErrorCode.UNSUPPORTED_VERSION))
    return await _replicas(services).leader_and_isr(request)


async def stop_replica(services: Services, context: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    """StopReplica, API key 5: partitions that this broker holds or follows no longer."""
    return await _replicas(services).stop_replica(request)


async def update_metadata(
    services: Services, context: RequestContext, request: UpdateMetadataRequest
) -> UpdateMetadataResponse:
    """UpdateMetadata, API key 6: brokers, topics and leaders. UNSUPPORTED_VERSION without ids."""
    if context.api_version < UPDATE_METADATA_WITH_IDS:
        return UpdateMetadataResponse(int(ErrorCode.UNSUPPORTED_VERSION))
    return await _replicas(services).update_metadata(request)


async def controlled_shutdown(
    services: Services, context: RequestContext, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """ControlledShutdown, API key 7: the controller moves leaders away from a broker that is about to stop.

    Returns the partitions that the broker still leads. BROKER_NOT_AVAILABLE.
    """
    broker, epoch = request.broker_id, request.broker_epoch
    left = await _member(services).controller.ask(lambda machine: machine.shut_down(broker, epoch))
    return ControlledShutdownResponse(remaining_partitions=[RemainingPartition(*each) for each in left])


async def allocate_producer_ids(
    services: Services, context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """AllocateProducerIds, API key 67: the controller gives a broker a block of producer ids (KIP-730).

    Brokers of Apache Kafka ask for it; ours take their blocks from ZooKeeper themselves. BROKER_ID_NOT_REGISTERED.
    """
    block = await _member(services).admin.take_producer_ids(request.broker_id, request.broker_epoch)
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.last - block.first + 1)


async def alter_partition(
    services: Services, context: RequestContext, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    """AlterPartition, API key 56: the controller writes ISRs, each guarded by its epochs (KIP-497)."""
    version, sender = context.api_version, (request.broker_id, request.broker_epoch)
    wanted = [_wanted(topic, each, version) for topic in request.topics for each in topic.partitions]
    states = iter(await _member(services).controller.ask(lambda machine: alter_isrs(machine, *sender, wanted)))
    return AlterPartitionResponse(
        topics=[
            AlteredTopic(
                topic.topic_name,
                topic.topic_id,
                [_altered(each.partition_index, next(states), version) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _wanted(topic: TopicData, each: PartitionData, version: int) -> WantedState:
    if version >= ALTER_PARTITION_WITH_REPLICA_EPOCHS:
        isr = {replica.broker_id: replica.broker_epoch for replica in each.new_isr_with_epochs}
    else:
        isr = dict.fromkeys(each.new_isr, -1)
    named = topic.topic_id if version >= ALTER_PARTITION_WITH_IDS else topic.topic_name
    return WantedState(named, each.partition_index, each.leader_epoch, each.partition_epoch, isr)


def _altered(index: int, altered: AlteredState, version: int) -> AlteredPartition:
    code, state = altered
    if code is ErrorCode.INELIGIBLE_REPLICA and version < ALTER_PARTITION_WITH_IDS:
        code = ErrorCode.OPERATION_NOT_ATTEMPTED
    if state is None:
        return AlteredPartition(index, int(code))
    isr = list(state.isr)
    return AlteredPartition(
        index, int(code), state.leader, state.leader_epoch, isr, partition_epoch=state.partition_epoch
    )
