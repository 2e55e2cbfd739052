"""The machine code of kernels: compiled once on a host, loaded without numba, kept where only its user can write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="kernels need numba (extra `spark`)")

ROOT = Path(__file__).parents[3]

# Asks for the machine code as a task does.
PROGRAM = """
import ctypes, sys
from pathlib import Path
from odradek.client.spark.machine_code import Kernels
import odradek.tests.client.spark as here

kernels = Kernels("odradek.tests.client.spark.small_kernels", (Path(here.__path__[0], "small_kernels.py"),))
functions = kernels.load()
number = ctypes.c_int64(21)
assert functions["double_at"](ctypes.addressof(number)) == 21
assert number.value == 42
assert functions["add"](-(2**62), 5) == 5 - 2**62
print(kernels.path, "numba" in sys.modules)
"""


def environment(**more: str) -> dict[str, str]:
    """One in which no folder of another test is found."""
    kept = {name: text for name, text in os.environ.items() if name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")}
    return kept | more


def start(**more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment(**more), cwd="/", stdout=subprocess.PIPE, text=True
    )


def ended(process: subprocess.Popen[str]) -> tuple[Path, bool]:
    """Where the machine code is, and whether the process loaded numba."""
    said, _ = process.communicate()
    assert process.returncode == 0
    path, loaded = said.split()
    return Path(path), loaded == "True"


def test_processes_that_start_together_compile_once_and_later_ones_need_no_numba(tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    settings = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "COMPILATIONS": str(counted)}
    together = [start(**settings) for _ in range(3)]
    found = [ended(each) for each in together]
    assert len({path for path, _ in found}) == 1
    assert sum(loaded for _, loaded in found) == 1
    path, loaded = ended(start(**settings))
    assert not loaded
    assert counted.read_text() == "compiled\n"
    # A file that was damaged is compiled again.
    path.write_bytes(path.read_bytes()[:-1])
    assert ended(start(**settings)) == (path, True)


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    shared, home = tmp_path / "shared", tmp_path / "home"
    shared.mkdir()
    shared.chmod(0o777)
    code = (
        "from pathlib import Path; from odradek.client.spark import machine_code; machine_code._HERE = Path('/proc');"
        "print(machine_code.folder())"
    )
    command = [sys.executable, "-c", code]
    settings = environment(NUMBA_CACHE_DIR=str(shared), HOME=str(home), TMPDIR=str(tmp_path))

    def chosen() -> Path:
        said = subprocess.run(command, env=settings, cwd="/", capture_output=True, text=True, check=True).stdout
        return Path(said.strip())

    assert chosen() == home / ".cache" / "odradek"
    (home / ".cache" / "odradek").chmod(0o777)
    private = chosen()
    assert private == tmp_path / f"odradek-kernels-{os.getuid()}"
    assert private.stat().st_mode & 0o777 == 0o700
    private.chmod(0o777)
    failed = subprocess.run(command, env=settings, cwd="/", capture_output=True, text=True, check=False)
    assert "no folder for compiled kernels" in failed.stderr


def test_a_kernel_that_calls_python_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.client.spark import machine_code
    from odradek.client.spark.errors import CompilationFailed
    from odradek.tests.client.spark import small_kernels

    def speak(number: int) -> int:
        print(number)
        return number

    monkeypatch.setattr(small_kernels, "KERNELS", (speak,))
    with pytest.raises(CompilationFailed, match="kernels must not call"):
        machine_code.compiled(small_kernels.__name__)
