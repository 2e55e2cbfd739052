"""What the machine of a transactional producer asks for: one request each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...record import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ..batch import ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class Initialize:
    """InitProducerId: the first epoch, or the one after that of `producer`."""

    producer: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn: the transaction is about to write to these partitions (version 1)."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AddGroup:
    """AddOffsetsToTxn: the transaction is about to commit offsets of this group (version 1)."""

    group_id: str


@dataclass(frozen=True, slots=True, eq=False)
class CommitOffsets:
    """TxnOffsetCommit: the offsets of a group that become visible with the transaction."""

    group: ConsumerGroupMetadata
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True)
class End:
    """EndTxn: commit or abort."""

    commit: bool


@dataclass(frozen=True, slots=True)
class Write:
    """Produce, which the sender does; only its failures concern the machine."""


Action = Initialize | AddPartitions | AddGroup | CommitOffsets | End
