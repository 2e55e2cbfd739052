"""CRC-32C of both implementations, against RFC 3720's vectors and against crcmod."""

from __future__ import annotations

import builtins
import functools
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

import pytest
from crcmod.predefined import mkPredefinedCrcFun
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.records import crc

ORACLE = mkPredefinedCrcFun("crc-32c")
IS_PORTABLE = crc.crc32c.__module__.startswith("crcmod")

# RFC 3720, appendix B.4, and the check value of the CRC catalogues.
VECTORS = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (b"123456789", 0xE3069283),
    (b"", 0),
]


@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_known_vectors(data: bytes, expected: int) -> None:
    assert crc.crc32c(data) == expected


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer(wrap: type) -> None:
    assert crc.crc32c(wrap(b"123456789")) == 0xE3069283
    assert crc.crc32(wrap(b"123456789")) == 0xCBF43926


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_oracle_agrees_also_piece_by_piece(first: bytes, second: bytes) -> None:
    assert crc.crc32c(first + second) == ORACLE(first + second)
    assert crc.crc32c(second, crc.crc32c(first)) == ORACLE(first + second)


def test_crcmod_serves_where_the_hardware_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_crc32c(name: str, *args: object, **kwargs: object) -> object:
        if name == "crc32c":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_crc32c)
    monkeypatch.setattr(PathFinder, "find_spec", functools.partial(without_spec, PathFinder.find_spec))
    portable = loaded_again()
    assert portable.crc32c.__module__.startswith("crcmod")
    assert portable.crc32c(memoryview(b"123456789")) == 0xE3069283
    assert portable.crc32c(b"6789", portable.crc32c(b"12345")) == 0xE3069283


def without_spec(real: Callable[..., ModuleSpec | None], name: str, *args: object) -> ModuleSpec | None:
    return None if name.startswith("crc32c") else real(name, *args)


def loaded_again() -> ModuleType:
    spec = importlib.util.spec_from_file_location("another_crc", Path(crc.__file__))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(IS_PORTABLE, reason="the package crc32c is not installed")
def test_a_package_whose_compiled_module_is_elsewhere_is_imported_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("crc32c")
    monkeypatch.setattr(PathFinder, "find_spec", functools.partial(without_spec, PathFinder.find_spec))
    whole = loaded_again()
    assert whole.crc32c.__module__ == crc.crc32c.__module__
    assert whole.crc32c(b"123456789") == 0xE3069283


@pytest.mark.skipif(IS_PORTABLE, reason="the package crc32c is not installed")
def test_the_checksum_costs_a_command_no_metadata_of_packages() -> None:
    code = "import sys, odradek.protocol.records.crc as crc; print(crc.crc32c.__module__, 'crc32c' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == f"{crc.crc32c.__module__} False\n"
