"""The quotas of a broker that is alone: they are records of the metadata journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...protocol.errors import KafkaError
from ..quotas.client_quotas import ClientQuotas
from ..quotas.entities import Entity
from ..quotas.store import Change
from .metadata_journal import Metadata


class OwnQuotas:
    """The store of a broker that is alone. `in_use` learns of every change."""

    def __init__(self, metadata: Metadata, in_use: ClientQuotas) -> None:
        self._metadata = metadata
        self._in_use = in_use

    @property
    def quotas(self) -> Mapping[Entity, Mapping[str, float]]:
        """The quotas of every entity that has one."""
        return self._metadata.quotas

    async def put_quotas(self, changes: Iterable[Change]) -> Mapping[Entity, KafkaError]:
        """Replace all quotas of these entities: on disk first, then for every request that comes."""
        changes = list(changes)
        if not changes:
            return {}
        try:
            self._metadata.put_quotas(changes)
        except KafkaError as error:
            return {entity: error for entity, _ in changes}
        self._in_use.change(changes)
        return {}
