"""The steps of a creation, and who waits for them."""

from __future__ import annotations

import asyncio

import pytest
from odradek.broker.topics.lifecycle import Creation, Steps
from odradek.protocol.errors import ErrorCode, KafkaError

WAIT_S = 20


def failing() -> Steps:
    yield
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no data directory is online")


@pytest.mark.parametrize("failed_before", [True, False])
async def test_everyone_who_waits_for_a_creation_that_fails_learns_why(failed_before: bool) -> None:
    creation = Creation([], failing())
    if failed_before:
        with pytest.raises(KafkaError):
            creation.finish()
    for _ in range(2):
        with pytest.raises(KafkaError, match="no data directory"):
            await asyncio.wait_for(creation.wait(), WAIT_S)
