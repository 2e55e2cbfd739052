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

from ....protocol.errors import KafkaError
from ....storage.producers import MAX_EPOCH
from ...topics.topics import Topics
from .actor import WriteMarker
from .coordinator import TransactionCoordinator
from .markers import TransactionEnd
from .records import TopicPartition

# The pause before markers that were refused, by a full disk for example, are written again.
RETRY_MS = 5000

_log = logging.getLogger(__name__)


async def abort_lost(transactions: TransactionCoordinator, topics: Topics, write_marker: WriteMarker) -> bool:
    """Abort the open transactions that no transactional id knows. Return False where a marker was refused.

    Nothing is aborted where not all of the coordinator's records could be read.
    """
    known = transactions.open_places()
    lost: list[tuple[TopicPartition, str, TransactionEnd]] = []
    for each in topics.partitions() if known is not None else ():
        place = TopicPartition(each.topic, each.index)
        for producer_id, producer in each.log.producers.open_transactions():
            # The coordinator may know an earlier transaction of the producer, and have lost the end of that one, too.
            if known is None or producer.epoch <= known.get((producer_id, place), -1):
                continue
            what = f"the transaction of producer {producer_id} that begins at {producer.current_txn_first_offset}"
            # Its producer may believe that it is open, and must not add to it.
            epoch = min(producer.epoch + 1, MAX_EPOCH)
            end = TransactionEnd(producer_id, epoch, max(producer.coordinator_epoch, 0), False, 0)
            lost.append((place, what, end))
    writing = (_write(write_marker, place, end) for place, _, end in lost)
    results = await asyncio.gather(*writing, return_exceptions=True)
    for (place, what, _), error in zip(lost, results, strict=True):
        if error is None:
            _log.warning("%s: %s is aborted: the coordinator has lost it", place, what)
        elif isinstance(error, KafkaError):
            _log.warning("%s: %s stays open: %s", place, what, error.message)
        else:
            raise error
    return not any(results)


async def _write(write_marker: WriteMarker, place: TopicPartition, end: TransactionEnd) -> None:
    waiting = write_marker(*place, end)
    if waiting is not None:
        await waiting
