"""Features: what the brokers of a cluster agree on, with the level that holds (KIP-584).

There is one, `transaction.version`. At 2 (where a cluster begins) clients raise their producer's epoch with every
transaction and add partitions by their first batch (KIP-890); at 1 they go on as before. What it changes here: what
clients are told to do, and under which epoch the coordinator aborts. Every client is served at either level.

A change is written down before it holds, with an epoch that rises: a client takes over what has a higher one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ..topics.metadata_journal import Metadata

TRANSACTION_VERSION = "transaction.version"

_log = logging.getLogger(__name__)


class Levels(NamedTuple):
    """Which levels of a feature are served, and which a new cluster has."""

    low: int
    high: int
    default: int


# Kafka has a level 0 of transaction.version: records in an older format, for software that cannot read the newer one.
SUPPORTED = {TRANSACTION_VERSION: Levels(1, 2, 2)}


class UpgradeType(IntEnum):
    """What kind of change is asked for, by its number on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A feature and the level that it is to have; `upgrade_type` as it came."""

    feature: str
    level: int
    upgrade_type: int


class Features:
    """The finalized features of the cluster, kept in the metadata journal."""

    def __init__(self, metadata: Metadata, on_transaction_version: Callable[[int], None]) -> None:
        self._metadata = metadata
        self._on_transaction_version = on_transaction_version
        on_transaction_version(self.levels[TRANSACTION_VERSION])

    @property
    def levels(self) -> dict[str, int]:
        """The finalized level of each feature."""
        return {name: self._metadata.features.get(name, levels.default) for name, levels in SUPPORTED.items()}

    @property
    def epoch(self) -> int:
        """Return the number of changes until now."""
        return self._metadata.features_epoch

    def change(self, levels: dict[str, int]) -> None:
        """Give the features these levels. They are in use when this returns. KAFKA_STORAGE_ERROR if the disk fails."""
        if levels != self.levels:
            self._metadata.put_features(levels)
            self._on_transaction_version(levels[TRANSACTION_VERSION])
            _log.info("features: %s", ", ".join(f"{name}={level}" for name, level in levels.items()))


def updated(now: dict[str, int], updates: Iterable[FeatureUpdate]) -> dict[str, int]:
    """The levels after all updates. INVALID_UPDATE_VERSION for all of them where one cannot be."""
    levels = dict(now)
    for each in updates:
        why = _refusal(levels, each)
        if why:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"nothing was updated: {each.feature} cannot have level {each.level}: {why}",
            )
        levels[each.feature] = each.level
    return levels


def _refusal(levels: dict[str, int], asked: FeatureUpdate) -> str:
    """Why an update cannot be; empty where it can."""
    supported = SUPPORTED.get(asked.feature)
    if supported is None:
        return f"there is no such feature here, only {', '.join(SUPPORTED)}"
    if asked.upgrade_type not in list(UpgradeType):
        return f"{asked.upgrade_type} is no kind of update; there are 1 (upgrade), 2 and 3 (safe and unsafe downgrade)"
    if not supported.low <= asked.level <= supported.high:
        return f"levels {supported.low} to {supported.high} are served"
    is_upgrade = asked.upgrade_type == UpgradeType.UPGRADE
    if asked.level < levels[asked.feature] and is_upgrade:
        return f"its level is {levels[asked.feature]}, and a downgrade was not asked for"
    if asked.level > levels[asked.feature] and not is_upgrade:
        return f"its level is {levels[asked.feature]}, and a downgrade was asked for"
    return ""
