"""ApiVersions, API key 18: what a broker speaks, asked before anything else.

Versions: 1 throttle time; 3 flexible, the client's name, and features; 4 allows features whose lowest version is 0; 5
the cluster and the node that the client believes it connects to (KIP-1242).
The response's header stays that of version 0 for ever, and a request above our highest version is answered with a body
of version 0: the client cannot know better yet.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Message, key=18, versions="0-5", flexible="3+"):
    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)


class ApiVersionsResponse(Message, request=ApiVersionsRequest):
    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array("0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array("3+", ignorable=True, tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array("3+", ignorable=True, tag=2)
    zk_migration_ready: bool = boolean("3+", ignorable=True, tag=3)


class ApiVersion(Struct):
    api_key: int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


class SupportedFeatureKey(Struct):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Struct):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")
