"""The records of `__transaction_state`, in Kafka's own format.

A key is its type (int16: 0) and the transactional id. A value is its version (int16) and the fields of that version. A
tombstone (no value) says that the id has expired. The broker writes version 1, as Kafka 4.4.0 does with transaction
version 2 (KIP-890), and reads version 0 too.

The format does not hold the epoch before the last raise (`last_producer_epoch`). Therefore a client that repeats an
InitProducerId after a restart of its coordinator is fenced, as with Kafka.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ....protocol.codec import decode, decode_versioned, encode_versioned
from ....protocol.errors import DecodeError
from ....protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ....protocol.topic_partition import TopicPartition
from .states import TransactionState

KEY_TYPE = 0
VALUE_VERSION = 1
NO_ID = -1
NO_EPOCH = -1
NO_TIME = -1
# Transaction versions as they are written: of clients that keep their epoch, and of those that raise it with every end.
KEEPS_EPOCH = 0
RAISES_EPOCH = 2
# The highest epoch that a producer is told. The coordinator keeps the next one to fence the last producer; then the
# producer id has to change.
LAST_TOLD_EPOCH = 2**15 - 2

_STATES = dict(enumerate(TransactionState))
_NUMBERS = {state: number for number, state in _STATES.items()}


class Standing(NamedTuple):
    """The standing of a transactional id: the contents of one record."""

    state: TransactionState
    producer_id: int = NO_ID
    # The producer id of the record before. It differs after a change of the producer id.
    previous_producer_id: int = NO_ID
    # While a transaction ends whose epochs are used up: the next producer id.
    next_producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH
    # Invariant: the epoch that the owner of `producer_epoch` had before, NO_EPOCH if it had none.
    last_producer_epoch: int = NO_EPOCH
    timeout_ms: int = 0
    # Invariant: empty in the idle states.
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    update_ms: int = NO_TIME
    # 2 if the client raises its epoch with every transaction (KIP-890), otherwise 0.
    client_version: int = 0

    def moved(self, state: TransactionState, now_ms: int, **changes: Any) -> Standing:
        """Return the standing after a move, with the other fields that change. Its time is after that of this one."""
        update_ms = max(now_ms, self.update_ms + 1)
        usual = {"previous_producer_id": self.producer_id, "next_producer_id": NO_ID, "update_ms": update_ms}
        return self._replace(state=state, **{**usual, **changes})

    def owner_after_end(self) -> tuple[int, int]:
        """Return the producer id and epoch that hold once the transaction has ended."""
        if self.client_version >= RAISES_EPOCH and self.next_producer_id != NO_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch


class TransactionRecord(NamedTuple):
    """One record: the standing of a transactional id, or None if the id has expired."""

    transactional_id: str
    standing: Standing | None


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return the key and value of a record. EncodeError if a name is too long for the format."""
    key = encode_versioned(TransactionLogKey(record.transactional_id), KEY_TYPE)
    standing = record.standing
    if standing is None:
        return key, None
    value = TransactionLogValue(
        producer_id=standing.producer_id,
        previous_producer_id=standing.previous_producer_id,
        next_producer_id=standing.next_producer_id,
        producer_epoch=standing.producer_epoch,
        transaction_timeout_ms=standing.timeout_ms,
        transaction_status=_NUMBERS[standing.state],
        # In Kafka's format null says that there is no transaction.
        transaction_partitions=None
        if standing.state is TransactionState.EMPTY
        else [PartitionsSchema(*each) for each in by_topic(standing.partitions).items()],
        transaction_last_update_timestamp_ms=standing.update_ms,
        transaction_start_timestamp_ms=standing.start_ms,
        client_transaction_version=standing.client_version,
    )
    return key, encode_versioned(value, VALUE_VERSION)


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """Return the record, or None for an unknown type of key. DecodeError if the bytes do not fit their type."""
    if int.from_bytes(key[:2], "big", signed=True) != KEY_TYPE:
        return None
    transactional_id = decode(TransactionLogKey, KEY_TYPE, key, 2).transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    found = decode_versioned(TransactionLogValue, value)
    state = _STATES.get(found.transaction_status)
    if state is None:
        raise DecodeError(f"transactional id {transactional_id!r} in state {found.transaction_status}")
    partitions = frozenset(
        TopicPartition(each.topic, index) for each in found.transaction_partitions or () for index in each.partition_ids
    )
    standing = Standing(
        state=state,
        producer_id=found.producer_id,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        partitions=partitions,
        start_ms=found.transaction_start_timestamp_ms,
        update_ms=found.transaction_last_update_timestamp_ms,
        client_version=found.client_transaction_version,
    )
    return TransactionRecord(transactional_id, standing)


def by_topic(partitions: frozenset[TopicPartition] | set[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition indexes by topic, both sorted."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found
