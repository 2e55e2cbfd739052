"""UpdateFeatures, API key 57: another level for a feature; all of a request, or nothing of it.

In version 0 a downgrade must be allowed, from version 1 on it must be asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ..coordination.features import FeatureUpdate, UpgradeType, updated
from ..network.request import RequestContext

if TYPE_CHECKING:
    from ..services import Services


def handle(services: Services, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """INVALID_UPDATE_VERSION for the whole, with the first thing that is wrong."""
    asked = [FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates]
    if context.api_version == 0:
        asked = [
            each._replace(upgrade_type=int(UpgradeType.SAFE_DOWNGRADE))
            if update.allow_downgrade and update.max_version_level < services.features.levels.get(update.feature, 0)
            else each
            for each, update in zip(asked, request.feature_updates, strict=True)
        ]
    levels = updated(services.features.levels, asked)
    if not request.validate_only:
        services.features.change(levels)
    # As Kafka: a success has its code's name for a message.
    results = [UpdatableFeatureResult(each.feature, 0, ErrorCode.NONE.name) for each in asked]
    return UpdateFeaturesResponse(error_message=None, results=results)
