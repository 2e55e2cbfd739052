"""The Java runtime of this machine, as Spark finds it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

# Spark 4.2 starts with no older one.
SPARK_NEEDS = 17


def require_spark_java() -> None:
    """Skip the test where Spark cannot start: without a Java runtime, or with one that is too old."""
    version = runtime_version()
    if version < SPARK_NEEDS:
        found = f"Java {version}" if version else "no Java runtime"
        pytest.skip(f"Spark needs Java {SPARK_NEEDS} or newer; {found} was found (set JAVA_HOME or install one)")


@cache
def runtime_version() -> int:
    """Return the major version of the Java runtime, 0 without one. On macOS, `java` may only print a notice."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if program is None or not Path(program).is_file():
        return 0
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    # Before Java 9 the first number is 1.
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0
