"""Quotas of users, client ids and addresses: DescribeClientQuotas (key 48), AlterClientQuotas (49), KIP-546."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...protocol.messages import alter_client_quotas as altered
from ...protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
)
from ..core.cluster import Cluster
from ..errors import InvalidOption, KafkaError, raise_error
from .items import for_items, item_result

# In the place of a name: what has no quota of its own, and, to describe, every name.
DEFAULT_ENTITY = "<default>"
ANY_ENTITY = "<any>"

_KINDS = {"user": "user", "client_id": "client-id", "ip": "ip"}
_FIELDS = {kind: name for name, kind in _KINDS.items()}
_EXACT, _DEFAULT, _ANY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Who a quota is for: a user, a client id, both together, or an address. DEFAULT_ENTITY stands for all others."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        """The names that are given, by Kafka's kind of entity (user, client-id, ip)."""
        return {kind: name for field, kind in _KINDS.items() if (name := getattr(self, field)) is not None}


async def describe(cluster: Cluster, wanted: QuotaEntity, strict: bool) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas of the entities that `wanted` matches, by the quota's name."""
    request = DescribeClientQuotasRequest([_component(*part) for part in wanted.parts.items()], strict)

    async def attempt() -> dict[QuotaEntity, dict[str, float]]:
        response = await cluster.request_any(request, DescribeClientQuotasResponse)
        raise_error(response.error_code, response.error_message, "the quotas cannot be described")
        return {_entity(each.entity): {one.key: one.value for one in each.values} for each in response.entries or ()}

    return await cluster.retry(attempt)


def _component(kind: str, name: str) -> ComponentData:
    match = {DEFAULT_ENTITY: _DEFAULT, ANY_ENTITY: _ANY}.get(name, _EXACT)
    return ComponentData(kind, match, name if match == _EXACT else None)


def _entity(parts: Sequence[EntityData] | Sequence[altered.EntityData]) -> QuotaEntity:
    names = {each.entity_type: each.entity_name for each in parts}
    return QuotaEntity(**{_FIELDS[kind]: DEFAULT_ENTITY if name is None else name for kind, name in names.items()})


async def alter(
    cluster: Cluster, changes: Mapping[QuotaEntity, Mapping[str, float | None]], validate_only: bool
) -> None:
    """Set quotas of entities; None removes one."""
    for entity in changes:
        if not entity.parts or ANY_ENTITY in entity.parts.values():
            raise InvalidOption(f"a quota is for a user, a client id or an address, not for {entity}")

    async def attempt(entities: list[QuotaEntity]) -> dict[QuotaEntity, KafkaError | None]:
        entries = [altered.EntryData(_wire_entity(each), _ops(changes[each])) for each in entities]
        request = altered.AlterClientQuotasRequest(entries, validate_only)
        response = await cluster.request_any(request, altered.AlterClientQuotasResponse)
        return {
            (entity := _entity(each.entity)): item_result(
                None, each.error_code, each.error_message, f"the quotas of {entity} were not altered"
            )
            for each in response.entries
        }

    await for_items(cluster, changes, attempt)


def _wire_entity(entity: QuotaEntity) -> list[altered.EntityData]:
    return [altered.EntityData(kind, None if name == DEFAULT_ENTITY else name) for kind, name in entity.parts.items()]


def _ops(quotas: Mapping[str, float | None]) -> list[altered.OpData]:
    return [altered.OpData(name, value or 0.0, value is None) for name, value in quotas.items()]
