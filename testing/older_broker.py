"""A broker that plays an older one: its ApiVersions, and the end of connections that ask for more.

It stands between the door and the dispatcher. What a request does is what this broker does; only which requests there
are is the older release's.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from ..broker.network.connection import CloseConnection, Connection, Dispatch, Pending
from ..broker.network.send_queue import EncodedResponse
from ..protocol import frame
from ..protocol.apis import ApiKey
from ..protocol.errors import ErrorCode
from ..protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from .faults import api_name
from .releases import Release


def playing(release: Release, dispatch: Dispatch) -> Dispatch:
    """Return what handles the requests that a release serves, and refuses the others as the release does."""
    return partial(_take, release, dispatch)


def _take(release: Release, dispatch: Dispatch, connection: Connection, data: memoryview) -> EncodedResponse | Pending:
    header, _ = frame.decode_request_header(data)
    key, version = header.api_key, header.api_version
    if key == ApiKey.API_VERSIONS:
        if not release.serves(key, version):
            return _encoded(header.correlation_id, _unknown_version(release), 0)
        response = cast("list[bytes]", dispatch(connection, data))
        _, answer = frame.decode_response(memoryview(b"".join(response))[4:], ApiVersionsResponse, version)
        return _encoded(header.correlation_id, _narrowed(release, answer), version)
    if not release.serves(key, version):
        raise CloseConnection(f"Kafka {release.name} serves no {api_name(key)} version {version}")
    return dispatch(connection, data)


def _unknown_version(release: Release) -> ApiVersionsResponse:
    versions = release.versions(ApiKey.API_VERSIONS)
    own = [ApiVersion(int(ApiKey.API_VERSIONS), versions[0], versions[-1])] if release.names_range else []
    return ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=own)


def _narrowed(release: Release, answer: ApiVersionsResponse) -> ApiVersionsResponse:
    """Return what both this broker and the release serve."""
    both = [
        ApiVersion(each.api_key, _lowest(each, served), min(each.max_version, served[-1]))
        for each in answer.api_keys
        if (served := release.versions(each.api_key))
    ]
    answer.api_keys = [each for each in both if each.min_version <= each.max_version]
    if not release.has_features:
        answer.supported_features, answer.finalized_features, answer.finalized_features_epoch = [], [], -1
    return answer


def _lowest(offered: ApiVersion, served: range) -> int:
    # Kafka 4 refuses Produce 0 to 2, and still offers them, because librdkafka looks for them.
    return offered.min_version if offered.api_key == ApiKey.PRODUCE else max(offered.min_version, served[0])


def _encoded(correlation_id: int, response: ApiVersionsResponse, version: int) -> EncodedResponse:
    return cast("EncodedResponse", frame.encode_response(correlation_id, response, version))
