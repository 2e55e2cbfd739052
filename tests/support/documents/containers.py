"""Container engines, for tests of docker/: Docker or Podman, and what starts the services of a compose file."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from odradek import __version__

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
IMAGE = "odradek-test"
BECOMES_WITHIN_S = 120.0


class Engine:
    """Docker or Podman."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: str) -> str:
        ended = subprocess.run([self.name, *args], cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)
        return ended.stdout.strip()

    def build(self) -> None:
        """Build the image of docker/Dockerfile, as IMAGE."""
        # Images in Podman's own format have no health check.
        form = ["--format", "docker"] if self.name == "podman" else []
        self("build", "-q", *form, "-f", str(DOCKERFILE), "--build-arg", f"VERSION={__version__}", "-t", IMAGE, ".")

    def health(self, container: str) -> str:
        """What the engine says of a container's health. Podman without systemd checks only when it is told to."""
        if self.name == "podman":
            subprocess.run([self.name, "healthcheck", "run", container], check=False, capture_output=True, timeout=60)
        return self("inspect", container, "--format", "{{.State.Health.Status}}")


def engine_with(*images: str) -> Engine:
    """Return an engine that works here and has, or can get, these images; otherwise skip the test."""
    for name in ("docker", "podman"):
        if shutil.which(name) and ended_well(name, "info"):
            break
    else:
        pytest.skip("no container engine runs here")
    for image in images:
        if not (ended_well(name, "image", "inspect", image) or ended_well(name, "pull", image)):
            pytest.skip(f"{name} cannot get {image}")
    if images and not ended_well(name, "run", "--rm", images[0], "true"):
        pytest.skip(f"{name} cannot run a container here")
    return Engine(name)


def ended_well(*command: str) -> bool:
    """Whether a command ends with status 0."""
    return subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 0


def wait_for(wanted: str, ask: Callable[[], str]) -> None:
    """Ask again and again until the answer is the wanted one."""
    deadline = time.monotonic() + BECOMES_WITHIN_S
    while (found := ask()) != wanted:
        assert time.monotonic() < deadline, f"{found}, not {wanted}"


def base_image() -> str:
    """Return the image that what docker/Dockerfile builds runs on."""
    lines = DOCKERFILE.read_text(encoding="utf-8").splitlines()
    return [line.split()[1] for line in lines if line.startswith("FROM ")][-1]


@contextmanager
def composed(file: Path, services: tuple[str, ...], folder: Path) -> Iterator[None]:
    """Build and start the services of a compose file; stop and remove them, and their volumes, at the end.

    `services` get limits that an engine can set which has none of the system's privileges itself.
    """
    limits = folder / "limits.yaml"
    low = "    ulimits:\n      nofile: 4096\n      nproc: 4096\n"
    limits.write_text("services:\n" + "".join(f"  {service}:\n{low}" for service in services))
    compose = [*_composer(), "-f", str(file), "-f", str(limits), "-p", "odradek-test"]
    try:
        up = [*compose, "up", "-d", "--build"]
        started = subprocess.run(up, capture_output=True, text=True, timeout=300, check=False)
        assert started.returncode == 0, started.stdout + started.stderr
        yield
    finally:
        subprocess.run([*compose, "down", "-v"], check=True, capture_output=True, timeout=120)


def _composer() -> list[str]:
    if ended_well("docker", "compose", "version") and ended_well("docker", "info"):
        return ["docker", "compose"]
    if shutil.which("podman-compose"):
        return ["podman-compose", "--podman-build-args=--format docker"]
    pytest.skip("neither docker compose nor podman-compose runs here")


def skip_if_taken(*addresses: str) -> None:
    """Skip the test where a broker has one of the published ports."""
    for address in addresses:
        if ended_well(sys.executable, "-m", "odradek", "ping", "-b", address):
            pytest.skip(f"a broker has the published port of {address} already")


def odradek(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command of this machine."""
    command = [sys.executable, "-m", "odradek", *args]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)
