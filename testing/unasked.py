"""Brings the fixtures to projects that use them and do not ask for them, as they did not have to. For one release.

pytest loads this module wherever the package is installed. It adds no fixture, option or marker: the plugin comes once
a test or a fixture of the project takes one of its fixtures that the project does not have. PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from weakref import WeakSet

import pytest

from .plugin import AsInstalled
from .plugin import pytest_unconfigure as pytest_unconfigure

PLUGIN = "odradek.testing.plugin"
FIXTURES = (
    "kafka", "kafka_address", "kafka_clock", "kafka_cluster", "kafka_factory", "kafka_module", "kafka_process",
    "kafka_session", "kafka_topic", "schema_registry", "simulation",
)  # fmt: skip
_ANY = "|".join(FIXTURES)
_PARAMETERS = re.compile(r"\bdef\s+\w+\s*\(([^)]*)\)")
_NAME = re.compile(rf"\b({_ANY})\b")
_AS_TEXT = re.compile(rf"(?:usefixtures|getfixturevalue)\([^)]*[\"']({_ANY})[\"']")
# A module of tests that asks for the plugin itself: pytest brings it once it is imported.
_ASKS = re.compile(r"\bpytest_plugins\b[^=\n]*=\s*(?:[\[(][^\])]*|[^\n\[(]*)[\"']odradek[\"']")
_OWN = re.compile(rf"\bdef\s+({_ANY})\s*\(")
# The managers of plugins to which this one was brought.
_brought: WeakSet[pytest.PytestPluginManager] = WeakSet()


def fixtures_used(source: str) -> set[str]:
    """Return which fixtures of the plugin a module takes, does not have itself, and does not ask for."""
    if _ASKS.search(source):
        return set()
    by_parameter = {name for each in _PARAMETERS.findall(source) for name in _NAME.findall(each)}
    return (by_parameter | set(_AS_TEXT.findall(source))) - set(_OWN.findall(source))


def _fixtures_used_in(path: str | Path) -> set[str]:
    try:
        return fixtures_used(Path(path).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return set()  # pytest reads it too, and says what is wrong


def _bring(manager: pytest.PytestPluginManager) -> None:
    if not any(manager.has_plugin(each) or manager.is_blocked(each) for each in ("odradek", PLUGIN)):
        _brought.add(manager)
        manager.import_plugin(PLUGIN)


def _bring_for(path: str | Path, manager: pytest.PytestPluginManager) -> None:
    """Bring the plugin if a module takes one of its fixtures that no other plugin, such as a conftest.py, has."""
    plugins = manager.get_plugins()
    if not all(any(hasattr(each, name) for each in plugins) for name in _fixtures_used_in(path)):
        _bring(manager)


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Bring the plugin where its option is given, or the config file takes a fixture for every test."""
    if AsInstalled not in sys.meta_path:
        sys.meta_path.insert(0, AsInstalled)
    of_all_tests: list[str] = early_config.getini("usefixtures")
    if any(each.partition("=")[0] == "--kafka-address" for each in args) or not {*FIXTURES}.isdisjoint(of_all_tests):
        _bring(early_config.pluginmanager)


def pytest_plugin_registered(plugin: object, manager: pytest.PytestPluginManager) -> None:
    """Bring the plugin where a module of the project's fixtures takes one of its own."""
    path = getattr(plugin, "__file__", None)
    if isinstance(path, str) and "site-packages" not in path:
        _bring_for(path, manager)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """Bring the plugin before a module of tests is imported that takes one of its fixtures."""
    _bring_for(module_path, parent.config.pluginmanager)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say once what the next release asks for."""
    if config.pluginmanager in _brought:
        terminalreporter.write_line(
            'odradek: write pytest_plugins = ["odradek"] in conftest.py; from the next release on its fixtures are '
            "there for projects that ask",
            yellow=True,
        )
