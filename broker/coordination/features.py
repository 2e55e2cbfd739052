"""Features: what the brokers of a cluster agree on, and the finalized level of each (KIP-584).

At level 2 of `transaction.version`, where a new cluster begins, every transaction raises the
producer's epoch, and the first batch adds a partition to the transaction (KIP-890). At level 1 clients do as before
KIP-890. The level decides what the broker tells clients, and under which epoch the coordinator aborts. Every client is
served at either level.

At level 1 of `group.version`, where a new cluster begins, clients may join consumer groups of KIP-848. At level 0 their
heartbeats and descriptions are UNSUPPORTED_VERSION.

At level 2 of `share.version`, where a new cluster begins, share groups may have dead letters (KIP-1191). At level 1
there are none. At level 0 there are no share groups: the requests about them are UNSUPPORTED_VERSION.

A change is in the metadata journal before it takes effect. Its epoch is higher than the last one, so clients know which
levels are newer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ..topics.metadata_journal import Metadata

TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"

_log = logging.getLogger(__name__)


class Levels(NamedTuple):
    """The lowest and the highest level that this broker serves, and the level of a new cluster."""

    low: int
    high: int
    default: int


# Kafka also has level 0 of `transaction.version`: an older format of records, for software that cannot read the newer.
SUPPORTED = {TRANSACTION_VERSION: Levels(1, 2, 2), GROUP_VERSION: Levels(0, 1, 1), SHARE_VERSION: Levels(0, 2, 2)}


class UpgradeType(IntEnum):
    """The kinds of change, with their numbers on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A feature and its requested level. `upgrade_type` is the number in the request, which may be invalid."""

    feature: str
    level: int
    upgrade_type: int


class Features:
    """The finalized features of the cluster, kept in the metadata journal."""

    def __init__(self, metadata: Metadata, on_change: Callable[[], None]) -> None:
        """`on_change` is called after each change."""
        self._metadata = metadata
        self._on_change = on_change

    @property
    def levels(self) -> dict[str, int]:
        """The finalized level of each feature."""
        return {name: self._metadata.features.get(name, levels.default) for name, levels in SUPPORTED.items()}

    @property
    def epoch(self) -> int:
        """The number of changes until now."""
        return self._metadata.features_epoch

    def change(self, levels: dict[str, int]) -> None:
        """Give the features these levels. They are in use when this returns. KAFKA_STORAGE_ERROR if the disk fails."""
        if levels != self.levels:
            self._metadata.put_features(levels)
            self._on_change()
            _log.info("features: %s", ", ".join(f"{name}={level}" for name, level in levels.items()))


def updated_levels(now: dict[str, int], updates: Iterable[FeatureUpdate]) -> dict[str, int]:
    """Return the levels after all updates. INVALID_UPDATE_VERSION if one update is invalid: none is made then."""
    levels = dict(now)
    for each in updates:
        why = _rejection(levels, each)
        if why:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"nothing was updated: {each.feature} cannot have level {each.level}: {why}",
            )
        levels[each.feature] = each.level
    return levels


def _rejection(levels: dict[str, int], update: FeatureUpdate) -> str:
    """Return why an update is invalid; empty if it is valid."""
    supported = SUPPORTED.get(update.feature)
    if supported is None:
        return f"there is no such feature here, only {', '.join(SUPPORTED)}"
    if update.upgrade_type not in list(UpgradeType):
        return f"{update.upgrade_type} is no kind of update; there are 1 (upgrade), 2 and 3 (safe and unsafe downgrade)"
    if not supported.low <= update.level <= supported.high:
        return f"levels {supported.low} to {supported.high} are served"
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if update.level < levels[update.feature] and is_upgrade:
        return f"its level is {levels[update.feature]}, and a downgrade was not asked for"
    if update.level > levels[update.feature] and not is_upgrade:
        return f"its level is {levels[update.feature]}, and a downgrade was asked for"
    return ""
