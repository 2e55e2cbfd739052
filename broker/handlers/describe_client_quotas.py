"""DescribeClientQuotas, API key 48: the quotas of the entities that a filter matches, in Kafka's words."""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ..network.request import RequestContext
from ..quotas.entities import CLIENT_ID, DEFAULT, IP, USER, Entity
from ..services import Services
from ..turns import LargeResponse, fill

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_WORDS = {_DEFAULT: "DEFAULT", _ANY: "SPECIFIED"}
_COMBINED = (
    "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
    "filter component."
)

# The name that a type must have; None: any.
Wanted = dict[str, "str | None"]


def handle(
    services: Services, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse | LargeResponse[DescribeClientQuotasResponse]:
    """Return the quotas. A filter that makes no sense is an error of the whole response."""
    try:
        wanted = _wanted(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=int(error.code), error_message=error.message, entries=None)
    entries: list[EntryData] = []
    response = DescribeClientQuotasResponse(error_message="", entries=entries)
    found = [each for each in services.security.quotas if _matches(each, wanted, request.strict)]
    return fill(response, _add(services, entries, found), 2 * len(found))


def _wanted(components: list[ComponentData]) -> Wanted:
    wanted: Wanted = {}
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


def _matches(entity: Entity, wanted: Wanted, is_strict: bool) -> bool:
    names = entity.names
    if is_strict and names.keys() != wanted.keys():
        return False
    return all(kind in names and name in (None, names[kind]) for kind, name in wanted.items())


def _add(services: Services, entries: list[EntryData], found: list[Entity]) -> Iterator[int]:
    for entity in found:
        values = services.security.quotas.get(entity)
        # It may be gone since the last turn.
        if values is not None:
            parts = [EntityData(kind, name or None) for kind, name in entity.names.items()]
            entries.append(EntryData(parts, [ValueData(*each) for each in values.items()]))
        yield 2
