"""AlterClientQuotas, API key 49: sets and removes quotas of users, client ids and addresses, in Kafka's words.

The quotas are on disk, or in ZooKeeper, when the response goes out, and count for the next request of every
connection. The changes of one entity are made together or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryResult,
    OpData,
)
from ...protocol.messages.describe_client_quotas import EntityData
from ..network.request import RequestContext
from ..quotas.entities import Entity, InvalidQuota, check_quota, entity_of
from ..services import Services

# Quotas are in memory, and each start reads them. Kafka has no such bounds.
MAX_ENTITIES: Final = 20_000
MAX_NAME_CHARS: Final = 1_024

_Names = dict[str, "str | None"]


async def handle(
    services: Services, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Return one result for each entity. An error of one entity does not affect the others.

    Of an entity that comes twice the first change is made, and the result is an error.
    """
    changes: dict[Entity, dict[str, float]] = {}
    of_entities: dict[Entity, EntryResult] = {}
    results: dict[frozenset[tuple[str, str | None]], EntryResult] = {}
    for entry in request.entries:
        names: _Names = {each.entity_type: each.entity_name for each in entry.entity}
        result = EntryResult(0, None, [EntityData(*each) for each in names.items()])
        who = frozenset(names.items())
        try:
            entity = entity_of(names)
            if who in results or len({op.key for op in entry.ops}) < len(entry.ops):
                raise InvalidQuota(f"Ignoring duplicate entity {entity}")
            changes[entity], of_entities[entity] = _changed(services, entity, entry.ops, len(changes)), result
        except InvalidQuota as error:
            result.error_code, result.error_message = int(ErrorCode.INVALID_REQUEST), str(error)
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message
        results[who] = result
    if not request.validate_only:
        for entity, error in (await _make(services, changes)).items():
            result = of_entities[entity]
            result.error_code, result.error_message = int(error.code), error.message
    return AlterClientQuotasResponse(entries=list(results.values()))


def _changed(services: Services, entity: Entity, ops: list[OpData], others: int) -> dict[str, float]:
    """Return all quotas of an entity after its changes. Raises InvalidQuota, or KafkaError for a bound of ours."""
    quotas = services.security.quotas
    values = dict(quotas.get(entity, {}))
    for op in ops:
        if op.remove:
            values.pop(op.key, None)
        else:
            check_quota(entity, op.key, op.value)
            values[op.key] = op.value
    if entity in quotas:
        return values
    if sum(map(len, entity.names.values())) > MAX_NAME_CHARS:
        why = f"The names of an entity have at most {MAX_NAME_CHARS} characters together."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, why)
    if len(quotas) + others >= MAX_ENTITIES:
        why = f"There are {len(quotas)} entities with quotas, and at most {MAX_ENTITIES} can be. A default covers many."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, why)
    return values


async def _make(services: Services, changes: dict[Entity, dict[str, float]]) -> Mapping[Entity, KafkaError]:
    """Make the changes. Return the errors of entities that stay as they were."""
    quotas = services.security.quotas
    changed = [(entity, values) for entity, values in changes.items() if values != quotas.get(entity, {})]
    return await services.security.put_quotas(changed)
