"""Changes of the ISR on their way to the controller (AlterPartition, KIP-497).

A leader has at most one change under way for each partition. All that wait go into one request. A request whose outcome
is unknown is sent again, to the controller of that time, until the outcome is certain: the controller answers a change
that it has made already with the present state. An error that says that the state has moved on leaves the change open;
LeaderAndIsr or UpdateMetadata then brings the state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from .controller_door import ControllerDoor
from .leadership import IsrChange
from .peer import PeerLost
from .replica import Replica

VERSION = 3
# Kafka waits as long before it asks again. It is no config there either.
RETRY_S = 0.05
# The pause after an error of this program.
FAILURE_PAUSE_S = 1.0
# The controller has certainly not made the change, and the leader may go on with the ISR that it had.
_REJECTED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INVALID_REQUEST})
# The state has moved on: the controller tells the rest.
_MOVED_ON = frozenset(
    {
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)

_log = logging.getLogger(__name__)


class IsrChanges:
    """The changes that wait, and the one task that takes them to the controller."""

    def __init__(self, node_id: int, broker_epoch: Callable[[], int], door: ControllerDoor) -> None:
        """`door` is used for these changes only: others must not wait for it."""
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._door = door
        # How many changes this broker has made as a leader: Kafka's IsrShrinksPerSec and IsrExpandsPerSec count them.
        self._shrinks = 0
        self._expands = 0
        # Invariant: at most one for each partition.
        self._waiting: dict[Replica, IsrChange] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def ask(self, replica: Replica, change: IsrChange) -> None:
        """Take a change to the controller. The replica is told what becomes of it."""
        self._waiting[replica] = change
        if self._task is None and not self._closed:
            self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Ask for nothing more."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._door.close()

    async def _run(self) -> None:
        try:
            while self._drop_outdated():
                try:
                    pause_s = 0.0 if await self._send(dict(self._waiting)) else RETRY_S
                except Exception as error:  # noqa: BLE001 - logged; an ISR must not stay as it is for ever
                    _log.error("the controller was not told of a change of the ISR", exc_info=error)
                    pause_s = FAILURE_PAUSE_S
                await asyncio.sleep(pause_s)
        finally:
            self._task = None

    def _drop_outdated(self) -> bool:
        """Forget changes that nobody waits for any more; return whether there are others."""
        for replica, change in list(self._waiting.items()):
            if replica.leadership is None or replica.leadership.pending != change:
                del self._waiting[replica]
        return bool(self._waiting)

    async def _send(self, asked: dict[Replica, IsrChange]) -> bool:
        """Return whether the controller has answered each change."""
        if not self._door.is_open:
            return False
        request = _request(self._node_id, self._broker_epoch(), asked)
        try:
            response = await self._door.request(request, VERSION, AlterPartitionResponse)
        except PeerLost as error:
            for replica, change in asked.items():
                replica.repeated(change)
            _log.info("the controller was not told of a change of the ISR: %s", error.message)
            return False
        if response.error_code:
            # Not the controller, or it does not know this registration (yet): UpdateMetadata will tell.
            _log.info("the controller rejects changes of the ISR: %s", ErrorCode.of(response.error_code).name)
            return False
        topics = response.topics
        answers = {(topic.topic_id, each.partition_index): each for topic in topics for each in topic.partitions}
        is_settled, counted = True, self._shrinks + self._expands
        for replica, change in asked.items():
            answer = answers.get((replica.topic_id, replica.partition.index))
            is_settled &= answer is not None and self._settle(replica, change, answer)
        if self._shrinks + self._expands > counted:
            _log.info("ISR changes of this leader so far: %d shrinks, %d expands", self._shrinks, self._expands)
        return is_settled

    def _settle(self, replica: Replica, change: IsrChange, answer: AlteredPartition) -> bool:
        """Return whether the answer leaves nothing to be asked again."""
        code = ErrorCode.of(answer.error_code)
        if not code:
            isr = tuple(answer.isr)
            before = replica.altered(answer.leader_epoch, isr, answer.partition_epoch)
            self._shrinks += len(isr) < len(before)
            self._expands += len(isr) > len(before)
        elif code in _REJECTED:
            replica.rejected(change)
        elif code not in _MOVED_ON:
            return False
        if code:
            _log.info("%s: the ISR did not become %s: %s", replica, list(change.isr), code.name)
        if self._waiting.get(replica) == change:
            del self._waiting[replica]
        return True


def _request(node_id: int, broker_epoch: int, asked: dict[Replica, IsrChange]) -> AlterPartitionRequest:
    topics: dict[bytes, TopicData] = {}
    for replica, change in asked.items():
        topic = topics.setdefault(replica.topic_id, TopicData(topic_id=replica.topic_id))
        topic.partitions.append(
            PartitionData(
                partition_index=replica.partition.index,
                leader_epoch=change.leader_epoch,
                new_isr_with_epochs=[BrokerState(each, replica.broker_epoch_of(each)) for each in change.isr],
                partition_epoch=change.partition_epoch,
            )
        )
    return AlterPartitionRequest(node_id, broker_epoch, list(topics.values()))
