"""ApiVersions, API key 18: the APIs and versions that this broker serves, and its features.

The response to an unknown version is in version 0: UNSUPPORTED_VERSION with the range of this one API, so that the
client sends a lower version (KIP-511). Version 3 also names the client's software; version 4 lets a feature begin at
level 0; version 5 says which node of which cluster the client means to ask (KIP-1242): it is REBOOTSTRAP_REQUIRED where
this is another one, and the client begins again with its bootstrap addresses.

A client of ours, by the name of its software, is also told of the APIs that Odradek alone has. To others the list is
Kafka's.
"""

from __future__ import annotations

from functools import cache

from ...protocol.apis import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ..coordination.features import SUPPORTED
from ..network.request import RequestContext
from ..network.routes import routes_of
from ..services import Services

# Since this version a feature may begin at level 0. Clients of an older one could not read such a range.
_ZERO_LEVEL_VERSION = 4
# What clients of ours call themselves.
OWN_SOFTWARE = "odradek"
# The characters of a software name and version (KIP-511).
_SOFTWARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


def handle(services: Services, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Return the table of routes. INVALID_REQUEST for an invalid software name or version."""
    is_ours = context.api_version >= 3 and request.client_software_name == OWN_SOFTWARE
    offered = _offered(services.replicas is None, is_ours)
    own = next(each for each in offered if each.api_key == ApiKey.API_VERSIONS)
    if not own.min_version <= context.api_version <= own.max_version:
        return ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[own])
    if context.api_version >= 3 and not (
        _is_software(request.client_software_name) and _is_software(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))
    error = _identity_error(services, context, request)
    if error is not ErrorCode.NONE:
        return ApiVersionsResponse(error_code=int(error))
    return ApiVersionsResponse(
        api_keys=offered,
        supported_features=[
            SupportedFeatureKey(name, each.low, each.high)
            for name, each in SUPPORTED.items()
            if each.low or context.api_version >= _ZERO_LEVEL_VERSION
        ],
        finalized_features_epoch=services.features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name, level, level) for name, level in services.features.levels.items() if level
        ],
    )


@cache
def _offered(is_lone: bool, is_ours: bool) -> list[ApiVersion]:
    """Return what each connection asks for. Nobody changes it."""
    routes = [route for route in routes_of(is_lone=is_lone) if is_ours or not route.is_own]
    return [ApiVersion(int(route.key), route.versions[0], route.versions[-1]) for route in routes]


def _identity_error(services: Services, context: RequestContext, request: ApiVersionsRequest) -> ErrorCode:
    """Check that this is the broker that the client means, if it says which. As in Kafka, not before the login."""
    if (request.cluster_id is None) != (request.node_id == -1):
        return ErrorCode.INVALID_REQUEST
    meant, this = (request.cluster_id, request.node_id), (services.metadata.cluster_id, services.config.node_id)
    is_other = request.cluster_id is not None and meant != this and not context.connection.is_stranger
    return ErrorCode.REBOOTSTRAP_REQUIRED if is_other else ErrorCode.NONE


def _is_software(text: str) -> bool:
    """Return whether `text` has only letters, digits, dots and hyphens, with a letter or digit at each end."""
    return bool(text) and set(text) <= _SOFTWARE and text[0].isalnum() and text[-1].isalnum()
