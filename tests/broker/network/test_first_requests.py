"""First requests: what they need is imported in a thread where that takes long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from odradek.broker.handlers import share_fetch
from odradek.broker.network.routes import ROUTES, unloaded
from odradek.protocol.apis import ApiKey

# Prints the modules of coordination that the loop's own thread imports for each list of requests. What all of them need
# is imported once: a process is forked from there for each list.
FIRST_REQUESTS = """
import asyncio, os, sys, threading
from importlib.abc import MetaPathFinder
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey, message
from odradek.tests.support.clients.raw import Raw

imported = []

class Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if threading.current_thread() is threading.main_thread():
            imported.append(name)

sys.meta_path.insert(0, Finder())

async def main(directory, names):
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(directory,), offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1, share_coordinator_state_topic_num_partitions=1,
    )
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        for name in names.split():
            key = ApiKey[name]
            request = message(key, "request")
            await raw.ask(key, request.VERSIONS[-1], request())

rooms = ("odradek.broker.coordination", "odradek.broker.share_partitions")
for number, names in enumerate(sys.argv[2:]):
    child = os.fork()
    if not child:
        asyncio.run(main(f"{sys.argv[1]}/{number}", names))
        print(names, *(name for name in imported if name.startswith(rooms)), sep=",", flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_first_request_of_a_group_imports_nothing_large_on_the_loop(tmp_path: Path) -> None:
    lists = ["FIND_COORDINATOR JOIN_GROUP OFFSET_COMMIT", "CONSUMER_GROUP_HEARTBEAT", "SHARE_FETCH", "END_TXN"]
    command = [sys.executable, "-c", FIRST_REQUESTS, str(tmp_path), *lists]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert printed.splitlines() == lists


def test_the_loop_does_not_wait_for_an_import_of_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    route = next(each for each in ROUTES if each.key is ApiKey.SHARE_FETCH)
    assert share_fetch.__name__ not in unloaded(route)
    monkeypatch.setattr(share_fetch.__spec__, "_initializing", True)
    assert share_fetch.__name__ in unloaded(route)
