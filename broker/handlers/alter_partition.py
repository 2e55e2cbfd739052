"""AlterPartition, API key 56: a leader asks the controller to change the ISR of its partitions (KIP-497).

Only a broker in a cluster serves it, and only the controller does what it says.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from ..network.request import RequestContext
from ..services import Services

if TYPE_CHECKING:
    from ..cluster.isr_changes import AlteredState, WantedState
    from ..cluster.member import Member

FIRST_WITH_IDS = 2
FIRST_WITH_REPLICA_EPOCHS = 3


def handle(
    services: Services, context: RequestContext, request: AlterPartitionRequest
) -> asyncio.Future[AlterPartitionResponse]:
    """Write the ISRs, each guarded by its epochs. NOT_CONTROLLER, STALE_BROKER_EPOCH for the whole request."""
    assert services.cluster is not None, "the route is served in a cluster only"
    return asyncio.ensure_future(_alter(services.cluster, request, context.api_version))


async def _alter(member: Member, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
    wanted = [_wanted(topic, each, version) for topic in request.topics for each in topic.partitions]
    try:
        states = iter(await member.admin.alter_isrs(request.broker_id, request.broker_epoch, wanted))
    except KafkaError as error:
        return AlterPartitionResponse(error_code=int(error.code))
    return AlterPartitionResponse(
        topics=[
            AlteredTopic(
                topic.topic_name,
                topic.topic_id,
                [_answer(each.partition_index, next(states), version) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _wanted(topic: TopicData, each: PartitionData, version: int) -> WantedState:
    from ..cluster.isr_changes import WantedState

    if version >= FIRST_WITH_REPLICA_EPOCHS:
        isr = {replica.broker_id: replica.broker_epoch for replica in each.new_isr_with_epochs}
    else:
        isr = dict.fromkeys(each.new_isr, -1)
    named = topic.topic_id if version >= FIRST_WITH_IDS else topic.topic_name
    return WantedState(named, each.partition_index, each.leader_epoch, each.partition_epoch, isr)


def _answer(index: int, altered: AlteredState, version: int) -> AlteredPartition:
    code, state = altered
    if code is ErrorCode.INELIGIBLE_REPLICA and version < FIRST_WITH_IDS:
        code = ErrorCode.OPERATION_NOT_ATTEMPTED
    if state is None:
        return AlteredPartition(index, int(code))
    return AlteredPartition(
        index,
        int(code),
        state.leader,
        state.leader_epoch,
        list(state.isr),
        partition_epoch=state.partition_epoch,
    )
