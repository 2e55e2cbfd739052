"""Where quotas are kept: the metadata journal of a broker that is alone, or the znodes of its cluster.

Changes are durable when they return, and count for every request that comes to this broker afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ...protocol.errors import KafkaError
from .entities import Entity

# All quotas of one entity after a change; none: it has none any more.
Change = tuple[Entity, Mapping[str, float]]


class QuotaStore(Protocol):
    """Both kinds of store."""

    @property
    def quotas(self) -> Mapping[Entity, Mapping[str, float]]:
        """The quotas of every entity that has one."""
        ...

    async def put_quotas(self, changes: Iterable[Change]) -> Mapping[Entity, KafkaError]:
        """Replace all quotas of these entities. Return the errors of those whose quotas stay as they were."""
        ...
