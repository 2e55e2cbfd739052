"""`make release`: build a release into dist/, and try it as a new user would.

Makes the sdist and a wheel of this machine's Python (`cibuildwheel` makes those of the others, with what pyproject.toml
says), checks their metadata, and installs the wheel into an empty environment of each Python that is here, with pip and
with uv. There it runs the first minute of the README. Needs what the extra `release` brings. Refuses to call a release
ready whose addresses in pyproject.toml are placeholders.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PYTHONS = [f"python3.{minor}" for minor in range(11, 16)]
PLACEHOLDER = "odradek.invalid"
_LONG_S = 900

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


def main() -> None:
    """Build, check, install, run."""
    shutil.rmtree(DIST, ignore_errors=True)
    step("build the sdist and a wheel", [sys.executable, "-m", "build", "--outdir", DIST, ROOT])
    step("check the metadata", [sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir()])
    (wheel,) = DIST.glob("*.whl")
    (sdist,) = DIST.glob("*.tar.gz")
    for python in PYTHONS:
        if is_there(python):
            # A wheel with the kernel is for one Python.
            try_release(python, wheel if python == f"python3.{sys.version_info.minor}" else sdist)
        else:
            print(f"   {python}: not on this machine, not tried")
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    if any(PLACEHOLDER in each for each in urls.values()):
        sys.exit("dist/ is whole, but [project.urls] in pyproject.toml has placeholders: fill them in, then release")
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


def step(what: str, command: list[str | Path], **environment: str) -> None:
    """Run a command, and end where it fails."""
    print(f"-- {what}", flush=True)
    ended = subprocess.run(command, env=os.environ | environment, check=False, timeout=_LONG_S)
    if ended.returncode:
        sys.exit(f"{what}: status {ended.returncode}")


if __name__ == "__main__":
    main()
