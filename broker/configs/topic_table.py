"""The table of topic configs without a row in the broker's tables: the unsupported ones, and one for tests.

An unsupported config is shown with its default, which is true today. Any other value is rejected, and its row says why.
"""

from __future__ import annotations

from collections.abc import Mapping

from .definition import BOOLEAN, INT, LIST, LONG, ConfigDef

_NO_COPIES = "replicas are copied without a limit"
_NO_REMOTE = "there is no remote storage"
_GROWING = "segment files grow as they are written"

# fmt: off
_ROWS = (
    ConfigDef("follower.replication.throttled.replicas", LIST, (), unsupported=_NO_COPIES,
        doc="Replicas whose copying is throttled."),
    ConfigDef("leader.replication.throttled.replicas", LIST, (), unsupported=_NO_COPIES,
        doc="Replicas whose copying is throttled."),
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
UNSUPPORTED_TOPIC_CONFIGS: Mapping[str, ConfigDef] = {row.name: row for row in _ROWS}
