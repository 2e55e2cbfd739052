"""UpdateFeatures, API key 57: raises or lowers the level of a feature that the whole cluster has agreed on.

Flexible from the first version on. Versions: 1 says which kind of change it is, and may ask to validate only; 2 has one
error for all of it.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int8, int16, int32, string


class UpdateFeaturesRequest(Message, key=57, versions="0-2", flexible="0+"):
    timeout_ms: int = int32("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = array("0+")
    validate_only: bool = boolean("1+")


class FeatureUpdateKey(Struct):
    feature: str = string("0+")
    max_version_level: int = int16("0+")
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


class UpdateFeaturesResponse(Message, request=UpdateFeaturesRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = array("0-1", ignorable=True)


class UpdatableFeatureResult(Struct):
    feature: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
