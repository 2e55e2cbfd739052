"""Large responses to small requests: they are complete, and made in turns that hold nobody back."""

from __future__ import annotations

import asyncio
import gc
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.broker import BrokerConfig, turns
from odradek.tests.support.brokers.large_state import LargeState
from odradek.tests.support.brokers.loop_turns import LIMIT_MS, MeasuredBroker, measured_broker
from odradek.tests.support.clients.raw import Raw

# A response of more values is made in turns here, and there is more of each kind. tests/soak has the real bound.
VALUES_AT_ONCE = 200
STATE = LargeState(topics=11, partitions_each=20, groups=220, transactions=220, producers=220)
# The broker's loop is its own, in a thread; which loop the client runs on says nothing about it.
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


@pytest.fixture(scope="module")
def measured() -> Iterator[MeasuredBroker]:
    # In memory where that is possible: thousands of directories take a disk seconds.
    memory = Path("/dev/shm")
    data_dir = tempfile.mkdtemp(prefix="odradek-large-", dir=memory if memory.is_dir() else None)
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(data_dir,),
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
        share_coordinator_state_topic_num_partitions=1,
    )
    with pytest.MonkeyPatch.context() as patch, measured_broker(config) as each:
        patch.setattr(turns, "VALUES_AT_ONCE", VALUES_AT_ONCE)
        asyncio.run(_make(each.address))
        # The collector would look at all of this in one turn. A broker that starts with it leaves it out (server.py).
        gc.collect()
        gc.freeze()
        yield each
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    shutil.rmtree(data_dir, ignore_errors=True)


async def _make(address: str) -> None:
    async with await Raw.connect(address) as raw:
        await STATE.make(raw)


@pytest.mark.parametrize("name", STATE.small_requests())
async def test_a_large_response_is_complete_and_made_in_turns(measured: MeasuredBroker, name: str) -> None:
    key, version, request = STATE.small_requests()[name]
    async with await Raw.connect(measured.address) as raw:
        measured.begin()
        raw.send(key, version, request)
        response = await raw.receive(key, version)
    assert STATE.size(response) >= STATE.expected(response)
    assert measured.longest_turn_ms <= LIMIT_MS
