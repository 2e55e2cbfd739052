"""What a request acknowledges, checked before any partition is asked: order, counts and types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ...protocol.errors import ErrorCode, KafkaError
from .share_partition import Acknowledgement, AcknowledgeType


class Sent(Protocol):
    """A batch of acknowledgements, as ShareFetch and ShareAcknowledge send it."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def checked(batches: Iterable[Sent], *, knows_renewals: bool, is_renewal: bool) -> Sequence[Acknowledgement]:
    """Return the acknowledgements of one partition. INVALID_REQUEST where they contradict themselves.

    `is_renewal`: the request may renew locks.
    """
    said: list[Acknowledgement] = []
    previous = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last:
            raise _invalid(f"the first offset {first} is behind the last one, {last}")
        if first < previous:
            raise _invalid(f"the batch of offset {first} comes behind that of {previous}")
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            raise _invalid(f"{len(types)} acknowledge types are given for {last - first + 1} records")
        _check_types(types, knows_renewals, is_renewal)
        said.append(Acknowledgement(first, last, types))
        previous = last
    return said


def _check_types(types: list[int], knows_renewals: bool, is_renewal: bool) -> None:
    highest = AcknowledgeType.RENEW if knows_renewals else AcknowledgeType.REJECT
    if min(types) < 0 or max(types) > highest:
        raise _invalid(f"acknowledge types are from 0 to {int(highest)}")
    if not is_renewal and AcknowledgeType.RENEW in types:
        raise _invalid("the request renews a lock, and does not say that it renews")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)
