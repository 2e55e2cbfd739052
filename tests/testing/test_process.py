"""A broker in a process of its own: what is acknowledged survives a kill."""

from __future__ import annotations

import pytest
from odradek.testing import KafkaProcess
from odradek.testing.errors import Unavailable


def test_what_is_acknowledged_survives_a_kill(kafka_process: KafkaProcess) -> None:
    address = kafka_process.address
    kafka_process.put("t", ["v"])
    kafka_process.kill()
    with pytest.raises(Unavailable, match=r"call restart\(\)"):
        kafka_process.pause()
    kafka_process.restart()
    assert [each.value for each in kafka_process.records("t")] == [b"v"]
    kafka_process.pause()
    kafka_process.resume()
    kafka_process.restart()
    assert kafka_process.address == address
    assert len(kafka_process.records("t")) == 1


def test_a_process_that_does_not_start_says_why() -> None:
    with pytest.raises(Unavailable, match="did you mean log"):
        KafkaProcess({"log.retentionn.ms": 1})
