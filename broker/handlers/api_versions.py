"""ApiVersions, API key 18: what this broker serves.

A version above ours is answered in version 0 with UNSUPPORTED_VERSION and our range of this one API, so that the
client asks again lower (KIP-511). Version 3 also names the client's software; version 4 lets a feature begin at
version 0.
"""

from typing import TYPE_CHECKING

from ...protocol.apis import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ..dispatch import ROUTES, RequestContext

if TYPE_CHECKING:
    from ..server import Broker

TRANSACTION_VERSION = "transaction.version"
# The epoch of a producer grows with every transaction, partitions come in by the first batch (KIP-890). It is fixed:
# nothing would be gained by going back, so UpdateFeatures is not served.
TRANSACTIONS_V2 = 2
FEATURES_EPOCH = 0
ZERO_VERSION = 4

# What a client may call itself (KIP-511).
_SOFTWARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


def handle(broker: "Broker", context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The table of routes, as it stands."""
    offered = [ApiVersion(int(route.key), route.advertised_min, route.max_version) for route in ROUTES]
    own = next(each for each in offered if each.api_key == ApiKey.API_VERSIONS)
    if not own.min_version <= context.api_version <= own.max_version:
        return ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[own])
    if context.api_version >= 3 and not (
        _is_software(request.client_software_name) and _is_software(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))
    return ApiVersionsResponse(
        api_keys=offered,
        supported_features=_supported(context.api_version),
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[FinalizedFeatureKey(TRANSACTION_VERSION, TRANSACTIONS_V2, TRANSACTIONS_V2)],
    )


def _supported(version: int) -> list[SupportedFeatureKey]:
    """Before version 4 a feature cannot be told to begin at 0: such a one is left out, as Kafka does."""
    return [SupportedFeatureKey(TRANSACTION_VERSION, 0, TRANSACTIONS_V2)] if version >= ZERO_VERSION else []


def _is_software(text: str) -> bool:
    """Letters, digits, dots and hyphens, beginning and ending with a letter or digit."""
    return bool(text) and set(text) <= _SOFTWARE and text[0].isalnum() and text[-1].isalnum()
