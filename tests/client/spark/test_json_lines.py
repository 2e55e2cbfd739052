"""Values of JSON become lines, by the kernel and in Python alike: one object each, or marked as bad."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyarrow", reason="pip install 'odradek[tables]'")

from hypothesis import given
from hypothesis import strategies as st
from odradek.client.schemas.typed_rows import MAX_DEPTH, join_objects
from odradek.tests.support.brokers.compiled_kernel import records_by

pytestmark = pytest.mark.usefixtures("arrow_way")

# Bytes that mean something, so that many values are nearly objects.
PIECES = st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b"\r", b"\t", b" ", b",", b":", b"1", b"\0", "é".encode()]
)
VALUES = st.lists(PIECES, max_size=12).map(b"".join) | st.builds(
    lambda inner, indent: json.dumps(inner, indent=indent).encode(),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.lists(st.integers(), max_size=2), max_size=3),
    st.sampled_from([None, 1]),
)


def lines_of(values: list[bytes | None], left_out: int = 0) -> tuple[list[bytes], list[bool]]:
    column = pa.array(values, pa.binary())[left_out:]
    bad = np.zeros(len(column), np.bool_)
    lines, ends = join_objects(column, bad)
    assert ends[0] == 0 and ends[-1] == len(lines)
    return [bytes(lines[first:end]) for first, end in pairwise(ends)], bad.tolist()


@given(st.lists(st.none() | VALUES, max_size=8), st.integers(0, 2))
def test_any_values_are_lines_alike(values: list[bytes | None], left_out: int) -> None:
    with records_by("kernel"):
        compiled = lines_of(values, left_out)
    with records_by("Python"):
        assert lines_of(values, left_out) == compiled
    for value, line, is_bad in zip(values[left_out:], *compiled, strict=True):
        if value is None or is_bad:
            assert line == b"{}\n"
        else:
            assert line.count(b"\n") == 1 and len(line) == len(value) + 1


@pytest.mark.parametrize(
    ("value", "is_bad"),
    [
        (b'{"a": "}"}', False), (b'{"a": 1} ', False), (b"{}{}", True), (b"[]", True), (b"null", True), (b"", True),
        (b'{"a": "\\""}', False), (b'{"a": "\\', True), (b'{"a": "\n"}', True),
        (b"{" * MAX_DEPTH + b"}" * MAX_DEPTH, False), (b"{" * (MAX_DEPTH + 1) + b"}" * (MAX_DEPTH + 1), True),
    ],
)  # fmt: skip
def test_only_one_object_is_a_line(value: bytes, is_bad: bool) -> None:
    assert lines_of([value])[1] == [is_bad]
