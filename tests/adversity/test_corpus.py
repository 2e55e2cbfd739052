"""The decoders and the connection, fuzzed from a corpus that is kept. `make soak` does it for minutes."""

from __future__ import annotations

import asyncio
from struct import pack

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.tests.support.documents import fuzzing
from odradek.tests.support.seeds import IS_SOAK

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50_000 if IS_SOAK else 100)
chunk_sizes = st.lists(st.integers(1, 5_000), max_size=12)


def check_decoders(data: bytes) -> None:
    try:
        fuzzing.decode(data)
    except Exception as error:
        raise AssertionError(f"kept as {fuzzing.keep(data)}") from error


def check_connection(requests: list[bytes], tail: bytes, chunks: list[int]) -> None:
    """Check that a connection does the same however the bytes arrive."""
    stream = b"".join(pack(">i", len(each)) + each for each in requests) + tail

    async def both() -> None:
        assert await fuzzing.exchange(stream, chunks) == await fuzzing.exchange(stream, [])

    asyncio.run(both())


def test_a_request_of_the_corpus_is_a_value_or_an_error() -> None:
    for data in fuzzing.corpus():
        check_decoders(data)


@RELAXED
@given(fuzzing.requests())
def test_a_changed_request_is_a_value_or_an_error(data: bytes) -> None:
    check_decoders(data)


@settings(RELAXED, max_examples=50_000 if IS_SOAK else 25)
@given(st.lists(fuzzing.requests(), max_size=6), st.binary(max_size=20), chunk_sizes)
def test_a_connection_does_the_same_however_the_bytes_arrive(
    requests: list[bytes], tail: bytes, chunks: list[int]
) -> None:
    check_connection(requests, tail, chunks)
