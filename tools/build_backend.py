"""A build backend: setuptools, plus the top-level modules `pyspark_odradek...`, by which Spark finds the data sources.

Spark looks through the folders of `sys.path` for modules named `pyspark_<something>` and takes their `DefaultSource`.
The repository's root is the package `odradek` itself and holds no other module, and setuptools' editable installs are
import hooks, which Spark does not search. So this backend writes a module for each source into wheels and editable
installs (PEP 517, PEP 660). RECORD lists them, so pip removes them with the rest.

Where there is a C compiler, setuptools and Cython build the kernel (`[[tool.setuptools.ext-modules]]`): into the wheel,
and for an editable install into `kernel/` of the clone. A build leaves no other files in the clone, and uses none of an
older build; plain setuptools does both.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - all other hooks are setuptools' own

MODULES = {
    f"{module}.py": f'''"""Lets Spark find the format "{format_name}" with no `register` call."""

from odradek.client.spark.{place} import {source} as DefaultSource

__all__ = ["DefaultSource"]
'''.encode()
    for module, format_name, place, source in (
        ("pyspark_odradek", "odradek", "source", "OdradekSource"),
        ("pyspark_odradek_archive", "odradek-archive", "table_sink", "TableSink"),
    )
}


EGG_INFO = Path("odradek.egg-info")
# What Cython makes of the kernel's sources, for the compiler.
GENERATED = Path("kernel/loops.c")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517. Returns the wheel's file name."""
    with _leftovers_removed(), tempfile.TemporaryDirectory() as scratch:
        settings = {**(config_settings or {}), "--global-option": ["build", "--build-base", scratch]}
        name = build_meta.build_wheel(wheel_directory, settings, metadata_directory)
    return _with_modules(wheel_directory, name)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660. Returns the wheel's file name."""
    with _leftovers_removed():
        name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    return _with_modules(wheel_directory, name)


def get_requires_for_build_wheel(config_settings=None):
    """PEP 517. Returns what a build needs besides setuptools."""
    with _leftovers_removed():
        return build_meta.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings=None):
    """PEP 660. Returns what a build needs besides setuptools."""
    with _leftovers_removed():
        return build_meta.get_requires_for_build_editable(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """PEP 517. Returns the name of the .dist-info folder."""
    with _leftovers_removed():
        return build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    """PEP 660. Returns the name of the .dist-info folder."""
    with _leftovers_removed():
        return build_meta.prepare_metadata_for_build_editable(metadata_directory, config_settings)


@contextmanager
def _leftovers_removed() -> Iterator[None]:
    """Remove what setuptools and Cython write into the clone, which is of no further use."""
    was_there = EGG_INFO.exists()
    try:
        yield
    finally:
        GENERATED.unlink(missing_ok=True)
        if not was_there:
            shutil.rmtree(EGG_INFO, ignore_errors=True)


def _with_modules(folder: str, name: str) -> str:
    """Write the wheel again with the modules in it and in its RECORD. A zip entry cannot be replaced in place."""
    path = Path(folder, name)
    with zipfile.ZipFile(path) as wheel:
        entries = [(info, wheel.read(info)) for info in wheel.infolist()]
    lines = b"".join(_record_line(module, text) for module, text in MODULES.items())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for module, text in MODULES.items():
            # A fixed time, so that the same sources make the same wheel.
            wheel.writestr(zipfile.ZipInfo(module), text, zipfile.ZIP_DEFLATED)
        for info, data in entries:
            wheel.writestr(info, lines + data if info.filename.endswith(".dist-info/RECORD") else data)
    return name


def _record_line(module: str, text: bytes) -> bytes:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
    return f"{module},sha256={digest},{len(text)}\n".encode()
