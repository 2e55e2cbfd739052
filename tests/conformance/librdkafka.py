"""Runs librdkafka 2.0.2's own tests against a broker: python tests/conformance/librdkafka.py HOST:PORT [TEST...]

The runner is built once (a C++ compiler, make and zlib's headers are needed, lz4's and zstd's are welcome) from the
source in Debian into `.cache/librdkafka`, or into LIBRDKAFKA_DIR where that is set. It expects topics to be created by
themselves with four partitions (`--set num.partitions=4`). Each test runs in a process of its own, because a hung one
would take the others with it. Parts that need no broker are skipped. Exit status 1 where one does not pass.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

SOURCE = "http://deb.debian.org/debian/pool/main/libr/librdkafka/librdkafka_2.0.2.orig.tar.gz"
SHA256 = "f321bcb1e015a34114c83cf1aa7b99ee260236aab096b85c003170c90a47ca9d"
CACHE = Path(os.environ.get("LIBRDKAFKA_DIR") or Path(__file__).parents[2] / ".cache" / "librdkafka")
TESTS = ("0012", "0001", "0002", "0005", "0011", "0013", "0017", "0073", "0039", "0030", "0018")
SLOWEST_TEST_S = 300
PRETENDED_KAFKA = "3.9.0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("tests", nargs="*", metavar="TEST", default=TESTS)
    options = parser.parse_args()
    results: dict[str, str] = {}
    for test in options.tests:
        found = run(options.address, test)
        print("".join(f"{name:<40} | {result}\n" for name, result in found.items()), end="", flush=True)
        results |= found
    sys.exit(any(result not in ("PASSED", "SKIPPED") for result in results.values()))


def run(address: str, test: str) -> dict[str, str]:
    """Runs a test by its number, and its parts: name -> PASSED, FAILED, SKIPPED, HUNG or CRASHED."""
    folder = built()
    with tempfile.TemporaryDirectory() as scratch:
        settings = Path(scratch) / "test.conf"
        settings.write_text(f"bootstrap.servers={address}\nbroker.address.family=v4\n")
        environment = os.environ | {
            "RDKAFKA_TEST_CONF": str(settings),
            "LD_LIBRARY_PATH": "../src:../src-cpp",
            "TESTS": test,
            "TEST_KAFKA_VERSION": PRETENDED_KAFKA,
        }
        command = ["./test-runner", "-L", "-E", "-p1"]
        log = CACHE / f"{test}.log"
        with log.open("wb") as output:
            try:
                done = subprocess.run(
                    command,
                    cwd=folder / "tests",
                    env=environment,
                    stdout=output,
                    stderr=output,
                    timeout=SLOWEST_TEST_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return {test: "HUNG"}
    found = results_of(log.read_text(errors="replace"))
    return found or {test: f"CRASHED (status {done.returncode}, see {log})"}


def results_of(text: str) -> dict[str, str]:
    """The `| name | PASSED | 1.0s |` lines. The exit status of the runner says nothing."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    rows = re.findall(r"^\|\s*(\d{4}_\S+)\s*\|\s*([A-Z]+)\s*\|", plain, re.MULTILINE)
    return dict(rows)


def built() -> Path:
    """The folder with a built runner."""
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / "librdkafka-2.0.2"
    if not (folder / "tests" / "test-runner").exists():
        if not folder.exists():
            unpack(folder)
        with (CACHE / "build.log").open("wb") as log:
            for command in (
                ["./configure", "--disable-gssapi"],
                ["make", "-j1", "libs"],
                ["make", "-C", "tests", "-j1", "build"],
            ):
                print(f"building librdkafka: {' '.join(command)}", file=sys.stderr, flush=True)
                subprocess.run(["nice", "-n", "15", *command], cwd=folder, stdout=log, stderr=log, check=True)
    return folder


def unpack(folder: Path) -> None:
    archive = CACHE / "librdkafka_2.0.2.orig.tar.gz"
    if not archive.exists():
        print(f"fetching {SOURCE}", file=sys.stderr, flush=True)
        urllib.request.urlretrieve(SOURCE, archive)
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        archive.unlink()
        raise SystemExit(f"{SOURCE} is not the file that it was")
    with tarfile.open(archive) as packed:
        packed.extractall(folder.parent, filter="data")


if __name__ == "__main__":
    main()
