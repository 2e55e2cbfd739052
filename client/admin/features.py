"""The features of a cluster (KIP-584): ApiVersions (key 18) lists their levels, UpdateFeatures (57) sets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ... import __version__
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from ..core.cluster import Cluster
from ..core.options import check_choice
from ..errors import ErrorCode, KafkaError, raise_error
from .items import for_items, item_result

_CHANGES = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}


@dataclass(frozen=True, slots=True)
class Feature:
    """The levels of a feature that the asked broker has, and the one that the cluster uses (0: none)."""

    lowest: int
    highest: int
    level: int


async def describe(cluster: Cluster) -> dict[str, Feature]:
    """Return the features of the cluster by name."""
    request = ApiVersionsRequest(client_software_name="odradek", client_software_version=__version__)

    async def attempt() -> dict[str, Feature]:
        response = await cluster.request_any(request, ApiVersionsResponse)
        raise_error(response.error_code, None, "the features cannot be described")
        levels = {each.name: each.max_version_level for each in response.finalized_features}
        return {
            each.name: Feature(each.min_version, each.max_version, levels.get(each.name, 0))
            for each in response.supported_features
        }

    return await cluster.retry(attempt)


async def update(
    cluster: Cluster, levels: Mapping[str, int], change: str, validate_only: bool, timeout_ms: int
) -> None:
    """Set the levels of features; all of them are changed, or none."""
    check_choice("change", change, _CHANGES)

    async def attempt(names: list[str]) -> dict[str, KafkaError | None]:
        updates = [FeatureUpdateKey(name, levels[name], upgrade_type=_CHANGES[change]) for name in names]
        request = UpdateFeaturesRequest(timeout_ms, updates, validate_only)
        response = await cluster.request_controller(request, UpdateFeaturesResponse)
        raise_error(response.error_code, response.error_message, "the features were not updated")
        told = {each.feature: each for each in response.results}
        return {
            name: item_result(
                None,
                told[name].error_code if name in told else ErrorCode.NONE,
                told[name].error_message if name in told else None,
                f"the level of {name} was not updated",
            )
            for name in names
        }

    await for_items(cluster, levels, attempt)
