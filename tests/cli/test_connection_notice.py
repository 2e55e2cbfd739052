"""A command that has lost its broker says so after a second, and when it is there again."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from odradek.cli.notices import login_notice
from odradek.client import ScramPassword
from odradek.client.blocking import Admin
from odradek.client.core.connection import login_log
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.testing import LocalKafka
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.documents.command import command_line, completed, odradek
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce

CONFIGS = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-256", "sasl.username=u", "sasl.password=p")
LOGIN = [word for each in CONFIGS for word in ("-X", each)]


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


@pytest.mark.parametrize("command", [("topics", "list"), ("produce", "t"), ("consume", "t")], ids=" ".join)
def test_a_login_that_fails_is_said_once_in_words_of_kafka(command: tuple[str, ...]) -> None:
    with LocalKafka() as kafka:
        ended = completed(*command, "-b", kafka.address, *LOGIN, stdin=b"x\n")
    assert (ended.returncode, ended.stderr) == (
        1,
        f"odradek: {kafka.address}: this listener asks for no SASL: "
        "set security.protocol to PLAINTEXT, or connect to the port of a SASL listener\n",
    )


def test_a_producer_that_tries_to_log_in_again_says_why() -> None:
    with LocalKafka(users={"u": "p"}) as kafka:
        kafka.create_topic("t")
        args = command_line(kafka.address, "produce", "t", *LOGIN)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(args, **pipes, text=True) as running:
            try:
                lines = Lines(running)
                assert running.stdin is not None
                print("first", file=running.stdin, flush=True)
                kafka.wait_for(records=1, topic="t", within=20)
                with Admin(**kafka.options("odradek")) as admin:
                    admin.alter_user_scram_credentials(ScramPassword("u", "SCRAM-SHA-256", "other"))
                kafka.cut()
                print("second", file=running.stdin, flush=True)
                said = lines.next(20)
            finally:
                running.kill()
    assert said is not None and said.startswith(f"odradek: {kafka.address}: the broker rejects the user 'u'")


async def test_each_reason_of_a_failed_login_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    async with login_notice():
        for address in ("h:1", "h:2", "h:1", "h:2"):
            login_log.warning("%s: the broker rejects the user 'u'", address)
    said = capsys.readouterr().err
    assert said == "".join(f"odradek: {address}: the broker rejects the user 'u'\n" for address in ("h:1", "h:2"))
