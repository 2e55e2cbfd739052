"""Names, ids and partition counts of topics: which are valid, and which names belong to the broker itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.primitives import ZERO_UUID
from ..clock import ids

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
# Kafka's own metadata, which no client may create. Here nothing is in it.
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
# Kafka's rule: 249 leaves room for "-partition" and ".log" suffixes within a file name's 255 bytes.
MAX_NAME_LENGTH = 249
# A bound on what one request may create, so that a typing error does not open a million files.
MAX_PARTITIONS_PER_TOPIC = 10_000

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION where `name` breaks Kafka's rule for topic names."""
    why = None
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        why = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _NAME.fullmatch(name):
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if why is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")


def check_collision(name: str, others: Iterable[str]) -> None:
    """Raise INVALID_TOPIC_EXCEPTION where another name differs only in `.` and `_`: metrics would mix the two up.

    This is Kafka's rule too.
    """
    if "." not in name and "_" not in name:
        return
    folded = name.replace(".", "_")
    for other in others:
        if other != name and other.replace(".", "_") == folded:
            why = f"Topic '{name}' collides with existing topic: {other}"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def check_partition_count(partitions: int) -> None:
    """Raise INVALID_PARTITIONS for fewer than one partition, POLICY_VIOLATION for too many."""
    if partitions < 1:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Number of partitions must be at least 1, not {partitions}.")
    if partitions > MAX_PARTITIONS_PER_TOPIC:
        why = f"Number of partitions must be at most {MAX_PARTITIONS_PER_TOPIC}, not {partitions}."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, why)


def check_asked_partitions(partitions: int) -> None:
    """Raise POLICY_VIOLATION for a request that makes too many partitions: as in Kafka, it is rejected as a whole."""
    if partitions > MAX_PARTITIONS_PER_TOPIC:
        why = f"{partitions} partitions are asked for in one request: at most {MAX_PARTITIONS_PER_TOPIC} may be."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, why)


def check_partition_index(index: int) -> None:
    """Raise INVALID_PARTITIONS for an index that no partition of a topic may have."""
    if not 0 <= index < MAX_PARTITIONS_PER_TOPIC:
        why = f"No partition has the index {index}: a topic has at most {MAX_PARTITIONS_PER_TOPIC} partitions."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, why)


def new_topic_id() -> bytes:
    """Return a random UUID: none of the reserved ones (zero, one), and, as in Kafka, no text that begins with '-'."""
    while True:
        topic_id = bytearray(ids().randbytes(16))
        topic_id[6] = topic_id[6] & 0x0F | 0x40
        topic_id[8] = topic_id[8] & 0x3F | 0x80
        if bytes(topic_id) != ZERO_UUID and topic_id[0] >> 2 != 62:
            return bytes(topic_id)
