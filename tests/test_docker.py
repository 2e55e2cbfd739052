"""The image: its steps run as a script where no engine is, and what it starts is a broker that its check finds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from odradek import __version__
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.documents.containers import (
    DOCKERFILE,
    IMAGE,
    ROOT,
    Engine,
    base_image,
    composed,
    ended_well,
    engine_with,
    odradek,
    skip_if_taken,
    wait_for,
)

COMPOSE = (ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """(name, rest) of each instruction, without comments, with continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = filter(None, map(str.strip, text.replace("\\\n", " ").splitlines()))
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def all_of(name: str) -> list[str]:
    return [rest for each, rest in instructions() if each == name]


def command_of(text: str) -> list[str]:
    """The words behind CMD, in exec form: a shell in between would not pass signals on."""
    words: list[str] = json.loads(text.removeprefix("CMD").strip())
    return words


def on_free_port(words: list[str], data: Path) -> list[str]:
    """The command of a container, for a machine on which others may use its port and /data."""
    return [word.replace("0.0.0.0:9092", "127.0.0.1:0").replace("/data", str(data)) for word in words]


def test_its_steps_run_as_a_script(tmp_path: Path) -> None:
    """Python and the shell are real; pip, which needs a network, and the tools for users write down their arguments."""
    installed, tools = tmp_path / "opt", tmp_path / "tools"
    source = tmp_path / "source"
    tools.mkdir()
    source.mkdir()
    shutil.copy(ROOT / "pyproject.toml", source)
    (source / "docker").mkdir()
    (source / "docker" / "trim.sh").write_text(f'echo trim.sh "$@" >> {tmp_path}/calls\n')
    for name in ("useradd", "install", "pip"):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/calls\n')
        (tools / name).chmod(0o755)
    (tools / "python").symlink_to(sys.executable)
    steps = " \n".join(all_of("RUN"))
    steps = steps.replace("python -m venv /opt/odradek", f"mkdir -p {installed}/bin && cp {tools}/pip {installed}/bin")
    steps = steps.replace("/opt/odradek", str(installed))
    steps = steps.replace(" /tmp/dependencies", f" {tmp_path}/dependencies")
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["sh", "-euc", steps], cwd=source, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"]
    names = ("cluster", "certs", "oauth", "registry", "console", "avro", "json-schema", "sql", "objects")
    wanted = [*project["dependencies"], *(each for name in names for each in extras[name])]
    assert (tmp_path / "dependencies.txt").read_text().splitlines() == wanted
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["pip", "pip", "trim.sh", "useradd", "install"]
    assert "--no-deps ." in calls[1], "the dependencies are a layer of their own"


def test_the_dependencies_are_cached_while_only_the_code_changes() -> None:
    copies = [index for index, (name, _) in enumerate(instructions()) if name == "COPY"]
    first, second = (instructions()[index][1] for index in copies[:2])
    assert (first, second) == ("pyproject.toml .", ". .")
    between = instructions()[copies[0] : copies[1]]
    assert any("install" in rest for name, rest in between if name == "RUN")


def test_it_runs_as_a_user_that_is_a_number_with_labels_and_data_of_its_own() -> None:
    (user,) = all_of("USER")
    uid, _, gid = user.partition(":")
    assert uid.isdigit() and int(uid) > 0 and gid == uid, "without a group its processes are in that of root"
    assert f"--uid {uid} " in " ".join(all_of("RUN"))
    assert "org.opencontainers.image.version=" in " ".join(all_of("LABEL"))
    assert all_of("VOLUME") == ["/data"]


def test_compose_publishes_to_this_machine_alone_with_an_init_and_an_advertised_address() -> None:
    published = re.findall(r'^ +- "(.*:9092)"$', COMPOSE, re.MULTILINE)
    assert published and all(each.startswith("127.0.0.1:") for each in published)
    assert re.search(r"^ +init: true$", COMPOSE, re.MULTILINE)
    assert f"image: odradek:{__version__}" in COMPOSE and f'VERSION: "{__version__}"' in COMPOSE
    assert "--set=advertised.listeners=PLAINTEXT://localhost:9092" in COMPOSE
    assert "0.0.0.0" in COMPOSE


def serve_of(file: str) -> list[str]:
    """Return the command of a compose file's broker."""
    service = yaml.safe_load((ROOT / "docker" / file).read_text(encoding="utf-8"))["services"]["odradek"]
    command: list[str] = service["command"]
    return command


def test_the_secured_compose_file_starts_a_broker_with_console_and_registry(tmp_path: Path) -> None:
    local = re.compile(r"(0\.0\.0\.0|127\.0\.0\.1):\d+")
    words = [local.sub("127.0.0.1:0", each) for each in serve_of("compose-secure.yaml") if "advertised" not in each]
    (tmp_path / "data").mkdir()
    command = [sys.executable, "-m", "odradek", *(each.replace("/data", str(tmp_path / "data")) for each in words)]
    wanted = {"the console is ready https://", "the schema registry is ready https://"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as broker:
        lines = Lines(broker)
        while wanted:
            line = lines.next(60)
            assert line, wanted
            wanted = {each for each in wanted if each not in line}
        broker.terminate()
        lines.rest()
    assert broker.returncode == 0


def test_what_a_container_starts_is_a_broker_that_its_health_check_finds(tmp_path: Path) -> None:
    words = command_of(all_of("CMD")[0])
    in_compose = re.findall(r"^      - (\S+)$", COMPOSE.split("command:\n")[1].split("    #")[0], re.MULTILINE)
    assert " ".join(in_compose).replace("=", " ", 3) == " ".join(words), "compose starts what the image starts"
    (health,) = all_of("HEALTHCHECK")
    check = command_of(health[health.index("CMD") :])
    assert command_of(all_of("ENTRYPOINT")[0]) == ["odradek"] and check[0] == "odradek"
    command = [sys.executable, "-m", "odradek", *on_free_port(words, tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
        try:
            address = (Lines(broker).next(20) or "").split()[1]
            check = [word.replace("127.0.0.1:9092", address) for word in check[1:]]
            healthy = subprocess.run([sys.executable, "-m", "odradek", *check], capture_output=True, check=False)
        finally:
            broker.terminate()
    assert healthy.returncode == 0, healthy.stderr
    assert broker.returncode == 0
    sick = subprocess.run([sys.executable, "-m", "odradek", *check], capture_output=True, check=False)
    assert sick.returncode == 1


@pytest.fixture(scope="module")
def engine() -> Engine:
    """An engine with the image of docker/Dockerfile."""
    found = engine_with(base_image())
    found.build()
    return found


def test_an_engine_builds_and_starts_it_and_sees_its_health(engine: Engine) -> None:
    label = '{{index .Config.Labels "org.opencontainers.image.version"}}'
    assert engine("image", "inspect", IMAGE, "--format", label) == __version__
    container = engine("run", "-d", "--init", "-p", "127.0.0.1::9092", IMAGE)
    try:
        wait_for("healthy", lambda: engine.health(container))
        published = engine("port", container, "9092").splitlines()[0]
        assert ended_well(sys.executable, "-m", "odradek", "ping", "-b", published), "a program of the host reaches it"
        assert engine("exec", container, "sh", "-c", "id -u; id -g") == "10001\n10001"
        signal_broker = "kill -{} $(cat /proc/1/task/1/children)"
        engine("exec", container, "sh", "-c", signal_broker.format("STOP"))
        wait_for("unhealthy", lambda: engine.health(container))
        engine("exec", container, "sh", "-c", signal_broker.format("CONT"))
        wait_for("healthy", lambda: engine.health(container))
        engine("stop", container)
        assert engine("inspect", container, "--format", "{{.State.ExitCode}}") == "0", "SIGTERM is a clean stop"
    finally:
        engine("rm", "-f", "-v", container)


@pytest.mark.usefixtures("engine")
def test_the_compose_file_starts_a_broker_that_clients_of_this_machine_reach(tmp_path: Path) -> None:
    skip_if_taken("127.0.0.1:9092")
    with composed(ROOT / "docker" / "compose.yaml", ("odradek",), tmp_path):
        wait_for("0", lambda: str(odradek("ping", "-b", "localhost:9092").returncode))
        # The client is told an advertised address, and goes on there.
        sent = odradek("produce", "flights", "-b", "localhost:9092", stdin="UA 1545\n")
        assert sent.returncode == 0, sent.stderr
        read = odradek("consume", "flights", "--until-end", "-b", "localhost:9092")
        assert (read.returncode, read.stdout) == (0, "UA 1545\n"), read.stderr
