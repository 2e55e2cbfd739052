"""The partition of an id. The vectors were computed by Java's own String.hashCode."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.coordination.partition_hash import java_hash, partition_for


@pytest.mark.parametrize(
    ("group_id", "code", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("golden", -1240337143, 43),
        ("my-group", -1906497762, 12),
        ("console-consumer-12345", 158455506, 6),
        ("gruppe-äöü", -1284548840, 40),
        ("日本", 835047, 47),
        ("🚀 rocket", -1391342671, 21),
        ("AaAaAa", 1952508096, 46),
        ("x" * 300, -1757771264, 14),
        # The least int has no absolute value: Kafka takes 0.
        ("polygenelubricants", -(2**31), 0),
    ],
)
def test_is_javas_hash_made_positive(group_id: str, code: int, partition: int) -> None:
    assert java_hash(group_id) == code
    assert partition_for(group_id, 50) == partition


@given(st.text(max_size=300), st.integers(0, 40))
def test_is_the_polynomial_of_javas_documentation(text: str, times: int) -> None:
    text *= times
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (code * 31 + unit) % 2**32
    assert java_hash(text) % 2**32 == code
