"""A persister in memory, with the rules of the share coordinator: for tests of the leaders of partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.broker.coordination.share_states.kept_state import combine
from odradek.broker.coordination.share_states.share_state import (
    UNINITIALIZED_OFFSET,
    UNKNOWN_COUNT,
    Progress,
    ShareKey,
    ShareState,
    StateBatch,
)
from odradek.protocol.errors import ErrorCode, KafkaError


class MemoryPersister:
    """Keeps the states in a dict. A test may read and set `states`, and the error of the next calls (`failure`)."""

    def __init__(self) -> None:
        self.states: dict[ShareKey, ShareState] = {}
        self.failure: ErrorCode = ErrorCode.NONE
        # Where each write has set the start.
        self.starts: list[int] = []

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        self._fail()
        known = self.states.get(key)
        if known is not None and state_epoch < known.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        leader_epoch = 0 if known is None else known.leader_epoch
        self.states[key] = ShareState(state_epoch, leader_epoch, start_offset, UNKNOWN_COUNT)

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        self._fail()
        known = self._known(key, leader_epoch)
        self.states[key] = known._replace(leader_epoch=max(known.leader_epoch, leader_epoch))
        return self.states[key]

    async def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        progress: Callable[[], Progress],
        batches: Sequence[StateBatch],
    ) -> None:
        self._fail()
        known = self._known(key, leader_epoch)
        if state_epoch < known.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        start, delivery_complete_count = progress()
        start = max(start, known.start_offset)
        self.starts.append(start)
        combined = combine(known.batches, batches, start)
        self.states[key] = ShareState(
            known.state_epoch, known.leader_epoch, start, delivery_complete_count, tuple(combined)
        )

    async def read_summary(self, key: ShareKey) -> ShareState:
        self._fail()
        known = self.states.get(key)
        return ShareState(0, 0, UNINITIALIZED_OFFSET, UNKNOWN_COUNT) if known is None else known._replace(batches=())

    async def delete(self, key: ShareKey) -> None:
        self._fail()
        self.states.pop(key, None)

    def _known(self, key: ShareKey, leader_epoch: int) -> ShareState:
        known = self.states.get(key)
        if known is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the state was not initialized")
        if leader_epoch < known.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        return known

    def _fail(self) -> None:
        if self.failure is not ErrorCode.NONE:
            raise KafkaError(self.failure)
