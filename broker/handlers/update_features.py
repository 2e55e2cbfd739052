"""UpdateFeatures, API key 57: changes the levels of features. All updates of a request take effect, or none.

Version 0 cannot lower a level: Kafka 4 no longer looks at `allow_downgrade`.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse
from ..coordination.features import FeatureUpdate, updated_levels
from ..network.request import RequestContext
from ..services import Services


def handle(services: Services, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Update the features. The first invalid update is INVALID_UPDATE_VERSION for the whole request."""
    updates = [
        FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates
    ]
    levels = updated_levels(services.features.levels, updates)
    if not request.validate_only:
        services.features.change(levels)
    # In Kafka the message of a success is the name of its code.
    results = [UpdatableFeatureResult(each.feature, 0, ErrorCode.NONE.name) for each in updates]
    return UpdateFeaturesResponse(error_message=None, results=results)
