"""Where compiled kernels are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="kernels need numba (extra `spark`)")

# numba can write neither beside the module nor in the user's own folder, as in a read-only container.
PROGRAM = """
import numba.core.caching as caching

def refuse(self):
    raise OSError("read-only")

for name in dir(caching):  # with an underscore in front or not, by numba's version
    if name.strip("_").startswith(("InTreeCacheLocator", "UserWideCacheLocator")):
        getattr(caching, name).ensure_cache_path = refuse

from odradek.client.spark.memory import clear_bit, kernel

def twice(number):
    return 2 * number

twice.__code__ = twice.__code__.replace(co_filename=clear_bit.py_func.__code__.co_filename)
assert kernel(twice)(21) == 42
"""


def compile_in(folder: Path) -> None:
    environment = {"TMPDIR": str(folder), "HOME": str(folder), "PATH": ""}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, cwd="/", check=True)


def test_where_numba_has_no_folder_kernels_are_kept_in_a_private_one(tmp_path: Path) -> None:
    compile_in(tmp_path)
    (folder,) = tmp_path.glob("odradek-numba-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.rglob("*.nbc"))


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    folder = tmp_path / f"odradek-numba-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    compile_in(tmp_path)
    assert list(folder.rglob("*")) == []
