"""A build backend: setuptools, plus the top-level module `pyspark_odradek`, by which Spark finds the data source.

Spark looks through the folders of `sys.path` for modules named `pyspark_<something>` and takes their `DefaultSource`.
The repository's root is the package `odradek` itself and holds no other module, and setuptools' editable installs are
import hooks, through which Spark cannot look. So the module is written here, into wheels and editable installs alike
(PEP 517, PEP 660); it stands in RECORD, so pip removes it with the rest.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - all other hooks are setuptools' own

MODULE = "pyspark_odradek.py"
TEXT = b'''"""Lets `spark.read.format("odradek")` work with no `register` call: Spark imports it for its name."""

from odradek.client.spark.source import OdradekSource as DefaultSource

__all__ = ["DefaultSource"]
'''


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517. Returns the wheel's file name."""
    return _with_module(wheel_directory, build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660. Returns the wheel's file name."""
    return _with_module(
        wheel_directory, build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    )


def _with_module(folder: str, name: str) -> str:
    """Write the wheel anew with the module in it and in its RECORD. A zip entry cannot be replaced in place."""
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
