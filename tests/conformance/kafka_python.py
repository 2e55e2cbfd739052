"""Runs kafka-python 3's own integration tests against a broker: python tests/conformance/kafka_python.py HOST:PORT

They come from its source distribution on PyPI, fetched once into `.cache/kafka-python`; they are not part of this
project. They expect a broker with `node.id=0`, with `advertised.listeners`, with topics of four partitions that are
created by themselves, and with `group.min.session.timeout.ms` of 1 s or less.
Exit status 1 where one does not pass that should.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path

VERSION = "3.0.12"
SOURCE = (
    "https://files.pythonhosted.org/packages/bb/a9/e8b96f7f71aacd94faf1db0feb9750bf557b17bd22b0595023c88c1f0eb2/"
    f"kafka_python-{VERSION}.tar.gz"
)
SHA256 = "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65"
CACHE = Path(os.environ.get("KAFKA_PYTHON_DIR") or Path(__file__).parents[2] / ".cache" / "kafka-python")
# The release whose set of APIs is like ours, to kafka-python.
PRETENDED_KAFKA = "4.3.0"
WITHIN_S = 300

# What these ask for is not served: why.
NOT_SERVED = {
    "test_create_describe_delete_acls": "needs an authorizer, and there is none yet",
    "test_alter_replica_log_dirs": "it moves a partition to another directory, which is refused",
}
# The sources leave out one module of the tests; against a broker that runs already it has nothing to do.
SERVICE = """class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", metavar="HOST:PORT")
    results = run(parser.parse_args().address)
    for name, result in results.items():
        print(f"{name:<70} | {result}")
    sys.exit(any(not result.startswith(("passed", "skipped", "given up")) for result in results.values()))


def run(address: str) -> dict[str, str]:
    """Test -> passed, failed, or skipped or given up with the reason."""
    folder = fetched()
    environment = os.environ | {
        "KAFKA_URI": f"kafka://{address}",
        "KAFKA_VERSION": PRETENDED_KAFKA,
        "KAFKA_ROOT": str(folder),
        "PYTHONPATH": str(folder),
    }
    # Its own options need plugins that it does not need to run.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts="]
    command += ["-rA", "-q", "--tb=line", "--show-capture=no"]
    command += ["test/integration/test_admin_integration.py", "test/integration/test_consumer_integration.py"]
    command += ["test/integration/test_producer_integration.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    found = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (?:\[\d+\] )?test/integration/(\S+)(.*)$", done.stdout, re.M)
    assert found, f"no test ran: {done.stdout[-500:]} {done.stderr[-500:]}"
    return {name: verdict(result, name, why) for result, name, why in found}


def verdict(result: str, name: str, why: str) -> str:
    reason = NOT_SERVED.get(name.partition("::")[2].partition("[")[0])
    if reason is not None and result == "FAILED":
        return f"given up: {reason}"
    return {"PASSED": "passed", "SKIPPED": f"skipped:{why}"}.get(result, f"failed{why[:120]}")


def fetched() -> Path:
    """The folder of the sources, fetched and unpacked at the first call."""
    folder = CACHE / f"kafka_python-{VERSION}"
    if not folder.is_dir():
        with urllib.request.urlopen(SOURCE, timeout=60) as answer:
            data: bytes = answer.read()
        assert hashlib.sha256(data).hexdigest() == SHA256, f"{SOURCE} is not what it was"
        CACHE.mkdir(parents=True, exist_ok=True)
        archive = CACHE / "source.tar.gz"
        archive.write_bytes(data)
        with tarfile.open(archive) as files:
            files.extractall(CACHE, filter="data")
        # Beside a package of the standard library with the same name it must be a package too.
        (folder / "test" / "__init__.py").touch()
        (folder / "test" / "service.py").write_text(SERVICE)
    return folder


if __name__ == "__main__":
    main()
