"""The broker's own records in words."""

from __future__ import annotations

from odradek.broker.coordination.groups.records import PartRecord, encode
from odradek.broker.topics.topic_names import OFFSETS_TOPIC
from odradek.cli.internal_records import decode
from odradek.protocol.messages.share_group_records import ShareGroupMetadataKey, ShareGroupMetadataValue


def test_records_of_share_groups_are_read_too() -> None:
    key, value = encode(PartRecord(ShareGroupMetadataKey("g"), ShareGroupMetadataValue(3, 7)))
    found = {"type": "share_group_metadata", "group_id": "g"}, {"epoch": 3, "metadata_hash": 7}
    assert decode(OFFSETS_TOPIC, key, value) == found
    assert decode(OFFSETS_TOPIC, key, None) == (found[0], None)
