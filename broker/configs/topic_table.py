"""The table of topic configs without a row in the broker's tables: those of topics alone, and the unsupported ones.

An unsupported config is shown with its default, which is true today. Any other value is rejected, and its row says why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .definition import BOOLEAN, INT, LIST, LONG, ConfigDef

# Stands for all replicas of a topic.
EVERY_REPLICA = "*"
_REPLICA = re.compile(r"(0|[1-9][0-9]*):(0|[1-9][0-9]*)")
_NO_REMOTE = "there is no remote storage"
_GROWING = "segment files grow as they are written"


def _check_replicas(entries: tuple[str, ...]) -> str | None:
    """As Kafka's ThrottledReplicaListValidator."""
    if entries == (EVERY_REPLICA,) or all(not each or _REPLICA.fullmatch(each) for each in entries):
        return None
    return "must be the literal '*' or a list of replicas: [partitionId]:[brokerId],[partitionId]:[brokerId],..."


# fmt: off
_ROWS = (
    ConfigDef("local.retention.bytes", LONG, -2, low=-2, unsupported=_NO_REMOTE,
        broker_synonyms=("log.local.retention.bytes",),
        doc="Bytes kept here when older segments are stored remotely."),
    ConfigDef("local.retention.ms", LONG, -2, low=-2, unsupported=_NO_REMOTE,
        broker_synonyms=("log.local.retention.ms",),
        doc="Time kept here when older segments are stored remotely."),
    ConfigDef("preallocate", BOOLEAN, False, unsupported=_GROWING,
        broker_synonyms=("log.preallocate",),
        doc="Segment files get their full size when they are made."),
    ConfigDef("remote.log.copy.disable", BOOLEAN, False, unsupported=_NO_REMOTE,
        doc="Remote storage takes no new segments."),
    ConfigDef("remote.log.delete.on.disable", BOOLEAN, False, unsupported=_NO_REMOTE,
        doc="Remote segments are deleted when remote storage is switched off."),
    ConfigDef("remote.storage.enable", BOOLEAN, False, unsupported=_NO_REMOTE,
        doc="Older segments are stored remotely."),
)
# fmt: on

INTERNAL_SEGMENT_BYTES = ConfigDef(
    "internal.segment.bytes", INT, None, doc="Segment size without the lower bound of segment.bytes: for tests."
)
# Topic configs that no config of the broker gives a default.
OWN_TOPIC_CONFIGS: Mapping[str, ConfigDef] = {
    row.name: row
    for row in (
        INTERNAL_SEGMENT_BYTES,
        ConfigDef("follower.replication.throttled.replicas", LIST, (), check=_check_replicas,
            doc="Replicas that follower.replication.throttled.rate bounds: PARTITION:BROKER,... or * for all."),
        ConfigDef("leader.replication.throttled.replicas", LIST, (), check=_check_replicas,
            doc="Replicas that leader.replication.throttled.rate bounds: PARTITION:BROKER,... or * for all."),
    )
}  # fmt: skip
UNSUPPORTED_TOPIC_CONFIGS: Mapping[str, ConfigDef] = {row.name: row for row in _ROWS}
