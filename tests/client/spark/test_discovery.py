"""What the build adds so that Spark finds the source with no `register` call."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import io
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("setuptools", reason="the build needs setuptools")

ROOT = Path(__file__).parents[3]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_backend", ROOT / "tools" / "build_backend.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable"])
def test_the_module_is_in_what_is_built_and_in_its_record(
    backend: ModuleType, hook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(folder: str, *rest: object) -> str:
        with zipfile.ZipFile(Path(folder, "built.whl"), "w") as wheel:
            wheel.writestr("odradek/__init__.py", "x = 1\n")
            wheel.writestr("odradek-1.dist-info/RECORD", "odradek/__init__.py,,\nodradek-1.dist-info/RECORD,,\n")
        return "built.whl"

    monkeypatch.setattr(backend.build_meta, hook, build)
    assert getattr(backend, hook)(str(tmp_path)) == "built.whl"
    with zipfile.ZipFile(tmp_path / "built.whl") as wheel:
        assert wheel.testzip() is None
        assert wheel.read("odradek/__init__.py") == b"x = 1\n"
        texts = {name: wheel.read(name) for name in ("pyspark_odradek.py", "pyspark_odradek_archive.py")}
        record = list(csv.reader(io.StringIO(wheel.read("odradek-1.dist-info/RECORD").decode())))
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        for name, text in texts.items()
    }
    assert record == [
        *([name, f"sha256={digests[name]}", str(len(text))] for name, text in texts.items()),
        ["odradek/__init__.py", "", ""],
        ["odradek-1.dist-info/RECORD", "", ""],
    ]


@pytest.mark.parametrize(
    "hook",
    [
        "get_requires_for_build_wheel",
        "get_requires_for_build_editable",
        "prepare_metadata_for_build_wheel",
        "prepare_metadata_for_build_editable",
        "build_wheel",
        "build_editable",
    ],
)
def test_a_build_leaves_nothing_in_the_clone(
    backend: ModuleType, hook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, out = tmp_path / "clone", tmp_path / "out"
    clone.mkdir()
    out.mkdir()

    def setuptools(*given: object) -> str:
        """What setuptools leaves: its notes, and for a wheel the build's folder, which is `build` unless told so."""
        Path("odradek.egg-info").mkdir()
        settings = next((each for each in given if isinstance(each, dict)), {})
        if hook == "build_wheel":
            options = [*settings.get("--global-option", ()), "--build-base", "build"]
            Path(options[options.index("--build-base") + 1], "lib").mkdir(parents=True)
        with zipfile.ZipFile(out / "built.whl", "w") as wheel:
            wheel.writestr("odradek-1.dist-info/RECORD", "")
        return "built.whl"

    monkeypatch.setattr(backend.build_meta, hook, setuptools)
    monkeypatch.chdir(clone)
    getattr(backend, hook)(*([] if hook.startswith("get") else [str(out)]))
    assert list(clone.iterdir()) == []


def test_spark_finds_the_module_as_it_looks_for_it() -> None:
    """In the environment of the tests: it must be installed by our own build, editable or not."""
    code = "import pkgutil; print(*(each.name for each in pkgutil.iter_modules() if each.name.startswith('pyspark_')))"
    found = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    names = set(found.stdout.split())
    assert {"pyspark_odradek", "pyspark_odradek_archive"} <= names, "install again: pip install --editable ."


def loaded(modules: str, wanted: str) -> str:
    """What is printed of the modules that are loaded once these are imported."""
    code = f"import sys, {modules}; print({wanted} or '')"
    return subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True).stdout


def test_importing_the_client_loads_nothing_that_only_spark_needs() -> None:
    modules = "odradek.client, odradek.client.spark, odradek.client.spark.plan, odradek.client.arrow.fetch"
    assert loaded(modules, "{'numpy', 'pyarrow', 'pyspark', 'pandas'} & sys.modules.keys()").strip() == ""


def test_reading_loads_no_producer() -> None:
    pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")
    producers = "[name for name in sys.modules if name.startswith('odradek.client.producer')]"
    assert loaded("odradek.client.spark.source", producers).strip() == ""
