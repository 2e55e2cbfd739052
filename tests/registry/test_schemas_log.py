"""The log of a registry when the broker stalls, and when a request is given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.client import Admin, NewTopic
from odradek.registry import LogOptions, schemas_log
from odradek.registry.changes import Change, Schema, register
from odradek.registry.errors import RegistryError
from odradek.registry.schemas_log import SchemasLog
from odradek.registry.subjects import Subjects
from odradek.tests.support.cancellation import cancelled_at


async def test_a_change_that_cannot_be_read_back_is_told_in_time(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SchemasLog(LogOptions(broker.address))
    await log.start()
    monkeypatch.setattr(schemas_log, "WRITE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(schemas_log, "REFRESH_TIMEOUT_S", 0.2)
    async with log._state:  # pyright: ignore[reportPrivateUsage] # nothing is applied now
        with pytest.raises(RegistryError) as refused:
            await log.change(lambda state: register(state, "s", Schema("AVRO", '"int"')))
        assert refused.value.code == 50002
    monkeypatch.undo()
    answer = await log.change(lambda state: register(state, "s", Schema("AVRO", '"int"')))
    assert answer == {"id": 1}
    await log.stop()


async def test_a_look_up_waits_for_the_end_of_the_log_and_not_for_long(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SchemasLog(LogOptions(broker.address))
    await log.start()
    monkeypatch.setattr(log, "_position", -1)
    monkeypatch.setattr(schemas_log, "REFRESH_TIMEOUT_S", 0.2)
    with pytest.raises(RegistryError) as refused:
        await log.refresh()
    assert refused.value.code == 50001
    await log.stop()


async def test_nothing_is_applied_while_a_thread_still_reads_the_state(broker: Broker) -> None:
    log = SchemasLog(LogOptions(broker.address))
    await log.start()
    goes_on, began = threading.Event(), threading.Event()

    def slow(state: Subjects) -> Change:
        began.set()
        goes_on.wait()
        return Change(list(state.versions))

    looking = asyncio.create_task(log.look(slow))
    await asyncio.to_thread(began.wait)
    looking.cancel()
    await asyncio.sleep(0.01)
    assert log._state.locked()  # pyright: ignore[reportPrivateUsage]
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert await log.change(lambda state: register(state, "s", Schema("AVRO", '"int"'))) == {"id": 1}
    await log.stop()


async def test_a_change_that_is_cancelled_at_any_await_costs_the_next_one_nothing(broker: Broker) -> None:
    more, number = True, 0
    while more:
        number += 1
        log = SchemasLog(LogOptions(broker.address))
        await log.start()
        subjects = iter(["cancelled", "next"])

        def change(log: SchemasLog = log, subjects: Iterator[str] = subjects) -> Coroutine[Any, Any, Any]:
            subject = next(subjects)
            return log.change(lambda state: register(state, subject, Schema("AVRO", '"int"')))

        more, _ = await cancelled_at(number, change())
        assert await change() == {"id": 1}
        await log.stop()
    assert number > 3


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
async def test_a_topic_that_deletes_old_schemas_is_refused(broker: Broker, policy: str) -> None:
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("_schemas", 1, -1, {"cleanup.policy": policy})])
    log = SchemasLog(LogOptions(broker.address))
    with pytest.raises(RegistryError, match=f"cleanup.policy={policy}, which deletes old schemas"):
        await log.start()
    await log.stop()
    reading = SchemasLog(LogOptions(broker.address, read_only=True))
    await reading.start()
    await reading.stop()
