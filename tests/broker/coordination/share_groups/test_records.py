"""The records of a share group, as Apache Kafka 4.3.1 wrote them.

golden/kafka-4.3.1-share-group.log is the segment of `__consumer_offsets` after a member had joined group g2 and left,
offsets had been altered and deleted, and the group had been deleted.
"""

from __future__ import annotations

from pathlib import Path

from odradek.broker.coordination.groups import records
from odradek.broker.coordination.groups.group import Group
from odradek.broker.coordination.groups.limits import GroupLimits
from odradek.broker.coordination.groups.records import PartRecord
from odradek.protocol.messages import share_group_records as kafka
from odradek.protocol.records.batch import iter_headers, iter_records
from odradek.tests.broker.coordination.classic.world import FakeTopics

SEGMENT = (Path(__file__).parents[0] / "golden" / "kafka-4.3.1-share-group.log").read_bytes()
PAIRS = [
    (each.key or b"", each.value) for at, header in iter_headers(SEGMENT) for each in iter_records(SEGMENT, at, header)
]


def test_kafkas_records_are_the_same_when_written_again() -> None:
    for key, value in PAIRS:
        record = records.decode_record(key, value)
        assert isinstance(record, PartRecord)
        assert records.encode(record) == (key, value)


def test_the_group_lives_by_kafkas_records() -> None:
    group = Group("g2", GroupLimits(), FakeTopics())
    states: list[tuple[int, int, list[str]]] = []
    for key, value in PAIRS:
        record = records.decode_record(key, value)
        assert record is not None
        group.apply(record)
        if group.share is not None and isinstance(record.key, kafka.ShareGroupCurrentMemberAssignmentKey):  # type: ignore[union-attr]
            states.append((group.share.epoch, group.share.assignment_epoch, list(group.share.members)))
    assert states == [(2, 2, ["m1"]), (3, 3, ["m1"]), (3, 3, ["m1"])]
    assert group.share is None and group.is_new()
