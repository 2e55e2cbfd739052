"""A broker on a system that has nothing of its own, as macOS: it starts, serves, compacts, is killed and recovers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import Record, decode_batch, encode_batch, iter_headers, read_header
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.raw import Raw, batch_of

# The broker is a process: which loop the test itself runs on says nothing about it.
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])

RECORDS = 300
KEYS = 3
# Python runs this at its start, in the broker and in the cleaner's process: before anything of ours is imported.
POOR = """
import fcntl, mmap, os, signal, socket, sys

NAMES = {
    os: ("posix_fadvise posix_fallocate preadv pwritev sched_getaffinity sched_setaffinity fdatasync "
         "copy_file_range splice memfd_create eventfd pidfd_open O_DIRECT O_TMPFILE O_PATH getrandom"),
    socket: "SO_REUSEPORT SO_INCOMING_CPU TCP_QUICKACK TCP_KEEPIDLE TCP_USER_TIMEOUT SOCK_NONBLOCK SOCK_CLOEXEC",
    fcntl: "F_GETPIPE_SZ F_SETPIPE_SZ F_ADD_SEALS",
    mmap: "MADV_HUGEPAGE MAP_POPULATE",
}
for module, names in NAMES.items():
    for name in names.split() + [each for each in dir(module) if each.startswith(("RWF_", "POSIX_FADV_"))]:
        if hasattr(module, name):
            delattr(module, name)

"""


@pytest.fixture
def poor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    (tmp_path / "poor").mkdir()
    (tmp_path / "poor" / "sitecustomize.py").write_text(POOR)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "poor"))
    broker = BrokerProcess(tmp_path, log_cleaner_backoff_ms=100)
    yield broker
    broker.close()


async def read(address: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of the topic, up to its end."""
    found: list[tuple[bytes | None, bytes | None]] = []
    async with await Raw.connect(address) as raw:
        offset = 0
        while data := bytes((await raw.fetch("t", offset)).records or b""):
            for _, header in iter_headers(data):
                offset = header.next_offset
            position = 0
            while position < len(data):
                found += [(each.key, each.value) for each in decode_batch(data, position)]
                position += read_header(data, position).size_bytes
    return found


async def test_a_broker_serves_compacts_and_recovers_with_what_every_system_has(poor: BrokerProcess) -> None:
    poor.start()
    async with await Raw.connect(poor.address) as raw:
        await raw.create_topic("t", cleanup_policy="compact", internal_segment_bytes="1000", flush_messages="1")
        for number in range(RECORDS):
            record = Record(0, 1_700_000_000_000, b"k%d" % (number % KEYS), b"v%d" % number)
            assert (await raw.produce("t", encode_batch([record]))).error_code == 0
    newest = {b"k%d" % (number % KEYS): b"v%d" % number for number in range(RECORDS)}
    async with asyncio.timeout(60):
        while len(compacted := await read(poor.address)) > RECORDS / 3:
            await asyncio.sleep(0.05)
    assert dict(compacted) == newest
    poor.kill()
    poor.start()
    assert dict(await read(poor.address)) == newest
    async with await Raw.connect(poor.address) as raw:
        # A record without a key is none for a compacted topic.
        assert (await raw.produce("t", batch_of(b"after"))).error_code == ErrorCode.INVALID_RECORD
    poor.stop()
    poor.start()
    assert dict(await read(poor.address)) == newest
    assert "Traceback" not in poor.log.read_text()
