"""A broker in a process of its own: what is acknowledged survives a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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


def test_a_process_that_has_ended_by_itself_says_so_and_starts_again(kafka_process: KafkaProcess) -> None:
    os.kill(kafka_process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, kafka_process.pid, os.WEXITED | os.WNOWAIT)
    for call in (lambda: kafka_process.lose_power(1), kafka_process.pause, kafka_process.resume):
        with pytest.raises(Unavailable, match=r"ended by itself, with status -9: call restart\(\)"):
            call()
    kafka_process.restart()
    kafka_process.put("t", ["v"])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.kafka(config={"log.flush.interval.messages": 1})
def test_a_power_cut_leaves_what_was_forced_to_disk(kafka_process: KafkaProcess, seed: int) -> None:
    kafka_process.put("t", ["1", "2"])
    kafka_process.lose_power(seed)
    kafka_process.restart()
    assert [each.value for each in kafka_process.records("t")] == [b"1", b"2"]


def test_a_power_cut_may_take_what_was_not_forced_to_disk(kafka_process: KafkaProcess) -> None:
    left: set[int] = set()
    for seed in range(20):
        kafka_process.create_topic(f"t{seed}", config={"flush.messages": 1})
        kafka_process.put(f"t{seed}", ["forced"])
        kafka_process.configure({"flush.messages": 1_000_000}, topic=f"t{seed}")
        kafka_process.put(f"t{seed}", ["not forced"])
        kafka_process.lose_power(seed)
        kafka_process.restart()
        left.add(len(kafka_process.records(f"t{seed}")))
        if left == {1, 2}:
            return
    raise AssertionError(f"of two records there were always {left}")


def test_a_process_that_does_not_start_says_why() -> None:
    with pytest.raises(Unavailable, match="did you mean log"):
        KafkaProcess({"log.retentionn.ms": 1})


def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    """As of pytest-timeout, whose thread ends the process of the tests at once."""
    code = "import os; from odradek.testing import KafkaProcess as P; k = P(); print(k.pid, flush=True); os._exit(1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    pid, deadline_s = int(done.stdout), time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_the_next_one_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    code = "import os; from odradek.testing import LocalKafka as L, KafkaProcess as P; L(); P(); os._exit(1)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert list(tmp_path.glob("odradek-ephemeral-*"))
    code = code.replace("os._exit(1)", "").replace("L(); P()", "L().close()")
    deadline_s = time.monotonic() + 60
    while list(tmp_path.glob("odradek-ephemeral-*")):
        assert time.monotonic() < deadline_s
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "(zombie)" not in Path(f"/proc/{pid}/status").read_text() if Path(f"/proc/{pid}/status").exists() else True
