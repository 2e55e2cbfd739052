"""pytest in a project of its own: in this process, or in another one where it is about the process."""

from __future__ import annotations

import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

# Other plugins take half a second to be imported, and some warn. That of faults writes to the outer one's stream.
_WITHOUT = ("cacheprovider", "asyncio", "anyio", "hypothesispytest", "xdist", "faulthandler")
_OPTIONS = ["-rs", "-W", "error", "--import-mode=importlib", *(f"-pno:{each}" for each in _WITHOUT)]
ASKED = "-podradek"


def run(folder: Path, text: str, *options: str) -> str:
    """Run a module of tests in a process of its own; return what pytest says."""
    (folder / "test_sample.py").write_text(text)
    command = [sys.executable, "-m", "pytest", *_OPTIONS, ASKED, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def run_here(folder: Path, text: str | None = None, *options: str) -> str:
    """Run the tests of a folder, which a module may be added to, in this process; return what pytest says."""
    if text is not None:
        (folder / "test_sample.py").write_text(text)
    said, finders, modules = StringIO(), [*sys.meta_path], {*sys.modules}
    try:
        with redirect_stdout(said), redirect_stderr(said):
            pytest.main([str(folder), f"--rootdir={folder}", *_OPTIONS, *options])
    finally:
        sys.meta_path[:] = finders
        # The next project has modules of the same names.
        for name in {*sys.modules} - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]
    return said.getvalue()
