"""`make release`: build a release into dist/, and try it as a new user would.

Makes the sdist and a wheel of this machine's Python (`cibuildwheel` makes those of the others, with what pyproject.toml
says), checks their metadata, and installs them into an empty environment of each Python that is here, with pip and with
uv. There it runs the first minute of the README. Then it builds the image, or runs the image's steps in a folder where
no daemon builds it, and runs the same minute there. Needs what the extra `release` brings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PYTHONS = [f"python3.{minor}" for minor in range(11, 16)]
_LONG_S = 900
# The image has 250 MB with its base, python:slim, which has 45 as a registry counts them.
_MAX_IMAGE_MIB = 350

# The first minute. `ready` is the broker's first line.
_MINUTE = """
set -eu
cd "$(mktemp -d)"
odradek serve --listen 127.0.0.1:0 > ready & broker=$!
trap 'kill $broker; wait $broker' EXIT
for _ in $(seq 100); do [ -s ready ] && break; sleep 0.1; done
address=$(sed 's/ready //' ready)
odradek topics create numbers --partitions 2 -b "$address"
seq 1000 | odradek produce numbers -b "$address"
[ "$(odradek consume numbers --until-end -b "$address" | wc -l)" = 1000 ]
python -m odradek ping -b "$address"
"""
_SQL = """
[ "$(odradek sql 'select count(*) from numbers' --csv -b "$address" | tail -1)" = 1000 ]
"""


def main() -> None:
    """Build, check, install, run."""
    shutil.rmtree(DIST, ignore_errors=True)
    step("build the sdist and a wheel", [sys.executable, "-m", "build", "--outdir", DIST, ROOT])
    step("check the metadata", [sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir()])
    (wheel,) = DIST.glob("*.whl")
    (sdist,) = DIST.glob("*.tar.gz")
    for python in PYTHONS:
        # A wheel with the kernel is for one Python.
        is_ours = python == f"python3.{sys.version_info.minor}"
        for built in [wheel, sdist] if is_ours else [sdist]:
            if is_there(python):
                try_release(python, built)
            else:
                print(f"   {python}: not on this machine, not tried")
    try_image()
    print(f"dist/ is ready: {', '.join(sorted(each.name for each in DIST.iterdir()))}")


def is_there(python: str) -> bool:
    """Return whether a command of Python runs: a version manager has commands for versions that it lacks."""
    return shutil.which(python) is not None and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def try_release(python: str, built: Path) -> None:
    """Install what was built into an empty environment, by pip and by uv, and run the first minute."""
    for installer in ("pip", "uv"):
        with tempfile.TemporaryDirectory() as folder:
            environment = Path(folder) / "venv"
            step(f"{python}: an empty environment", [python, "-m", "venv", environment])
            command = [environment / "bin" / "python", "-m", "pip", "install", "--quiet"]
            if installer == "uv":
                command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", environment]
            step(f"{python}: {installer} install {built.name}", [*command, built])
            path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
            step(f"{python}: the first minute", ["sh", "-c", _MINUTE], PATH=path)


def try_image() -> None:
    """Build the image, or run its steps in a folder, and run the first minute there."""
    if shutil.which("docker") and not subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        return step("the image", ["docker", "build", "-f", ROOT / "docker" / "Dockerfile", "-t", "odradek", ROOT])
    with tempfile.TemporaryDirectory() as folder:
        installed = Path(folder) / "odradek"
        step("the image: its steps in a folder, for want of a daemon", ["sh", "-euc", image_steps(installed)])
        size = sum(each.lstat().st_size for each in installed.rglob("*") if each.is_file()) >> 20
        print(f"   {size} MiB beside the base image")
        if size > _MAX_IMAGE_MIB:
            sys.exit(f"the image is to have at most {_MAX_IMAGE_MIB} MiB beside the base image")
        path = f"{installed / 'bin'}{os.pathsep}{os.environ['PATH']}"
        step("the image: the first minute", ["sh", "-c", _MINUTE + _SQL], PATH=path)


def image_steps(installed: Path) -> str:
    """Return what the image's first stage runs, for this machine's Python and another folder than the image's."""
    stage = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")[1].replace("\\\n", " ")
    steps = f"cd {ROOT}\n" + "\n".join(re.findall(r"^RUN (.*)", stage, re.MULTILINE))
    steps = steps.replace("/tmp/", f"{installed.parent}/").replace("/opt/odradek", str(installed))
    here = f"python3.{sys.version_info.minor}"
    return re.sub(r"python3\.\d+", here, steps).replace("python -", f"{sys.executable} -")


def step(what: str, command: list[str | Path], **environment: str) -> None:
    """Run a command, and end where it fails."""
    print(f"-- {what}", flush=True)
    ended = subprocess.run(command, env=os.environ | environment, check=False, timeout=_LONG_S)
    if ended.returncode:
        sys.exit(f"{what}: status {ended.returncode}")


if __name__ == "__main__":
    main()
