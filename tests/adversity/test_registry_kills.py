"""Two registries over one topic, killed while clients register: no answer is lost, and no id has two schemas."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.client.errors import SchemaRegistryUnavailable
from odradek.client.schemas import Schema, SchemaRegistry
from odradek.tests.support.brokers.process import FEW_PARTITIONS, free_port

KILLS, CLIENTS = 2, 3


class Running:
    """A registry process, always at the same port."""

    def __init__(self, broker: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._command = [sys.executable, "-m", "odradek", "registry", "-b", broker, "--listen", f"127.0.0.1:{port}"]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready "), self.process.communicate(timeout=30)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path),), **FEW_PARTITIONS)
    with Broker(config) as broker:
        yield broker


def schema(subject: int, number: int) -> Schema:
    return Schema(
        json.dumps({"type": "enum", "name": f"E{subject}", "symbols": [f"S{number}"], "default": f"S{number}"})
    )


def register(urls: list[str], subject: int, answered: dict[int, str], ended: threading.Event) -> None:
    """Register one schema after another, at one registry or the other, and note what was answered."""
    choice, number = random.Random(subject), 0
    while not ended.is_set():
        # A registry that is killed in the middle may have done it: the same schema again is the same id.
        client = SchemaRegistry(choice.choice(urls), timeout_ms=3_000)
        wanted = schema(subject, number)
        try:
            answered[client.register(f"s{subject}", wanted)] = wanted.text
            number += 1
            # Without a pause the survivor writes as fast as it can while the other one starts.
            ended.wait(0.02)
        except SchemaRegistryUnavailable:
            continue


def test_killed_registries_lose_no_answer_and_give_no_id_twice(broker: Broker) -> None:
    registries = [Running(broker.address), Running(broker.address)]
    urls, ended = [each.url for each in registries], threading.Event()
    answers: list[dict[int, str]] = [{} for _ in range(CLIENTS)]
    threads = [
        threading.Thread(target=register, args=(urls, number, answers[number], ended)) for number in range(CLIENTS)
    ]
    try:
        for each in threads:
            each.start()
        for kill in range(KILLS):
            before = sum(map(len, answers))
            while sum(map(len, answers)) < before + 5:
                ended.wait(0.02)
                assert all(each.is_alive() for each in threads)
            victim = registries[kill % 2]
            victim.kill()
            victim.start()
        ended.set()
        for each in threads:
            each.join()
        for url in urls:
            client = SchemaRegistry(url)
            for number, answered in enumerate(answers):
                for schema_id, text in answered.items():
                    assert json.loads(client.schema(schema_id).text) == json.loads(text)
                latest = client.latest(f"s{number}")
                assert latest.version >= len(answered)
        ids = [schema_id for answered in answers for schema_id in answered]
        assert len(ids) == len(set(ids)) >= KILLS * 5
    finally:
        ended.set()
        for each in threads:
            each.join()
        for each in registries:
            each.kill()
