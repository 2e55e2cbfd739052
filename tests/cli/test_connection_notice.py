"""A command that has lost its broker says so after a second, and when it is there again."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.command import command_line, completed, odradek
from odradek.tests.support.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.lines import Lines
from odradek.tests.support.process import BrokerProcess


def test_reconnecting_is_said_and_records_come_again(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    try:
        assert odradek(broker.address, "topics", "create", "steady").returncode == 0
        args = command_line(broker.address, "consume", "steady")
        with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
            try:
                lines = Lines(running)
                send(broker.address, "first")
                assert lines.next(20) == "first\n"
                broker.kill()
                assert lines.next(20) == f"odradek: the connection to {broker.address} is lost, trying again\n"
                broker.start()
                assert lines.next(20) == "odradek: connected again\n"
                send(broker.address, "second")
                assert lines.next(20) == "second\n"
            finally:
                running.kill()
    finally:
        broker.close()


async def test_an_error_that_is_retried_is_said() -> None:
    async with FakeCluster({"t": 1}) as fake:
        # The pauses before the sixth attempt are more than a second: 0.1, 0.2, 0.4, 0.8 and 1 s, 20 % more or less.
        fake.on(ApiKey.PRODUCE, *[refuse_produce(ErrorCode.KAFKA_STORAGE_ERROR)] * 5)
        ended = await asyncio.to_thread(completed, "produce", "t", "-b", fake.address, stdin=b"x\n")
    assert ended.returncode == 0
    assert ended.stderr.startswith("odradek: t-0: ") and ended.stderr.count("\n") == 1
    assert "(KAFKA_STORAGE_ERROR); it is retried" in ended.stderr


def send(address: str, line: str) -> None:
    subprocess.run(command_line(address, "produce", "steady"), input=line, text=True, check=True, timeout=30)
