"""AlterClientQuotas and DescribeClientQuotas: the quotas of users, client ids and addresses, in Kafka's words.

Quotas are on disk, or in ZooKeeper, when the response goes out, and count for the next request of every connection. The
changes of one entity are made together or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryResult,
    OpData,
)
from ...protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ..network.request import RequestContext
from ..quotas.entities import CLIENT_ID, DEFAULT, IP, USER, Entity, InvalidQuota, check_quota, entity_of
from ..services import Services
from ..turns import LargeResponse, fill

# Quotas are in memory, and each start reads them. Kafka has no such bounds.
MAX_ENTITIES: Final = 20_000
MAX_NAME_CHARS: Final = 1_024

# By type of entity. What is asked for may have any name: None.
_Names = dict[str, "str | None"]
_EXACT, _DEFAULT, _ANY = 0, 1, 2
_WORDS = {_DEFAULT: "DEFAULT", _ANY: "SPECIFIED"}
_COMBINED = (
    "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
    "filter component."
)


async def alter_client_quotas(
    services: Services, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """AlterClientQuotas, API key 49: set and remove quotas.

    Return one result for each entity. An error of one entity does not affect the others.

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
        except (InvalidQuota, KafkaError) as error:
            rejected = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.INVALID_REQUEST, str(error))
            result.error_code, result.error_message = int(rejected.code), rejected.message
        results[who] = result
    if not request.validate_only:
        quotas = services.security.quotas
        others = [(entity, values) for entity, values in changes.items() if values != quotas.get(entity, {})]
        for entity, error in (await services.security.put_quotas(others)).items():
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


def describe_client_quotas(
    services: Services, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse | LargeResponse[DescribeClientQuotasResponse]:
    """DescribeClientQuotas, API key 48: the quotas of the entities that a filter matches.

    A filter that makes no sense is an error of the whole response.
    """
    try:
        wanted = _wanted(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=int(error.code), error_message=error.message, entries=None)
    entries: list[EntryData] = []
    response = DescribeClientQuotasResponse(error_message="", entries=entries)
    steps = _add(services, entries, wanted, request.strict)
    return fill(response, steps, 2 * len(services.security.quotas))


def _wanted(components: list[ComponentData]) -> _Names:
    wanted: _Names = {}
    for each in components:
        kind = each.entity_type
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            why = f"Entity type {kind} cannot appear more than once in the filter."
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        wanted[kind] = _wanted_name(each)
    if IP in wanted and len(wanted) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _COMBINED)
    return wanted


def _wanted_name(component: ComponentData) -> str | None:
    kind, name = component.match_type, component.match
    if kind == _EXACT:
        if name is None:
            why = "Request specified MATCH_TYPE_EXACT, but set match string to null."
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        # Nobody has the empty name, which stands for the default here.
        return name or "\0"
    if kind not in _WORDS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {kind}")
    if name is not None:
        why = f"Request specified MATCH_TYPE_{_WORDS[kind]}, but also specified a match string."
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    return DEFAULT if kind == _DEFAULT else None


def _matches(entity: Entity, wanted: _Names, is_strict: bool) -> bool:
    names = entity.names
    if is_strict and names.keys() != wanted.keys():
        return False
    return all(kind in names and name in (None, names[kind]) for kind, name in wanted.items())


def _add(services: Services, entries: list[EntryData], wanted: _Names, is_strict: bool) -> Iterator[None]:
    for entity in list(services.security.quotas):
        values = services.security.quotas.get(entity)
        # It may be gone since the last turn.
        if values is not None and _matches(entity, wanted, is_strict):
            parts = [EntityData(kind, name or None) for kind, name in entity.names.items()]
            entries.append(EntryData(parts, [ValueData(*each) for each in values.items()]))
        yield
