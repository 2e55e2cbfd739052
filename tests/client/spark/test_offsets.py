"""Ranges and their division: nothing is lost, nothing is read twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from odradek.client.arrow.fetch import OffsetRange
from odradek.client.record import TopicPartition
from odradek.client.spark.plan import divide

RANGES = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 200)), max_size=6).map(
    lambda pairs: [
        OffsetRange("t", bytes(16), number, start, start + size) for number, (start, size) in enumerate(pairs)
    ]
)
LIMITS = st.none() | st.integers(1, 50)


def offsets(ranges: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(found.partition, offset) for found in ranges for offset in range(found.start, found.end)]


# The mean bytes of an offset in some of the partitions.
MEANS = st.none() | st.dictionaries(
    st.integers(0, 5).map(lambda number: TopicPartition("t", number)), st.floats(0, 1e9, allow_subnormal=False)
)


@given(RANGES, LIMITS, LIMITS, MEANS)
def test_division_keeps_every_offset_once_in_order_and_to_its_limits(
    ranges: list[OffsetRange], min_pieces: int | None, max_size: int | None, means: dict[TopicPartition, float] | None
) -> None:
    pieces = divide(ranges, min_pieces, max_size, means)
    assert offsets(pieces) == offsets(ranges)
    assert all(piece.size > 0 for piece in pieces)
    if max_size is not None:
        assert all(piece.size <= max_size for piece in pieces)
    if min_pieces is not None:
        assert len(pieces) >= min(min_pieces, sum(found.size for found in ranges))


def test_without_limits_each_range_is_one_piece() -> None:
    ranges = [OffsetRange("t", bytes(16), 0, 5, 10), OffsetRange("t", bytes(16), 1, 7, 7)]
    assert divide(ranges) == ranges[:1]


def test_cuts_go_where_a_piece_is_longest() -> None:
    pieces = divide([OffsetRange("t", bytes(16), 0, 0, 300), OffsetRange("t", bytes(16), 1, 0, 100)], min_pieces=4)
    assert [(piece.partition, piece.size) for piece in pieces] == [(0, 100), (0, 100), (0, 100), (1, 100)]


def test_cuts_go_where_a_piece_has_the_most_bytes() -> None:
    means = {TopicPartition("t", 0): 10.0, TopicPartition("t", 1): 1000.0}
    ranges = [OffsetRange("t", bytes(16), number, 0, 100) for number in (0, 1)]
    assert [(each.partition, each.size) for each in divide(ranges, 5, None, means)] == [
        (0, 100), (1, 25), (1, 25), (1, 25), (1, 25),
    ]  # fmt: skip
    # One record, however large, is one piece.
    single = [ranges[0], OffsetRange("t", bytes(16), 1, 0, 1)]
    assert [(each.partition, each.size) for each in divide(single, 3, None, means)] == [(0, 50), (0, 50), (1, 1)]
