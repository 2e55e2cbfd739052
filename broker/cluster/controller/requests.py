"""Requests of the controller: what the outbox holds, in Kafka's messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TypeVar

from ....protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from ....protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from ....protocol.messages.update_metadata import FULL as FULL_METADATA
from ....protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from ....protocol.schema import Message as ProtocolMessage
from ..znodes import SECURITY_PROTOCOLS, Registration, TopicPartition
from .outbox import BecomeLeaderOrFollower, Message, PartitionUpdate, StopReplicas, TellMetadata

# What Kafka 3.9 sends to brokers of its version: see inter.broker.protocol.version.
LEADER_AND_ISR_VERSION = 7
STOP_REPLICA_VERSION = 4
UPDATE_METADATA_VERSION = 8
# Types of LeaderAndIsr. Without a type UpdateMetadata is not full either.
_INCREMENTAL, _FULL = 0, 1

Topic = TypeVar("Topic")


def request_of(
    message: Message, controller_id: int, controller_epoch: int, broker_epoch: int
) -> tuple[ProtocolMessage, int, type[ProtocolMessage]]:
    """Return the request for a message, its version, and the type of its response."""
    if isinstance(message, BecomeLeaderOrFollower):
        request, version, response = _leader_and_isr(message), LEADER_AND_ISR_VERSION, LeaderAndIsrResponse
    elif isinstance(message, TellMetadata):
        request, version, response = _update_metadata(message), UPDATE_METADATA_VERSION, UpdateMetadataResponse
    else:
        request, version, response = _stop_replica(message), STOP_REPLICA_VERSION, StopReplicaResponse
    request.controller_id, request.controller_epoch = controller_id, controller_epoch
    request.broker_epoch = broker_epoch
    return request, version, response


def _type(message: BecomeLeaderOrFollower | TellMetadata, full: int) -> int:
    if not message.is_full:
        return _INCREMENTAL
    return full if message.piece is None else message.piece


def _by_topic(
    updates: Iterable[PartitionUpdate],
    topic_of: Callable[..., Topic],
    partition_of: Callable[[PartitionUpdate], object],
) -> list[Topic]:
    """Return what is told of each topic, with its partitions in their order."""
    topics: list[Topic] = []
    for name, found in groupby(sorted(updates, key=lambda each: each.place), key=lambda each: each.place.topic):
        some = list(found)
        states = list(map(partition_of, some))
        topics.append(topic_of(topic_name=name, topic_id=some[0].topic_id, partition_states=states))
    return topics


def _leader_and_isr(message: BecomeLeaderOrFollower) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        type=_type(message, _FULL),
        topic_states=_by_topic(message.updates, LeaderAndIsrTopicState, _role),
        live_leaders=[LeaderAndIsrLiveLeader(each.broker_id, *each.address) for each in message.leaders],
    )


def _role(update: PartitionUpdate) -> LeaderAndIsrPartitionState:
    state, replicas = update.state, update.replicas
    return LeaderAndIsrPartitionState(
        partition_index=update.place.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(replicas.replicas),
        adding_replicas=list(replicas.adding),
        removing_replicas=list(replicas.removing),
        is_new=update.is_new,
    )


def _update_metadata(message: TellMetadata) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        type=_type(message, FULL_METADATA),
        topic_states=_by_topic(message.updates, UpdateMetadataTopicState, _metadata),
        live_brokers=list(map(_broker, message.brokers)),
    )


def _metadata(update: PartitionUpdate) -> UpdateMetadataPartitionState:
    state = update.state
    return UpdateMetadataPartitionState(
        partition_index=update.place.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        zk_version=state.partition_epoch,
        replicas=list(update.replicas.replicas),
        offline_replicas=list(update.offline),
    )


def _broker(broker: Registration) -> UpdateMetadataBroker:
    endpoints: list[UpdateMetadataEndpoint] = []
    for listener, (host, port) in broker.addresses.items():
        endpoints.append(UpdateMetadataEndpoint(port, host, listener, SECURITY_PROTOCOLS[broker.protocol(listener)]))
    return UpdateMetadataBroker(id=broker.broker_id, endpoints=endpoints, rack=broker.rack)


def _stop_replica(message: StopReplicas) -> StopReplicaRequest:
    topics: dict[str, StopReplicaTopicState] = {}
    for place, (leader_epoch, delete) in sorted(message.partitions.items()):
        topic = topics.setdefault(place.topic, StopReplicaTopicState(place.topic, []))
        topic.partition_states.append(StopReplicaPartitionState(place.partition, leader_epoch, delete))
    return StopReplicaRequest(topic_states=list(topics.values()))


def errors_of(message: Message, response: ProtocolMessage) -> dict[TopicPartition, int]:
    """Return the error codes of partitions in a response, without those that are 0."""
    if isinstance(response, StopReplicaResponse):
        found = response.partition_errors
        return {
            TopicPartition(each.topic_name, each.partition_index): each.error_code for each in found if each.error_code
        }
    if not isinstance(response, LeaderAndIsrResponse) or not isinstance(message, BecomeLeaderOrFollower):
        return {}
    names = {each.topic_id: each.place.topic for each in message.updates}
    return {
        TopicPartition(names[topic.topic_id], each.partition_index): each.error_code
        for topic in response.topics
        if topic.topic_id in names
        for each in topic.partition_errors
        if each.error_code
    }


def error_of(response: ProtocolMessage) -> int:
    """Return the error code of a whole response; 0 where there is none."""
    assert isinstance(response, (LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse))
    return response.error_code
