"""docs/from-other-clients.md names every public method and every option of the other Python clients."""

from __future__ import annotations

import inspect
import re
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from odradek.client import Admin, Consumer, Producer
from odradek.client.core.security import SecurityArguments

PAGE = (Path(__file__).parents[2] / "docs" / "from-other-clients.md").read_text(encoding="utf-8")
# Every word in code on the page.
NAMED = {word for code in re.findall(r"`([^`]+)`", PAGE) for word in re.findall(r"\w+", code)}
CLASSES = [
    ("kafka", "KafkaConsumer"),
    ("kafka", "KafkaProducer"),
    ("kafka", "KafkaAdminClient"),
    ("aiokafka", "AIOKafkaConsumer"),
    ("aiokafka", "AIOKafkaProducer"),
    ("aiokafka.admin", "AIOKafkaAdminClient"),
    ("confluent_kafka", "Consumer"),
    ("confluent_kafka", "Producer"),
    ("confluent_kafka.admin", "AdminClient"),
]


def other(module: str, name: str) -> Any:
    """A class of another client; skip the test where that is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Other people's packages may use what Python deprecates.
        pytest.importorskip(module.partition(".")[0], reason=f"{module} is not installed")
        return getattr(import_module(module), name)


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_every_public_method_is_named(module: str, name: str) -> None:
    kind = other(module, name)
    methods = {each for each in dir(kind) if not each.startswith("_") and callable(getattr(kind, each))}
    assert methods, "none was found"
    assert methods - NAMED == set()


def own_options() -> set[str]:
    kinds = (Consumer, Producer, Admin)
    names = {name for kind in kinds for name in inspect.signature(kind.__init__).parameters}
    return names | SecurityArguments.__annotations__.keys()


@pytest.mark.parametrize(("module", "name"), CLASSES[:6])
def test_every_option_has_the_same_name_or_is_named(module: str, name: str) -> None:
    kind = other(module, name)
    options = getattr(kind, "DEFAULT_CONFIG", None) or inspect.signature(kind.__init__).parameters.keys() - {"self"}
    assert options, "none was found"
    assert set(options) - own_options() - NAMED == set()


@pytest.mark.parametrize("kind", [Consumer, Producer, Admin], ids=lambda kind: kind.__name__)
def test_every_method_that_the_tables_promise_is_there(kind: Any) -> None:
    table = PAGE.partition(f"`odradek.client.{kind.__name__}` |\n")[2].partition("\n\n")[0]
    rows = [row.split("|")[4] for row in table.splitlines()[1:]]
    # "not there", or a method of another class, or a command.
    calls = {name for row in rows if "not there" not in row for name in re.findall(r"(?<![.\w])(\w+)\(", row)}
    assert calls, "none was found"
    missing = {name for name in calls if not hasattr(kind, name) and name not in {"create_task", "PrometheusBridge"}}
    assert missing == set()
