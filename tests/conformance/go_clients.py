"""Go's clients: one program each, of the Go module in `go/`, and what their checks say of a broker.

`go build` takes the clients' modules from Go's own cache, where `make conformance` puts them: nothing is fetched here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import BrokerProcess

MODULE = Path(__file__).with_name("go")
# Where the programs are built to, once a run.
BUILT = Path(__file__).parents[2] / ".cache" / "go-clients"
# In Go's module: the folder of a program, and whose client it uses.
CLIENTS = {"franz": "franz-go", "sarama": "Sarama", "kafkago": "kafka-go"}
# What go.mod calls them.
MODULES = {
    "franz": "github.com/twmb/franz-go",
    "sarama": "github.com/IBM/sarama",
    "kafkago": "github.com/segmentio/kafka-go",
}
BUILD_WITHIN_S = 900
CHECK_WITHIN_S = 120

Row = tuple[str, str]


def of_each_client(process: BrokerProcess) -> Iterator[Row]:
    """Fetch the clients, and return a row for each check of each one that needs no secure listener."""
    if why := fetch():
        yield "Go's clients", f"skipped: {why}"
        return
    for client in CLIENTS:
        for check, result in rows(client, "-broker", process.address):
            yield f"{with_version(client)}, {check}", result


def fetch() -> str:
    """Fetch the clients' modules. Return why that is not possible, or nothing."""
    return run_go({}, "mod", "download") if shutil.which("go") else "no go"


def with_version(client: str) -> str:
    """Return the name of a client and its version in go.mod."""
    found = re.search(rf"^\t{re.escape(MODULES[client])} v(\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found, f"go.mod names no {client}"
    return f"{CLIENTS[client]} {found[1]}"


@cache
def missing() -> str:
    """Return why the programs cannot be built, or nothing."""
    if not shutil.which("go"):
        return "no go"
    if run_go({"GOPROXY": "off"}, "list", "-deps", *(f"./{name}" for name in CLIENTS)):
        return "the Go clients are not here: `make conformance` fetches them"
    return ""


def require_go() -> None:
    """Skip the test where the programs cannot be built."""
    if why := missing():
        pytest.skip(why)


def program(client: str) -> Path:
    """Return the program of a client, built from what is in Go's cache."""
    BUILT.mkdir(parents=True, exist_ok=True)
    said = run_go({"GOPROXY": "off"}, "build", "-o", str(BUILT / client), f"./{client}")
    assert not said, said
    return BUILT / client


def run_go(environment: dict[str, str], *arguments: str) -> str:
    """Return what a command of Go says where it fails, and nothing where it does not."""
    done = subprocess.run(
        ["go", *arguments],
        cwd=MODULE,
        env=os.environ | {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"} | environment,
        capture_output=True,
        text=True,
        timeout=BUILD_WITHIN_S,
        check=False,
    )
    return done.stderr.strip() or f"status {done.returncode}" if done.returncode else ""


def rows(client: str, *options: str, restart: Callable[[], None] | None = None) -> Iterator[Row]:
    """Run a program, and return what each of its checks said. `restart` is called when the program asks for it."""
    command = [str(program(client)), *options]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdin
    lines = Lines(process)
    said: list[str] = []
    try:
        while line := lines.next(CHECK_WITHIN_S):
            said.append(line)
            word, _, rest = line.strip().partition(" ")
            if word == "restart" and restart:
                restart()
                process.stdin.write("restarted\n")
                process.stdin.flush()
            elif word in ("ok", "failed"):
                name, _, why = rest.partition(": ")
                yield name, "passed" if word == "ok" else f"failed: {why}"
        status = process.wait(CHECK_WITHIN_S)
        assert status in (0, 1), f"{client} ended with status {status}: {''.join(said[-40:])}"
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        process.stdin.close()
        lines.rest()
