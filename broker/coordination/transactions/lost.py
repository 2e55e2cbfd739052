"""Transactions that a power cut has taken from a lone coordinator, but not from the partitions they wrote to.

Where nothing asks for an fsync, the disk may have a transaction's records and not the coordinator's record that it
began. Nobody can commit it any more, and it would hold back the readers of its partitions for ever. A start after a
stop that was not clean aborts it.

It can tell because the coordinator notes the partitions of a transaction before they hold anything of it, and this
broker has all of the coordinator's records. In a cluster every replica in the ISR has them, and none is lost so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial

from ....protocol.errors import KafkaError
from ....storage.producers import MAX_EPOCH
from ...topics.partition import Partition
from .actor import WriteMarker
from .markers import TransactionEnd
from .records import TopicPartition

_log = logging.getLogger(__name__)


def abort_lost(
    known: set[tuple[int, TopicPartition]], partitions: Iterable[Partition], write_marker: WriteMarker
) -> None:
    """Abort the open transactions of producers that are not `known` to have one in that partition."""
    for each in partitions:
        place = TopicPartition(each.topic, each.index)
        for producer_id, producer in each.log.producers.open_transactions():
            if (producer_id, place) in known:
                continue
            what = f"the transaction of producer {producer_id} that begins at {producer.current_txn_first_offset}"
            _log.warning("%s: %s is aborted: the coordinator has lost it", place, what)
            # Its producer may believe that it is open, and must not add to it.
            epoch = min(producer.epoch + 1, MAX_EPOCH)
            end = TransactionEnd(producer_id, epoch, max(producer.coordinator_epoch, 0), False, 0)
            try:
                waiting = write_marker(*place, end)
            except KafkaError as error:
                _log.error("%s: %s stays open: %s", place, what, error.message)
            else:
                if waiting is not None:
                    waiting.add_done_callback(partial(_ended, place, what))


def _ended(place: TopicPartition, what: str, done: asyncio.Future[None]) -> None:
    error = None if done.cancelled() else done.exception()
    if error is not None:
        _log.error("%s: %s stays open: %s", place, what, error)
