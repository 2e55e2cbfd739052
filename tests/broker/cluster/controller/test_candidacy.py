"""How a broker becomes the controller, also where somebody has written nonsense into the znodes that decide it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest
from odradek.broker.cluster.controller import controller
from odradek.broker.cluster.controller.controller import Controller
from odradek.broker.cluster.znodes import CONTROLLER, CONTROLLER_EPOCH, encode_controller
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.replication.controller_door import OwnBroker
from odradek.broker.replication.inter_broker import InterBroker
from odradek.protocol.errors import KafkaError
from odradek.protocol.schema import Message
from odradek.testing.zookeeper import FakeZookeeper
from odradek.tests.support.fakes.clock import FakeClock
from odradek.zookeeper.operations import Check, Refused, Steps, children
from odradek.zookeeper.session import Session


async def carry_out(_: Message, version: int) -> Any:
    """Answer nothing, as a broker that hangs."""
    await asyncio.Event().wait()


class Candidate:
    """A broker's controller with a session of its own."""

    def __init__(self, fake: FakeZookeeper) -> None:
        self._fake = fake
        self._session = fake.connect()
        config = BrokerConfig(auto_leader_rebalance_enable=False)
        own = OwnBroker(carry_out)
        self.controller = Controller(config, cast("Session", self), FakeClock(), own, InterBroker(config))
        # Cleared while the answers of ZooKeeper are on their way.
        self.answers = asyncio.Event()
        self.answers.set()

    async def run(self, steps: Steps[Any], fence: Check | None = None) -> Any:
        """Stand in for Session.run."""
        result: object = None
        while True:
            try:
                operation = steps.send(result)
            except StopIteration as end:
                return end.value
            result = self._fake.run(self._session, operation, fence)
            await self.answers.wait()

    async def settle(self) -> None:
        """Let the controller take up all events, until nothing more comes."""
        events = self._fake.events[self._session]
        while True:
            while events:
                self.controller.note_change(events.popleft()[1])
            for _ in range(20):
                await asyncio.sleep(0)
            if not events:
                return


@pytest.mark.parametrize(
    ("path", "nonsense", "sense"),
    [
        (CONTROLLER_EPOCH, b"x", b"6"),
        (CONTROLLER_EPOCH, b"", b"6"),
        (CONTROLLER_EPOCH, b"-1", b"6"),
        (CONTROLLER_EPOCH, b"9" * 5000, b"6"),
        (CONTROLLER, b"{", None),
    ],
)
async def test_a_broker_stands_again_once_nonsense_is_mended(
    path: str, nonsense: bytes, sense: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeZookeeper()
    fake.make(CONTROLLER_EPOCH, b"6")
    fake.make(path)
    fake.put_by_hand(path, nonsense)
    candidate = Candidate(fake)
    candidate.controller.start()
    try:
        with caplog.at_level(logging.ERROR):
            await candidate.settle()
            assert not candidate.controller.is_active
            (line,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
            assert line.exc_info is None and f"{path} cannot be read" in line.getMessage()
        if sense is None:
            fake.delete_by_hand(path)
        else:
            fake.put_by_hand(path, sense)
        await candidate.settle()
        assert candidate.controller.is_active and fake.get(CONTROLLER_EPOCH) == b"7"
    finally:
        candidate.controller.stop()


async def test_a_controller_whose_epoch_is_overwritten_leads_on_once_it_is_mended() -> None:
    """Its writes are refused meanwhile, because the version of the epoch is their fence."""
    fake = FakeZookeeper()
    candidate = Candidate(fake)
    candidate.controller.start()
    try:
        await candidate.settle()
        assert fake.get(CONTROLLER_EPOCH) == b"1"
        fake.put_by_hand(CONTROLLER_EPOCH, b"nonsense")
        await candidate.settle()
        fake.put_by_hand(CONTROLLER_EPOCH, b"5")
        await candidate.settle()
        assert candidate.controller.is_active and fake.get(CONTROLLER_EPOCH) == b"6"
        assert fake.get(CONTROLLER) == encode_controller(1, FakeClock().now_ms())
    finally:
        candidate.controller.stop()


@pytest.mark.parametrize("wins", [True, False])
async def test_a_request_waits_while_the_broker_may_have_become_the_controller(wins: bool) -> None:
    """Its znode may name it already: others ask it then."""
    fake = FakeZookeeper()
    candidate = Candidate(fake)
    if not wins:
        fake.make(CONTROLLER, encode_controller(7, 0))
    with pytest.raises(KafkaError, match="not the controller"):
        await candidate.controller.ask(lambda machine: children("/"))
    candidate.answers.clear()
    candidate.controller.start()
    try:
        await asyncio.sleep(0)
        asking = asyncio.ensure_future(candidate.controller.ask(lambda machine: children("/brokers")))
        while fake.get(CONTROLLER) is None:
            candidate.answers.set()
            await asyncio.sleep(0)
            candidate.answers.clear()
        assert not asking.done()
        candidate.answers.set()
        if wins:
            assert "topics" in await asking
        else:
            with pytest.raises(KafkaError, match="not the controller"):
                await asking
    finally:
        candidate.controller.stop()


async def test_a_controller_that_could_not_step_down_stands_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ZooKeeper refuses the removal of its znode, by an ACL say. Nobody else could become the controller."""
    fake = FakeZookeeper()
    candidate = Candidate(fake)
    monkeypatch.setattr(controller, "FAILURE_PAUSE_S", 0)
    candidate.controller.start()
    try:
        await candidate.settle()
        errors = [Refused("ZooKeeper refuses to change /controller")]

        async def refuse(steps: Steps[Any], fence: Check | None = None) -> Any:
            if errors and fence is None:
                raise errors.pop()
            return await run(steps, fence)

        run = candidate.run
        monkeypatch.setattr(candidate, "run", refuse)

        def fail(machine: object) -> Steps[None]:
            raise RuntimeError("a defect")
            yield

        with pytest.raises(KafkaError):
            await candidate.controller.ask(fail)
        await candidate.settle()
        assert candidate.controller.is_active and fake.get(CONTROLLER_EPOCH) == b"2"
        assert "the controller cannot leave its place to others" in caplog.text
    finally:
        candidate.controller.stop()
