"""Control records: markers both ways, unknown types passed over, anything else refused."""

from __future__ import annotations

import pytest
from odradek.protocol.records import batch
from odradek.protocol.records.control import ControlType, Marker, control_type, encode_marker, read_marker
from odradek.protocol.records.errors import InvalidRecord
from odradek.protocol.records.record import Record


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_is_a_control_batch_of_its_own(kind: ControlType) -> None:
    data = encode_marker(Marker(kind, 3), producer_id=9, producer_epoch=1, timestamp_ms=77, base_offset=500)
    header = batch.read_header(data)
    assert (header.is_control, header.is_transactional, header.record_count) == (True, True, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, -1)
    [record] = batch.decode_batch(data)
    assert (record.offset, record.timestamp_ms) == (500, 77)
    assert read_marker(record) == Marker(kind, 3)


def test_clients_write_none() -> None:
    data = encode_marker(Marker(ControlType.COMMIT, 0), producer_id=9, producer_epoch=1, timestamp_ms=1)
    with pytest.raises(InvalidRecord):
        batch.check_shape(batch.read_header(data))


def test_types_of_newer_brokers_are_unknown_and_newer_values_are_read() -> None:
    assert control_type(Record(key=b"\x00\x00\x00\x63")) is ControlType.UNKNOWN
    newer = Record(key=b"\x00\x01\x00\x01more", value=b"\x00\x01\x00\x00\x00\x05more")
    assert read_marker(newer) == Marker(ControlType.COMMIT, 5)


@pytest.mark.parametrize(
    "record",
    [
        Record(),
        Record(key=b"\x00\x00\x00"),
        Record(key=b"\xff\xff\x00\x01", value=bytes(6)),
        Record(key=b"\x00\x00\x00\x02", value=bytes(6)),
        Record(key=b"\x00\x00\x00\x01"),
        Record(key=b"\x00\x00\x00\x01", value=bytes(5)),
        Record(key=b"\x00\x00\x00\x01", value=b"\xff\xff" + bytes(4)),
    ],
)
def test_batches_that_are_no_markers(record: Record) -> None:
    with pytest.raises(InvalidRecord):
        read_marker(record)
