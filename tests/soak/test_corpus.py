"""The decoders and the connection, fuzzed from the kept corpus for minutes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.tests.adversity.test_corpus import RELAXED, check_connection, check_decoders, chunk_sizes
from odradek.tests.support.documents import fuzzing

LONG = settings(RELAXED, max_examples=50_000)


@LONG
@given(fuzzing.requests())
def test_changed_requests_are_values_or_errors(data: bytes) -> None:
    check_decoders(data)


@LONG
@given(st.lists(fuzzing.requests(), max_size=6), st.binary(max_size=20), chunk_sizes)
def test_a_connection_does_the_same_however_the_bytes_arrive(
    requests: list[bytes], tail: bytes, chunks: list[int]
) -> None:
    check_connection(requests, tail, chunks)
