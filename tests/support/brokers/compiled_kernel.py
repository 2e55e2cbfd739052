"""The compiled kernel of this tree: that of `make env`, or one that is built, once for each state of its source."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module, util
from pathlib import Path
from types import ModuleType

import pytest
from odradek.kernel import door

ROOT = Path(__file__).parents[3]
SOURCES = [ROOT / "kernel" / "loops.pyx", *sorted((ROOT / "kernel").glob("*.pxi"))]


@cache
def compiled_kernel() -> ModuleType | str:
    """Return the kernel of this tree, or why there is none."""
    installed = util.find_spec("odradek.kernel.loops")
    newest = max(each.stat().st_mtime for each in SOURCES)
    if installed is not None and Path(str(installed.origin)).stat().st_mtime >= newest:
        return import_module("odradek.kernel.loops")
    if util.find_spec("Cython") is None or util.find_spec("setuptools") is None:
        return "Cython and setuptools are needed to build the kernel"
    texts = {each.name: each.read_bytes() for each in SOURCES}
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    digest = hashlib.sha256(b"".join(texts.values()) + suffix.encode()).hexdigest()[:16]
    folder = ROOT / ".cache" / "kernel" / digest
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes of the same run wait for it
        built = folder / f"loops{suffix}"
        if not built.exists():
            for name, text in texts.items():
                (folder / name).write_bytes(text)
            command = [sys.executable, "-m", "Cython.Build.Cythonize", "--inplace", "-3", "loops.pyx"]
            ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if ended.returncode:
                return f"the kernel cannot be built: {(ended.stdout + ended.stderr)[-300:]}"
    spec = util.spec_from_file_location("loops", built)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needed_kernel() -> ModuleType:
    """Return the kernel, or skip the test."""
    found = compiled_kernel()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@contextmanager
def records_by(which: str) -> Iterator[None]:
    """Have records decoded and encoded by "Python" or by the "kernel"."""
    before = door.compiled
    door.compiled = needed_kernel() if which == "kernel" else None  # type: ignore[assignment]
    try:
        yield
    finally:
        door.compiled = before
