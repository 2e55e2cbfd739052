"""What the reading side of a member of an old group does, apart from any broker and ZooKeeper."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.client.zookeeper import reading
from odradek.client.zookeeper.reading import Reading
from odradek.protocol.errors import ErrorCode, KafkaError

TOO_MANY = 1000


class NotAllowed:
    """A consumer whose polls all fail, at once."""

    polls = 0

    def __init__(self, **_: Any) -> None:
        self.pause = self.resume = lambda *_: None
        self.assignment = self.paused = lambda: set[Any]()

    async def getmany(self, **_: Any) -> dict[Any, Any]:
        NotAllowed.polls += 1
        if NotAllowed.polls == TOO_MANY:
            pytest.fail("it polls again and again, and lets nobody else have a turn")
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t")


async def test_an_error_that_stays_is_no_loop_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "Consumer", NotAllowed)
    storage: Any = None
    poll = asyncio.create_task(Reading([], {}, storage, None).poll())
    for _ in range(10):
        await asyncio.sleep(0)
    assert NotAllowed.polls == 1
    assert not poll.done()
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll
