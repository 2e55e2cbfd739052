"""The process of `kafka_process`: a broker whose disk can lose what no fsync has covered.

    python -m odradek.testing.power '{"listeners": "PLAINTEXT://127.0.0.1:0", ...}'

It is `odradek serve` but for the disk and for its first line, `ready` with the address of each listener. A line `lose
SEED` on standard input cuts the power: the disk loses what it may lose, and the process is gone. The end of standard
input means that the process of the tests is gone: this one follows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading

from ..broker.configs.broker_config import BrokerConfig
from ..broker.configs.definition import ConfigError
from ..broker.log_dirs.data_dir import StartError
from ..broker.server import Broker, serve
from .lossy_disk import LossyDisk

_LOSE = "lose"
# As of a process that SIGKILL ended.
_KILLED_STATUS = 137


def main(texts: dict[str, str]) -> int:
    """Serve until a signal or a power cut; return the status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    disk = LossyDisk()
    threading.Thread(target=_obey, args=(disk,), name="odradek-power", daemon=True).start()
    try:
        config, _ = BrokerConfig.parse(texts, strict=True)
        broker = Broker(config, disk=disk)
        asyncio.run(serve(config, lambda _: print("ready", *broker.addresses, flush=True), broker=broker))
    except (ConfigError, StartError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


def _obey(disk: LossyDisk) -> None:
    """Wait for the power cut, or the end of the process of the tests."""
    for line in sys.stdin:
        word, _, seed = line.strip().partition(" ")
        if word == _LOSE:
            # The lock stays: nothing more is opened, synced or renamed, and so nothing more is acknowledged as durable.
            with disk.held():
                disk.lose(int(seed))
                os._exit(_KILLED_STATUS)
    os._exit(_KILLED_STATUS)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
