"""Share states that another broker coordinates: the requests 83 to 87 to it, one partition each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages import delete_share_group_state as delete_api
from ...protocol.messages import initialize_share_group_state as initialize_api
from ...protocol.messages import read_share_group_state as read_api
from ...protocol.messages import read_share_group_state_summary as summary_api
from ...protocol.messages import write_share_group_state as write_api
from ..coordination.share_states import events
from ..coordination.share_states.coordinator import key_text
from ..coordination.share_states.kept_state import state_batches
from ..coordination.share_states.share_state import UNKNOWN_COUNT, ShareKey, ShareState
from ..topics.topic_names import SHARE_STATE_TOPIC
from .inter_broker import NewPeers
from .metadata_cache import BrokerView, MetadataCache
from .peer import PeerLost

# A member's acknowledgement waits for it.
TIMEOUT_S = 10.0


class _Question(NamedTuple):
    """A request for one partition, its version, the class of its response, and how the state is read off a result."""

    request: Any
    version: int
    response: Any
    state: Callable[[Any], ShareState | None]


class RemoteShareStates:
    """Asks the coordinators on other brokers."""

    def __init__(
        self,
        own_id: int,
        view: MetadataCache,
        peers: NewPeers,
        partition_of: Callable[[str], int],
        create: Callable[[str], None],
    ) -> None:
        """`partition_of` returns the partition of `__share_group_state` of a key; `create` begins to create a topic."""
        self._own = own_id
        self._view = view
        self._partition_of = partition_of
        self._create = create
        self._peers = peers("share-states")

    def ask(self, key: ShareKey, event: events.Request) -> Awaitable[events.Answer] | None:
        """Return the answer of another broker, None where this one coordinates the key."""
        leader = self._view.leader(SHARE_STATE_TOPIC, self._partition_of(key_text(key)))
        if leader is not None and leader.id == self._own:
            return None
        return self._ask(leader, key, event)

    async def _ask(self, leader: BrokerView | None, key: ShareKey, event: events.Request) -> events.Answer:
        if leader is None:
            return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._create_topic())
        asked = _question(key, event)
        try:
            response = await self._peers.to(leader).request(asked.request, asked.version, asked.response, TIMEOUT_S)
        except PeerLost:
            return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        result = response.results[0].partitions[0]
        if result.error_code:
            return KafkaError(ErrorCode.of(result.error_code), result.error_message or "")
        return asked.state(result)

    def _create_topic(self) -> str:
        """Begin to create the topic if it does not exist. Return why it cannot be, if that is known."""
        try:
            if SHARE_STATE_TOPIC not in self._view.topics:
                self._create(SHARE_STATE_TOPIC)
        except KafkaError as error:
            return error.message
        return ""


def _question(key: ShareKey, event: events.Request) -> _Question:
    """Return an event of the share coordinator's machine as a request."""
    group_id, topic_id, partition = key
    match event:
        case events.Initialize():
            part = initialize_api.PartitionData(partition, event.state_epoch, event.start_offset)
            topics = [initialize_api.InitializeStateData(topic_id, [part])]
            request = initialize_api.InitializeShareGroupStateRequest(group_id, topics)
            return _Question(request, 0, initialize_api.InitializeShareGroupStateResponse, _nothing)
        case events.Read():
            reads = [read_api.ReadStateData(topic_id, [read_api.PartitionData(partition, event.leader_epoch)])]
            asked = read_api.ReadShareGroupStateRequest(group_id, reads)

            def state(result: read_api.PartitionResult) -> ShareState:
                batches = state_batches(result.state_batches)
                epochs, start = (result.state_epoch, event.leader_epoch), result.start_offset
                return ShareState(*epochs, start, UNKNOWN_COUNT, batches, result.start_is_chosen)

            return _Question(asked, 0, read_api.ReadShareGroupStateResponse, state)
        case events.Write():
            return _Question(_write(key, event), 1, write_api.WriteShareGroupStateResponse, _nothing)
        case events.Delete():
            deletions = [delete_api.DeleteStateData(topic_id, [delete_api.PartitionData(partition)])]
            deletion = delete_api.DeleteShareGroupStateRequest(group_id, deletions)
            return _Question(deletion, 0, delete_api.DeleteShareGroupStateResponse, _nothing)
        case events.Summarize():
            summaries = [summary_api.ReadStateSummaryData(topic_id, [summary_api.PartitionData(partition, -1)])]
            summary = summary_api.ReadShareGroupStateSummaryRequest(group_id, summaries)
            return _Question(summary, 1, summary_api.ReadShareGroupStateSummaryResponse, _summary)


def _write(key: ShareKey, event: events.Write) -> write_api.WriteShareGroupStateRequest:
    part = write_api.PartitionData(
        key.partition,
        event.state_epoch,
        event.leader_epoch,
        event.start_offset,
        event.delivery_complete_count,
        [write_api.StateBatch(*each) for each in event.batches],
    )
    return write_api.WriteShareGroupStateRequest(key.group_id, [write_api.WriteStateData(key.topic_id, [part])])


def _summary(result: summary_api.PartitionResult) -> ShareState:
    return ShareState(result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count)


def _nothing(result: Any) -> None:
    """Return nothing: the request asks for no state."""
