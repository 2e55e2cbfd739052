"""`odradek serve --ephemeral --with-parent`: a broker for the tests of any language, which leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from odradek.tests.support.brokers.lines import first_line

SERVE = [sys.executable, "-m", "odradek", "serve", "--ephemeral"]
# A parent that starts a broker, says what it said, and dies without a word to it.
PARENT = """if True:
    import os, subprocess, sys
    child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    print(child.pid, child.stdout.readline().strip(), flush=True)
    sys.stdin.readline()
    os._exit(1)
"""
# A broker that begins when its parent has died.
ORPHAN = """if True:
    import os, sys
    parent = os.getpid()
    if os.fork(): os._exit(0)
    while os.getppid() == parent: pass
    os.execv(sys.argv[1], sys.argv[1:])
"""


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp_path)}


def test_an_ephemeral_broker_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(
        SERVE, stdout=subprocess.PIPE, cwd=tmp_path, env=environment(tmp_path / "temporary"), text=True
    )
    assert process.stdout is not None
    with process, process.stdout:
        word, address = first_line(process).split()
        assert word == "ready" and address.startswith("127.0.0.1:") and not address.endswith(":9092")
        producer = Producer({"bootstrap.servers": address})
        producer.produce("t", b"v")
        assert producer.flush(20) == 0
        assert list((tmp_path / "temporary").iterdir()) != []
        process.terminate()
        assert process.wait(30) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["temporary"]
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_broker_ends_with_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, *SERVE, "--with-parent"]
    pipe = subprocess.PIPE
    parent = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment(tmp_path), cwd=tmp_path, text=True)
    assert parent.stdin is not None and parent.stdout is not None
    with parent, parent.stdin, parent.stdout:
        pid, word, _ = first_line(parent).split()
        assert word == "ready"
        parent.kill()
        parent.wait(60)
        deadline = time.monotonic() + 60
        while list(tmp_path.iterdir()):
            assert time.monotonic() < deadline, f"broker {pid} lives on"
            time.sleep(0.02)


def test_a_broker_that_begins_after_the_end_of_its_parent_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ORPHAN, *SERVE, "--with-parent"]
    pipe = subprocess.PIPE  # which ends with the broker
    subprocess.run(command, env=environment(tmp_path), stdout=pipe, timeout=60, start_new_session=True, check=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--data-dir", "d"], "--ephemeral keeps nothing: leave log.dirs (d) out"),
        (["--set", "log.dir=d"], "--ephemeral keeps nothing: leave log.dir (d) out"),
        (["--secure"], "--secure keeps certificates and a user"),
    ],
)
def test_what_would_keep_something_is_refused(options: list[str], said: str, tmp_path: Path) -> None:
    done = subprocess.run([*SERVE, *options], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2 and said in done.stderr
    assert list(tmp_path.iterdir()) == []
