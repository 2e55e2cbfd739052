"""A build backend: setuptools, plus the top-level module `pyspark_odradek`, by which Spark finds the data source.

Spark looks through the folders of `sys.path` for modules named `pyspark_<something>` and takes their `DefaultSource`.
The repository's root is the package `odradek` itself and holds no other module, and setuptools' editable installs are
import hooks, which Spark does not search. So this backend writes the module into wheels and editable installs (PEP 517,
PEP 660). RECORD lists it, so pip removes it with the rest.

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

MODULE = "pyspark_odradek.py"
TEXT = b'''"""Lets `spark.read.format("odradek")` work with no `register` call: Spark imports it for its name."""

from odradek.client.spark.source import OdradekSource as DefaultSource

__all__ = ["DefaultSource"]
'''


EGG_INFO = Path("odradek.egg-info")
# What Cython makes of the kernel's sources, for the compiler.
GENERATED = Path("kernel/loops.c")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517. Returns the wheel's file name."""
    with _leftovers_removed(), tempfile.TemporaryDirectory() as scratch:
        settings = {**(config_settings or {}), "--global-option": ["build", "--build-base", scratch]}
        name = build_meta.build_wheel(wheel_directory, settings, metadata_directory)
    return _with_module(wheel_directory, name)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660. Returns the wheel's file name."""
    with _leftovers_removed():
        name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    return _with_module(wheel_directory, name)


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


def _with_module(folder: str, name: str) -> str:
    """Write the wheel again with the module in it and in its RECORD. A zip entry cannot be replaced in place."""
    path = Path(folder, name)
    with zipfile.ZipFile(path) as wheel:
        entries = [(info, wheel.read(info)) for info in wheel.infolist()]
    digest = base64.urlsafe_b64encode(hashlib.sha256(TEXT).digest()).rstrip(b"=").decode()
    line = f"{MODULE},sha256={digest},{len(TEXT)}\n".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        # A fixed time, so that the same sources make the same wheel.
        wheel.writestr(zipfile.ZipInfo(MODULE), TEXT, zipfile.ZIP_DEFLATED)
        for info, data in entries:
            wheel.writestr(info, line + data if info.filename.endswith(".dist-info/RECORD") else data)
    return name
