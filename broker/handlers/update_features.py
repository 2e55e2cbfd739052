"""UpdateFeatures, API key 57: changes the levels of features. All updates of a request take effect, or none.

In version 0 the client must allow a downgrade; from version 1 on it must request it.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse
from ..coordination.features import FeatureUpdate, UpgradeType, updated_levels
from ..network.request import RequestContext
from ..services import Services


def handle(services: Services, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Update the features. The first invalid update is INVALID_UPDATE_VERSION for the whole request."""
    updates = [
        FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates
    ]
    if context.api_version == 0:
        updates = [
            each._replace(upgrade_type=int(UpgradeType.SAFE_DOWNGRADE))
            if asked.allow_downgrade and asked.max_version_level < services.features.levels.get(asked.feature, 0)
            else each
            for each, asked in zip(updates, request.feature_updates, strict=True)
        ]
    levels = updated_levels(services.features.levels, updates)
    if not request.validate_only:
        services.features.change(levels)
    # In Kafka the message of a success is the name of its code.
    results = [UpdatableFeatureResult(each.feature, 0, ErrorCode.NONE.name) for each in updates]
    return UpdateFeaturesResponse(error_message=None, results=results)
