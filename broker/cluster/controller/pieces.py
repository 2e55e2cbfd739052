"""Messages in pieces: a broker takes no more than 100,000 values in one request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from ...replication.full_names import BEGINS, ENDS, GOES_ON
from .outbox import Message, PartitionUpdate, StopReplicas

# Half of what a broker takes: lists of brokers come on top.
MAX_VALUES = 50_000


def pieces_of(message: Message, max_values: int = MAX_VALUES) -> list[Message]:
    """Return the messages that say the same together, in the order in which they are to be sent."""
    if isinstance(message, StopReplicas):
        if len(message.partitions) <= max_values:
            return [message]
        left = iter(message.partitions.items())
        parts = iter(lambda: dict(islice(left, max_values)), {})
        return [StopReplicas(message.broker_id, part) for part in parts]
    pieces: list[Message] = [replace(message, updates=part) for part in _parts(message.updates, max_values)]
    if len(pieces) < 2:
        return [message]
    if message.is_full:
        kinds = [BEGINS, *[GOES_ON] * (len(pieces) - 2), ENDS]
        pieces = [replace(each, piece=kind) for each, kind in zip(pieces, kinds, strict=True)]  # type: ignore[call-arg]
    return pieces


def _parts(updates: tuple[PartitionUpdate, ...], max_values: int) -> Iterator[tuple[PartitionUpdate, ...]]:
    part: list[PartitionUpdate] = []
    values = 0
    for each in updates:
        values += _values(each)
        if part and values > max_values:
            yield tuple(part)
            part, values = [], _values(each)
        part.append(each)
    if part:
        yield tuple(part)


def _values(update: PartitionUpdate) -> int:
    """Return how many values a partition has in a request at most: itself, its topic, and its lists of brokers."""
    replicas = update.replicas
    lists = update.state.isr, replicas.replicas, replicas.adding, replicas.removing, update.offline
    return 2 + sum(map(len, lists))
