"""Coordinators move with the leaders of their partitions: who leads `__consumer_offsets-N` coordinates its groups."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ..coordination.groups.coordinator import GroupCoordinator
from ..coordination.shards import Shards
from ..coordination.share_states.coordinator import ShareCoordinator
from ..coordination.transactions.coordinator import TransactionCoordinator
from ..topics.partition import Partition
from ..topics.topic import Topic
from ..topics.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

_log = logging.getLogger(__name__)


class CoordinatorMoves:
    """Loads a partition of a coordinator when this broker begins to lead it, and unloads it when that ends."""

    def __init__(
        self, groups: GroupCoordinator, transactions: TransactionCoordinator, share_states: ShareCoordinator
    ) -> None:
        self._groups = groups
        self._share_states = share_states
        self._shards_of: dict[str, Shards[Any, Any]] = {
            OFFSETS_TOPIC: groups.shards,
            TRANSACTIONS_TOPIC: transactions.shards,
            SHARE_STATE_TOPIC: share_states.shards,
        }
        self._loading: set[asyncio.Task[None]] = set()

    def begun(self, partition: Partition) -> None:
        """Load in turns of the loop. Until the end clients get COORDINATOR_LOAD_IN_PROGRESS."""
        shards = self._shards_of.get(partition.topic)
        index = partition.index
        if shards is None or index in shards.owned or index in shards.loading:
            return
        _log.info("%s-%d is being loaded: this broker coordinates what it holds", partition.topic, index)
        task = asyncio.ensure_future(shards.load_in_turns(index))
        self._loading.add(task)
        task.add_done_callback(self._done)

    def ended(self, partition: Partition) -> None:
        """Unload. Clients that wait are sent to another coordinator."""
        if partition.topic == OFFSETS_TOPIC:
            self._groups.unload(partition.index)
        elif partition.topic in self._shards_of:
            self._shards_of[partition.topic].unload(partition.index)

    def deleted(self, topic: Topic) -> None:
        """Delete what this broker coordinates of a topic that was deleted: committed offsets, and share states."""
        self._groups.forget_topic(topic.name, topic.id)
        self._share_states.forget_topic(topic.id)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._loading.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a coordinator could not be loaded", exc_info=error)
